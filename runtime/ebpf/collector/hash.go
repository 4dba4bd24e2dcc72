package collector

import (
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/ebpf"
	"agentjail.dev/runtime/ebpf/hasher"
	"agentjail.dev/runtime/journal"
	"agentjail.dev/runtime/state"
)

// sayEvery is how often it is said how many programs had no hash.
const sayEvery = time.Minute

// startHasher starts the process that hashes. It ends with this one, whose pipe it reads.
func startHasher(uid, gid uint32, say func(string, ...any)) (*hasher.Client, error) {
	requests, toRequests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer requests.Close()
	answers, toAnswers, err := os.Pipe()
	if err != nil {
		toRequests.Close()
		return nil, err
	}
	defer toAnswers.Close()
	cmd := half(uid, gid, hasher.Needed, hasher.Verb)
	cmd.Stdin, cmd.ExtraFiles = requests, []*os.File{toAnswers}
	cmd.SysProcAttr.Setpgid = true // for its priority
	if err := cmd.Start(); err != nil {
		toRequests.Close()
		answers.Close()
		return nil, fmt.Errorf("starting the hasher: %w (remedy: root, or a unit with CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SETUID and CAP_SETGID)", err)
	}
	c := hasher.NewClient(toRequests)
	go func() {
		err := c.Listen(answers)
		_ = cmd.Wait()
		say("the hasher ended (%v): programs have no hashes from now on (remedy: systemctl restart agentjail-journal)", err)
	}()
	return c, nil
}

// file is the file that an event of the hook exec is about.
func file(e *ebpf.Event) hasher.File {
	return hasher.File{Device: uint32(e.Args[1]), Kind: uint32(e.Args[1] >> 32), Inode: e.Args[2], Changed: int64(e.Args[0]), Size: e.Args[3]}
}

// ask asks for the hash of what was executed; nil where nobody hashes, or nothing was. The lock is the caller's.
func (w *writer) ask(e *ebpf.Event, briefs []*state.Brief) *hasher.Ticket {
	if w.hashes == nil || e.Hook != ebpf.Exec {
		return nil
	}
	return w.hashes.Ask(e.Jail, file(e), func(r *hasher.Request) {
		r.Pid = e.Pid
		copy(r.Path[:], e.Text)
		for i, b := range briefs {
			if i < len(r.Roots) && b.InitAlive() { // its number may be another process's
				r.Roots[i] = uint32(b.InitPid)
			}
		}
	})
}

// hashed adds to an event what is known of the program's content. Since a file is read after it was executed, only of one that has not changed
// since the jail was made is it the hash of what was executed: what the jail itself can write, it can change without a trace
// (docs/security/ebpf.md).
func hashed(out *journal.Event, f hasher.File, t *hasher.Ticket, oldest time.Time) {
	sum, why := t.Hash()
	text := "sha256:" + hex.EncodeToString(sum[:])
	switch {
	case why != hasher.None:
		out.Facts = append(out.Facts, "unhashed="+why.String())
	case f.UnchangedSince(oldest):
		out.Hash = text
	default:
		out.Facts = append(out.Facts, "contents="+text)
	}
}

// oldest is when the first of the jails was made: they may share what they can write. It is the zero time where one of them does not say.
func oldest(briefs []*state.Brief) (first time.Time) {
	for i, b := range briefs {
		if at := journal.Of(b).Born; i == 0 || at.Before(first) {
			first = at
		}
	}
	return first
}

// sayMissing says how many programs had no hash.
func (w *writer) sayMissing() {
	if w.hashes == nil {
		return
	}
	missing := w.hashes.Missing()
	var out []string
	for _, why := range slices.Sorted(maps.Keys(missing)) {
		out = append(out, fmt.Sprintf("%s %d", why, missing[why]))
	}
	if len(out) > 0 {
		w.say("programs without a hash: %s", strings.Join(out, ", "))
	}
}
