package shim

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootapi "github.com/containerd/containerd/api/runtime/bootstrap/v1"
	taskAPI "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/containerd/v2/pkg/sys/reaper"
	runc "github.com/containerd/go-runc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/runtime/spec/bundle"
)

// A command's output arrives whole, in files of every kind, before its end is reported; and no program
// is started for it.
func TestMonitor(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "none")
	call := func(cmd *exec.Cmd) int {
		t.Helper()
		ended, err := monitor{}.StartLocked(cmd)
		if err != nil {
			t.Fatal(err)
		}
		status, err := monitor{}.Wait(cmd, ended)
		if err != nil || cmd.Process != nil {
			t.Fatal(err, cmd.Process)
		}
		return status
	}
	var both bytes.Buffer
	cmd := exec.Command("/bin/false:"+policy, "--log-format", "json", "checkpoint", "x")
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &both, &both, strings.NewReader("unread")
	if status := call(cmd); status != 1 || !strings.Contains(both.String(), "checkpoint: refused: ") {
		t.Errorf("status %d: %s", status, &both)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	log := filepath.Join(t.TempDir(), "log.json")
	cmd = exec.Command("agentjail", "--log", log, "--log-format", "json", "no-such-verb")
	cmd.Stderr = file
	if status := call(cmd); status != 2 {
		t.Errorf("status %d", status)
	}
	for _, at := range []string{file.Name(), log} {
		if text, err := os.ReadFile(at); err != nil || !strings.Contains(string(text), "unknown command") {
			t.Errorf("%v: %s", err, text)
		}
	}
	// What a caller has closed already is its mistake.
	cmd = exec.Command("agentjail", "state", "x")
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	cmd.Stdin = closed
	if _, err := (monitor{}).Start(cmd); err == nil {
		t.Error("started without its files")
	}
	for _, args := range [][]string{nil, {"--root"}, {"exec"}, {"exec", "--cap", "x", "a"}, {"update", "--memory", "y", "a"}, {"kill", "--no-such", "a"}, {"start"}, {"delete", "a", "b"}} {
		want := 1
		switch {
		case len(args) > 1 && args[0] == "exec":
			want = 255 // as runc's
		case len(args) == 1 && args[0] == "--root":
			want = 2 // no verb of runc's
		}
		if status := call(exec.Command("agentjail", args...)); status != want {
			t.Errorf("%v: status %d, want %d", args, status, want)
		}
	}
}

// A panic is a command or a call that failed.
func TestPanics(t *testing.T) {
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	if status := guarded("a command", stderr, func() int { panic("at the disco") }); status != 2 {
		t.Errorf("status %d", status)
	}
	if text, err := os.ReadFile(stderr.Name()); err != nil || !strings.Contains(string(text), "internal error: at the disco") {
		t.Errorf("%v: %s", err, text)
	}
	m := method(func(context.Context, *taskAPI.StateRequest) (*taskAPI.StateResponse, error) { panic("again") })
	if _, err := m(context.Background(), func(any) error { return nil }); err == nil || !strings.Contains(err.Error(), "internal error: again") {
		t.Error(err)
	}
}

// Both protocols are distinguished, also where the old one's options can be read as parameters of
// the new one.
func TestBootstrap(t *testing.T) {
	c, err := parseArgs([]string{"-namespace", "ns", "-id", "one", "-address", "/sock", "-publish-binary", "/x", "-debug", "start"})
	if err != nil || c.action != "start" || !c.debug {
		t.Fatal(c, err)
	}
	params := func(p *bootapi.BootstrapParams) []byte {
		data, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	old, err := proto.Marshal(createOptions())
	if err != nil {
		t.Fatal(err)
	}
	trick, err := proto.Marshal(&anypb.Any{TypeUrl: "one", Value: []byte("other")})
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		what   string
		in     []byte
		legacy bool
		dir    string
	}{
		{"nothing", nil, true, ""},
		{"options", old, true, ""},
		{"options with our id", trick, true, ""},
		{"garbage", []byte{0xff, 0xff}, true, ""},
		{"parameters", params(&bootapi.BootstrapParams{InstanceID: "one", Namespace: "ns", SocketDir: new("/d")}), false, "/d"},
		{"parameters of another", params(&bootapi.BootstrapParams{InstanceID: "two", Namespace: "ns", SocketDir: new("/d")}), true, ""},
	} {
		p, legacy := c.bootstrap(try.in)
		if legacy != try.legacy || p.InstanceID != "one" || p.Namespace != "ns" || p.GetSocketDir() != try.dir {
			t.Errorf("%s: %v %v", try.what, legacy, p)
		}
		if legacy && (p.ContainerdGrpcAddress != "/sock" || p.LogLevel != bootapi.LogLevel_LOG_LEVEL_DEBUG) {
			t.Errorf("%s: %v", try.what, p)
		}
	}
	if err := start(context.Background(), commandLine{}, strings.NewReader(""), os.Stdout); err == nil {
		t.Error("started without a name")
	}
	// The daemon's package would read all of it.
	t.Chdir(t.TempDir())
	if err := os.WriteFile(bundle.ConfigName, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(bundle.ConfigName, bundle.MaxConfig+1); err != nil {
		t.Fatal(err)
	}
	if err := start(context.Background(), c, strings.NewReader(""), os.Stdout); err == nil || !strings.Contains(err.Error(), "are allowed") {
		t.Error(err)
	}
}

// The task service calls what this package expects of it: a newer release has to be looked at.
func TestTaskServiceCommands(t *testing.T) {
	var seen []string
	runc.Monitor = recorder{&seen}
	defer func() { runc.Monitor = monitor{} }()
	r := &runc.Runc{Command: "agentjail", Root: "/r", Log: "/l", LogFormat: runc.JSON, SystemdCgroup: true}
	ctx := context.Background()
	_ = r.Create(ctx, "id", "/b", &runc.CreateOpts{PidFile: "/p", NoPivot: true, NoNewKeyring: true})
	_ = r.Start(ctx, "id")
	_ = r.Kill(ctx, "id", 9, &runc.KillOpts{All: true})
	_ = r.Delete(ctx, "id", &runc.DeleteOpts{Force: true})
	_ = r.Update(ctx, "id", nil)
	_, _ = r.Ps(ctx, "id")
	_ = r.Pause(ctx, "id")
	want := "create --bundle /b --pid-file /p --no-pivot --no-new-keyring id|start id|kill --all id 9|delete --force id|update --resources=- id|ps --format json id|pause id"
	for i, s := range seen {
		seen[i] = strings.TrimPrefix(s, "agentjail --root /r --log /l --log-format json --systemd-cgroup ")
	}
	if got := strings.Join(seen, "|"); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
}

type recorder struct{ seen *[]string }

func (r recorder) Start(c *exec.Cmd) (chan runc.Exit, error) {
	*r.seen = append(*r.seen, strings.Join(c.Args, " "))
	return nil, nil
}
func (r recorder) StartLocked(c *exec.Cmd) (chan runc.Exit, error) { return r.Start(c) }
func (recorder) Wait(*exec.Cmd, chan runc.Exit) (int, error)       { return 0, nil }

// A child's status arrives although the reaper was first to wait for it.
func TestChildren(t *testing.T) {
	wait, _ := children()
	cmd := exec.Command("sh", "-c", "exit 3")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if err := reaper.Reap(); err != nil {
		t.Fatal(err)
	}
	if status, err := wait(cmd.Process.Pid); status != 3 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	_, stop := children()
	stop() // and has no process wait for it
	ends := make(chan error, 1)
	go func() { ends <- reaped(exec.Command("sh", "-c", "exit 4")) }()
	for {
		_ = reaper.Reap()
		select {
		case err := <-ends:
			if err == nil || !strings.Contains(err.Error(), "exit status 4") {
				t.Error(err)
			}
			return
		case <-time.After(time.Millisecond): // until it has ended
		}
	}
}
