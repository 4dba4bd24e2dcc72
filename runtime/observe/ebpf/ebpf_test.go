package ebpf

import (
	"bytes"
	"encoding/binary"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
	"agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/tests/env"
)

// raw is an event as the kernel writes it.
func raw(hook uint32, result int32, program, text string) []byte {
	b := make([]byte, sizeOf(Hook(hook)))
	le := binary.LittleEndian
	le.PutUint64(b, 5)
	le.PutUint64(b[8:], 0x78010000<<32)
	le.PutUint32(b[16:], hook)
	le.PutUint32(b[20:], 42)
	le.PutUint32(b[24:], 0x78010000)
	le.PutUint32(b[28:], 1)
	le.PutUint32(b[32:], uint32(result))
	le.PutUint32(b[36:], 425)
	le.PutUint64(b[40:], 4)
	le.PutUint32(b[88:], 4026532567)
	le.PutUint32(b[92:], 41)
	copy(b[96:], program)
	copy(b[112:Size], text)
	return b
}

func TestParse(t *testing.T) {
	e, err := Parse(raw(uint32(Syscall), -38, "probe", ""))
	if err != nil {
		t.Fatal(err)
	}
	if e.Hook != Syscall || e.Pid != 42 || e.Jail != 0x78010000<<32 || !e.Refused || e.Result != -38 || e.Number != 425 || e.Args[0] != 4 || e.Program != "probe" || e.Mounts != 4026532567 || e.Parent != 41 {
		t.Errorf("%+v", e)
	}
	if e, err := Parse(raw(0, 0, strings.Repeat("x", commSize), strings.Repeat("y", textSize))); err != nil || len(e.Program) != commSize || len(e.Text) != textSize {
		t.Errorf("without an end: %+v, %v", e, err)
	}
	for name, b := range map[string][]byte{
		"short": make([]byte, Size-1), "long": make([]byte, Size+1), "empty": nil, "hook": raw(uint32(hooks), 0, "", ""), "result": raw(0, 1, "", ""), "result below": raw(0, -4096, "", ""),
	} {
		if _, err := Parse(b); err == nil {
			t.Errorf("%s: an event", name)
		}
	}
}

// started is an event of a program that is executed, as the kernel writes it.
func started(parent, argv, cwd string, argvSize, cwdSize, flags uint32) []byte {
	b := raw(uint32(Exec), 0, "sh", "/bin/sh")
	le := binary.LittleEndian
	copy(b[Size:Size+commSize], parent)
	le.PutUint32(b[Size+commSize:], argvSize)
	le.PutUint32(b[Size+commSize+4:], cwdSize)
	le.PutUint32(b[Size+commSize+8:], flags)
	copy(b[Size+commSize+16:][:512], argv)
	copy(b[Size+commSize+16+512:], cwd)
	return b
}

// TestParseStarted: what a program that is executed has more is read within its bounds, whatever
// sizes the event states.
func TestParseStarted(t *testing.T) {
	long := strings.Repeat("x", 600)
	for name, row := range map[string]struct {
		raw  []byte
		want Started
	}{
		"whole":             {started("make", "sh\x00-c\x00\x00", "src\x00work\x00", 7, 9, 0), Started{Parent: "make", Argv: "sh\x00-c\x00\x00", ArgvSize: 7, Cwd: "/work/src"}},
		"root":              {started("sh", "a\x00", "", 2, 0, 0), Started{Parent: "sh", Argv: "a\x00", ArgvSize: 2, Cwd: "/"}},
		"no memory is read": {started("sh", "", "", 0, 0, cwdCut), Started{Parent: "sh"}},
		"a deep directory":  {started("sh", "", "c\x00b\x00", 0, 4, cwdCut), Started{Parent: "sh", Cwd: "…/b/c"}},
		"long arguments":    {started("sh", long, "", 70000, 0, 0), Started{Parent: "sh", Argv: long[:512], ArgvSize: 70000, Cwd: "/"}},
		"sizes beyond":      {started("sh", long, long, 1<<32-1, 1<<32-1, 0), Started{Parent: "sh", Argv: long[:512], ArgvSize: 1<<32 - 1, Cwd: "/" + long[:512]}},
	} {
		e, err := Parse(row.raw)
		if err != nil || e.Hook != Exec || e.Text != "/bin/sh" || e.Started != row.want {
			t.Errorf("%s: %+v, %v; want %+v", name, e, err, row.want)
		}
	}
	if _, err := Parse(started("", "", "", 0, 0, 0)[:Size]); err == nil {
		t.Error("an event without its second half")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(raw(0, -1, "probe", "x"))
	f.Add(started("sh", "a\x00b", "c\x00", 3, 2, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Parse(b)
		if err == nil && (e.Hook >= hooks || e.Result > 0 || len(e.Program) > commSize || len(e.Text) > textSize || strings.ContainsRune(e.Program, 0)) {
			t.Errorf("%+v", e)
		}
	})
}

// TestSameAsSource: what Go states of hooks, programs, structures and numbers is what the compiled
// source states.
func TestSameAsSource(t *testing.T) {
	text, err := os.ReadFile("src/programs.c")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)enum \{(\s+HOOK_.*?)\};`).FindSubmatch(text)
	if list == nil {
		t.Fatal("no hooks in the source")
	}
	for i, f := range strings.Fields(string(bytes.ReplaceAll(list[1], []byte(","), nil))) {
		if want := "HOOK_" + strings.ToUpper(Hook(i).String()); f != want {
			t.Errorf("hook %d is %s in the source, and %s", i, f, want)
		}
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	known := []string{fallback}
	for _, p := range programs {
		known = append(known, p.name)
		if s := spec.Programs[p.name]; s == nil || s.AttachTo != p.target {
			t.Errorf("program %s is not that of %s", p.name, p.target)
		}
	}
	for _, name := range policy.Blockable {
		if v, err := jailmap.Bits([]string{name}); err != nil || !slices.Equal(Verdict(v).Names(), []string{name}) {
			t.Errorf("%s is registered as %v, %v", name, Verdict(v).Names(), err)
		}
	}
	for n := range spec.Programs {
		if !slices.Contains(known, n) {
			t.Errorf("no code loads the program %s", n)
		}
	}
	for name, v := range map[string]any{"config": config{}, "jails": jailEntry{}, jailmap.MapName: jailmap.Value{}} {
		if got, want := binary.Size(v), int(spec.Maps[name].ValueSize); got != want {
			t.Errorf("%s has %d bytes, and %d in the source", name, got, want)
		}
	}
	if status.Protocol != 0x616a61 || !bytes.Contains(text, []byte("PROBE_PROTOCOL = 0x616a61")) || !bytes.Contains(text, []byte("PROBE_ERRNO = 55")) || status.Answer != 55 {
		t.Error("the programs decide another question than is meant")
	}
}

// TestPrototypes: the kernel's functions are as the programs take them, or the program is left out
// with the reason.
func TestPrototypes(t *testing.T) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		t.Logf("this kernel does not describe its types: %v", err)
		return
	}
	fit := 0
	for _, p := range programs {
		if err := p.fits(kernel); err != nil {
			t.Logf("%s: %v", p.name, err)
			continue
		}
		fit++
	}
	if fit < 8 {
		t.Errorf("only %d programs fit this kernel", fit)
	}
	for _, p := range []program{
		{target: "security_socket_create", parameters: []string{"int", "*int"}},
		{target: "security_socket_create", parameters: []string{"int"}, exact: true},
		{target: "mark_victim", parameters: []string{"*cred"}, tracepoint: true},
		{target: "mark_nobody", tracepoint: true},
		{target: "security_bpf", parameters: []string{"int", "*bpf_attr", "unsigned int", "bool", "int"}},
		{target: "security_of_nothing"},
	} {
		if p.fits(kernel) == nil {
			t.Errorf("%v fits", p)
		}
	}
}

func TestConfig(t *testing.T) {
	if _, err := (Options{Pools: make([]idmap.Pool, maxPools+1)}).config(); err == nil {
		t.Error("more pools than the programs know")
	}
	if got := Default.Names(); slices.Contains(got, "exec") || slices.Contains(got, "syscall") || !slices.Contains(got, "io_uring") {
		t.Errorf("by default: %v", got)
	}
}

// TestProbe: what can be done is found by trying, and nothing is left of it.
func TestProbe(t *testing.T) {
	can, err := Probe()
	t.Log(can, err)
	if (can == Blocks) != (err == nil) {
		t.Errorf("%s: %v", can, err)
	}
	// Another package's test may probe beside this one. What this process has left stays until it
	// ends.
	env.Eventually(t, "the trial's program is gone", func() bool { return !status.Acts(status.TrialProtocol) })
}

// TestWithoutReading: each program that the kernel takes, it takes as well where none may read its
// memory (lockdown=confidentiality).
func TestWithoutReading(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it loads programs into the kernel")
	}
	if can, err := Probe(); can == Absent {
		t.Skipf("no programs on this kernel: %v", err)
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	s := &Set{maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}}
	defer s.Close()
	l := loader{set: s, spec: spec, kernel: kernel}
	defer l.close()
	if err := l.makeMaps(false); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range programs {
		if p.fits(kernel) != nil || l.try(p.name, 1) != nil {
			continue
		}
		n++
		s.links[p.name].Close()
		if err := l.try(p.name, 0); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	if n == 0 {
		t.Error("the kernel takes none of them")
	}
	t.Logf("%d programs", n)
}
