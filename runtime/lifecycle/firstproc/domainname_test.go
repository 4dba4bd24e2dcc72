package firstproc

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

func TestTakeDomainname(t *testing.T) {
	own := []specs.LinuxNamespace{{Type: specs.UTSNamespace}}
	for _, c := range []struct {
		field, key, value string
		namespaces        []specs.LinuxNamespace
		want              string
	}{
		{"a.test", "", "", own, "a.test"},
		{"", "kernel.domainname", "b.test", own, "b.test"},
		{"", "kernel/domainname", "b.test\n", own, "b.test"},
		{"a.test", "kernel.domainname", "b.test", own, "b.test"},
		{"", "", "", own, ""},
		{"a.test", "kernel.domainname", "b.test", []specs.LinuxNamespace{{Type: specs.UTSNamespace, Path: "/proc/5/ns/uts"}}, ""},
		{"a.test", "", "", nil, ""}, // no namespace: the host's name
	} {
		s := &specs.Spec{Domainname: c.field, Linux: &specs.Linux{Namespaces: c.namespaces, Sysctl: map[string]string{"kernel.msgmax": "1"}}}
		if c.key != "" {
			s.Linux.Sysctl[c.key] = c.value
		}
		if got := TakeDomainname(s); got != c.want || s.Domainname != "" || len(s.Linux.Sysctl) != 1 {
			t.Errorf("%+v: %q, %+v", c, got, s)
		}
	}
}

func TestSetDomainname(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root")
	}
	before := domain(t)
	cmd := exec.Command("sleep", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	if err := cmd.Start(); err != nil {
		t.Skip("no UTS namespace:", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if err := SetDomainname(cmd.Process.Pid, "jail.test"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("nsenter", "--uts", "--target", strconv.Itoa(cmd.Process.Pid), "cat", "/proc/sys/kernel/domainname").Output()
	if err != nil || strings.TrimSpace(string(out)) != "jail.test" {
		t.Errorf("%q, %v", out, err)
	}
	if after := domain(t); after != before {
		t.Errorf("the host's domain name is %q", after)
	}
	if err := SetDomainname(cmd.Process.Pid, strings.Repeat("x", 65)); err == nil || !strings.Contains(err.Error(), "setdomainname(2)") {
		t.Errorf("65 characters: %v", err)
	}
}

func domain(t *testing.T) string {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	return unix.ByteSliceToString(u.Domainname[:])
}
