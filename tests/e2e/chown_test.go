package e2e

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// copies are commands that set, or try to set, the owner of a file in the mounted directory that they work in.
const copies = `
exec 2>&1
step() { echo "+ $*"; sh -c "$*"; echo "exit $?"; }
step cp -p /etc/passwd p
step cp -a /etc/skel skel
step cp --preserve=ownership /etc/group g
step cp -a /etc/alternatives alternatives
step install -m 600 /etc/passwd i
step install -o 0 -g 0 /etc/hostname.none i0
step install -o 5 -g 5 /etc/passwd i5
step 'tar -C /etc -cf t.tar passwd group skel'
step mkdir x
step tar -C x -xf t.tar
step tar -C x --same-owner -xf t.tar
step 'rsync -a /etc/skel/ r'
step 'rsync -aog --chmod=u+w /etc/passwd rp; test -f rp'
step 'git init -q -b main src && cd src && git -c user.name=A -c user.email=a@example.org commit -q --allow-empty -m one && cd .. && git clone -q src clone && git -C clone status --short'
step 'touch /tmp/moved && mv /tmp/moved .'
step 'echo a > s && sed -i s/a/b/ s && cat s'
step mkdir -p temp
step chown 33 temp
step chown 5:5 p
step chgrp 5 p
step chown 65534:65534 p
step 'chown $(id -u):$(id -g) p'
step chmod 640 p
step 'cp -p p p2 && cat p2 | wc -l'
step 'python3 -c "import shutil; shutil.copytree(\"/etc/skel\", \"py\"); shutil.copy2(\"/etc/passwd\", \"py2\")"'
step 'perl -e "chown(7, 7, \"p\") or print \$! + 0, \"\n\""'
step 'mkdir d && setfacl -m u:5:r d; test -d d'
`

// TestChownInMountedDirectory: commands that set owners end in a mounted directory as they do under runc where no user may
// give files away, and what they make is the directory owner's on the host.
func TestChownInMountedDirectory(t *testing.T) {
	needAgentjail(t)
	env.Check(t, docker.ImportWork())
	for _, uid := range []int{1000, 0} {
		t.Run(fmt.Sprint("uid ", uid), func(t *testing.T) {
			d := d(t)
			in := func(runtime string, hostUID int) (string, string) {
				dir := directory(t, hostUID)
				r := d.Docker("run", "--rm", "--runtime="+runtime, "--cap-drop", "ALL", "--network", "none", "-e", "HOME=/tmp", "-u", fmt.Sprintf("%d:%d", uid, uid),
					"-v", dir+":/work", "-w", "/work", engine.Work, "sh", "-c", copies)
				if r.Code != 0 {
					t.Fatal(r)
				}
				return dir, r.Stdout
			}
			_, want := in("runc", uid)
			dir, got := in(engine.Name, 1000)
			if got != want {
				t.Errorf("in a jail:\n%s\nunder runc:\n%s", got, want)
			}
			n := 0
			err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
				if o, _ := owner(t, path); o != "1000:1000" {
					t.Errorf("%s belongs to %s on the host", path, o)
				}
				n++
				return err
			})
			if err != nil || n < 30 {
				t.Errorf("%d files, %v", n, err)
			}
		})
	}
}

// TestOthersInMountedDirectory: another user of the jail has others' rights in a mounted directory; what it makes where
// anybody may write has on the host an owner that no user is, and in each later jail its own.
func TestOthersInMountedDirectory(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	open := filepath.Join(dir, "open")
	id := sleeper(d, "-u", "1000", "-v", dir+":/w")
	d.Must("exec", id, "sh", "-c", "mkdir /w/open; chmod 1777 /w/open; echo mine > /w/open/mine")
	if r := d.Docker("exec", "-u", "1001", id, "touch", "/w/new"); r.Code == 0 || !strings.Contains(r.Stderr, "Permission denied") {
		t.Errorf("another user in the owner's directory: %s", r)
	}
	d.Must("exec", "-u", "1001:1002", id, "sh", "-c", "echo other > /w/open/other; chmod 600 /w/open/other")
	if r := d.Docker("exec", id, "sh", "-c", "cat /w/open/other"); r.Code == 0 {
		t.Errorf("another user's private file was read: %s", r)
	}
	got, _ := owner(t, filepath.Join(open, "other"))
	env.Equal(t, "another user's file on the host", got, "2147419113:2147419114")
	got, _ = owner(t, filepath.Join(open, "mine"))
	env.Equal(t, "the owner's", got, "1000:1000")
	env.Equal(t, "in another jail", mustRunJail(d, "-u", "1001:1002", "-v", open+":/o:ro", engine.Busybox, "sh", "-c", "stat -c %u:%g /o/mine; cat /o/other 2>&1; true"), "1001:65534\ncat: can't open '/o/other': Permission denied")
	env.Equal(t, "as the same user", mustRunJail(d, "-u", "1000", "-v", open+":/o", engine.Busybox, "stat", "-c", "%u:%g", "/o/other"), "1001:1002")
}
