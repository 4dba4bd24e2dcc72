package flaws

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Release is a version number: major, minor, patch, and the number of a release
// candidate, or final.
type Release [4]int

const final = math.MaxInt32

// Compiled when needed, as all patterns here: every start of a jail would pay for it.
var releasePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:[-~.]?rc\.?(\d{1,6}))?`)
})

// parseRelease reads the beginning of a version text such as "1.1.5+ds1",
// "1.4.0-rc.2" or "1.8".
func parseRelease(s string) (Release, bool) {
	m := releasePattern().FindStringSubmatch(s)
	if m == nil {
		return Release{}, false
	}
	r := Release{3: final}
	for i, t := range m[1:] {
		if t != "" {
			r[i], _ = strconv.Atoi(t)
		}
	}
	return r, true
}

// Less says whether r came before o.
func (r Release) Less(o Release) bool {
	for i := range r {
		if r[i] != o[i] {
			return r[i] < o[i]
		}
	}
	return false
}

// branch is the line of releases that gets its own fixes.
func (r Release) branch() [2]int { return [2]int{r[0], r[1]} }

// String writes the release as its project does.
func (r Release) String() string {
	s := fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2])
	if r[3] != final {
		s += fmt.Sprintf("-rc.%d", r[3])
	}
	return s
}

// Version reads the first line of a delegate's --version: "runc version
// 1.1.5+ds1", "crun version 1.8.1". Text is the number as it stands there.
func Version(line string) (name string, r Release, text string, ok bool) {
	name, text, found := strings.Cut(line, " version ")
	text = strings.TrimSpace(text)
	if !found {
		return "", Release{}, "", false
	}
	r, ok = parseRelease(text)
	return name, r, text, ok
}
