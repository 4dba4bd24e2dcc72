package docs

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// hostPolicy is the host's while the plays run. RUNSC is gVisor's.
const hostPolicy = `workspace.size = "32MiB"
workspace.files = 4000
[policies.strict]
seccomp.profile = "strict"
[policies.build]
root.backing = "disk"
[policies.gvisor]
delegate = "RUNSC"
`

// plays run what no other suite does. In commands ID, IMAGE and so on stand for what the play's stage has.
var plays = []play{
	// docs/workspace.md, in its order. ID is the view without a name.
	{"views", views, []row{ // 1 reports changes, or that something was left out
		{"agentjail sandbox --workspace . --review --view fix -- make", 0, "in view ", ""},
		{"agentjail workspace diff fix", 1, "A new", ""},
		{"agentjail workspace apply fix", 0, "new", ""},
		{"agentjail workspace discard fix", 0, "discarded", ""},
		{"agentjail sandbox --workspace . --review -- make", 0, "in view ", ""},
		{"agentjail workspace list", 0, "ID", ""},
		{"agentjail workspace diff ID", 1, "M src/a", ""},
		{"agentjail workspace diff ID -p src", 1, "+more", ""},
		{"agentjail workspace export ID > changes.patch", 0, "Commits come out as patches", ""},
		{"agentjail git --view ID . format-patch --stdout BASE.. > commits.patch", 0, "", ""},
		{"agentjail workspace apply ID [PATH...]", 0, "src/a", ""},
		{"agentjail workspace discard ID", 0, "discarded", ""},
		{"agentjail workspace discard --expired", 0, "", ""},
	}},
	{"host", host, []row{
		{"agentjail check", 0, "jails can start on this host", ""},
		{"agentjail check -v", 0, "ok ", ""},
		{"agentjail home list", 0, "AGENT", ""},
		{"agentjail --version", 0, "agentjail version", ""},
		{"agentjail why --seccomp-profile default mount", 1, "refused, ENOSYS", ""},
		{"agentjail why --seccomp-profile strict openat2", 1, "profile strict", ""},
		{"agentjail policy validate /etc/agentjail/config.toml", 0, "is valid", ""},
		{"agentjail policy show --policy strict", 0, "policy strict", ""},
		{"agentjail policy show --workspace DIR", 0, ".agentjail.toml", ""},
		{"agentjail policy schema >agentjail.schema.json", 0, "limits", "% && cat agentjail.schema.json"},
		{"agentjail seccomp prove debug", 0, "holds", ""},
		{"agentjail list", 0, "ID", ""},
		{"agentjail gc", 0, "", ""},
		{"agentjail explain BUNDLE", 0, "set", ""},
		{"agentjail explain --json", 0, "{", "% BUNDLE"},
		{"agentjail run", 0, "profile default", "% --bundle BUNDLE docs-run"},
		{"agentjail start", 0, "profile default", "agentjail create --bundle BUNDLE docs-start && % docs-start && agentjail delete --force docs-start"},
		{"agentjail-journal probe", 0, "", ""},
		{"agentjail-journal", until, "programs act on", "unshare --mount sh -ec 'mount -t bpf bpf /sys/fs/bpf; %'"},
		{"agentjail-journal --syscalls", until, "programs act on", "unshare --mount sh -ec 'mount -t bpf bpf /sys/fs/bpf; %'"},
		{"agentjail-journal unload", 0, "", ""},
		{"sysctl -w net.ipv4.neigh.default.gc_thresh1=65536 net.ipv4.neigh.default.gc_thresh2=98304 net.ipv4.neigh.default.gc_thresh3=131072", 0, "gc_thresh3 = 131072", "% --dry-run"},
		{"install -m 755 bin/* /usr/local/bin/", 0, "agentjail version", "cp -r BIN bin; unshare --mount sh -ec 'mount -t tmpfs none /usr/local/bin; %; /usr/local/bin/agentjail --version'"},
		{"install -m 755 bin/* /usr/local/bin/ && sudo ln -sf agentjail /usr/local/bin/agentjail-net", 0, "agentjail version", "unshare --mount sh -ec 'mount -t tmpfs none /usr/local/bin; %; /usr/local/bin/agentjail-net --version'"},
	}},
	// A jail of Docker's with a network by name.
	{"jail", jail, []row{
		{"docker exec ID true", 0, "", ""},
		{"docker cp ID:DIR -", 0, "hostname", "docker cp ID:/etc - | tar -t"},
		{"agentjail diff ID", 0, "C /etc", ""},
		{"agentjail export ID", 0, "etc/", "% | tar -t"},
		{"agentjail export ID | docker import -", 0, "sha256:", ""},
		{"agentjail export --bundle ID DIR", 0, "not in the bundle", ""},
		{"agentjail inspect ID", 0, "held by:", ""},
		{"agentjail ps", 0, "sleep", "% ID"},
		{"agentjail resume", 0, "", "agentjail pause ID && % ID"},
		{"agentjail network check ID NAME[:PORT]", 0, "allowed: pypi.org port 443", ""},
		{"agentjail network log ID [-f] [--json]", 0, "", ""},
		{"agentjail network reload [ID | --all]", 0, "1 entries in force", "agentjail network reload --all"},
		{"agentjail network reload ID", 0, "1 entries in force", ""},
		{"agentjail network pending ID", 0, "", ""},
		{"agentjail network allow ID files.example.org:443 --for 1h", 0, "allowed for 1h0m0s", ""},
		{"agentjail network deny ID files.example.org:443", 0, "denied until the jail's end", ""},
		{"agentjail network restart ID [--force]", 0, "", "agentjail network restart ID --force"},
		{"agentjail why ID 'socket(AF_VSOCK)'", 1, "refused", ""},
		{"agentjail why ID /work/.git/hooks", 1, "EROFS", ""},
		{"agentjail why ID pypi.org:443", 0, "passes", ""},
		{"agentjail why ID \"fork: Resource temporarily unavailable\"", 1, "limits.pids", ""},
		{"agentjail why ID CALL", 1, "refused", ""},
		{"agentjail denied ID", 0, "privilege.denied", ""},
		{"agentjail watch", until, "exec.start", "(while docker exec ID true; do :; done) & %"},
		{"agentjail watch --command", until, "exec.start", "(while docker exec ID true; do :; done) & %"},
		{"agentjail watch --to otlp:http://HOST:4318", until, "POST ", "unshare --net sh -c 'ip link set lo up; python3 -um http.server 4318 & (while docker exec ID true; do :; done) & %'"},
		{"agentjail receipt ID", 0, "running", ""},
		{"agentjail receipt --json ID", 0, "agentjail.receipt/1", "% | tee receipt.json"},
		{"agentjail receipt --against FILE ID", 0, "follows from the journal", ""},
		{"agentjail receipt --html run.html ID", 0, "<html", "% && cat run.html"},
		{"agentjail receipt --verify ID", 0, "journal verified", ""},
		{"agentjail receipt --sign ID", 0, "", "% >receipt.json"},
		{"agentjail receipt --verify --against FILE [--key PUB] [ID]", 0, "is signed by", ""},
		{"agentjail seccomp prove --jail ID", 0, "2 filters", ""},
		{"agentjail learn --name agent --from ID --from ID", until, "watching", ""},
	}},
	{"sandbox", project, []row{
		{"agentjail sandbox --workspace . -- make test", 0, "echo tested", ""},
		{"agentjail sandbox --boundary gvisor -- make test", 0, "echo tested", "agentjail sandbox --boundary gvisor --workspace . -- make test"},
		{"agentjail sandbox --allow @pypi --allow files.example.org -- pip download six", 0, "files.example.org", "agentjail sandbox --allow @pypi --allow files.example.org -- getent hosts files.example.org"},
		{"agentjail sandbox --publish 8080:8000 -- python3 -m http.server 8000", 0, "Directory listing", "unshare --net sh -c 'ip link set lo up; % & curl -sS --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:8080/; status=$?; kill $!; wait; exit $status'"},
		{"agentjail learn --name build --workspace . --write /etc/agentjail/seccomp -- make", 0, "seccomp.only", ""},
		{"agentjail learn -- COMMAND", 0, "seccomp.only", ""},
		{"agentjail git . status", 0, "Makefile", ""},
		{"agentjail git . diff", 0, "", ""},
		{"agentjail git . add -A", 0, "", ""},
		{"agentjail git . commit -m \"what was done\"", 0, "what was done", ""},
	}},
	{"docker", project, []row{
		{"docker run --rm --privileged --runtime=agentjail busybox mount -t tmpfs none /mnt", 255, "Function not implemented", ""},
		{"docker run --runtime=agentjail -v \"$PWD\":/work -w /work IMAGE", 0, "Seccomp_filters:\t2", ""},
		{"docker run --rm -it --runtime=agentjail -v \"$PWD\":/work -w /work IMAGE", 0, "Seccomp_filters:\t2", "script -qec '%' /dev/null"},
		{"docker run --runtime=agentjail --label dev.agentjail.project=/work -v \"$PWD:/work\" IMAGE", 0, "Seccomp_filters:\t2", ""},
		{"docker run --runtime=agentjail -v \"$PWD\":/work --annotation dev.agentjail.workspace=review IMAGE make", 0, "DIR", "docker run --runtime=agentjail -v \"$PWD\":/work --annotation dev.agentjail.workspace=review busybox touch /work/made && agentjail workspace list"},
		{"docker run --annotation dev.agentjail.network.publish=8080:80,127.0.0.1:8090:9000 ...", 0, "Seccomp_filters:\t2", "% --runtime=agentjail-docs IMAGE"},
		{"docker run --runtime=io.containerd.agentjail.v2 IMAGE", 0, "Seccomp_filters:\t2", ""},
		{"docker run --runtime=agentjail-gvisor ...", 0, "Linux version 4.", "% busybox cat /proc/version"},
		{"docker run --uts=host", 0, "Seccomp_filters:\t2", "% --runtime=agentjail IMAGE"},
		{"docker run -v \"$PWD\":/work", 0, "Seccomp_filters:\t2", "% --runtime=agentjail IMAGE"},
		{"docker run -p 8080:8000", 0, "Seccomp_filters:\t2", "% --runtime=agentjail-docs IMAGE"},
		{"make build && docker build -t agentjail-install -f hack/kubernetes/Dockerfile .", 0, "agentjail-install", "make() { :; }; cp -r BIN bin && mkdir hack && cp -r TOP/hack/kubernetes hack && %"},
	}},
	// A Docker that does not know agentjail.
	{"install", install, []row{
		{"agentjail install docker", 0, "Docker knows of it", ""},
		{"agentjail install docker --default", 0, "Docker knows of it", ""},
		{"ln -s agentjail /usr/local/bin/agentjail-debug", 0, "", "ln -s agentjail BIN/agentjail-debug"},
		{"agentjail install docker --name agentjail --name agentjail-debug", 0, "Docker knows of it", ""},
		{"docker run --runtime=agentjail-debug IMAGE", 0, "Seccomp_filters:\t2", ""},
		{"ln -s agentjail /usr/local/bin/agentjail-strict", 0, "", "ln -s agentjail BIN/agentjail-strict"},
		{"agentjail install docker --name agentjail --name agentjail-strict", 0, "Docker knows of it", ""},
		{"docker run --runtime=agentjail-strict IMAGE", 0, "Seccomp_filters:\t2", ""},
		{"agentjail install docker --name agentjail-gvisor", 0, "Docker knows of it", "ln -sf agentjail BIN/agentjail-gvisor && %"},
		{"agentjail install docker --name agentjail-build", 0, "Docker knows of it", "ln -s agentjail BIN/agentjail-build && %"},
		{"agentjail uninstall docker", 0, "Docker knows of it", ""},
	}},
	{"podman", podman, []row{
		{"agentjail install podman", 0, "written", ""},
		{"podman --runtime agentjail run IMAGE", 0, "Seccomp_filters:\t2", ""},
		// Podman 4.3 loses the output of about every eighth short container with a terminal, over plain runc too.
		{
			"podman --runtime agentjail run --rm -it -v \"$PWD\":/work -w /work IMAGE", 0, "Seccomp_filters:\t2",
			"for i in $(seq 8); do script -qec '%' /dev/null | grep Seccomp_filters && break; done",
		},
		{"agentjail install podman --default", 0, "written", ""},
		{"podman exec ID cp", 0, "", "podman run -d --name ID busybox sleep 1000 && % /etc/hostname /tmp/copy"},
		{"podman build --runtime=crun", 0, "made", "printf 'FROM busybox\nRUN echo made\n' >Containerfile && % ."},
		{"agentjail uninstall podman", 0, "removed", ""},
	}},
	{"containerd", containerd, []row{
		{"ctr run --runtime io.containerd.agentjail.v2 IMAGE NAME COMMAND", 0, "", "% && ctr containers rm NAME"},
		{"ctr run --rm --runtime io.containerd.agentjail.v2 IMAGE NAME COMMAND", 0, "", ""},
		{"agentjail install containerd", 0, "changed", ""},
		{"agentjail install containerd && sudo systemctl restart containerd", 0, "nothing to change", ""},
		{"agentjail uninstall containerd", 0, "changed", ""},
		{"agentjail install crio && sudo systemctl reload crio", 0, "written", ""},
		{"agentjail uninstall crio", 0, "removed", ""},
	}},
	// Flags and names are looked at; most would write into the sources.
	{"sources", sources, []row{
		{"go test ./apparmor -update", 0, "ok", "% -run '^$'"},
		{"go generate ./seccomp", 0, "profiles/generate.go", "go generate -n ./seccomp"},
		{"go test ./seccomp -run TestArgumentsTable -update", 0, "TestArgumentsTable", "% -list TestArgumentsTable"},
		{"go test ./seccomp/verify -run TestTrackRecord -update", 0, "TestTrackRecord", "% -list TestTrackRecord"},
		{"go test ./runtime/spec/policy -update", 0, "ok", "% -run '^$'"},
		{"go run ./hack/vm -machine cloud", 0, "-machine", "% -h"},
		{"go run ./hack/vm -machine engines crio", 0, "-machine", "go run ./hack/vm -machine engines -h crio"},
		{"go run ./hack/release -maintainer 'NAME <ADDRESS>'", 0, "-maintainer", "% -h"},
	}},
	{"cloud", project, []row{
		{"sum=$(sha256sum dist/release/agentjail_*_amd64.deb | cut -d' ' -f1)", 0, "b5bb9d80", "mkdir -p dist/release && echo foo >dist/release/agentjail_1_amd64.deb && % && echo $sum"},
		{"sed -e \"s|DEB_URL|https://files.example/agentjail.deb|\" -e \"s|DEB_SHA256|$sum|\" hack/cloud/user-data.yaml >user-data", 0, "https://files.example/agentjail.deb", "mkdir hack && cp -r TOP/hack/cloud hack && % && cat user-data"},
	}},
}

// filters is an image with a command that prints how many filters hold it: a jail's are two.
const filters = engine.Busybox + " grep Seccomp_filters /proc/self/status"

// untried are commands that no test can run, with the reason.
var untried = map[string]string{
	"packer init hack/cloud/image.pkr.hcl": "Packer boots a machine at a provider of clouds",
	"packer build -var deb_url=https://files.example/agentjail.deb -var deb_sha256=$sum hack/cloud/image.pkr.hcl": "Packer boots a machine at a provider of clouds",
	"semodule -l | grep agentjail": "only the virtual machine selinux has a policy, whose module hack/vm/root.sh installs",
	"semodule -r agentjail":        "only the virtual machine selinux has a policy, whose module hack/vm/root.sh installs",
	"hack/npm-tools.sh":            "it downloads from npm; tests/agents runs what it installs, where it did",
}

// elsewhere are commands that other suites run: the file, and what stands in it, by default the command itself.
var elsewhere = map[string]struct{ file, text string }{
	"go test ./...":                                                                   {"Makefile", "-packages ./... $(if"},
	"semodule -i hack/selinux/agentjail.cil":                                          {"hack/vm/root.sh", "semodule -n -i /tmp/agentjail.cil"},
	"curl http://api.example.test.jail/v1/models":                                     {"tests/names/credentials_test.go", ""},
	"git clone git@git.example.test:team/project.git":                                 {"tests/names/gitssh_test.go", ""},
	"agentjail sandbox --agent files --home empty --read-only --workspace DIR -- DIR": {"tests/agents/pages_test.go", ""},
	"agentjail sandbox --agent claude --key /root/anthropic.key":                      {"tests/agents/pages_test.go", "docs/agents.md"},
	"docker run --runtime=agentjail-service postgres":                                 {"tests/e2e/images_test.go", "agentjail-service"},
	"apt install ./agentjail_*.deb":                                                   {"tests/packages/deb_test.go", ""},
	"apt install ./dist/release/agentjail_*_amd64.deb":                                {"tests/packages/deb_test.go", ""},
	"agentjail uninstall all":                                                         {"hack/release/files/prerm", ""},
	"kubectl apply -k hack/kubernetes":                                                {"tests/kubernetes/install_test.go", ""},
	"kubectl label node NODE agentjail.dev/node=true":                                 {"tests/kubernetes/install_test.go", ""},
	"kubectl -n kube-system rollout status daemonset/agentjail-install":               {"tests/kubernetes/install_test.go", ""},
	"kubectl -n kube-system get pods -l app=agentjail-install -o custom-columns='NODE:.spec.nodeName,WHY:.status.initContainerStatuses[0].lastState.terminated.message'": {"tests/kubernetes/install_test.go", ""},
	"kubectl get nodes -o custom-columns='NODE:.metadata.name,HANDLERS:.status.runtimeHandlers[*].name'":                                                                 {"tests/kubernetes/install_test.go", ""},
}

// whole are tests that run all that the shell blocks of a page have.
var whole = map[string]string{
	"docs/agents.md":         "tests/agents/pages_test.go",
	"docs/start/ci.md":       "tests/agents/pages_test.go",
	"docs/start/claude.md":   "tests/agents/pages_test.go",
	"docs/start/codex.md":    "tests/agents/pages_test.go",
	"docs/start/mcp.md":      "tests/agents/pages_test.go",
	"docs/start/opencode.md": "tests/agents/pages_test.go",
	"docs/start/python.md":   "tests/agents/pages_test.go",
}

// views is a project whose make has changes of each kind that the page's commands show, and a commit.
func views(s *stage) {
	engine.NeedsViews(s)
	s.file("Makefile", "all:\n\techo made >new\n\techo more >>src/a\n\tgit add src/a && git -c user.name=a -c user.email=a@j commit -qm second\n")
	s.words["BASE"] = s.host("mkdir src; echo a >src/a; git init -q -b main . && git add src && git -c user.name=u -c user.email=u@h commit -qm first && git rev-parse HEAD")
	s.words["fix"] = "v" + filepath.Base(s.dir)
	s.Cleanup(func() { s.run(row{as: "agentjail workspace discard fix || true"}) })
	s.after = func(r row, out string) {
		switch {
		case strings.HasSuffix(r.command, "--review -- make"):
			_, rest, _ := strings.Cut(out, "in view ")
			s.words["ID"], _, _ = strings.Cut(rest, ":")
		case strings.HasSuffix(r.command, "commits.patch"):
			s.host("git apply --stat changes.patch && grep -q '^Subject: .*second' commits.patch")
		}
	}
}

// host has a bundle, and a project that narrows the policy.
func host(s *stage) {
	s.file(".agentjail.toml", "limits.pids = 100\n")
	b := engine.NewBundle(s, s.tools)
	text, err := json.Marshal(b.Spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.Dir, "config.json"), text, 0o644)
	}
	env.Check(s, err)
	s.words["DIR"], s.words["BUNDLE"] = s.dir, b.Dir
}

// jail is one that waits.
func jail(s *stage) {
	s.host("mkdir -p .git/hooks")
	s.words["ID"] = docker.For(s).Detached("--runtime=agentjail-docs", "-v", s.dir+":/work", engine.Busybox, "sleep", "3600")
	s.words["DIR"] = filepath.Join(s.tools, "bundle")
	maps.Copy(s.words, map[string]string{"NAME": "pypi.org", "CALL": "mount", "HOST": "127.0.0.1", "FILE": "receipt.json"})
}

// project is what a developer has, on a host with pip.
func project(s *stage) {
	presets := "/etc/agentjail/presets"
	env.Check(s, errors.Join(os.MkdirAll(presets, 0o755), os.WriteFile(presets+"/pypi.txt", []byte("pypi.org\n"), 0o644)))
	// Docker's client has the option from 24 on; before, the label does the same.
	if r := docker.For(s).Docker("run", "--help"); !strings.Contains(r.Stdout, "--annotation") {
		s.tool("docker", `for word; do shift; [ "$word" != --annotation ] || word=--label; set -- "$@" "$word"; done; exec `+docker.Command(s.Context()).Path+` "$@"`)
	}
	s.host("git init -q -b main . && git config user.name u && git config user.email u@h")
	s.words["DIR"], s.words["COMMAND"], s.words["IMAGE"] = s.dir, "true", filters
}

// install is a Docker that knows no other runtime than runc.
func install(s *stage) {
	edition := docker.Edition()
	shim := env.Get(s, engine.Shim)
	e := engine.StartFor(s, engine.Options{Edition: &edition, Shims: []string{shim}})
	s.of(e)
	s.words["IMAGE"] = filters
	s.options(map[string]string{" docker": "--daemon-config " + e.DaemonConfig() + " --pidfile " + e.Pidfile() + " --socket " + e.Socket()})
}

func podman(s *stage) {
	if _, err := exec.LookPath("podman"); err != nil {
		s.Skip("no podman (hack/deps.sh installs it):", err)
	}
	p := engine.PodmanFor(s, false)
	s.words["IMAGE"], s.words["ID"] = filters, "held"
	s.shell = func(ctx context.Context, text string) *exec.Cmd {
		return p.Inside(ctx, "sh", "-c", "PATH="+s.tools+":"+s.words["BIN"]+":$PATH; cd "+s.dir+"; "+text)
	}
}

func containerd(s *stage) {
	shim := env.Get(s, engine.Shim)
	c := engine.ContainerdFor(s, engine.ContainerdOptions{Shims: []string{shim}})
	if err := os.Symlink("agentjail", s.words["BIN"]+"/agentjail-net"); err != nil { // as an installation has it
		s.Fatal(err)
	}
	s.tool("ctr", "exec "+strings.Join(c.Command(s.Context()).Args, " ")+` "$@"`)
	s.tool("systemctl", `case "$*" in "restart containerd" | "reload crio") ;; *) exit 1 ;; esac`)
	s.options(map[string]string{
		" containerd": "--daemon-config " + c.Dir + "/containerd.toml --drop-in " + c.Dir + "/conf.d/agentjail.toml",
		" crio":       "--drop-in " + s.tools + "/crio.conf",
	})
	s.words["IMAGE"], s.words["NAME"], s.words["COMMAND"] = engine.BusyboxImage, "named", "true"
}

// sources are this project's.
func sources(s *stage) {
	if err := exec.Command("go", "version").Run(); err != nil {
		s.Skip("no Go:", err)
	}
	s.dir = s.words["TOP"]
}
