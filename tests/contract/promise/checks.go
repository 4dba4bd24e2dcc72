package promise

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/tests/engine"
)

// ofProcesses are the promises about a container's first process.
func ofProcesses() []Promise {
	var out []Promise
	for _, a := range aspects {
		p := Promise{Name: a.name, Wrong: func(s *Subject) error {
			w, err := s.First()
			if err != nil {
				return err
			}
			return a.wrong(w)
		}}
		if a.name == module {
			p.Without = withoutModule
		}
		out = append(out, p)
	}
	return out
}

// jailed reports what of a process is not as in a jail of this engine.
func (s *Subject) jailed(w engine.Who) error {
	but := slices.Collect(maps.Keys(s.Lacks))
	if s.Traits.Sandbox != "" { // seen from inside, they are the guest kernel's
		but = append(but, namespaces, hostIDs, module)
	}
	return process(w, but...)
}

func execs(s *Subject) error {
	w, err := s.Execed()
	if err != nil {
		return err
	}
	return s.jailed(w)
}

func sameWorld(s *Subject) error {
	w, err := s.Execed()
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		first, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", s.Jail.PID, kind))
		if err != nil {
			return err
		}
		if err := want("an exec's "+kind+" namespace", w.Namespaces[kind], first); err != nil {
			return err
		}
	}
	return nil
}

func privileged(s *Subject) error {
	results := []engine.Result{s.Run(s.TB, true, "probe", "identity")}
	if s.Jail.Privileged != nil {
		results = append(results, s.Jail.Privileged("probe", "identity"))
	}
	var wrong []error
	for _, r := range results {
		w, err := answer[engine.Who](r)
		if err == nil {
			err = s.jailed(w)
		}
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

// onlyPolicys looks at the sets of processes as an engine starts them: the first, an exec, and both with every privilege requested.
func onlyPolicys(s *Subject) error {
	results := []engine.Result{s.Run(s.TB, false, "probe", "identity"), s.Run(s.TB, true, "probe", "identity"), s.Jail.Exec("probe", "identity")}
	if s.Jail.Privileged != nil {
		results = append(results, s.Jail.Privileged("probe", "identity"))
	}
	for _, r := range results {
		w, err := answer[engine.Who](r)
		if err != nil {
			return err
		}
		for set, text := range w.Caps {
			most := s.Keeps
			if set == "inheritable" || set == "ambient" {
				most = 0
			}
			if have, err := strconv.ParseUint(text, 16, 64); err != nil || have&^most != 0 {
				return fmt.Errorf("%s capabilities %q, and policy leaves %x", set, text, s.Keeps)
			}
		}
		if len(w.Caps) != 5 {
			return fmt.Errorf("%w, five sets: %v", ErrNoAnswer, w.Caps)
		}
	}
	return nil
}

func attempts(s *Subject) error {
	all, err := answer[map[string]engine.Outcome](s.Jail.Exec("probe", "attempts"))
	if err != nil {
		return err
	}
	if len(all) < 50 {
		return fmt.Errorf("only %d attempts were made", len(all))
	}
	var through []string
	for name, o := range all {
		if !engine.Refused(name, o) && !slices.Contains(s.Permits, name) {
			through = append(through, strings.TrimSpace(name+" "+o.Errno))
		}
	}
	slices.Sort(through)
	return none("these get through", through)
}

// none is an error when there is anything.
func none(what string, found []string) error {
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", what, strings.Join(found, ", "))
}

func kernelFiles(s *Subject) error {
	broke, err := answer[map[string]string](s.Jail.Exec("probe", "attack"))
	if err != nil {
		return err
	}
	return none("these give way", slices.Sorted(maps.Keys(broke)))
}

// Files that reveal the machine, and files that change it.
var (
	maskedPaths   = []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats", "/sys/firmware/acpi/tables/DSDT"}
	readOnlyPaths = []string{"/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/proc/irq/default_smp_affinity"}
)

func paths(s *Subject) error {
	read, err := answer[map[string]engine.Outcome](s.Run(s.TB, true, append([]string{"probe", "read"}, maskedPaths...)...))
	if err != nil {
		return err
	}
	opened, err := answer[map[string]engine.Outcome](s.Run(s.TB, true, append([]string{"probe", "open"}, readOnlyPaths...)...))
	if err != nil {
		return err
	}
	var open []string
	for path, o := range read {
		if o.Errno == "" && o.Text != "" { // what is masked is empty
			open = append(open, "read "+path)
		}
	}
	for path, o := range opened {
		if o.Errno == "" && o.Note != "null device" { // which masks, and takes anything
			open = append(open, "write "+path)
		}
	}
	slices.Sort(open)
	return none("these are open", open)
}

// standardDevices are what the runtime specification lists as default devices, and what engines mount beside them.
var standardDevices = strings.Fields("null zero full random urandom tty console ptmx pts shm mqueue fd stdin stdout stderr core")

func devices(s *Subject) error {
	r := s.Run(s.TB, true, "ls", "/dev")
	if r.Code != 0 {
		return fmt.Errorf("%w: %s", ErrNoAnswer, r)
	}
	return none("further devices", slices.DeleteFunc(strings.Fields(r.Stdout), func(d string) bool { return slices.Contains(standardDevices, d) }))
}

// toExec is a first process that sends a signal to a process that an exec started, when it reads its number.
const toExec = `until [ -e /tmp/go ]; do sleep 0.1; done; kill -9 $(cat /tmp/go) && touch /tmp/killed || touch /tmp/refused; while :; do sleep 1000; done`

func signals(s *Subject) error {
	r := s.Jail.Exec("sh", "-c", `sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/tmp/pid; mv /tmp/pid /tmp/go; until [ -e /tmp/killed ] || [ -e /tmp/refused ]; do sleep 0.05; done; ls /tmp/killed /tmp/refused 2>/dev/null; true`)
	if r.Code != 0 {
		return fmt.Errorf("%w: %s", ErrNoAnswer, r)
	}
	return want("a signal to what an exec started", strings.TrimSpace(r.Stdout), "/tmp/killed")
}

// layerSize is what the layer of a jail holds by default, in KiB.
const layerSize = 1 << 20

func layer(s *Subject) error {
	r := s.Jail.Exec("sh", "-c", "echo x > /etc/promise && df -k / | awk 'NR == 2 { print $2 }'")
	size, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
	if err != nil {
		return fmt.Errorf("%w, the size of /: %w: %s", ErrNoAnswer, err, r)
	}
	if size > layerSize {
		return fmt.Errorf("changes may have %d KiB", size)
	}
	if r := s.Run(s.TB, false, "ls", "/etc/promise"); r.Code == 0 {
		return errors.New("a change is there in the next container of the image")
	}
	return nil
}

// What a jail may have by default.
const (
	mostMemory = 4 << 30
	mostPids   = 1024
	leastScore = 900 // of 1000, see proc(5), oom_score_adj
)

func memoryLimit(s *Subject) error {
	return most("memory", engine.CgroupLimit(s.Jail.PID, "memory", "memory.limit_in_bytes", "memory.max"), mostMemory)
}

func processLimit(s *Subject) error {
	return most("processes", engine.CgroupLimit(s.Jail.PID, "pids", "pids.max", "pids.max"), mostPids)
}

func most(what string, is, most uint64) error {
	if is > most {
		return fmt.Errorf("%s: %d, more than %d", what, is, most)
	}
	return nil
}

func diesFirst(s *Subject) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", s.Jail.PID))
	if err != nil {
		return err
	}
	if score, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || score < leastScore {
		return fmt.Errorf("oom_score_adj is %q", text)
	}
	return nil
}

func exitCodes(s *Subject) error {
	for code, r := range map[int]engine.Result{42: s.Run(s.TB, false, "sh", "-c", "exit 42"), 7: s.Jail.Exec("sh", "-c", "exit 7")} {
		if r.Code != code {
			return fmt.Errorf("not %d: %s", code, r)
		}
	}
	return nil
}

func inspected(s *Subject) error {
	r := s.Query(s.TB, "inspect", s.Jail.ID)
	if r.Code != 0 || strings.Contains(r.Stdout, "BROKEN") || !strings.Contains(r.Stdout, "holds") {
		return errors.New(r.String())
	}
	return nil
}
