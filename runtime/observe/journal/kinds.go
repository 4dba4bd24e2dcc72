package journal

import (
	"fmt"

	"agentjail.dev/runtime/spec/rings"
)

// Varies is the ring of a kind whose events have each their own.
const Varies rings.Ring = -2

// Verdicts.
const (
	VerdictAllowed = "allowed"
	VerdictRefused = "refused"
	VerdictLimit   = "limit" // a limit was met
	VerdictNoted   = "noted" // nothing was decided
	VerdictAlert   = "alert" // something that should not be
)

// Sources of events.
const (
	SourceOwn     = "agentjail" // agentjail itself, on its way
	SourceNetwork = "network"   // the log of the network helper
	SourceCgroup  = "cgroup"    // the counters of the jail's control group
	SourceLayer   = "layer"     // the file system of the jail's changes
	SourceKernel  = "kernel"    // the kernel's log: AppArmor, SELinux, Landlock, OOM
	SourceEBPF    = "ebpf"      // the collector's programs
	SourceJournal = "journal"   // the journal itself
)

// A Kind is a kind of event: one of the constants. In JSON it is its name.
type Kind uint8

// KindInfo is a row of the table of kinds.
type KindInfo struct {
	Name string
	// Ring may be rings.None or Varies.
	Ring    rings.Ring
	Verdict string
	// Class, Activity, Disposition and Severity are OCSF's class_uid, activity_id, disposition_id
	// and severity_id (schema 1.8).
	Class, Activity, Disposition, Severity int
	// Meaning is what happened, in a sentence.
	Meaning string
	// Sources can see it, the most usual first.
	Sources []string
	// Remedy is what would let it through, with {jail}, {name}, {port}, {path}, {target},
	// {syscall}, {credential}, {program}, {limit} for the event's own.
	Remedy string
	// Rule decides a refusal whose source names no rule of its own, with {name} and the like: the
	// policy's key, the kernel's limit or an eBPF hook.
	Rule string
}

// OCSF's classes, dispositions and severities that are used.
const (
	ocsfFile, ocsfKernel, ocsfModule, ocsfProcess = 1001, 1003, 1005, 1007
	ocsfFinding                                   = 2004
	ocsfAuthorize                                 = 3003
	ocsfNetwork, ocsfHTTP, ocsfDNS                = 4001, 4002, 4003
	ocsfConfig                                    = 5019
	ocsfLifecycle                                 = 6002

	isAllowed, isBlocked, isDropped, isDetected, isLogged, isAlert = 1, 2, 6, 15, 17, 19

	informational, low, medium, high, critical = 1, 2, 3, 4, 5
)

// Activities: OCSF numbers them by class.
const (
	fileUpdate, fileOpen                       = 3, 14
	kernelInvoke, moduleLoad, processLaunch    = 4, 1, 1
	processOther, findingCreate, authorize     = 99, 1, 1
	netOpen, netClose, netRefuse, dnsQuery     = 1, 2, 5, 1
	httpOther, configLog                       = 99, 1
	lifeInstall, lifeRemove, lifeStart         = 1, 2, 3
	lifeStop, lifeUpdate, lifeOther, netListen = 4, 8, 99, 7
)

// Sources as KindInfo.Sources has them.
var (
	own      = []string{SourceOwn}
	network  = []string{SourceNetwork}
	cgroup   = []string{SourceCgroup, SourceKernel, SourceEBPF}
	layer    = []string{SourceLayer, SourceEBPF}
	audit    = []string{SourceKernel}
	programs = []string{SourceEBPF}
	itself   = []string{SourceJournal}
)

// The kinds of events.
const (
	// The life of a jail.
	JailCreate Kind = iota + 1
	JailRefused
	PrivilegeDenied
	ProtectionMissing
	JailStart
	JailExit
	JailDelete
	JailReclaimed
	JailUsed
	JailTeardown
	JailFiles
	JailMounted
	JailArrived
	WorkspaceOpen
	WorkspaceApply
	WorkspaceDiscard
	JailInspected
	ProtectionBroken
	ProtectionLost
	GitStale
	LimitsUpdate
	LimitsRefused

	// Programs.
	ExecStart
	ExecRefused
	ProcessExec
	ProcessWritten

	ProcessTraced

	// The network.
	NameAllowed
	NameRefused
	ConnectAllowed
	ConnectRefused
	ConnectTried
	ConnectBlocked
	BindTried
	BindBlocked
	UnixBlocked
	ConnectEnd
	PublishAllowed
	PublishRefused
	CredentialUsed
	CredentialRefused
	NetworkRules
	NetworkRestart
	ApprovalAllowed
	ApprovalDenied

	// Ring 0: the kernel's surface.
	SyscallRefused
	SyscallKilled
	ModuleRefused
	ExecBlocked
	Ring0Passed

	// Ring 1: access.
	PtraceRefused
	TraceBlocked
	LandlockDenied
	ApparmorDenied
	SelinuxDenied

	// Ring 2: limits.
	LimitOOM
	LimitMemory
	LimitHigh
	LimitPids
	LimitCPU
	LimitLayer
	LimitInodes

	// The journal.
	JournalLost
	JournalTorn
	JournalKept
	SourceAbsent
	JournalUnknown
)

// kinds is the table of all kinds.
var kinds = [...]KindInfo{
	// The life of a jail.
	JailCreate:        {"jail.create", rings.None, VerdictAllowed, ocsfLifecycle, lifeInstall, isAllowed, informational, "the jail was made; its first process waits", own, "", ""},
	JailRefused:       {"jail.refused", rings.None, VerdictRefused, ocsfLifecycle, lifeInstall, isBlocked, medium, "the jail was not made", own, "see the reason; docs/why.md has every code", ""},
	PrivilegeDenied:   {"privilege.denied", Varies, VerdictRefused, ocsfFinding, findingCreate, isBlocked, low, "the bundle requested a privilege that it did not get", own, "`agentjail explain BUNDLE` names the policy's key for {target}, if there is one", "hardening: {target}"},
	ProtectionMissing: {"protection.missing", Varies, VerdictNoted, ocsfFinding, findingCreate, isLogged, low, "a protection that this host lacks", own, "`agentjail check` shows what the host lacks", ""},
	JailStart:         {"jail.start", rings.None, VerdictAllowed, ocsfLifecycle, lifeStart, isAllowed, informational, "the jail's first process was released", own, "", ""},
	JailExit:          {"jail.exit", rings.None, VerdictNoted, ocsfLifecycle, lifeStop, isLogged, informational, "the jail's first process ended", []string{SourceOwn, SourceEBPF}, "", ""},
	JailDelete:        {"jail.delete", rings.None, VerdictAllowed, ocsfLifecycle, lifeRemove, isAllowed, informational, "the jail was deleted, with all that was made for it", own, "", ""},
	JailReclaimed:     {"jail.reclaimed", rings.None, VerdictNoted, ocsfLifecycle, lifeRemove, isLogged, low, "what a crash left of the jail was removed", own, "", ""},
	JailUsed:          {"jail.used", rings.None, VerdictNoted, ocsfLifecycle, lifeOther, isLogged, informational, "the most that the jail had used when it was deleted", own, "", ""},
	JailTeardown:      {"jail.teardown", rings.None, VerdictNoted, ocsfLifecycle, lifeRemove, isLogged, informational, "what was made for the jail was looked for after its removal", own, "", ""},
	JailFiles:         {"jail.files", rings.None, VerdictNoted, ocsfFile, fileUpdate, isLogged, informational, "what was in the jail's layer when it was deleted", own, "", ""},
	JailMounted:       {"jail.mounted", rings.None, VerdictNoted, ocsfFile, fileUpdate, isLogged, informational, "what was changed in a mounted directory since the jail was made, by any process", own, "", ""},
	JailArrived:       {"jail.arrived", rings.None, VerdictNoted, ocsfFinding, findingCreate, isDetected, high, "what the host runs, or is led by, came or was changed in a mounted directory since the jail was made", own, "look at it before git, an editor or an agent runs there: `agentjail git DIR status`", ""},
	WorkspaceOpen:     {"workspace.open", rings.None, VerdictNoted, ocsfFile, fileOpen, isLogged, informational, "a view was opened", own, "", ""},
	WorkspaceApply:    {"workspace.apply", rings.None, VerdictNoted, ocsfFile, fileUpdate, isLogged, informational, "a view was applied", own, "", ""},
	WorkspaceDiscard:  {"workspace.discard", rings.None, VerdictNoted, ocsfFile, fileUpdate, isLogged, informational, "a view was discarded", own, "", ""},
	JailInspected:     {"jail.inspected", rings.None, VerdictNoted, ocsfFinding, findingCreate, isLogged, informational, "the running jail was held against its policy", own, "", ""},
	ProtectionBroken:  {"protection.broken", Varies, VerdictAlert, ocsfFinding, findingCreate, isAlert, critical, "a protection of the running jail did not hold", own, "delete the jail; `agentjail inspect` shows what is seen and what should be", ""},
	ProtectionLost:    {"protection.lost", rings.Access, VerdictAlert, ocsfFinding, findingCreate, isAlert, critical, "a program of the host's took away what kept a protected path from the running jail", own, "look at {path} before the host runs it, and delete the jail; policy: binds.lost = \"pause\"", ""},
	GitStale:          {"git.stale", rings.Access, VerdictNoted, ocsfFinding, findingCreate, isDetected, medium, "git could not replace tracked protected files: a commit from the jail can revert what another branch has of them", own, "compare the protected files of the jail's commits before they are merged; `git restore` on the host", ""},
	LimitsUpdate:      {"limits.update", rings.Resources, VerdictAllowed, ocsfConfig, configLog, isAllowed, informational, "the jail's limits were changed, within policy", own, "", ""},
	LimitsRefused:     {"limits.refused", rings.Resources, VerdictRefused, ocsfConfig, configLog, isBlocked, low, "other limits were requested than policy allows", own, "policy: limits", "limits"},

	// Programs.
	ExecStart:      {"exec.start", rings.None, VerdictAllowed, ocsfProcess, processLaunch, isAllowed, informational, "the engine ran a further program in the jail", own, "", ""},
	ExecRefused:    {"exec.refused", rings.Access, VerdictRefused, ocsfProcess, processLaunch, isBlocked, medium, "a further program was requested in a way that is refused", own, "see the reason", "hardening"},
	ProcessExec:    {"process.exec", rings.None, VerdictNoted, ocsfProcess, processLaunch, isLogged, informational, "a process of the jail executed a program", programs, "", ""},
	ProcessWritten: {"process.written", rings.Kernel, VerdictNoted, ocsfProcess, processLaunch, isDetected, medium, "a program was executed that had been written in the jail, outside its workspace", programs, "", ""},

	ProcessTraced: {"process.traced", rings.None, VerdictNoted, ocsfProcess, processOther, isLogged, low, "a process of the jail traced another of the same jail, or looked at its memory", programs, "", ""},

	// The network.
	NameAllowed:       {"name.allowed", rings.Resources, VerdictAllowed, ocsfDNS, dnsQuery, isAllowed, informational, "a name was requested that a rule allows", network, "", ""},
	NameRefused:       {"name.refused", rings.Resources, VerdictRefused, ocsfDNS, dnsQuery, isBlocked, medium, "a name was requested that no rule allows", network, "policy: network.allow = [\"{name}\"]", "network.allow"},
	ConnectAllowed:    {"connect.allowed", rings.Resources, VerdictAllowed, ocsfNetwork, netOpen, isAllowed, informational, "a connection to a name was made", network, "", ""},
	ConnectRefused:    {"connect.refused", rings.Resources, VerdictRefused, ocsfNetwork, netRefuse, isBlocked, medium, "a connection was refused", network, "policy: network.allow = [\"{name}:{port}\"]", "network.allow"},
	ConnectTried:      {"connect.tried", rings.None, VerdictNoted, ocsfNetwork, netOpen, isLogged, informational, "a process tried to connect a socket (agentjail-journal --connections)", programs, "", ""},
	ConnectBlocked:    {"connect.blocked", rings.Resources, VerdictRefused, ocsfNetwork, netRefuse, isBlocked, medium, "connecting a socket was refused", programs, "policy: ebpf.block without \"connect\"", "ebpf.block"},
	BindTried:         {"bind.tried", rings.None, VerdictNoted, ocsfNetwork, netListen, isLogged, informational, "a process tried to bind a socket (agentjail-journal --connections)", programs, "", ""},
	BindBlocked:       {"bind.blocked", rings.Resources, VerdictRefused, ocsfNetwork, netRefuse, isBlocked, medium, "binding a socket was refused", programs, "policy: ebpf.block without \"bind\"", "ebpf.block"},
	UnixBlocked:       {"unix.blocked", rings.Access, VerdictRefused, ocsfNetwork, netRefuse, isBlocked, medium, "connecting to a Unix socket of the host's was refused", programs, "policy: binds.sockets names it", "binds.sockets"},
	ConnectEnd:        {"connect.end", rings.Resources, VerdictNoted, ocsfNetwork, netClose, isLogged, informational, "a connection ended", network, "", ""},
	PublishAllowed:    {"publish.allowed", rings.Resources, VerdictAllowed, ocsfNetwork, netOpen, isAllowed, informational, "a client outside connected to a published port", network, "", ""},
	PublishRefused:    {"publish.refused", rings.Resources, VerdictRefused, ocsfNetwork, netRefuse, isBlocked, low, "a connection from outside was refused", network, "policy: network.publish", "network.publish"},
	CredentialUsed:    {"credential.used", rings.Access, VerdictAllowed, ocsfAuthorize, authorize, isAllowed, informational, "a credential was set in a request; its value is nowhere in the jail", network, "", ""},
	CredentialRefused: {"credential.refused", rings.Access, VerdictRefused, ocsfAuthorize, authorize, isBlocked, high, "a credential's placeholder was sent to another place than its own", network, "send it in the header of credentials.{credential} alone, to its hosts", "credentials.{credential}"},
	NetworkRules:      {"network.rules", rings.Resources, VerdictNoted, ocsfConfig, configLog, isLogged, low, "the network's rules were changed", own, "", ""},
	NetworkRestart:    {"network.restart", rings.Resources, VerdictNoted, ocsfConfig, configLog, isLogged, low, "the network's helper was started anew", own, "", ""},
	ApprovalAllowed:   {"approval.allowed", rings.Resources, VerdictAllowed, ocsfAuthorize, authorize, isAllowed, low, "a name without a rule was approved", own, "", ""},
	ApprovalDenied:    {"approval.denied", rings.Resources, VerdictRefused, ocsfAuthorize, authorize, isBlocked, low, "a name without a rule was denied", own, "agentjail network allow {jail} {name}:{port}", "network.approval"},

	// Ring 0: the kernel's surface.
	SyscallRefused: {"syscall.refused", rings.Kernel, VerdictRefused, ocsfKernel, kernelInvoke, isBlocked, low, "a system call was refused by the jail's filter", []string{SourceEBPF, SourceKernel}, "`agentjail seccomp show` has the profile's calls and their reasons; policy: seccomp.profile", "seccomp.profile"},
	SyscallKilled:  {"syscall.killed", rings.Kernel, VerdictRefused, ocsfKernel, kernelInvoke, isBlocked, high, "a process was killed for a system call", []string{SourceKernel, SourceEBPF}, "policy: seccomp.on_violation = \"errno\", or another seccomp.profile", "seccomp.on_violation"},
	ModuleRefused:  {"module.refused", rings.Kernel, VerdictRefused, ocsfModule, moduleLoad, isBlocked, high, "a call would have loaded a kernel module", programs, "", "eBPF: {target}"},
	ExecBlocked:    {"exec.blocked", rings.Kernel, VerdictRefused, ocsfProcess, processLaunch, isBlocked, medium, "executing a program was refused that had been written in the jail", programs, "policy: ebpf.block without \"exec\"; or run it from a mounted directory", "ebpf.block"},
	Ring0Passed:    {"ring0.passed", rings.Kernel, VerdictAlert, ocsfFinding, findingCreate, isBlocked, critical, "a call got through the jail's filters that they refuse, and was stopped behind them", programs, "stop the jail and look: a filter failed", "eBPF: {target}"},

	// Ring 1: access.
	PtraceRefused:  {"ptrace.refused", rings.Access, VerdictRefused, ocsfProcess, processOther, isBlocked, high, "tracing another process was refused", []string{SourceEBPF, SourceKernel}, "policy: seccomp.profile = \"debug\"", "eBPF: {target}"},
	TraceBlocked:   {"trace.blocked", rings.Access, VerdictRefused, ocsfProcess, processOther, isBlocked, medium, "tracing a process of the same jail was refused", programs, "policy: ebpf.block without \"trace\"", "ebpf.block"},
	LandlockDenied: {"landlock.denied", rings.Access, VerdictRefused, ocsfFile, fileOpen, isBlocked, medium, "Landlock refused access", []string{SourceKernel, SourceEBPF}, "the jail's Landlock domain follows from its profile: policy: seccomp.profile, binds", "the jail's Landlock domain"},
	ApparmorDenied: {"apparmor.denied", rings.Access, VerdictRefused, ocsfFile, fileOpen, isBlocked, medium, "AppArmor refused access", audit, "policy: apparmor.profile", "apparmor.profile"},
	SelinuxDenied:  {"selinux.denied", rings.Access, VerdictRefused, ocsfFile, fileOpen, isBlocked, medium, "SELinux refused access", audit, "label what is mounted (:z), or the module of hack/selinux", "process.selinuxLabel"},

	// Ring 2: limits.
	LimitOOM:    {"limit.oom", rings.Resources, VerdictLimit, ocsfFinding, findingCreate, isBlocked, high, "a process was killed for want of memory", cgroup, "policy: limits.memory, or the container's own --memory", "limits.memory"},
	LimitMemory: {"limit.memory", rings.Resources, VerdictLimit, ocsfFinding, findingCreate, isBlocked, low, "the jail's memory met its limit, and the kernel reclaimed some", cgroup, "policy: limits.memory, or the container's own --memory", "limits.memory"},
	LimitHigh:   {"limit.high", rings.Resources, VerdictLimit, ocsfFinding, findingCreate, isBlocked, low, "the jail was slowed down at memory.high", cgroup, "the container's own --memory-reservation", "memory.high"},
	LimitPids:   {"limit.pids", rings.Resources, VerdictLimit, ocsfFinding, findingCreate, isBlocked, medium, "a process or thread was not made: there were too many", cgroup, "policy: limits.pids, or the container's own --pids-limit", "limits.pids"},
	LimitCPU:    {"limit.cpu", rings.Resources, VerdictLimit, ocsfFinding, findingCreate, isBlocked, informational, "the jail waited for its share of the processors", cgroup, "policy: limits.cpus, or the container's own --cpus", "limits.cpus"},
	LimitLayer:  {"limit.layer", rings.Resources, VerdictLimit, ocsfFinding, findingCreate, isBlocked, medium, "the jail's layer is full: writing outside mounted directories fails with ENOSPC", layer, "policy: root.size", "root.size"},
	LimitInodes: {"limit.inodes", rings.Resources, VerdictLimit, ocsfFinding, findingCreate, isBlocked, medium, "the jail's layer has as many files as it may have: making one fails with ENOSPC", layer, "policy: root.inodes", "root.inodes"},

	// The journal.
	JournalLost:    {"journal.lost", rings.None, VerdictAlert, ocsfFinding, findingCreate, isDropped, medium, "events are missing: a source had more than it could keep", []string{SourceJournal, SourceNetwork, SourceEBPF}, "", ""},
	JournalTorn:    {"journal.torn", rings.None, VerdictAlert, ocsfFinding, findingCreate, isLogged, medium, "the line before was cut short: its writer was killed, or the file system was full", itself, "", ""},
	JournalKept:    {"journal.kept", rings.None, VerdictNoted, ocsfLifecycle, lifeOther, isLogged, informational, "a file of the jail's was kept beside the journal; Hash is its content's", own, "", ""},
	SourceAbsent:   {"source.absent", rings.None, VerdictNoted, ocsfLifecycle, lifeOther, isLogged, informational, "a source of events cannot be read, so that what only it sees is not here", itself, "", ""},
	JournalUnknown: {"journal.unknown", rings.None, VerdictAlert, ocsfFinding, findingCreate, isLogged, medium, "a line that cannot be decoded: of another version, or changed", itself, "", ""},
}

// Kinds returns all kinds in the order of the table.
func Kinds() []Kind {
	out := make([]Kind, 0, len(kinds)-1)
	for k := JailCreate; int(k) < len(kinds); k++ {
		out = append(out, k)
	}
	return out
}

// Lookup returns the kind of that name.
func Lookup(name string) (Kind, bool) {
	for k := JailCreate; int(k) < len(kinds); k++ {
		if kinds[k].Name == name {
			return k, true
		}
	}
	return 0, false
}

// Info returns the kind's row of the table; an empty one for a Kind that is none of the constants.
func (k Kind) Info() *KindInfo {
	if int(k) >= len(kinds) {
		k = 0
	}
	return &kinds[k]
}

// String returns the kind's name, as the journal has it.
func (k Kind) String() string { return k.Info().Name }

// MarshalText returns the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets the kind of that name. It is an error if there is none.
func (k *Kind) UnmarshalText(name []byte) error {
	found, ok := Lookup(string(name))
	if !ok {
		return fmt.Errorf("%.80q is no kind of event", name)
	}
	*k = found
	return nil
}
