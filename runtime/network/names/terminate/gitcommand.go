package terminate

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/credential"
)

// gitPrograms are git's programs on a server.
var gitPrograms = []string{"git-upload-pack", "git-receive-pack", "git-upload-archive"}

// parseCommand parses the command that git runs on a server: PROGRAM 'PATH'. The server's shell
// parses the command again, so nothing else is allowed in it.
func parseCommand(command string) (program, path string, err error) {
	program, rest, _ := strings.Cut(command, " ")
	if !slices.Contains(gitPrograms, program) {
		return "", "", fmt.Errorf("ssh: command %.128q, which is none of git's", command)
	}
	if len(rest) < 3 || rest[0] != '\'' || rest[len(rest)-1] != '\'' {
		return "", "", fmt.Errorf("ssh: %s without one repository in quotes", program)
	}
	path = rest[1 : len(rest)-1]
	if err := credential.Repository(path); err != nil {
		return "", "", fmt.Errorf("ssh: repository %.128q: %w", path, err)
	}
	return program, path, nil
}
