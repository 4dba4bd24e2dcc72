package apparmor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fake is a host whose kernel and parser are files and a shell script. The script notes each of its
// runs and "loads" the profile: it writes what securityfs would show.
func fake(t testing.TB) (system, func() int) {
	t.Helper()
	dir := t.TempDir()
	s := system{
		enabled:    filepath.Join(dir, "enabled"),
		securityfs: filepath.Join(dir, "apparmor"),
		abiDirs:    []string{filepath.Join(dir, "abi")},
		parsers:    []string{filepath.Join(dir, "missing"), filepath.Join(dir, "parser")},
		state:      filepath.Join(dir, "state"),
		trustedFn: func(path string) (string, error) {
			_, err := os.Stat(path)
			return path, err
		},
	}
	write(t, s.enabled, "Y\n")
	write(t, filepath.Join(s.securityfs, ".replace"), "")
	write(t, filepath.Join(s.securityfs, "profiles"), "docker-default (enforce)\n")
	if err := os.MkdirAll(filepath.Join(s.securityfs, "policy/profiles"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`#!/bin/sh
echo "$@" >>%[1]s/runs
text=$(cat)
[ -e %[1]s/fail ] && { echo "AppArmor parser error at line 3"; exit 1; }
name=$(echo "$text" | sed -n 's/^profile \([^ ]*\) .*/\1/p')
d=%[2]s/policy/profiles/$name.7
mkdir -p $d
echo "$name" >$d/name
echo "${MODE:-enforce}" >$d/mode
echo "$text" | cksum | cut -d' ' -f1 >$d/sha256
grep -v "^$name " %[2]s/profiles >%[2]s/new
echo "$name (enforce)" >>%[2]s/new
mv %[2]s/new %[2]s/profiles
`, dir, s.securityfs)
	write(t, s.parsers[1], script)
	if err := os.Chmod(s.parsers[1], 0o755); err != nil {
		t.Fatal(err)
	}
	return s, func() int {
		b, _ := os.ReadFile(filepath.Join(dir, "runs"))
		return strings.Count(string(b), "\n")
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEnsure(t *testing.T) {
	s, runs := fake(t)
	p := Params{Name: DefaultName}
	ensure := func(p Params, want bool) {
		t.Helper()
		before := runs()
		changed, err := s.ensure(context.Background(), p)
		if err != nil || changed != want || runs()-before != map[bool]int{true: 1}[want] {
			t.Errorf("changed %v (want %v), %d parser runs, %v", changed, want, runs()-before, err)
		}
	}
	ensure(p, true)
	ensure(p, false)
	if ok, err := s.loaded(p.Name); !ok || err != nil {
		t.Errorf("loaded: %v, %v", ok, err)
	}
	changed := p
	changed.Peers = []string{"snap.docker.dockerd"}
	ensure(changed, true)
	ensure(changed, false)
	ensure(p, true) // back again
	ensure(p, false)
	// A newer parser knows a newer ABI.
	write(t, filepath.Join(s.abiDirs[0], "3.0"), "")
	ensure(p, true)
	write(t, filepath.Join(s.abiDirs[0], "4.0"), "")
	ensure(p, true)
	ensure(p, false)

	directory := filepath.Join(s.securityfs, "policy/profiles", p.Name+".7")
	// Somebody loaded another profile of that name.
	write(t, filepath.Join(directory, "sha256"), "other\n")
	ensure(p, true)
	// Somebody made it complain only.
	write(t, filepath.Join(directory, "mode"), "complain\n")
	ensure(p, true)
	// Somebody removed it.
	if err := os.RemoveAll(directory); err != nil {
		t.Fatal(err)
	}
	ensure(p, true)
	// A damaged note.
	for _, n := range []string{"", "x", "a b c d", strings.Repeat("0", 64) + " ../.. x\n"} {
		write(t, s.notePath(p.Name), n)
		ensure(p, true)
	}
	ensure(p, false)
	// A kernel without hashes.
	if err := os.Remove(filepath.Join(directory, "sha256")); err != nil {
		t.Fatal(err)
	}
	write(t, s.notePath(p.Name), strings.Split(read(t, s.notePath(p.Name)), " ")[0]+" "+p.Name+".7 \n")
	ensure(p, false)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEnsureTogether(t *testing.T) {
	s, runs := fake(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.ensure(context.Background(), Params{Name: DefaultName}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if runs() != 1 {
		t.Errorf("the parser ran %d times", runs())
	}
}

func TestEnsureImpossible(t *testing.T) {
	p := Params{Name: DefaultName}
	for name, tt := range map[string]struct {
		break_ func(t *testing.T, s *system)
		want   error
		text   string
	}{
		"no AppArmor":   {func(t *testing.T, s *system) { s.enabled += "x" }, errDisabled, ""},
		"switched off":  {func(t *testing.T, s *system) { write(t, s.enabled, "N\n") }, errDisabled, ""},
		"no securityfs": {func(t *testing.T, s *system) { s.securityfs += "x" }, errNoInterface, ""},
		"no parser":     {func(t *testing.T, s *system) { s.parsers = s.parsers[:1] }, errNoParser, ""},
		"parser fails": {func(t *testing.T, s *system) {
			write(t, filepath.Join(filepath.Dir(s.enabled), "fail"), "")
		}, nil, "AppArmor parser error at line 3"},
		"not enforced afterwards": {func(t *testing.T, s *system) {
			write(t, s.parsers[1], "#!/bin/sh\nexit 0\n")
		}, nil, "not enforced"},
		"untrusted parser": {func(t *testing.T, s *system) {
			s.trustedFn = func(string) (string, error) { return "", errors.New("belongs to uid 1000") }
		}, nil, "belongs to uid 1000"},
		"bad name": {func(t *testing.T, s *system) { p.Name = "x y" }, nil, "x y"},
	} {
		t.Run(name, func(t *testing.T) {
			p = Params{Name: DefaultName}
			s, _ := fake(t)
			tt.break_(t, &s)
			changed, err := s.ensure(context.Background(), p)
			if changed || err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("changed %v, %v", changed, err)
			}
			if _, err := os.Stat(s.notePath(p.Name)); err == nil {
				t.Error("a note was left")
			}
		})
	}
}

func TestLoaded(t *testing.T) {
	s, _ := fake(t)
	write(t, filepath.Join(s.securityfs, "profiles"), "a (enforce)\nb (complain)\nc (kill)\nd (unconfined)\nsome name (x) (enforce)\na//hat (enforce)\n")
	for name, want := range map[string]bool{"a": true, "b": false, "c": true, "d": false, "some name (x)": true, "hat": false, "a//hat": true, "": false, "e": false} {
		if got, err := s.loaded(name); got != want || err != nil {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
}

func BenchmarkEnsureUnchanged(b *testing.B) {
	s, _ := fake(b)
	if _, err := s.ensure(context.Background(), Params{Name: DefaultName, ABI: "4.0"}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if changed, err := s.ensure(context.Background(), Params{Name: DefaultName, ABI: "4.0"}); changed || err != nil {
			b.Fatal(changed, err)
		}
	}
}
