package hostile

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// A jail runs scripts one after the other, as long as it lives.
type jail struct {
	*env.Session
	t *testing.T
}

// stop stands between scripts.
const stop = "--end-of-script--"

// startJail starts a sandbox that waits for scripts.
func startJail(t *testing.T, options ...string) *jail {
	t.Helper()
	const loop = `while IFS= read -r first; do
	script=$first
	while IFS= read -r line && [ "$line" != ` + stop + ` ]; do script="$script
$line"; done
	sh -ec "$script" >/dev/null 2>&1 </dev/null; echo $?
done`
	j := &jail{env.Begin(t, exec.Command(bin, append(append([]string{"sandbox"}, options...), "--", "sh", "-c", loop)...)), t}
	t.Cleanup(func() { _ = j.End() })
	return j
}

// do runs a script in the jail and returns its exit status.
func (j *jail) do(script string) string {
	j.t.Helper()
	if _, err := io.WriteString(j.In, strings.TrimLeft(script, "\n")+"\n"+stop+"\n"); err != nil {
		j.t.Fatal(err)
	}
	line, err := j.Out.ReadString('\n')
	env.Check(j.t, err)
	return strings.TrimSpace(line)
}
