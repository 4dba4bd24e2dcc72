package protect

import (
	"bufio"
	"io"
	"path"
	"strings"
)

// maxPasswd bounds the read of the host's users.
const maxPasswd = 4 << 20

// Homes lists the home directories of the host's passwd(5) by their users' names. The homes of
// users outside the file are recognised by their content.
func Homes(passwd io.Reader) map[string]string {
	out := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(passwd, maxPasswd))
	for lines.Scan() {
		if f := strings.Split(lines.Text(), ":"); len(f) == 7 && path.IsAbs(f[5]) && path.Clean(f[5]) != "/" {
			out[f[0]] = path.Clean(f[5])
		}
	}
	return out
}
