package refusal

// The codes. Before the dot is the part of the bundle, or the request, that is refused.
const (
	Spec       Code = "spec.invalid"
	Root       Code = "root.place"
	Privilege  Code = "privilege"
	Build      Code = "build.step"
	Arguments  Code = "process.args"
	User       Code = "process.user"
	Cwd        Code = "process.cwd"
	Init       Code = "process.init"
	Rlimit     Code = "process.rlimits"
	Least      Code = "limits.least"
	Namespace  Code = "namespaces"
	Network    Code = "network.mode"
	Hostname   Code = "hostname"
	CgroupPath Code = "cgroup.path"
	MountCount Code = "mount.count"
	MountPlace Code = "mount.place"
	MountType  Code = "mount.type"
	MountMoved Code = "mount.changed"
	BindSource Code = "bind.source"
	BindSocket Code = "bind.socket"
	BindDevice Code = "bind.device"
	BindLink   Code = "bind.link"
	BindSystem Code = "bind.system"
	BindEngine Code = "bind.engine"
	BindUsers  Code = "bind.users"
	BindRoots  Code = "bind.root"
	BindPod    Code = "bind.hostpath"
	BindSetID  Code = "bind.setid"
	BindSearch Code = "bind.search"
	LSM        Code = "lsm.required"
	Landlock   Code = "landlock.required"
	Label      Code = "selinux.label"
	Filter     Code = "seccomp.filter"
	Exec       Code = "exec"
	Verb       Code = "verb"
	Log        Code = "log.uri"
	Delegate   Code = "delegate"
	EBPF       Code = "ebpf.required"
	Boundary   Code = "boundary"
	Git        Code = "git"
	Annotation Code = "annotation"
	Journal    Code = "journal.required"
	Project    Code = "policy.project"
	Workspace  Code = "workspace"
)

// Codes lists every code with its meaning, in the order of a bundle's path.
var Codes = []struct {
	Code    Code
	Meaning string
}{
	{Spec, "config.json is not that of a Linux container, or lacks what a container needs"},
	{Root, "root.path is a directory of the host, not an image"},
	{Build, "the bundle is a step of an image's build, which is to keep what it changes"},
	{Privilege, "the bundle requests a privilege that policy does not grant, and on_loosen is \"refuse\""},
	{Arguments, "the process has no program"},
	{User, "the process's user or group is outside the jail's ids"},
	{Cwd, "the working directory leads, or could lead, out of the jail"},
	{Init, "the jail's system call filter refuses what an init needs"},
	{Rlimit, "a resource limit is unknown, or named twice"},
	{Least, "a limit is below the least with which a jail starts"},
	{Namespace, "the namespaces to join are not those of one jail, or of an unknown kind"},
	{Network, "the network mode, of the policy or of a jail to join, is none of this version's"},
	{Hostname, "the host name is longer than the kernel takes"},
	{CgroupPath, "the control group is the root group, or leads out of its place"},
	{MountCount, "there are more mounts than policy allows"},
	{MountPlace, "the place of a mount is the jail's own, or not a clean path"},
	{MountType, "the file system is not for jails"},
	{MountMoved, "something on a mount's way was replaced while the jail was being made"},
	{BindSource, "the source of a mount cannot be known"},
	{BindSocket, "the source is a socket, whose listener would act for the jail"},
	{BindDevice, "the source is neither a file nor a directory"},
	{BindLink, "the source is a symbolic link that leads out of its directory"},
	{BindSystem, "the source is a part of the host's system"},
	{BindEngine, "the source is in an engine's storage"},
	{BindUsers, "the source is what programs of a user's, or the user's secrets, depend on"},
	{BindRoots, "the source belongs to the host's root, and would be writable"},
	{BindPod, "a pod's author chose a directory of the node, to write to"},
	{BindSetID, "the source holds set-id programs that the jail could change"},
	{BindSearch, "the source cannot be searched as a whole for what the host runs of it"},
	{LSM, "policy requires AppArmor or SELinux, and the kernel confines with neither"},
	{Landlock, "policy, or the profile, requires Landlock, and the kernel's is too old"},
	{Label, "the SELinux label is not one"},
	{Filter, "the bundle's own seccomp filter cannot be understood"},
	{Exec, "a further process is requested that would be outside the jail's limits"},
	{Verb, "the verb is not for jails"},
	{Log, "a log URI names a program or a file that policy does not list"},
	{EBPF, "policy blocks something by eBPF programs (ebpf.block), and none block it here"},
	{Boundary, "policy requires, or the bundle requests, what a sandbox with a kernel of its own cannot hold"},
	{Git, "agentjail git: the repository leads out of its directory, or the command needs what the jail has not"},
	{Annotation, "an annotation in agentjail's name is unknown, or has a value that the jail cannot have"},
	{Workspace, "a view of a directory cannot be made, or is in use"},
	{Journal, "the journal, which policy requires, cannot be written"},
	{Project, "a project's own policy is wrong, or permits more"},
	{Delegate, "runc or crun did not apply the configuration"},
}
