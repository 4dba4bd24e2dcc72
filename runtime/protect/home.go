package protect

import (
	"io"
	"os"
	"path"

	"agentjail.dev/runtime/kernel/accountfile"
)

// maxPasswd bounds the read of the host's users.
const maxPasswd = 4 << 20

// Homes lists the home directories of the host's passwd(5) by their users' names; none if it cannot
// be read. The homes of users outside the file are recognised by their content.
func Homes() map[string]string {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPasswd))
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for entry := range accountfile.Entries(string(text), 7) {
		if home := path.Clean(entry[5]); path.IsAbs(home) && home != "/" {
			out[entry[0]] = home
		}
	}
	return out
}
