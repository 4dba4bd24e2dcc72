package bindsource

import (
	"os"
	"testing"
)

// TestNewVolume: new is what an engine has just made, and nothing that holds a name or
// that was changed since.
func TestNewVolume(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(dir string) error
		open string
		want bool
	}{
		{"as the engine made it", func(string) error { return nil }, "", true},
		{"with a file", func(dir string) error { return os.WriteFile(dir+"/x", nil, 0o600) }, "", false},
		{"with a hidden directory", func(dir string) error { return os.Mkdir(dir+"/.x", 0o700) }, "", false},
		{"root's alone", func(dir string) error { return os.Chmod(dir, 0o700) }, "", false},
		{"everybody's", func(dir string) error { return os.Chmod(dir, os.ModeSticky|0o777) }, "", false},
		{"for a group", func(dir string) error { return os.Chmod(dir, os.ModeSetgid|0o755) }, "", false},
		{"below the top", func(dir string) error { return os.Mkdir(dir+"/sub", 0o755) }, "/sub", false},
		{"a file", func(dir string) error { return os.WriteFile(dir+"/f", nil, 0o755) }, "/f", false},
	} {
		dir := tree(t, "docker/volumes/v/_data/") + "/docker"
		top := dir + "/volumes/v/_data"
		if err := os.Chmod(top, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := c.make(top); err != nil {
			t.Fatal(err)
		}
		s, err := Open(top+c.open, Engine{Storage: []string{dir}})
		if err != nil {
			t.Fatal(err)
		}
		s.File.Close()
		if s.New != c.want || s.Role != Volume {
			t.Errorf("%s: %+v", c.name, s.Fact)
		}
	}
	// A directory that no engine made is none, however it looks.
	dir := tree(t, "project/_data/")
	s, err := Open(dir+"/project/_data", Engine{})
	if err != nil {
		t.Fatal(err)
	}
	s.File.Close()
	if s.New {
		t.Errorf("%+v", s.Fact)
	}
}
