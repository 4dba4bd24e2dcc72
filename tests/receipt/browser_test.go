package receipt

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// browsers are the programs that are looked for; hack/deps.sh installs the first.
var browsers = []string{"chromium-headless-shell", "chromium"}

// browserTime bounds what a browser does, on a machine that does much else.
const browserTime = 2 * time.Minute

// A browser is a real one, without a window, that is driven by its DevTools protocol (https://chromedevtools.github.io/devtools-protocol) over a
// pipe. It runs as user 65534, in its own sandbox, and has a network namespace in which there is nothing.
type browser struct {
	t    *testing.T
	to   *os.File
	from *bufio.Reader
	dir  string
	page string // the session
	last int
	// saw is what a page did: requests, and what the browser had to report of its scripts.
	requests, complaints []string
	loaded               bool
}

// message is one of the protocol.
type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Page   string          `json:"sessionId,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// overflowID is the user that the browser runs as.
var overflowID = syscall.Credential{Uid: 65534, Gid: 65534}

// startBrowser starts one, or reports why there is none.
func startBrowser(t *testing.T) (*browser, error) {
	t.Helper()
	var path string
	for _, name := range browsers {
		if at, err := exec.LookPath(name); err == nil {
			path = at
			break
		}
	}
	if path == "" {
		return nil, fmt.Errorf("none of %s is installed", strings.Join(browsers, ", "))
	}
	own := exec.Command("unshare", "--user", "true")
	own.SysProcAttr = &syscall.SysProcAttr{Credential: &overflowID}
	if out, err := own.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("its sandbox needs a user namespace, which others than root do not get here: %v: %s", err, out)
	}
	dir, err := os.MkdirTemp(base, "browser")
	if err == nil {
		err = os.Chown(dir, 65534, 65534)
	}
	env.Check(t, err)
	commands, to, err := os.Pipe()
	env.Check(t, err)
	from, answers, err := os.Pipe()
	env.Check(t, err)
	var log bytes.Buffer
	c := exec.Command(path, "--headless", "--remote-debugging-pipe", "--user-data-dir="+dir, "--disable-gpu", "--no-first-run", "about:blank")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8"}
	c.Dir, c.ExtraFiles, c.Stderr = dir, []*os.File{commands, answers}, &log
	c.SysProcAttr = &syscall.SysProcAttr{
		Credential: &overflowID, Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID, Setsid: true,
	}
	c.WaitDelay = 10 * time.Second // a process of its own may keep stderr open
	env.Check(t, c.Start())
	commands.Close()
	answers.Close()
	end := time.AfterFunc(browserTime, func() { c.Process.Kill() })
	t.Cleanup(func() {
		end.Stop()
		c.Process.Kill() // the first of its process namespace
		c.Wait()
		to.Close()
		from.Close()
		if t.Failed() {
			t.Logf("%s printed: %s", path, &log)
		}
	})
	b := &browser{t: t, to: to, from: bufio.NewReader(from), dir: dir}
	var target struct{ TargetID, SessionID string }
	b.send("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.send("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.page = target.SessionID
	for _, domain := range []string{"Page", "Network", "Runtime", "Log"} {
		b.send(domain+".enable", map[string]any{}, nil)
	}
	return b, nil
}

// send sends a command and reads until it is answered.
func (b *browser) send(method string, params, result any) {
	b.t.Helper()
	b.last++
	text, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.page})
	if b.page == "" {
		text, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		m := b.next()
		if m.ID != b.last {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v: %s", method, err, m.Result)
			}
		}
		return
	}
}

// next reads one message, and notes what it reports of the page.
func (b *browser) next() (m message) {
	b.t.Helper()
	text, err := b.from.ReadBytes(0)
	if err == nil {
		err = json.Unmarshal(text[:len(text)-1], &m)
	}
	if err != nil {
		b.t.Fatalf("the browser's answer %.400q: %v", text, err)
	}
	switch m.Method {
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		_ = json.Unmarshal(m.Params, &p)
		b.requests = append(b.requests, p.Request.URL)
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening":
		b.complaints = append(b.complaints, m.Method+": "+string(m.Params))
	case "Page.loadEventFired":
		b.loaded = true
	}
	return m
}

// open shows a page, until all of it is loaded.
func (b *browser) open(text []byte) (url string) {
	b.t.Helper()
	path := filepath.Join(b.dir, "page.html")
	env.Check(b.t, os.WriteFile(path, text, 0o644))
	b.requests, b.complaints, b.loaded = nil, nil, false
	b.send("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	for !b.loaded {
		b.next()
	}
	return "file://" + path
}

// eval is a text that the browser computes of the page that it shows.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.send("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	return fmt.Sprint(out.Result.Value)
}

// inBrowser: a real browser shows what was denied and what came from the jail as text, runs nothing, and loads nothing but the page.
func inBrowser(t *testing.T, page []byte) {
	b, err := startBrowser(t)
	if err != nil {
		t.Logf("the page is not tried in a browser: %v (hack/deps.sh)", err)
		return
	}
	url := b.open(page)
	text := b.eval("document.body.innerText")
	for _, want := range []string{"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", `\x1b[2J`, `\u{202e}gnp`, "process.capabilities"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not shown: %s", want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("a control character is shown: %q", text)
	}
	if got := b.eval("document.scripts.length + document.images.length + document.links.length + document.forms.length"); got != "0" {
		t.Errorf("the page has %s scripts, images, links or forms", got)
	}
	// Not only there, but seen: in a table with a size, with the page's own style.
	if got := b.eval(`(e => e.checkVisibility() && e.getBoundingClientRect().height > 20 && e.innerText.includes("process.capabilities"))(document.querySelector("#denied table"))`); got != "true" {
		t.Errorf("the list of what was denied is not visible: %s", got)
	}
	if got := b.eval("document.styleSheets.length + ' ' + (document.styleSheets[0].cssRules.length > 5)"); got != "1 true" {
		t.Errorf("the page's style is not applied: %s", got)
	}
	if len(b.complaints) > 0 || len(b.requests) != 1 || b.requests[0] != url {
		t.Errorf("the browser states %q, and loaded %q", b.complaints, b.requests)
	}
	// The same with a hole in it: that a script runs, and that something is loaded, would be seen.
	hole := []byte(`<script>document.title = "it ran"; throw new Error("seen")</script><img src="http://192.0.2.1/x"><h2>`)
	at := bytes.Index(page, []byte("<meta http-equiv"))
	end := at + bytes.IndexByte(page[at:], '>') + 1
	b.open(bytes.Replace(append(bytes.Clone(page[:at]), page[end:]...), []byte("<h2>"), hole, 1))
	if got := b.eval("document.title"); got != "it ran" || len(b.complaints) == 0 || len(b.requests) != 2 {
		t.Errorf("a page that runs and loads something is not seen: %q, %q, %q", got, b.complaints, b.requests)
	}
	// Its policy alone keeps the script from running, whatever is on the page.
	b.open(bytes.Replace(page, []byte("<h2>"), hole, 1))
	if got := b.eval("document.title"); got == "it ran" || strings.Contains(strings.Join(b.complaints, " "), "Runtime.exceptionThrown") {
		t.Errorf("the page's policy let a script run: %q, %q", got, b.complaints)
	}
}
