package protect

import (
	"bufio"
	"io"
	"strings"
)

// maxPasswd bounds what is read of the host's users.
const maxPasswd = 4 << 20

// IsHome says whether a directory is somebody's home, by the host's passwd(5).
// Users that are not in the file have homes that are recognised by what is in
// them.
func IsHome(dir string, passwd io.Reader) bool {
	lines := bufio.NewScanner(io.LimitReader(passwd, maxPasswd))
	for lines.Scan() {
		if f := strings.Split(lines.Text(), ":"); len(f) == 7 && f[5] == dir && dir != "/" {
			return true
		}
	}
	return false
}
