# What the clients' scripts share.

# step NAME COMMAND... runs a command and shows all that it prints and how it ends.
step() {
	echo "== $1"
	shift
	code=0
	"$@" 2>&1 || code=$?
	echo "exit $code"
}

# await COMMAND... runs a command until it succeeds, for half a minute.
await() {
	for _ in $(seq 150); do
		if "$@" 2>&1; then return 0; fi
		sleep 0.2 # between two tries; nothing relies on its length
	done
	echo "never: $*"
	return 1
}

# quiet COMMAND... runs a command whose output is progress: it is shown if the command fails.
quiet() {
	if said=$("$@" 2>&1); then return 0; else code=$?; echo "$said"; return $code; fi
}
