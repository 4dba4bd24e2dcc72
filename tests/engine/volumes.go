package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentjail.dev/tests/env"
)

// VolumeEntry is a file or directory of a volume that several users share.
type VolumeEntry struct {
	Name     string // below the volume's top; "." is the top
	UID, GID int
	Mode     os.FileMode // a directory's has fs.ModeDir
}

// VolumeEntries are what a volume of an engine's holds whose top has that owner and mode: files
// and directories of root's, of two users and of a group.
func VolumeEntries(uid, gid int, mode os.FileMode) []VolumeEntry {
	return []VolumeEntry{
		{"db", 1000, 1000, fs.ModeDir | 0o700},
		{"db/secret", 1000, 1000, 0o600},
		{"rootonly", 0, 0, 0o600},
		{"public", 0, 0, 0o644},
		{"app", 999, 999, fs.ModeDir | 0o755},
		{"app/secret", 999, 2000, 0o640},
		{"team", 0, 2000, fs.ModeDir | fs.ModeSetgid | 0o775},
		{"team/shared", 0, 2000, 0o664},
		{".", uid, gid, fs.ModeDir | mode},
	}
}

// FillVolume makes entries in a volume's directory on the host.
func FillVolume(t testing.TB, dir string, entries []VolumeEntry) {
	t.Helper()
	for _, e := range entries {
		at := filepath.Join(dir, e.Name)
		var err error
		switch {
		case e.Name == ".":
		case e.Mode.IsDir():
			err = os.Mkdir(at, 0o700)
		default:
			err = os.WriteFile(at, []byte(e.Name+"\n"), 0o600)
		}
		if err == nil {
			err = os.Lchown(at, e.UID, e.GID)
		}
		if err == nil {
			err = os.Chmod(at, e.Mode)
		}
		env.Check(t, err)
	}
}

// VolumeProbe is a script for busybox that tries, in each directory below /v, which holds
// VolumeEntries, what a user can do with them, and prints what it sees.
const VolumeProbe = `exec 2>&1
for v in /v/*; do
	cd $v
	stat -c '%u:%g %a %n' . db app team rootonly public
	for f in db/secret app/secret rootonly public team/shared; do cat $f; echo more >>$f; done
	for d in . db app team; do echo made >$d/new; mkdir $d/dir; mv $d/dir $d/moved; done
	chmod 777 .; rm rootonly; stat -c '%u:%g %n' new */new
done
true`

// ListVolume lists a volume as it is on the disk: owner, mode, size and name of each of its
// entries.
func ListVolume(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := os.Lstat(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		size := fi.Size()
		if fi.IsDir() {
			size = 0
		}
		st := fi.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%d:%d %v %d %s\n", st.Uid, st.Gid, fi.Mode(), size, rel)
		return err
	})
	env.Check(t, err)
	return b.String()
}

// A VolumeUser is one way of starting a container with a volume. Options are the engine's,
// Control further ones for the runtime that is compared with: no jail's root has a capability.
type VolumeUser struct {
	Options, Control []string
	Suffix           string // of the volume's mount
}

// VolumeUsers are the ways that are compared.
var VolumeUsers = map[string]VolumeUser{
	"root":                 {Options: []string{"-u", "0"}, Control: []string{"--cap-drop=ALL"}},
	"1000":                 {Options: []string{"-u", "1000:1000"}},
	"999":                  {Options: []string{"-u", "999:999"}},
	"1000 in group 2000":   {Options: []string{"-u", "1000:2000"}},
	"1000 with group 2000": {Options: []string{"-u", "1000:1000", "--group-add", "2000"}},
	"1000 to read":         {Options: []string{"-u", "1000:1000"}, Suffix: ":ro"},
}

// VolumeTops are the owners and modes of the volumes' tops.
var VolumeTops = []VolumeEntry{
	{UID: 0, GID: 0, Mode: 0o755},
	{UID: 0, GID: 2000, Mode: fs.ModeSetgid | 0o775},
	{UID: 999, GID: 999, Mode: 0o755},
	{UID: 0, GID: 0, Mode: fs.ModeSticky | 0o777},
}
