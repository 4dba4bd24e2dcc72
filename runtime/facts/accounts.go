package facts

import (
	"fmt"
	"os"
	"strings"

	"agentjail.dev/runtime/kernel/accountfile"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

// maxAccounts bounds an image's account file, in bytes.
const maxAccounts = 1 << 20

// findUser returns the USER[:GROUP] of an image's account files, as engines do for the user of a
// process: a number may be missing from the files. The default group is the user's in the file, or
// 0.
func findUser(root *os.File, text string) (*plan.User, error) {
	name, group, both := strings.Cut(text, ":")
	uid, number := policy.AccountID(name)
	out := &plan.User{UID: uid}
	if !number || !both {
		fields, err := findAccount(root, "etc/passwd", 4, func(f []string) bool { return f[0] == name || number && f[2] == name })
		switch {
		case err != nil && !number:
			return nil, err
		case err == nil:
			var ok1, ok2 bool
			out.UID, ok1 = policy.AccountID(fields[2])
			out.GID, ok2 = policy.AccountID(fields[3])
			if !ok1 || !ok2 {
				return nil, fmt.Errorf("the image's etc/passwd has no ids for %s", name)
			}
			if number && out.UID != uid { // another's name is a number
				out.UID, out.GID = uid, 0
			}
		}
	}
	if both {
		gid, number := policy.AccountID(group)
		if !number {
			fields, err := findAccount(root, "etc/group", 3, func(f []string) bool { return f[0] == group })
			if err != nil {
				return nil, err
			}
			var ok bool
			if gid, ok = policy.AccountID(fields[2]); !ok {
				return nil, fmt.Errorf("the image's etc/group has no id for %s", group)
			}
		}
		out.GID = gid
	}
	return out, nil
}

// accountFile reads an account file of an image (passwd(5), group(5)) below root, whatever links
// there are. It may be anything.
func accountFile(root *os.File, path string) (string, error) {
	f, err := openat.Regular(int(root.Fd()), path, openat.InRoot)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := atomicfile.ReadAll(f, maxAccounts)
	return string(data), err
}

// findAccount returns the first entry of an account file of an image that matches and has at least
// so many fields.
func findAccount(root *os.File, path string, fields int, match func([]string) bool) ([]string, error) {
	text, err := accountFile(root, path)
	if err != nil {
		return nil, fmt.Errorf("reading the image's %s: %w", path, err)
	}
	for f := range accountfile.Entries(text, fields) {
		if match(f) {
			return f, nil
		}
	}
	return nil, fmt.Errorf("the image's %s does not have it", path)
}
