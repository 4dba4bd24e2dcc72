package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// entryImage is the Work image with the entry points of testdata/entry.
const entryImage = "entry-points"

// An entryPoint is one of a much used image's, in the shape of the image's own, and what starts it in a jail:
// docs/compatibility.md has the same table for people.
type entryPoint struct {
	image   string
	command []string // the entry point and its arguments
	data    string   // where the image's volume is, if it has one
	user    string   // the image's own
	ask     string   // calls the running server, by docker exec, until it serves
	answer  string
	profile string // the jail that it needs, if not the default
	// wants is what stands in the log when a jail is started as the image states; "" means that it serves.
	wants string
	// remedy are docker's options with which it serves.
	remedy []string
}

const (
	// nobodyElse is gosu's word.
	nobodyElse = `operation not permitted`
	httpAsk    = "curl -sf http://127.0.0.1/f"
)

var entryPoints = []entryPoint{
	{
		image: "postgres", command: []string{"entry-postgres"}, data: "/var/lib/postgresql/data", profile: "agentjail-server",
		ask: "psql -h 127.0.0.1 -U postgres -Atc 'select 6*7'", answer: "42", wants: `failed switching to "postgres": ` + nobodyElse, remedy: []string{"-u", "postgres"},
	},
	{
		image: "mariadb", command: []string{"entry-mariadb", "--skip-networking"}, data: "/var/lib/mysql",
		ask: "mariadb -u root -Ne 'select 6*7'", answer: "42", wants: `failed switching to "mysql": ` + nobodyElse, remedy: []string{"-u", "mysql"},
	},
	{
		image: "redis 7", command: []string{"entry-redis7"}, data: "/data",
		ask: "redis-cli set a b && redis-cli save && redis-cli get a", answer: "OK\nOK\nb", wants: `failed switching to "redis": ` + nobodyElse, remedy: []string{"-u", "redis"},
	},
	{
		image: "redis 8", command: []string{"entry-redis8"}, data: "/data",
		// It starts as root, who may not write into the volume.
		ask: "redis-cli set a b && redis-cli save && redis-cli get a", answer: "OK\nOK\nb", wants: "Failed opening the temp RDB file", remedy: []string{"-u", "redis"},
	},
	{
		image: "rabbitmq", command: []string{"entry-rabbitmq"}, data: "/var/lib/rabbitmq",
		ask: `printf 'AMQP\0\0\011\001' | nc -N 127.0.0.1 5672 | grep -ao RabbitMQ | head -1`, answer: "RabbitMQ",
		wants: `failed switching to "rabbitmq": ` + nobodyElse, // -u rabbitmq, which takes long, is as the others
	},
	{
		image: "nginx", command: []string{"nginx", "-g", "daemon off;"}, profile: "agentjail-server",
		ask: httpAsk, answer: "served", wants: `chown("/var/cache/nginx/client_temp", 33) failed (1: Operation not permitted)`,
		remedy: []string{"-u", "www-data", "--tmpfs", "/var/cache/nginx:uid=33", "--tmpfs", "/run:uid=33"},
	},
	{
		image: "httpd", command: []string{"apache2", "-f", "/usr/local/apache2/httpd.conf", "-DFOREGROUND"},
		// Its children stay root, with "AH02156: setgid: unable to set group id" in the log.
		ask: httpAsk, answer: "served",
		remedy: []string{"-u", "www-data", "--tmpfs", "/usr/local/apache2/logs:uid=33"},
	},
	{
		image: "memcached", command: []string{"memcached"}, user: "memcache",
		ask: `printf 'set a 0 0 1\r\nb\r\nget a\r\nquit\r\n' | nc -N 127.0.0.1 11211 | tr -d '\r'`, answer: "STORED\nVALUE a 0 1\nb\nEND",
	},
	{
		image: "node", command: []string{"entry-node", "-e", "require('http').createServer((q, a) => a.end('served')).listen(80)"},
		ask: httpAsk, answer: "served", remedy: []string{"-u", "app"},
	},
	{
		image: "python", command: []string{"python3", "-m", "http.server", "-d", "/srv/www", "80"},
		ask: httpAsk, answer: "served", remedy: []string{"-u", "app"},
	},
	{
		image: "debian", command: []string{"bash", "-c", "sleep 3600"},
		ask: "id -un && touch /root/f && echo root", answer: "root\nroot",
	},
}

// buildEntryImage makes entryImage from the Work image, once, by a container of runc's whose layer is kept.
func buildEntryImage(t *testing.T) {
	t.Helper()
	entryImageOnce.Do(func() {
		env.Check(t, docker.ImportWork())
		debs, err := engine.Debs("rabbitmq-server")
		env.Check(t, err)
		d := docker.For(t)
		id := d.Created("--runtime=runc", "--network", "none", engine.Work, "sh", "/usr/local/bin/build.sh")
		d.Must("cp", "testdata/entry/.", id+":/usr/local/bin")
		d.Must("cp", debs, id+":/debs")
		d.Must("start", "-a", id)
		d.Must("commit", "--change", "CMD [\"/bin/bash\"]", id, entryImage)
	})
}

var entryImageOnce sync.Once

// TestEntryPoints: the entry points of eleven much used images start under runc as they are, and in a jail as the table
// states: as they are, or with the user that they would become. A volume and a directory of a person's serve as their data.
func TestEntryPoints(t *testing.T) {
	needAgentjail(t)
	buildEntryImage(t)
	t.Run("report", func(t *testing.T) {
		env.Contain(t, "the report", reportOf(t, startJail(d(t), entryImage, "sleep", "3600")), "the image has /usr/sbin/gosu")
	})
	for _, e := range entryPoints {
		t.Run(strings.ReplaceAll(e.image, " ", ""), func(t *testing.T) {
			d := d(t)
			e.sameAsRunc(d)
			if promise.Sandbox() != "" {
				return // a guest's default jail is not tried here
			}
			name := engine.Name
			if e.profile != "" {
				name = e.profile
			}
			if e.wants == "" {
				e.serves(d, name, nil, nil)
			} else {
				e.fails(d, name)
			}
			if e.remedy == nil {
				return
			}
			if e.data == "" {
				e.serves(d, name, e.remedy, nil)
				return
			}
			e.kept(d, name)
			dir := directory(t, 1000)
			env.Check(t, os.Remove(filepath.Join(dir, "hello")))
			e.serves(d, name, e.remedy, []string{"-v", dir + ":" + e.data})
			onlyOf(t, dir, "1000:1000")
		})
	}
}

// start starts the image and returns the container.
func (e entryPoint) start(d *engine.T, runtime string, options []string) string {
	d.Helper()
	args := append([]string{"--runtime=" + runtime, "--network", "none"}, options...)
	if e.user != "" {
		args = append(args, "-u", e.user)
	}
	return d.Detached(append(append(args, entryImage), e.command...)...)
}

// serves tests that the image starts and answers. It is stopped after that.
func (e entryPoint) serves(d *engine.T, runtime string, options, volume []string) {
	d.Helper()
	id := e.start(d, runtime, append(options[:len(options):len(options)], volume...))
	// One exec that polls: one for each poll would take more of the processor than the server's start.
	r := d.Docker("exec", id, "sh", "-c", `until out=$(sh -c "$1" 2>/dev/null); [ "$out" = "$2" ]; do sleep 0.1; done`, "sh", e.ask, e.answer)
	if r.Code != 0 {
		d.Fatalf("%s with %s and %q has ended: %s\n%s", e.image, runtime, options, r, d.Docker("logs", id))
	}
	if e.data != "" {
		d.Must("stop", "-t", "20", id) // in order, for what is to be read again
	} else {
		d.Remove(id)
	}
}

// sameAsRunc tests that the image as it is serves in a jail of policy service as over runc: by the same users, with the same end,
// and each finds on a volume what the other wrote.
func (e entryPoint) sameAsRunc(d *engine.T) {
	d.Helper()
	const users = `for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || echo "$(cat $p/comm) $(stat -c %U $p)"; done 2>/dev/null | grep -v '^ \|^inet_gethost \|^sh \|^cat \|^sleep \|^stat \|^grep \|^sort ' | sort -u`
	var volume []string
	if e.data != "" {
		vol := "e2e-service-" + strings.ReplaceAll(e.image, " ", "")
		d.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
		volume = []string{"-v", vol + ":" + e.data}
	}
	var first string
	for _, runtime := range []string{"runc", "agentjail-service", "runc"}[:2+len(volume)/2] {
		id := e.start(d, runtime, volume)
		r := d.Docker("exec", id, "sh", "-c", `until out=$(sh -c "$1" 2>/dev/null); [ "$out" = "$2" ]; do sleep 0.1; done; `+users, "sh", e.ask, e.answer)
		if r.Code != 0 {
			d.Fatalf("%s over %s has ended: %s\n%s", e.image, runtime, r, d.Docker("logs", id))
		}
		d.Must("stop", "-t", map[bool]string{true: "20", false: "2"}[e.data != ""], id)
		got := strings.ReplaceAll(r.Stdout, "\n", ", ")
		if code := inspect(d, id, "{{.State.ExitCode}}"); e.data != "" || e.user != "" || e.profile != "" {
			got += "exit " + code // the others end by a signal
		}
		d.Logf("%s over %s: %s", e.image, runtime, got)
		if first == "" {
			first = got
		}
		if got != first {
			d.Errorf("%s over %s: %s, not %s", e.image, runtime, got, first)
		}
		d.Remove(id)
	}
}

// fails tests that a jail as the image states logs the message that people search for, and does not serve.
func (e entryPoint) fails(d *engine.T, runtime string) {
	d.Helper()
	id := e.start(d, runtime, nil)
	env.Eventually(d, e.image+" logs "+e.wants, func() bool {
		asked := d.Docker("exec", id, "sh", "-c", e.ask)
		if strings.TrimSpace(asked.Stdout) == e.answer {
			d.Fatalf("%s serves", e.image)
		}
		r := d.Docker("logs", id)
		if strings.Contains(r.Stdout+r.Stderr, e.wants) {
			return true
		}
		if inspect(d, id, "{{.State.Running}}") == "false" {
			if r = d.Docker("logs", id); !strings.Contains(r.Stdout+r.Stderr, e.wants) {
				d.Fatalf("%s as its image states ends otherwise: %s, want %q", e.image, r, e.wants)
			}
		}
		return false
	})
	d.Remove(id)
}

// kept tests that a second jail finds on a named volume what the first one wrote.
func (e entryPoint) kept(d *engine.T, runtime string) {
	d.Helper()
	vol := "e2e-entry-" + strings.ReplaceAll(e.image, " ", "")
	d.Cleanup(func() { d.Docker("volume", "rm", "-f", vol) })
	volume := []string{"-v", vol + ":" + e.data}
	e.serves(d, runtime, e.remedy, volume)
	e.serves(d, runtime, e.remedy, volume)
}

// onlyOf tests that all below dir belongs to who, on the host.
func onlyOf(t testing.TB, dir, who string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n++
		if got, _ := owner(t, path); got != who {
			t.Errorf("%s belongs to %s, not to %s", path, got, who)
		}
		return nil
	})
	if err != nil || n < 2 {
		t.Errorf("%d files in %s: %v", n, dir, err)
	}
}
