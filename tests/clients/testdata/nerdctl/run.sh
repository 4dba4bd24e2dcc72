# nerdctl over containerd, with its own networks (CNI), name store and logger. $CONTAINERD is the socket.
. ./lib.sh
# nerdctl cannot read Debian's version of containerd, and forwards signals to what has ended. It says so now and then, at any step.
step() {
	echo "== $1"
	shift
	code=0
	"$@" >step.out 2>&1 || code=$?
	grep -v -e 'failed to parse the containerd version' -e 'forward signal child exited' step.out
	echo "exit $code"
}
n() { nerdctl --address "$CONTAINERD" --namespace default --cni-netconfpath "$HOME/cni" --cni-path /usr/lib/cni --cgroup-manager cgroupfs "$@"; }
run() { n run --runtime "$RUNTIME" --net none --pull never "$@"; }
said() { n logs "$1" 2>&1 | grep "$2"; }
timeless() { "$@" >log 2>&1; code=$?; sed 's/^time="[^"]*" //' log; return $code; }
# until_output TEXT COMMAND... runs a command up to five times while its output lacks what it says last: nerdctl closes its end when it has deleted a
# task or an exec, whether it has read what is there or not (Delete of containerd's client).
until_output() {
	text=$1
	shift
	for _ in 1 2 3 4 5; do
		code=0
		"$@" >step.stdout 2>step.stderr || code=$?
		if grep -q -e "$text" step.stdout step.stderr; then break; fi
	done
	cat step.stdout step.stderr
	return $code
}
# typed is the input of a new container. It ends once that runs: nerdctl 2.1 forgets an end that comes before (nerdctl#5029).
typed() {
	rm -f work/up
	{
		echo typed
		for _ in $(seq 600); do [ ! -e work/up ] || break; sleep 0.1; done
	} | run --rm -i -v "$PWD/work:/work" busybox sh -c 'touch /work/up; exec cat'
	code=$?
	rm -f work/up
	return $code
}
typed_in() { echo typed | n exec -i app cat; }
step "run" until_output said run --rm busybox echo said
step "an exit code" timeless until_output 'on standard error' run --rm busybox sh -c 'echo on standard error >&2; exit 3'
step "standard input" until_output typed typed
step "in the background" quiet run -d --name app -h app -e GREETING=hello -u 1000 -w /tmp --tmpfs /scratch -v "$PWD/work:/work" --memory 64m --pids-limit 100 busybox \
	sh -c 'echo app is up; id -u; hostname; pwd; echo $GREETING; echo made > /work/made; exec sleep 3600'
step "its log" await said app hello
step "the whole log" n logs app
step "the workspace" sh -c 'cat work/made; stat -c %u work/made'
step "exec" timeless until_output 'from the host' n exec app sh -c 'id -u; cat /work/hello; exit 4'
step "exec as root" until_output 0 n exec -u 0 app id -u
step "exec with input" until_output typed typed_in
step "what runs" n ps --format '{{.Names}} {{.Image}}'
step "its state" n inspect -f '{{.State.Status}}' app
step "copy in" quiet n cp work/hello app:/tmp/in
step "read it" until_output 'from the host' n exec app cat /tmp/in
step "copy out" sh -c "nerdctl --address $CONTAINERD --namespace default cp app:/tmp/in out && cat out"
step "processes" sh -c "nerdctl --address $CONTAINERD --namespace default top app | awk 'NR > 1 { print \$NF }' | sort"
step "pause" n pause app
step "unpause" n unpause app
step "stop" n stop -t 0 app
step "start" n start app
step "exec after it" until_output here n exec app echo here
step "kill" quiet n kill app
step "wait" n wait app
step "remove" quiet n rm -f app
# runc itself, on a busy machine, now and then ends without the reason in its log.
unknown() {
	for _ in 1 2 3; do
		n rm -f none >/dev/null 2>&1
		said=$(run --name none busybox no-such-program 2>&1)
		if echo "$said" | grep -o 'executable file not found' | head -n 1 | grep .; then return 0; fi
	done
	echo "$said"
}
step "a program that is not there" unknown
step "it goes" n rm -f none
step "what is left" n ps -aq
