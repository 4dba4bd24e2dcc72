package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/spec/credential"
)

// issueTimeout is how long making a jail's keys may take.
const issueTimeout = 10 * time.Second

// issue has the helper's program make a jail's own keys. The keys pass through pipes, and the
// program keeps none of them.
func issue(ctx context.Context, o credential.Order) (credential.Issued, error) {
	var made credential.Issued
	path, err := programs.Path(credential.IssueProgram)
	if err != nil {
		return made, fmt.Errorf("the jail's own keys: %w", err)
	}
	order, err := json.Marshal(o)
	if err != nil {
		return made, err
	}
	ctx, cancel := context.WithTimeout(ctx, issueTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, credential.IssueVerb)
	cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{"GOTRACEBACK=none"}, bytes.NewReader(order)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := fork.RunCommand(cmd); err != nil {
		return made, fmt.Errorf("the jail's own keys: %s: %w %s", path, err, bytes.TrimSpace(stderr.Bytes()))
	}
	if json.Unmarshal(out.Bytes(), &made) != nil || !made.Answers(o) {
		return credential.Issued{}, errors.New("the jail's own keys: " + path + " did not make the requested keys (remedy: install all programs of one build)")
	}
	return made, nil
}
