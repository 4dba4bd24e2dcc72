package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"agentjail.dev/runtime/spec/lazyregexp"
)

// OwnerProcess makes the first process's user the owner of mounted files.
const OwnerProcess = "process"

// accountName is a name that useradd(8) and adduser(8) make, or an enterprise's
// directory with few exceptions.
var accountName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.@-]{0,63}\$?$`)

// CheckOwner refuses a text that cannot name a user of a jail: it has to be OwnerProcess, or
// USER[:GROUP], each a number or a name of the image's account files.
func CheckOwner(s string) error {
	user, group, both := strings.Cut(s, ":")
	if !account(user) || both && !account(group) {
		if len(s) > 100 {
			s = s[:97] + "..."
		}
		return fmt.Errorf("%q does not name a user (examples: %s, 1000, 1000:1000, node)", s, OwnerProcess)
	}
	return nil
}

// account reports whether s can be a user or a group.
func account(s string) bool {
	_, ok := AccountID(s)
	return ok || accountName().MatchString(s)
}

// AccountID is the id that a number names. The highest number means no id
// (chown(2)).
func AccountID(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n != math.MaxUint32
}
