package promise

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func apart(s *Subject) error {
	a, err := s.Execed()
	if err != nil {
		return err
	}
	b, err := answer[engine.Who](s.other.Exec("probe", "identity"))
	if err != nil {
		return err
	}
	if a.UIDMap == b.UIDMap || a.GIDMap == b.GIDMap {
		return fmt.Errorf("two have the id maps %s and %s", a.UIDMap, a.GIDMap)
	}
	for _, kind := range kinds {
		if a.Namespaces[kind] == b.Namespaces[kind] {
			return fmt.Errorf("two share the %s namespace", kind)
		}
	}
	return nil
}

func killed(s *Subject) error {
	j := s.other
	return s.gone(j, func() error {
		if code := j.Kill(); code != 137 && code != -1 {
			return fmt.Errorf("the exit code after SIGKILL is %d", code)
		}
		j.Remove()
		return nil
	})
}

func removed(s *Subject) error {
	return s.gone(s.Jail, func() error { s.Jail.Remove(); return nil })
}

// gone looks for what is left of a container after its end. Before it, the same look must find something.
func (s *Subject) gone(j *Jail, end func() error) error {
	if before := s.left(j); len(before) < 2 {
		return fmt.Errorf("of a running container there is only %v: this looks in the wrong places", before)
	}
	if err := end(); err != nil {
		return err
	}
	return s.eventually(func() error { return none("left", s.left(j)) })
}

// eventually looks until an engine is done, and returns what was wrong last.
func (s *Subject) eventually(look func() error) (err error) {
	env.Poll(s.Patience, func() bool { err = look(); return err == nil })
	return err
}

// runs reports whether a process has not ended. One that has, and that its parent has not requested yet, is a zombie (proc(5), stat).
func runs(pid int) bool {
	f, err := procstatus.Stat(pid)
	return err == nil && f[0] != "Z"
}

// left lists what the host has of a container: its first process, files, control groups and mounts.
func (s *Subject) left(j *Jail) (found []string) {
	if runs(j.PID) {
		found = append(found, fmt.Sprintf("process %d", j.PID))
	}
	for _, pattern := range append(s.Places, "/run/agentjail/jails/*%s*") {
		files, err := filepath.Glob(fmt.Sprintf(pattern, j.ID))
		env.Check(s, err)
		found = append(found, files...)
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), j.ID) {
			found = append(found, path)
		}
		return nil // what others remove meanwhile
	})
	mounts := env.Read(s, "/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, j.ID) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	return found
}
