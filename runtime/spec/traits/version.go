package traits

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"agentjail.dev/runtime/spec/lazyregexp"
)

// Version is a version number: major, minor, patch, and the number of a release
// candidate, or Final.
type Version [4]int

// Final stands in the place of a release candidate's number in a release.
const Final = math.MaxInt32

var versionPattern = lazyregexp.New(`^v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:[-~.]?rc\.?(\d{1,6}))?`)

// ParseVersion reads the beginning of a version text such as "1.1.5+ds1",
// "1.4.0-rc.2" or "1.8".
func ParseVersion(s string) (Version, bool) {
	m := versionPattern().FindStringSubmatch(s)
	if m == nil {
		return Version{}, false
	}
	r := Version{3: Final}
	for i, t := range m[1:] {
		if t != "" {
			r[i], _ = strconv.Atoi(t)
		}
	}
	return r, true
}

// Less reports whether r came before o.
func (r Version) Less(o Version) bool {
	return slices.Compare(r[:], o[:]) < 0
}

// Branch is the line of releases that gets its own fixes.
func (r Version) Branch() [2]int { return [2]int{r[0], r[1]} }

// String writes the release as its project does.
func (r Version) String() string {
	s := fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2])
	if r[3] != Final {
		s += fmt.Sprintf("-rc.%d", r[3])
	}
	return s
}
