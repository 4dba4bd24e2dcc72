package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// service is the runtime of the built-in policy whose jails' root keeps capabilities.
const service = "--runtime=agentjail-service"

// TestServiceMasks: the jail's root has policy's six capabilities of the bundle's, whatever else is requested; no other user
// has one, and an exec never more than its container.
func TestServiceMasks(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const status = "grep ^Cap /proc/self/status | tr -s '\\t\\n' ' '"
	sets := func(mask string) string {
		return "CapInh: 0000000000000000 CapPrm: " + mask + " CapEff: " + mask + " CapBnd: " + mask + " CapAmb: 0000000000000000"
	}
	const none, six, two = "0000000000000000", "00000000000000eb", "0000000000000081"
	for name, c := range map[string]struct {
		options         []string
		run, exec, root string // the first process, a privileged exec, and one as root
	}{
		"default runtime": {[]string{"--runtime=agentjail", "--privileged"}, none, none, none},
		"plain":           {nil, six, six, six},
		"privileged":      {[]string{"--privileged", "--cap-add=SYS_ADMIN", "--security-opt", "seccomp=unconfined"}, six, six, six},
		"none":            {[]string{"--cap-drop=ALL"}, none, none, none},
		"two":             {[]string{"--cap-drop=ALL", "--cap-add=CHOWN", "--cap-add=SETUID", "--cap-add=SYS_PTRACE"}, two, two, two},
		"another user":    {[]string{"-u", "1000", "--privileged"}, none, none, six},
		"a variable":      {[]string{"--runtime=agentjail", "-e", "AGENTJAIL_POLICY=service"}, none, none, none},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			args := append([]string{service}, c.options...)
			id := d.Detached(append(append(args, "--network", "none", "busybox"), "sh", "-c", status+"; sleep 3600")...)
			for what, got := range map[string][2]string{
				"run":         {strings.TrimSpace(d.Docker("exec", id, "sh", "-c", "cat /proc/1/status | grep ^Cap | tr -s '\\t\\n' ' '").Stdout), sets(c.run)},
				"exec":        {strings.TrimSpace(d.Docker("exec", "--privileged", id, "sh", "-c", status).Stdout), sets(c.exec)},
				"exec as 0":   {strings.TrimSpace(d.Docker("exec", "--privileged", "-u", "0", id, "sh", "-c", status).Stdout), sets(c.root)},
				"exec as 300": {strings.TrimSpace(d.Docker("exec", "--privileged", "-u", "300", id, "sh", "-c", status).Stdout), sets(none)},
			} {
				if got[0] != got[1] {
					t.Errorf("%s: %q, not %q", what, got[0], got[1])
				}
			}
		})
	}
	r := d.Docker("run", "--rm", "--runtime=agentjail", "--label", "dev.agentjail.process.capabilities=CHOWN", "busybox", "true")
	if r.Code == 0 || !strings.Contains(r.Stderr, "only the policy file sets this key") {
		t.Errorf("a label: %s", r)
	}
}

// onFiles is what a jail's root tries with files of others. Each line is an attempt, and nothing that it prints may differ from a default
// jail's: "no" or the content.
const onFiles = `
t() { name=$1; shift; if out=$("$@" 2>/dev/null); then echo "$name yes $out"; else echo "$name no"; fi; }
as() { setpriv --reuid=$1 --regid=$1 --clear-groups "${@:2}"; }
for d in /w /ro /root-ro; do
	for f in $d/stranger-secret $d/root-secret $d/strangers/inside $d/mixed; do
		t "read $f" cat $f; t "list $f" ls $f
		t "write $f" sh -c "echo x >>$f"; t "link $f" ln $f $d/linked; t "touch $f" touch -d 2001-01-01 $f
		t "chmod $f" chmod 777 $f
	done
	for f in $d/kept_*_0600 $d/kept_*_0644 $d/kept_*_0666 $d/acl_* $d/dir_*_0700 $d/dir_*_0777 $d/dir_*_0777/theirs; do
		t "chown $f" chown 0:0 $f; t "chgrp $f" chgrp 0 $f; t "chmod $f" chmod 666 $f; t "acl $f" setfacl -m u:0:rw $f; t "touch $f" touch -d 2001-01-01 $f
		t "write $f" sh -c "echo x >>$f"; t "truncate $f" truncate -s 0 $f; t "link $f" ln $f $d/linked; t "make in $f" mkdir $f/new
	done
	t "remove in" sh -c "rm -rf $d/dir_*/*"; t "move in" mv $d/own $d/dir_0_0_0777
	t "list $d/strangers" ls $d/strangers
	t "make in $d/strangers" mkdir $d/strangers/new
	t "protected $d" sh -c "echo x >>$d/.git/hooks/pre-commit"; t "protected config $d" sh -c "echo x >>$d/.git/config"
	t "unprotect $d" mv $d/.git $d/git; t "remove $d/.git" rm -rf $d/.git/hooks
	t "set-id $d" chmod u+s $d/own; t "set-group $d" chmod g+s $d/own; t "set-group dir $d" chmod g+s $d
done
`

// onOwn is what only a root with capabilities could do with the person's own files.
const onOwn = `
for u in 1 33 999 1000 1001 1234 65534; do
	chown $u:$u /w/own /w/open; chown -h $u /w/own; chown -R $u:$u /w; chgrp $u /w/own
	setpriv --reuid=$u --regid=$u --clear-groups sh -c 'echo x >/w/open/of-'$u'; mkdir /w/open/d-'$u'; cp /w/own /w/open/c-'$u
	setpriv --reuid=$u --regid=$u --groups=0,$u,1000,1234 sh -c '
		cat /w/stranger-secret /w/root-secret /w/kept_*0600 && echo REACHED; for d in /w/dir_*; do : >$d/x && echo REACHED; done; echo x >/w/open/g-'$u
	chown $u /tmp; echo x >/tmp/f; chown $u:$u /tmp/f; mv /tmp/f /w/moved-$u; cp -a /tmp/f /w/copied-$u; install -o $u -g $u /etc/passwd /w/installed-$u
	chown $u:$u /etc/hostname; tar -C / -cf - etc/hostname | tar -C /w -xpf -
done
rm -rf /w/moved-* /w/copied-* /w/installed-* /w/etc
true`

// TestServiceFiles: all six capabilities reach no file of others in a person's directory, and each file there keeps owner, group and
// bits; so in a read-only mount, one of root's, and a view.
func TestServiceFiles(t *testing.T) {
	needAgentjail(t)
	env.Check(t, docker.ImportWork())
	d := d(t)
	make := func() (dir, roots string) {
		dir, roots = directory(t, 1000), directory(t, 0)
		for _, at := range []string{dir, roots} {
			top := at == dir
			put := func(name string, mode os.FileMode, uid, gid int) {
				path := filepath.Join(at, name)
				env.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
				env.Check(t, os.WriteFile(path, []byte(name+"\n"), 0o600))
				env.Check(t, os.Lchown(path, uid, gid))
				env.Check(t, os.Chmod(path, mode))
			}
			own := 0
			if top {
				own = 1000
			}
			put("own", 0o640, own, own)
			put("stranger-secret", 0o600, 1234, 1234)
			put("root-secret", 0o600, 0, 0)
			put("mixed", 0o060, 1234, own)
			put("strangers/inside", 0o644, 1234, 1234)
			put(".git/HEAD", 0o644, own, own)
			put(".git/config", 0o644, own, own)
			put(".git/hooks/pre-commit", 0o755, own, own)
			env.Check(t, os.Mkdir(filepath.Join(at, "open"), 0o755))
			env.Check(t, os.Chmod(filepath.Join(at, "open"), 0o777))
			if top {
				engine.Others(t, at)
			}
			for name, mode := range map[string]os.FileMode{"strangers": 0o700, ".git": 0o755, ".git/hooks": 0o755, "open": 0o777} {
				uid := own
				if name == "strangers" {
					uid = 1234
				}
				env.Check(t, os.Lchown(filepath.Join(at, name), uid, uid))
				env.Check(t, os.Chmod(filepath.Join(at, name), mode))
			}
		}
		return dir, roots
	}
	// A walk: what there is, whose, with which bits, how long and since when.
	walk := func(dir string) (out []string) {
		env.Check(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			who, mode := owner(t, path)
			line := strings.TrimPrefix(path, dir) + " " + who + " " + mode.String()
			if info, _ := os.Lstat(path); mode.IsRegular() {
				line += fmt.Sprint(" ", info.Size(), info.ModTime().UnixNano(), info.Sys().(*syscall.Stat_t).Nlink)
			}
			out = append(out, line)
			return err
		}))
		return out
	}
	if promise.Sandbox() != "" {
		dir, _ := make()
		r := d.Docker("run", "--rm", service, "-v", dir+":/w", engine.Work, "true")
		if r.Code == 0 || !strings.Contains(r.Stderr, "chown there would return success and change nothing") {
			t.Errorf("a person's directory in a sandbox: %s", r)
		}
		d.Must("run", "--rm", service, "-v", dir+":/w:ro", engine.Work, "true")
		return
	}
	tried := map[string]string{}
	for _, runtime := range []string{jail, service} {
		dir, roots := make()
		before := walk(dir)
		r := d.Docker("run", "--rm", runtime, "--privileged", "--network", "none", "-v", dir+":/w", "-v", dir+":/ro:ro", "-v", roots+":/root-ro:ro", engine.Work, "bash", "-c", onFiles)
		if r.Code != 0 {
			t.Fatal(r)
		}
		tried[runtime] = r.Stdout
		if after := walk(dir); !slices.Equal(before, after) {
			t.Errorf("%s: the directory was\n%s\nand is\n%s", runtime, strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
		// What the directory's owner may do with them, and no more.
		engine.CheckOthers(t, d.Must("run", "--rm", runtime, "--privileged", "--network", "none", "-v", dir+":/w", "-w", "/w", engine.Work, "sh", "-c", engine.OthersScript), "direct")
	}
	if tried[service] != tried[jail] || strings.Count(tried[jail], "\n") < 100 {
		t.Errorf("by the jail's root with capabilities\n%s\nand without\n%s", tried[service], tried[jail])
	}
	for _, view := range []bool{false, true} {
		dir, _ := make()
		before := walk(dir)
		args := []string{"run", "--rm", service, "--privileged", "--network", "none", "-v", dir + ":/w"}
		if view {
			args = append(args, "--label", promise.ViewAnnotations[0], "--label", promise.ViewAnnotations[1])
		}
		if out := d.Must(append(args, engine.Work, "bash", "-c", onOwn)...); out != "" {
			t.Errorf("view %v: a user of the jail's: %s", view, out)
		}
		if after := walk(dir); !slices.Equal(before, after) {
			t.Errorf("view %v: the directory was\n%s\nand is\n%s", view, strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
		if !view {
			continue
		}
		views, _ := ownVerb(t, "workspace", "list", "--json")
		var id string
		for _, v := range env.Decode[struct {
			Views []struct{ ID, Directory string }
		}](d, views).Views {
			if v.Directory == dir {
				id = v.ID
			}
		}
		t.Cleanup(func() { ownVerb(t, "workspace", "discard", id) })
		out, code := ownVerb(t, "workspace", "apply", id)
		if after := walk(dir); code != 0 || !slices.Equal(before, after) {
			t.Errorf("apply ends with %d: %s\nthe directory was\n%s\nand is\n%s", code, out, strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
	}
}

// TestServiceJoins: jails of different policies do not meet in one user namespace; one that joins a jail with fewer has as few.
func TestServiceJoins(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const status = "grep CapBnd /proc/self/status | tr -s '\\t' ' '"
	plain := d.Detached(jail, "--network", "none", "busybox", "sleep", "3600")
	serves := d.Detached(service, "--network", "none", "--ipc", "shareable", "busybox", "sleep", "3600")
	less := d.Detached(service, "--network", "none", "--cap-drop=ALL", "--cap-add=KILL", "busybox", "sleep", "3600")
	for _, c := range []struct{ runtime, joins, says string }{
		{service, plain, "CapBnd: 0000000000000000"},
		{service, serves, "CapBnd: 00000000000000eb"},
		{service, less, "CapBnd: 0000000000000020"},
		{jail, plain, "CapBnd: 0000000000000000"},
		{jail, serves, "its policy has not"},
		{jail, less, "its policy has not"},
	} {
		for _, option := range []string{"--pid=container:", "--network=container:"} {
			r := d.Docker("run", "--rm", c.runtime, option+c.joins, "busybox", "sh", "-c", status)
			if got := r.Stdout + r.Stderr; !strings.Contains(got, c.says) {
				t.Errorf("%s %s: %s, not %s", c.runtime, option, r, c.says)
			}
		}
	}
	r := d.Docker("run", "--rm", jail, "--ipc=container:"+serves, "busybox", "true")
	if r.Code == 0 || !strings.Contains(r.Stderr, "its policy has not") {
		t.Errorf("--ipc: %s", r)
	}
}

// TestServiceSetGID: set-group-ID bits pass where nothing of the host's is behind a mount, and set-user-ID bits nowhere. A jail that
// mounts something does not join one where they pass.
func TestServiceSetGID(t *testing.T) {
	needAgentjail(t)
	env.Check(t, docker.ImportWork())
	d := d(t)
	if promise.Sandbox() != "" {
		t.Skip("a sandbox joins no namespaces, and its filters are the guest kernel's")
	}
	const script = `mkdir /tmp/d; touch /tmp/f
for c in "chmod g+s /tmp/d" "chmod g+s /tmp/f" "install -m 2775 -d /tmp/e" "chmod u+s /tmp/f" "chmod 6755 /tmp/f" "install -m 4755 /bin/true /tmp/g"; do
	$c 2>/dev/null && echo yes || echo no
done`
	const passes, refuses = "yes yes yes no no no", "no no no no no no"
	dir := directory(t, 1000)
	d.Cleanup(func() { d.Docker("volume", "rm", "-f", "e2e-service-setgid") })
	alone := d.Detached(service, "--network", "none", engine.Work, "sleep", "3600")
	for name, c := range map[string]struct {
		options []string
		want    string
	}{
		"nothing":            {[]string{"--tmpfs", "/x"}, passes},
		"a directory":        {[]string{"-v", dir + ":/w"}, refuses},
		"one read-only":      {[]string{"-v", dir + ":/w:ro"}, refuses},
		"a file":             {[]string{"-v", dir + "/hello:/hello"}, refuses},
		"a volume":           {[]string{"-v", "e2e-service-setgid:/v"}, refuses},
		"an unnamed volume":  {[]string{"-v", "/v"}, refuses},
		"memory of others":   {[]string{"--ipc", "shareable"}, refuses},
		"joined":             {[]string{"--network", "container:" + alone}, refuses},
		"the default policy": {[]string{"--runtime=agentjail"}, refuses},
		"privileged":         {[]string{"--privileged", "--security-opt", "seccomp=unconfined", "-v", dir + ":/w"}, refuses},
	} {
		r := d.Docker(append(append([]string{"run", "--rm", service}, c.options...), engine.Work, "sh", "-c", script)...)
		if got := strings.Join(strings.Fields(r.Stdout), " "); got != c.want {
			t.Errorf("%s: %s, not %s", name, r, c.want)
		}
	}
	if got := strings.Join(strings.Fields(d.Must("exec", "--privileged", alone, "sh", "-c", script)), " "); got != passes {
		t.Errorf("an exec: %s", got)
	}
	for _, option := range []string{"--network", "--pid"} {
		r := d.Docker("run", "--rm", service, option, "container:"+alone, "-v", dir+":/w", engine.Work, "true")
		if r.Code == 0 || !strings.Contains(r.Stderr, "may set set-group-ID bits") {
			t.Errorf("%s: a jail with a directory joins one where they pass: %s", option, r)
		}
	}
	if out, code := ownVerb(t, "inspect", alone); code != 0 || strings.Contains(out, "BROKEN") {
		t.Errorf("inspect: %d\n%s", code, out)
	}
	if out, code := ownVerb(t, "seccomp", "prove", "--jail", alone); code != 0 || !strings.Contains(out, "no set-user-ID bit passes") {
		t.Errorf("prove: %d\n%s", code, out)
	}
}

// TestServiceReports: explain under the runtime's name, inspect and the receipt list what the jail's root keeps.
func TestServiceReports(t *testing.T) {
	needAgentjail(t)
	under := env.Get(t, engine.UnderTest)
	link := filepath.Join(t.TempDir(), "agentjail-service")
	env.Check(t, os.Symlink(under, link))
	b := engine.NewBundle(t, docker.Dir)
	b.Spec.Process.Capabilities = &specs.LinuxCapabilities{Bounding: []string{"CAP_CHOWN", "CAP_SETUID", "CAP_SYS_ADMIN"}}
	for program, keeps := range map[string]string{under: "none", link: "CAP_CHOWN, CAP_SETUID"} {
		text, said, err := b.Call(t, engine.Caller{Path: program, Args: []string{"--root", filepath.Join(b.Dir, "state")}}, "explain", b.Dir)
		env.Contain(t, "explain", text, "denied   process.capabilities: CAP_SYS_ADMIN -> "+keeps+" (")
		if err != nil {
			t.Error(err, said)
		}
	}
	id := d(t).Detached(service, "--cap-drop=ALL", "--cap-add=CHOWN", "--cap-add=SETUID", "--cap-add=SYS_ADMIN", engine.Busybox, "sleep", "3600")
	for verb, want := range map[string]string{"inspect": "CAP_CHOWN", "receipt": "capabilities          CHOWN, SETUID"} {
		text, code := ownVerb(t, verb, id)
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("%s: %d\n%s", verb, code, text)
		}
	}
}

// installs has apt install what /debs holds, and the servers serve by their own scripts. It prints whose what it made is, with which bits.
const installs = `set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qy --no-install-recommends install /debs/*.deb >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
find /etc /run /usr /var -newer /debs -printf '%p %U:%G %m %y\n' | grep -v '/__pycache__\|^/etc/ssl\|^/etc/apt/\|^/etc/g\?shadow\|^/var/lib/apt\|^/var/log/apt\|^/var/cache' | sort
service redis-server start >/dev/null
service postgresql start >/dev/null
until redis-cli set a b; do sleep 0.1; done 2>/dev/null
runuser -u postgres -- psql -Atc 'select 6*7'
stat -c %U /proc/$(pidof redis-server) /proc/$(head -1 /var/lib/postgresql/15/main/postmaster.pid)`

// TestServiceInstall: apt-get install of servers does in a jail without a directory of the host's what it does over runc, and they serve as
// their own users. One bit differs: the kernel drops set-group-ID of a group that is not root's own, without an error (CAP_FSETID).
func TestServiceInstall(t *testing.T) {
	needAgentjail(t)
	if promise.Sandbox() != "" {
		t.Skip("set-group-ID bits are the guest kernel's")
	}
	debs, err := engine.Debs("redis-server", "postgresql")
	env.Check(t, err)
	env.Check(t, docker.ImportStock())
	d := d(t)
	setGID := regexp.MustCompile(` 2(\d{3} d\n)`)
	var runc string
	for _, runtime := range []string{"--runtime=runc", service} {
		id := d.Created(runtime, "--network", "none", engine.Stock, "bash", "-c", installs)
		d.Must("cp", debs, id+":/debs")
		out := d.Must("start", "-a", id)
		if !strings.HasSuffix(out, "OK\n42\nredis\npostgres") || setGID.MatchString(out) != (runc == "") {
			t.Fatalf("%s: %s", runtime, out)
		}
		out = setGID.ReplaceAllString(out, " $1")
		if runc == "" {
			runc = out
		}
		if out != runc {
			t.Errorf("over runc\n%s\nand in a jail\n%s", runc, out)
		}
	}
}

// countsByUser has users that a jail's root becomes, one after the other, take what the kernel counts by user, and hold it. It prints how
// many of each the first user got, and all together.
const countsByUser = `
import ctypes, fcntl, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def most(take):
    n = 0
    while n < 100000 and take(): n += 1
    return n
def pipe():
    r, w = os.pipe()
    try: fcntl.fcntl(w, 1031, 1 << 20)
    except OSError: os.close(r); os.close(w); return False
    return True
kinds = [lambda: libc.inotify_init() >= 0, pipe]
first, every = None, [0, 0]
for uid in range(1000, 1040):
    r, w = os.pipe()
    if os.fork() == 0:
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
        os.write(w, " ".join(str(most(k)) for k in kinds).encode()); libc.pause()
    got = [int(n) for n in os.read(r, 99).split()]
    first = first or got
    every = [a + b for a, b in zip(every, got)]
print(*first, *every)
`

// TestServiceCounts: 40 users of a jail have as many inotify instances as one. Of pipes' sizes, which the kernel counts by user of the host
// alone, each has as much; the memory behind them is the jail's (docs/host-limits.md).
func TestServiceCounts(t *testing.T) {
	needAgentjail(t)
	if promise.Sandbox() != "" {
		t.Skip("the guest kernel counts")
	}
	env.Check(t, docker.ImportWork())
	d := d(t)
	out := d.Must("run", "--rm", service, engine.Work, "python3", "-c", countsByUser)
	t.Logf("inotify and large pipes of one user, and of 40: %s", out)
	n := strings.Fields(out)
	if len(n) != 4 || n[0] != n[2] || n[1] == n[3] {
		t.Errorf("of one user and of 40: %s", out)
	}
}
