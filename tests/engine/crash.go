package engine

// HookCrashPoints are those of a start that uses the engine's network.
var HookCrashPoints = []string{"start.engine"}

// CrashPoints are the named steps of each verb, in order, at which a build with the tag crashtest can end.
var CrashPoints = []struct{ Verb, Point string }{
	{"create", "create.claimed"},
	{"create", "create.ids"},
	{"create", "create.userns"},
	{"create", "create.staged"},
	{"create", "create.changes"},
	{"create", "create.attached"},
	{"create", "create.delegated"},
	{"create", "create.settled"},
	{"start", "start.sealed"},
	{"exec", "exec.written"},
	{"delete", "delete.delegated"},
	{"delete", "delete.released"},
}

// ReviewCrashPoints are those of jails with a view of a mounted directory: of create, then of delete.
var ReviewCrashPoints = []struct{ Verb, Point string }{
	{"create", "workspace.directory"},
	{"create", "workspace.template"},
	{"create", "workspace.image"},
	{"create", "workspace.recorded"},
	{"create", "workspace.made"},
	{"create", "workspace.open"},
	{"create", "create.review"},
	{"delete", "workspace.synced"},
	{"delete", "workspace.unmarked"},
}

// DiskCrashPoints are those of jails with a root on disk alone, of create.
var DiskCrashPoints = []struct{ Verb, Point string }{{"create", "create.layer"}, {"create", "create.mounted"}}

// HelperCrashPoints are those of jails with a helper alone: of its start, and of `network reload`.
var HelperCrashPoints = []string{"create.helping", "create.helped", "create.placing", "start.helping", "start.served", "reload.narrowed", "reload.sent"}
