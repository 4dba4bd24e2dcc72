package cri

import (
	"fmt"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// inside looks for each ring from within a container and from its process on the node, whatever was requested.
func (c *container) inside() {
	c.t.Helper()
	pid := c.pid()
	for _, kind := range []string{"user", "pid", "net", "ipc", "uts", "mnt", "cgroup"} {
		if namespace(c.t, pid, kind) == hosts(c.t, kind) {
			c.t.Errorf("%s: the %s namespace is the host's", c.name, kind)
		}
	}
	if m := strings.Fields(env.ProcFile(c.t, pid, "uid_map")); len(m) < 2 || len(m[1]) < 5 {
		c.t.Errorf("%s: ids %v", c.name, m)
	}
	var status string
	env.Eventually(c.t, "the init step", func() bool {
		status = env.ProcFile(c.t, pid, "status")
		return strings.Contains(status, "Name:\tsh\n")
	})
	for _, line := range []string{"CapBnd:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "Seccomp_filters:\t2\n"} {
		if !strings.Contains(status, line) {
			c.t.Errorf("%s: no %q", c.name, line)
		}
	}
	var script strings.Builder
	for _, attempt := range []string{"mount -t tmpfs x /mnt", "unshare -U true", "hostname other", "ping -c 1 -W 1 127.0.0.1", "dmesg", "echo 1 >/proc/sys/kernel/panic", "test -s /proc/kcore"} {
		fmt.Fprintf(&script, "(%s) >/dev/null 2>&1 && echo '%s'; ", attempt, attempt)
	}
	// An exec is no way around.
	script.WriteString("grep -c -e '^CapBnd:.0000000000000000$' -e '^Seccomp:.2$' -e '^NoNewPrivs:.1$' /proc/self/status")
	if out, _ := c.exec(script.String()); out != "3" {
		c.t.Errorf("%s: what succeeds, and how many of 3 protections an exec has: %s", c.name, out)
	}
}

// Whatever a pod's description requests, its containers are jails.
func TestPodGrants(t *testing.T) {
	type sandbox = runtimeapi.PodSandboxConfig
	type config = runtimeapi.ContainerConfig
	hostNS := runtimeapi.NamespaceMode_NODE
	onEach(t, func(t *testing.T, n *node) {
		for _, c := range []struct {
			name, handler string
			sandbox       func(*sandbox)
			container     func(*config)
		}{
			{"nothing", "agentjail-net", nil, nil},
			{"hostNetwork", "agentjail-net", func(s *sandbox) { s.Linux.SecurityContext.NamespaceOptions.Network = hostNS }, nil},
			{"hostNetwork sealed", "agentjail", func(s *sandbox) { s.Linux.SecurityContext.NamespaceOptions.Network = hostNS }, nil},
			{"hostPID", "agentjail", func(s *sandbox) { s.Linux.SecurityContext.NamespaceOptions.Pid = hostNS }, nil},
			{"hostIPC", "agentjail", func(s *sandbox) { s.Linux.SecurityContext.NamespaceOptions.Ipc = hostNS }, nil},
			{"privileged", "agentjail-net", func(s *sandbox) { s.Linux.SecurityContext.Privileged = true }, func(c *config) {
				c.Linux.SecurityContext.Privileged = true
				c.Linux.SecurityContext.Seccomp = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
				c.Linux.SecurityContext.MaskedPaths, c.Linux.SecurityContext.ReadonlyPaths = nil, nil
			}},
			{"capabilities", "agentjail", nil, func(c *config) {
				c.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{AddCapabilities: []string{"ALL"}}
			}},
			{"sysctls", "agentjail-net", func(s *sandbox) {
				s.Linux.Sysctls = map[string]string{"net.ipv4.ip_forward": "1", "kernel.shm_rmid_forced": "1", "net.ipv4.tcp_syncookies": "0", "kernel.panic": "1"}
			}, nil},
			{"annotations", "shim", func(s *sandbox) { s.Annotations = hostile }, func(c *config) { c.Annotations = hostile }},
		} {
			t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
				var change []func(*sandbox)
				if c.sandbox != nil {
					change = append(change, c.sandbox)
				}
				p := n.pod(t, c.handler, change...)
				var more []func(*config)
				if c.container != nil {
					more = append(more, c.container)
				}
				j := p.container("main", idle, more...)
				j.inside()
				out := j.must("ip -o addr show 2>/dev/null | grep -c -v ' lo '; ps | wc -l; :")
				addresses, processes, _ := strings.Cut(out, "\n")
				if (addresses == "0") != (!strings.HasSuffix(c.handler, "-net") || c.name == "hostNetwork") {
					t.Errorf("%s addresses beyond lo", addresses)
				}
				if len(processes) > 1 {
					t.Errorf("%s processes to see", processes)
				}
			})
		}
	})
}

// TestUnknownAnnotations: a pod whose author requests what no annotation can have is not started.
func TestUnknownAnnotations(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		for name, value := range map[string]string{"network.mode": "engine", "profile": "net", "policy": "net", "limits.memory": "all"} {
			err := n.plan(t, func(s *runtimeapi.PodSandboxConfig) {
				s.Annotations = map[string]string{"dev.agentjail." + name: value}
			}).run("shim")
			if err == nil || !strings.Contains(err.Error(), "annotations[dev.agentjail."+name+"]: refused") {
				t.Errorf("%s = %s: %v", name, value, err)
			}
		}
	})
}

// hostile is what a pod's author could write, where an administrator lets all annotations through.
var hostile = map[string]string{
	"dev.agentjail.limits.pids":            "100000",
	"dev.agentjail.seccomp.profile":        "server",
	"io.kubernetes.cri.runtime-handler":    "agentjail-net",
	"io.kubernetes.cri.sandbox-id":         "0000000000000000000000000000000000000000000000000000000000000000",
	"io.kubernetes.cri.sandbox-uid":        "00000000-0000-0000-0000-000000000000",
	"io.kubernetes.cri.container-type":     "sandbox",
	"io.containerd.runc.v2.group":          "x",
	"run.oci.seccomp_bpf_data":             "BgAAAAAA/38=",
	"run.oci.keep_original_groups":         "1",
	"org.criu.config":                      "/etc/x",
	"org.systemd.property.MemoryMax":       "1",
	"io.kubernetes.cri-o.userns-mode":      "host",
	"seccomp.security.alpha.kubernetes.io": "unconfined",
}
