package hostile

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// A jail runs scripts one after the other, as long as it lives.
type jail struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
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
	j := &jail{t: t, cmd: exec.Command(bin, append(append([]string{"sandbox"}, options...), "--", "sh", "-c", loop)...)}
	var err error
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out := env.Get(t, j.cmd.StdoutPipe)
	j.out = bufio.NewReader(out)
	env.Check(t, j.cmd.Start())
	t.Cleanup(j.end)
	return j
}

// do runs a script in the jail and returns its exit status.
func (j *jail) do(script string) string {
	j.t.Helper()
	if _, err := io.WriteString(j.in, strings.TrimLeft(script, "\n")+"\n"+stop+"\n"); err != nil {
		j.t.Fatal(err)
	}
	line, err := j.out.ReadString('\n')
	env.Check(j.t, err)
	return strings.TrimSpace(line)
}

// end ends the jail: its input ends.
func (j *jail) end() {
	j.in.Close()
	_ = j.cmd.Wait()
}
