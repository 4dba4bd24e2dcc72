package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/plan"

	"golang.org/x/net/html"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/inside"
	"agentjail.dev/runtime/observe/receipt"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// agentjail runs one of agentjail's own verbs.
func agentjail(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	r := engine.Run(t, bin, append([]string{"--config", conf}, args...)...)
	if r.Code != 0 || r.Stderr != "" {
		t.Logf("%v: status %d: %s", args, r.Code, r.Stderr)
	}
	return r.Stdout, r.Code
}

// receiptOf is a jail's receipt, whose journal must verify.
func receiptOf(t *testing.T, id string) *receipt.Receipt {
	t.Helper()
	text, code := agentjail(t, "receipt", "--json", "--verify", id)
	r := new(receipt.Receipt)
	if err := json.Unmarshal([]byte(text), r); err != nil || code != 0 {
		t.Fatalf("status %d, %v: %s", code, err, text)
	}
	if r.Journal.Verified == nil || !*r.Journal.Verified || len(r.Journal.Last) != 64 {
		t.Errorf("the journal is not verified: %+v", r.Journal)
	}
	return r
}

// checkTeardown holds a receipt to what is true of every jail that was removed.
func checkTeardown(t *testing.T, r *receipt.Receipt) {
	t.Helper()
	if r.State != receipt.Ended || !r.Teardown.Done || len(r.Teardown.Remains) > 0 {
		t.Errorf("%s, torn down: %+v", r.State, r.Teardown)
	}
	kinds := map[string]bool{}
	for _, p := range r.Teardown.Gone {
		kinds[p.Kind] = true
	}
	for _, kind := range []string{"process", "control group", "record", "delegate's record", "host ids"} {
		if !kinds[kind] {
			t.Errorf("nothing is stated of the %s: %+v", kind, r.Teardown.Gone)
		}
	}
	if r.Seconds <= 0 || r.Used.Memory <= 0 && r.Used.CPU <= 0 {
		t.Errorf("used %+v in %v s", r.Used, r.Seconds)
	}
	for _, hash := range []string{r.Identity.Policy, r.Identity.Config} {
		if len(hash) != len("sha256:")+64 {
			t.Errorf("%q is no hash", hash)
		}
	}
}

// hostile is an argument that would be a script on a page, a line of its own in a terminal, and text in the other direction.
const hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[2J\n\u202egnp"

// TestDocker follows a jail of Docker's from its start to its removal.
func TestDocker(t *testing.T) {
	d := docker.For(t)
	id := d.Detached("--runtime", "agentjail-receipt", "--cap-add", "SYS_ADMIN", engine.Busybox, "sh", "-c",
		"echo made > /opt-made; mkdir /made; echo changed >> /etc/passwd; exec sleep 1000", hostile)
	env.Eventually(d, "the jail's files", func() bool { return d.Docker("exec", id, "grep", "-q", "changed", "/etc/passwd").Code == 0 })
	if text, code := agentjail(t, "inspect", id); code != 0 {
		t.Errorf("inspect: %s", text)
	}
	r := receiptOf(t, id)
	if r.State != receipt.Running || !r.Touched.Known || !r.Teardown.At.IsZero() || r.Identity.Engine != "docker" {
		t.Errorf("of a running jail: %s, files %v, torn down %v, by %q", r.State, r.Touched, r.Teardown, r.Identity.Engine)
	}
	t.Run("inside", func(t *testing.T) { insideTheJail(t, d, id) })
	d.Must("rm", "-f", id)
	r = receiptOf(t, id)
	checkTeardown(t, r)
	if !slices.Contains(r.Identity.Command, `<script>alert(1)</script>"'><img src=x onerror=alert(1)>\x1b[2J\x0a\u{202e}gnp`) {
		t.Errorf("the command is %q", r.Identity.Command)
	}
	for _, f := range []journal.File{{Kind: "A", Path: "/opt-made"}, {Kind: "A", Path: "/made"}, {Kind: "C", Path: "/etc/passwd"}} {
		if !slices.Contains(r.Touched.Files, f) {
			t.Errorf("%v is not among the files %v", f, r.Touched.Files)
		}
	}
	if !slices.ContainsFunc(r.Denied, func(d receipt.Denial) bool { return d.Kind == "privilege.denied" && d.What == "process.capabilities" }) {
		t.Errorf("the capability is not among what was denied: %+v", r.Denied)
	}
	for _, ring := range r.Rings {
		if ring.Start.By == "" || ring.End.By != "agentjail inspect" || len(ring.End.Broken) > 0 || ring.End.Holds == 0 {
			t.Errorf("%s: %+v", ring.Name, ring)
		}
	}
	t.Run("page", func(t *testing.T) { checkPage(t, id) })
}

// insideTheJail holds the file of refusals to what it may state.
func insideTheJail(t *testing.T, d *engine.T, id string) {
	path := plan.DenialsDir + "/" + plan.DenialsFile
	var n inside.Notice
	text := d.Must("exec", id, "cat", path)
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if !slices.ContainsFunc(n.Denied, func(d inside.Denial) bool { return d.Kind == "privilege.denied" && d.What == "process.capabilities" }) {
		t.Errorf("the capability is not in %s", text)
	}
	for _, hidden := range []string{"sha256", base, id, "/var/lib", "uid"} {
		if strings.Contains(text, hidden) {
			t.Errorf("the jail can read %q: %s", hidden, text)
		}
	}
	for _, command := range []string{"echo x > " + path, "rm " + path, "mv " + plan.DenialsDir + " /elsewhere", "umount " + plan.DenialsDir} {
		if r := d.Docker("exec", id, "sh", "-c", command); r.Code == 0 {
			t.Errorf("%s: %s", command, r)
		}
	}
	// Who looks has it written anew, as a whole: the one that is open stays as it was.
	before := n.Updated
	if _, code := agentjail(t, "receipt", id); code != 0 {
		t.Error("no receipt")
	}
	text = d.Must("exec", id, "cat", path)
	if err := json.Unmarshal([]byte(text), &n); err != nil || n.Updated <= before {
		t.Errorf("written at %s, and before at %s (%v)", n.Updated, before, err)
	}
}

// checkPage looks at the page as a browser would read it.
func checkPage(t *testing.T, id string) {
	path := filepath.Join(base, "page.html")
	if text, code := agentjail(t, "receipt", "--verify", "--html", path, id); code != 0 {
		t.Fatal(text)
	}
	data := env.Read(t, path)
	doc, err := html.Parse(bytes.NewReader(data))
	env.Check(t, err)
	if bytes.ContainsAny(data, "\x1b\u202e") || !bytes.Contains(data, []byte("&lt;script&gt;alert(1)")) {
		t.Error("the hostile argument is not on the page as text")
	}
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode && slices.Contains([]string{"script", "img", "iframe", "link", "object", "a", "form"}, n.Data) {
			t.Errorf("the page has <%s>", n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
	t.Run("browser", func(t *testing.T) { inBrowser(t, data) })
}

// TestReceiptOfKilledJails: a jail that was killed, and one that had too little memory.
func TestReceiptOfKilledJails(t *testing.T) {
	d := docker.For(t)
	t.Run("killed", func(t *testing.T) {
		id := d.Detached("--runtime", "agentjail-receipt", engine.Busybox, "sleep", "1000")
		d.Must("kill", "-s", "KILL", id)
		d.Must("wait", id)
		recorded(t, id, 137)
		d.Must("rm", id)
		r := receiptOf(t, id)
		checkTeardown(t, r)
		if r.Exit.Engine != nil || r.Exit.Status != nil || r.Exit.Signal != "" || !strings.Contains(r.Exit.Unknown, "the engine waited") {
			t.Errorf("Docker waited for it: %+v", r.Exit)
		}
	})
	t.Run("restarted", func(t *testing.T) {
		id := d.Detached("--runtime", "agentjail-receipt", engine.Busybox, "sh", "-c", "exit 3")
		d.Must("wait", id)
		first := recorded(t, id, 3)
		d.Must("start", id)
		d.Must("wait", id)
		if again := recorded(t, id, 3); again.Identity.Run == first.Identity.Run {
			t.Errorf("two runs are %s", again.Identity.Run)
		}
		if r := receiptOf(t, first.Identity.Run); r.Exit.Engine != nil || r.Exit.Unknown == "" {
			t.Errorf("the record is of the second run, and the first has %+v", r.Exit)
		}
		d.Must("rm", id)
	})
	t.Run("memory", func(t *testing.T) {
		id := d.Detached("--runtime", "agentjail-receipt", "--memory", "32m", engine.Busybox, "sh", "-c", "tail /dev/zero; exit 9")
		d.Must("wait", id)
		d.Must("rm", id)
		r := receiptOf(t, id)
		checkTeardown(t, r)
		if !r.Exit.Killed || !slices.ContainsFunc(r.Limits, func(l receipt.Limit) bool { return l.Name == "limit.oom" && l.Remedy != "" }) {
			t.Errorf("killed %v, limits %+v", r.Exit.Killed, r.Limits)
		}
	})
}

// recorded waits until Docker's record of a container has the exit status, and returns the receipt: the journal does not have the status.
func recorded(t *testing.T, id string, status int) (r *receipt.Receipt) {
	t.Helper()
	env.Eventually(t, "the exit status in Docker's record", func() bool { r = receiptOf(t, id); return r.Exit.Engine != nil })
	text, code := agentjail(t, "receipt", id)
	if want := fmt.Sprintf("exit status %d (Docker's record)", status); *r.Exit.Engine != status || code != 0 || !strings.Contains(text, want) {
		t.Errorf("%d, want %q in\n%s", *r.Exit.Engine, want, text)
	}
	file := filepath.Join(t.TempDir(), "receipt")
	whole, _ := agentjail(t, "receipt", "--json", id)
	env.Check(t, os.WriteFile(file, []byte(whole), 0o600))
	if text, code := agentjail(t, "receipt", "--against", file, id); code != 0 {
		t.Errorf("a receipt with the status does not follow from the journal: %s", text)
	}
	return r
}

// TestCommandLine: exit statuses, two runs with one id, and a journal that somebody has changed.
func TestCommandLine(t *testing.T) {
	b := engine.NewBundle(t, base)
	trace := filepath.Join(base, "trace")
	c := engine.Caller{Path: bin, Args: []string{"--config", conf, "--root", filepath.Join(base, "delegate"), "--trace", trace}}
	defer func() {
		text, _ := os.ReadFile(trace)
		t.Logf("what it takes:\n%s", text)
	}()
	id := b.ID()
	for _, status := range []string{"3", "4"} {
		b.Spec.Process.Args = []string{"sh", "-c", "exit " + status}
		_, stderr, err := b.Call(t, c, "run", "--bundle", b.Dir, id)
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, stderr)
		}
	}
	r := receiptOf(t, id)
	checkTeardown(t, r)
	if r.Exit.Status == nil || *r.Exit.Status != 4 {
		t.Errorf("of two runs the last had status 4: %+v", r.Exit)
	}
	files, err := filepath.Glob(filepath.Join(base, "journal", "*"+id+"@*.jsonl"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	_, at, _ := strings.Cut(strings.TrimSuffix(filepath.Base(slices.Min(files)), ".jsonl"), "@")
	if r = receiptOf(t, id+"@"+at); r.Exit.Status == nil || *r.Exit.Status != 3 {
		t.Errorf("the first run had status 3: %+v", r.Exit)
	}
	against(t, id)
	signed(t, id)
	text := env.Read(t, slices.Max(files))
	changed := bytes.Replace(text, []byte(`"status":"4"`), []byte(`"status":"0"`), 1)
	if err := os.WriteFile(slices.Max(files), changed, 0o600); err != nil || bytes.Equal(text, changed) {
		t.Fatalf("nothing was changed: %v", err)
	}
	if out, code := agentjail(t, "receipt", "--verify", id); code != 1 || !strings.Contains(out, "does NOT verify") {
		t.Errorf("a changed journal: status %d: %s", code, out)
	}
}

// signed: the host's signature of a receipt holds, and not of one that somebody has changed.
func signed(t *testing.T, id string) {
	t.Helper()
	text, code := agentjail(t, "receipt", "--sign", id)
	kept := filepath.Join(base, "signed.json")
	for _, c := range []struct {
		from, to string
		want     int
	}{{"", "", 0}, {`"payload": "eyJ`, `"payload": "eyK`, 1}, {`"sig": "`, `"sig": "AAAA`, 1}, {`"payload"`, `"Payload": "e30=", "payload"`, 1}} {
		changed := strings.Replace(text, c.from, c.to, 1)
		if code != 0 || changed == text && c.from != "" {
			t.Fatalf("status %d: there is no %s in %s", code, c.from, text)
		}
		env.Check(t, os.WriteFile(kept, []byte(changed), 0o600))
		for _, args := range [][]string{{id}, {}} {
			if out, code := agentjail(t, append([]string{"receipt", "--verify", "--against", kept}, args...)...); code != c.want {
				t.Errorf("with %q for %q: status %d, want %d: %s", c.to, c.from, code, c.want, out)
			}
		}
	}
}

// against: a receipt that was kept follows from the journal, and one that somebody has changed does not.
func against(t *testing.T, id string) {
	t.Helper()
	text, _ := agentjail(t, "receipt", "--json", id)
	kept := filepath.Join(base, "kept.json")
	for _, c := range []struct {
		from, to string
		want     int
	}{{"", "", 0}, {`"status": 4`, `"status": 0`, 1}, {`"done": true`, `"done": false`, 1}, {`"lastHash": "`, `"lastHash": "0`, 1}} {
		changed := strings.Replace(text, c.from, c.to, 1)
		if changed == text && c.from != "" {
			t.Fatalf("there is no %s in %s", c.from, text)
		}
		env.Check(t, os.WriteFile(kept, []byte(changed), 0o600))
		if out, code := agentjail(t, "receipt", "--against", kept, id); code != c.want {
			t.Errorf("with %q for %q: status %d, want %d: %s", c.to, c.from, code, c.want, out)
		}
	}
}
