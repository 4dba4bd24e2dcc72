package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// A suite is a group of steps that serve one purpose.
type suite struct {
	name string
	what string
	on   []string // the machines that run it
	// long reports that it takes minutes under emulation and tests what other tests cover on the
	// machine itself: there it runs by name only.
	long  bool
	steps []step
}

// A step is one thing that the machine runs: a package's tests.
type step struct {
	name  string
	limit time.Duration // in the guest, under emulation; only what hangs reaches it
	// pkg is a package of this module, relative to its root. Its tests are compiled here and run
	// there.
	pkg  string
	args []string // further arguments of the test binary
	// under is a program of the guest that calls the test binary, "" for none.
	under string
	// only names the tests that are run, where not all are, and part which of their subtests; left
	// reports why the others are not.
	only []string
	part string
	left string
	// resets reports that it resets the machine once, and goes on when that is up again.
	resets bool
	// packages reports that it installs agentjail's packages, in two versions.
	packages bool
	// tools are programs that hack/tools builds and that its tests call; the guest finds them in
	// /work/tools.
	tools []string
	// script is a shell command; set instead of pkg.
	script string
}

// suites lists what there is, in the order in which it is run.
var suites = []suite{
	{
		name: "unit", what: "packages whose tests depend on the kernel, on Linux 6.12 with the security module on",
		on: []string{"apparmor"},
		steps: []step{
			tests("apparmor", 5*time.Minute),
			tests("runtime/kernel/hostfacts", 2*time.Minute),
			tests("runtime/rootfs", 6*time.Minute),
			tests("runtime/workspace", 3*time.Minute),
			{
				name: "runtime-workspace-apply", pkg: "runtime/workspace/apply", limit: 3 * time.Minute,
				only: []string{"TestApply", "TestHostile", "TestLinkRace", "TestConflicts", "TestFullDisk", "TestRecordedViewIsReviewedAndApplied", "TestRenamedUnderJail"},
				left: "they build programs of their own, or depend little on the kernel, and run on the machine itself (make test-unit)",
			},
			tests("runtime/state", 2*time.Minute),
			tests("runtime/network/seal", 5*time.Minute),
			tests("runtime/kernel/fork", 2*time.Minute),
			tests("runtime/network/helper", 2*time.Minute),
		},
	},
	{
		name: "inside", what: "what only a kernel with this security module and control groups version 2 can show",
		on:    []string{"apparmor", "selinux"},
		steps: []step{tests("hack/vm/inside", 30*time.Minute)},
	},
	{
		name: "reset", what: "a view that a jail has when the machine is reset",
		on: []string{"engines"},
		steps: []step{{
			name: "reset", pkg: "hack/vm/inside/reset", limit: 5 * time.Minute, resets: true,
		}},
	},
	{
		name: "systemd", what: "control groups that systemd makes",
		on: []string{"engines"},
		steps: []step{{
			name: "systemd", pkg: "hack/vm/inside", limit: 20 * time.Minute, under: "under-systemd", only: []string{"TestSystemdDriver", "TestSystemdInstalled"},
			left: "they test other things, and run in the suite inside",
		}},
	},
	{
		name: "e2e", what: "what end-to-end tests find of this kernel, its security module and its control groups, on Docker 26",
		on: []string{"apparmor"},
		steps: []step{{
			// What a jail sees of one processor differs from the machine's only if that has more.
			name: "tests-e2e", pkg: "tests/e2e", limit: 20 * time.Minute, under: "under-all-processors", only: e2e,
			left: "they do not depend on the kernel, and run in the suite docker or on the machine itself (make test-e2e)",
		}},
	},
	{
		name: "docker", what: "the end-to-end tests on Docker 26, and over this distribution's runc", long: true,
		on: []string{"apparmor"},
		steps: []step{{
			name: "tests-e2e-docker", pkg: "tests/e2e", limit: 20 * time.Minute, only: e2eDocker,
			left: "they depend on neither kernel nor engine version, and run on the machine itself (make test-e2e)",
		}, {
			name: "tests-e2e-runc", pkg: "tests/e2e", limit: 8 * time.Minute, under: "under-runc", only: e2eRunc,
			left: "they do not depend on the delegate, which is crun 1.21 in the others and runc 1.1.15 here",
		}},
	},
	{
		name: "packages", what: "the package for Debian, on Debian 13 with AppArmor and Docker 26", long: true,
		on: []string{"apparmor"},
		steps: []step{{
			name: "tests-packages", pkg: "tests/packages", limit: 8 * time.Minute, packages: true, only: []string{"TestDeb"},
			left: "they make packages, or run rpm, which is not here, and run on the machine itself (make test-e2e)",
		}},
	},
	{
		// Only on that machine, which is booted by name (vm -machine cloud): a boot by systemd and
		// cloud-init takes a machine without KVM three minutes.
		name: "cloud", what: "a machine that cloud-init made from the package, unattended",
		on:    []string{"cloud"},
		steps: []step{{name: "tests-cloud", pkg: "tests/cloud", limit: 30 * time.Minute, packages: true}},
	},
	{
		name: "names", what: "a network by name, whose helper is born in a control group of version 2", long: true,
		on: []string{"engines"},
		steps: []step{{
			name: "tests-names", pkg: "tests/names", limit: 12 * time.Minute,
			only: []string{"TestKilledHelper", "TestNothingLeft", "TestPublish", "TestReload", "TestRestart", "TestCredentials", "TestHeldConnection", "TestUnread", "TestQuota", "TestWorkers"},
			left: "they depend on neither kernel nor engine version, or build programs of their own, and run on the machine itself (make test-e2e)",
		}},
	},
	{
		name: "journal", what: "every refusal in the journal, of a kernel with control groups of version 2 and AppArmor",
		on: []string{"engines"},
		steps: []step{{
			name: "tests-journal", pkg: "tests/journal", limit: 10 * time.Minute, only: []string{"TestRefusals", "TestRefusalsComplete"}, part: "command_line",
			left: "they take long under emulation, or depend on neither, and run on the machine itself (make test-e2e)",
		}},
	},
	{
		name: "ebpf", what: "eBPF programs behind the filters, which this kernel lets refuse",
		on: []string{"engines"},
		steps: []step{tests("runtime/observe/ebpf", 3*time.Minute), tests("runtime/observe/ebpf/jailmap", 3*time.Minute), {
			name: "tests-ebpf", pkg: "tests/ebpf", limit: 16 * time.Minute, only: []string{"TestProgramsHoldWithoutFilters", "TestRefusedCalls", "TestEngineIDs", "TestPolicysBlocksAreReported", "TestExec", "TestCollectorFilter", "TestHostSockets"},
			left: "they take long under emulation, and run in the suite ebpf-costs or on the machine itself (make test-e2e)",
		}},
	},
	{
		// An emulated processor's costs are the emulator's.
		name: "ebpf-costs", what: "what eBPF programs cost that may refuse", long: true,
		on: []string{"engines"},
		steps: []step{{
			name: "tests-ebpf-costs", pkg: "tests/ebpf", limit: 8 * time.Minute, only: []string{"TestCostOfPrograms"},
			left: "they measure nothing, and run in the suite ebpf or on the machine itself (make test-e2e)",
		}},
	},
	{
		name: "exhaust", what: "what no control group counts, under those of version 2 and with CAP_SYS_RESOURCE",
		on:    []string{"apparmor"},
		steps: []step{tests("tests/exhaust", 25*time.Minute)},
	},
	{
		// By name only (vm -machine engines rings): eight jails of forty attacks each take a
		// machine without KVM ten minutes and more.
		name: "rings", what: "each ring alone, on a kernel other than that of the documented table",
		steps: []step{{
			// crun mounts a root anew without nosuid and nodev when it has no user namespace, which
			// taking ring 2 away shows.
			name: "tests-rings", pkg: "tests/rings", limit: 20 * time.Minute, under: "under-runc", only: []string{"TestRings"},
			left: "they are about builds and tables, and run on the machine itself",
		}},
	},
	{
		// By name only (vm -machine apparmor contract): five engines and a hundred containers take
		// a machine without KVM long. That the security module confines a jail is tested in the
		// suite inside.
		name: "contract", what: "what every jail is, by engine, with a security module in force",
		steps: []step{tests("tests/contract", 30*time.Minute)},
	},
	{
		// By name only (vm -machine engines kubernetes): a cluster takes a machine without KVM
		// fifteen minutes, alone on a processor.
		name: "kubernetes", what: "a cluster whose node has control groups that systemd makes, of version 2, and AppArmor",
		steps: []step{{
			name: "tests-kubernetes", pkg: "tests/kubernetes", limit: 40 * time.Minute, under: "under-systemd", args: []string{"-systemd", "-patience=5"},
			tools: []string{"containerd", "kubernetes"}, only: []string{"TestSmoke"},
			left: "they take long under emulation, do not depend on what makes the control groups, and run on the machine itself (make test-kubernetes)",
		}},
	},
	{
		// By name only (vm -machine engines crio): a CRI-O takes a machine without KVM minutes.
		name: "crio", what: "CRI-O with control groups that systemd makes, of version 2, and AppArmor",
		steps: []step{{
			name: "tests-crio", pkg: "tests/cri", limit: 20 * time.Minute, under: "under-systemd", args: []string{"-systemd"}, tools: []string{"crio"},
			only: []string{"TestCRIOLife", "TestCRIONetwork", "TestCRIOShared", "TestCRIOPrivileged", "TestCRIORestart"},
			left: "they are containerd's, whose CRI is in the suite engines, or run on the machine itself (make test-e2e)",
		}},
	},
	{
		name: "boundary", what: "jails behind gVisor's sandbox, where control groups are of version 2",
		on: []string{"engines"},
		steps: []step{{
			name: "tests-boundary", pkg: "tests/boundary", limit: 10 * time.Minute, tools: []string{"runsc"},
			only: []string{"TestOwnKernel", "TestProtectedPaths"}, part: "runsc",
			left: "they take long under emulation, and run in the suite boundary-docker or on the machine itself (make test-e2e)",
		}},
	},
	{
		name: "boundary-docker", what: "the daily verbs of Docker 26 over gVisor's sandbox", long: true,
		on: []string{"engines"},
		steps: []step{{
			name: "tests-boundary-docker", pkg: "tests/boundary", limit: 40 * time.Minute, tools: []string{"runsc"}, only: []string{"TestDocker"},
			left: "they are in the suite boundary, or run on the machine itself (make test-e2e)",
		}},
	},
	{
		name: "engines", what: "containerd 1.7, its CRI, and Podman 5",
		on: []string{"engines"},
		steps: []step{
			{
				name: "tests-shim", pkg: "tests/shim", limit: 15 * time.Minute, part: "distribution",
				only: []string{"TestRun", "TestExec", "TestDaemonRestart", "TestGroupHasOneShim", "TestDocker", "TestLogURI", "TestLogLabel"},
				left: "they run on the machine itself, on older and newer releases of containerd (make test-e2e)",
			},
			{
				name: "tests-cri", pkg: "tests/cri", limit: 15 * time.Minute, part: "distribution",
				only: []string{"TestPodShares", "TestPodLife", "TestPodNetwork"},
				left: "they run on the machine itself, on older and newer releases of containerd (make test-e2e)",
			},
			{
				name: "tests-podman", pkg: "tests/podman", limit: 15 * time.Minute,
				only: []string{"TestRun", "TestEnginesFilesAtStart", "TestSubpath", "TestDeniedOptions", "TestPod", "TestUserns", "TestStats", "TestQuadlet", "TestRootlessRun", "TestRootlessGrants", "TestRootlessProfile"},
				left: "they depend little on Podman's release, and run on the machine itself (make test-e2e)",
			},
		},
	},
}

// e2e are the end-to-end tests that depend on the kernel.
var e2e = []string{
	// AppArmor is in force beside the other protections.
	"TestJail", "TestProbeAttemptsFail", "TestKernelFiles",
	// What this kernel and these control groups expose of the machine.
	"TestNothingOfTheHost", "TestMountTable",
	// Bounds, where control groups of version 2 and CAP_SYS_RESOURCE hold them.
	"TestJailIsKilledBeforeTheHost", "TestEveryProcessIsKilledBeforeTheHost", "TestResourceLimits", "TestEngineWithoutCores",
	"TestSocketBuffers", "TestCountsAreTheJails", "TestHugePageLimits",
}

// e2eDocker are those that depend on the engine, and are worth the minutes that they take.
var e2eDocker = []string{
	// crun 1.21, the best delegate here.
	"TestWorkingDirectory", "TestRunTerminal",
	// Docker 26's networks.
	"TestNetworks", "TestNetworkConnectLater", "TestEmbeddedDNS", "TestJoinJail", "TestAbstractSocket",
	// Its archives, volumes and life cycle, on this kernel's idmapped mounts.
	"TestCopyIn", "TestCopyOut", "TestMountedDir", "TestVolumeFromImage", "TestRestart",
	// What it executes and follows in a jail's root (CVE-2026-41567), and what its builders
	// request.
	"TestCopyRunsNothing", "TestEngineLinks", "TestDefaultRuntimeBuild",
}

// e2eRunc are those that go over this distribution's runc as well.
var e2eRunc = []string{"TestJail", "TestRunTerminal"}

func tests(pkg string, limit time.Duration) step {
	return step{name: strings.ReplaceAll(pkg, "/", "-"), limit: limit, pkg: pkg}
}

// prebuilt are the programs that tests build for themselves where there is a Go tool: package,
// build flags.
var prebuilt = []struct{ pkg, flags string }{
	{"./cmd/agentjail", ""},
	{"./cmd/agentjail", "-tags=crashtest"},
	{"./cmd/agentjail", "-tags=withouttest"},
	{"./cmd/agentjailctl", ""},
	{"./cmd/agentjailctl", "-tags=crashtest"},
	{"./cmd/agentjailctl", "-tags=withouttest"},
	{"./cmd/agentjail-enter", ""},
	{"./cmd/agentjail-journal", ""},
	{"./cmd/agentjail-egress", ""},
	{"./cmd/agentjail-egress-keys", ""},
	{"./cmd/containerd-shim-agentjail-v2", ""},
	{"./tests/probe", ""},
	{"./tests/cri/pause", ""},
}

// prebuiltName is what the guest's stand-in for the Go tool (guest/go) looks for.
func prebuiltName(pkg, flags string) string { return path.Base(pkg) + flags }

// plan picks the steps to run.
//
// Without hardware virtualisation those that are long are left out, unless they are named; which is
// printed.
func plan(o options) ([]step, error) {
	if o.script != "" {
		return []step{{name: "script", limit: o.timeout, script: o.script, packages: kinds[o.kind].userData != ""}}, nil
	}
	var steps []step
	known := map[string]bool{}
	for _, s := range suites {
		known[s.name] = true
		if len(o.suites) > 0 && !slices.Contains(o.suites, s.name) || len(o.suites) == 0 && !slices.Contains(s.on, o.kind) {
			continue
		}
		if s.long && len(o.suites) == 0 && o.emulated {
			logf("%s: left out, since it takes long under emulation: suite %s, %s (run it by name: vm -machine %[1]s %[2]s)", o.kind, s.name, s.what)
			continue
		}
		steps = append(steps, s.steps...)
	}
	for _, name := range o.suites {
		if known[name] {
			continue
		}
		// A package by its path.
		steps = append(steps, tests(strings.TrimPrefix(path.Clean(name), "./"), o.timeout))
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("nothing to run with %s", o.kind)
	}
	for i := range steps {
		st := &steps[i]
		st.packages = st.packages || kinds[o.kind].userData != "" // cloud-init installs one
		pattern := o.run
		if pattern != "" {
			st.only = nil
		} else if len(st.only) > 0 {
			pattern = "^(" + strings.Join(st.only, "|") + ")$"
			if st.part != "" {
				pattern += "/^" + st.part + "$"
			}
		}
		if pattern != "" {
			st.args = append(slices.Clone(st.args), "-test.run="+pattern)
		}
	}
	return steps, nil
}
