// Package users lists the host's users and their homes: those of passwd(5), and users that only
// other sources of nsswitch.conf(5) have, by getent(1), since our programs are static.
package users

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/accountfile"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/trusted"
)

// Parents are the directories that hold users' homes, whether or not a list has the users.
var Parents = []string{"/home", "/var/home", "/export/home", "/Users"}

// maxPasswd bounds the list of the host's users, in bytes.
const maxPasswd = 4 << 20

// A User is one of the host's.
type User struct {
	Name string
	UID  uint32
	GID  uint32 // the primary group's
	Home string // clean and absolute, never the root directory; "" for none
	// Real is Home without symbolic links, as far as it exists.
	Real string
	// Person reports a user with logins, whose home may hold keys. Others own the parts of a
	// distribution (www-data, games).
	Person bool
}

// A List is the host's users at the time of its first use.
type List struct {
	mu     sync.Mutex
	users  []User
	real   []string        // directories of homes that a link in place of one of Parents leads to
	links  []string        // what links in Parents lead to
	tried  map[uint32]bool // by getent
	loaded bool
	passwd string // the file, for tests
}

// New returns a list that is read when it is used.
func New() *List { return &List{passwd: "/etc/passwd", tried: map[uint32]bool{}} }

// load reads passwd(5) once. A file that cannot be read has no users.
func (l *List) load() {
	if l.loaded {
		return
	}
	l.loaded = true
	for _, dir := range Parents {
		l.lookAt(dir)
	}
	f, err := os.Open(l.passwd)
	if err != nil {
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPasswd))
	if err == nil {
		l.add(string(text))
	}
}

// lookAt finds the links at and in a directory of homes.
func (l *List) lookAt(dir string) {
	f, err := openat.File(unix.AT_FDCWD, dir, openat.Real, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	defer f.Close()
	if real := openat.Resolve(dir, openat.Real); real != dir {
		l.real = append(l.real, real)
	}
	names, _ := f.ReadDir(maxNames) // of a directory that changes meanwhile, as far as it was read
	for _, n := range names {
		if n.Type() == os.ModeSymlink {
			l.links = append(l.links, openat.Resolve(path.Join(dir, n.Name()), openat.Real))
		}
	}
}

// maxNames bounds the names of a directory of homes that are looked at.
const maxNames = 10_000

// add adds the users of a text in the form of passwd(5).
func (l *List) add(text string) {
	automounts := map[string]bool{}
	for e := range accountfile.Entries(text, 7) {
		uid, err := strconv.ParseUint(e[2], 10, 32)
		gid, err2 := strconv.ParseUint(e[3], 10, 32)
		if err != nil || err2 != nil {
			continue
		}
		u := User{Name: e[0], UID: uint32(uid), GID: uint32(gid), Home: path.Clean(e[5])}
		if !path.IsAbs(u.Home) || u.Home == "/" {
			u.Home = ""
		}
		ordinary := u.UID >= firstPerson && u.UID < endPersons
		u.Person = u.Home != "" && (u.UID == 0 || ordinary || !slices.Contains(noShells, path.Base(e[6])))
		if u.Real = u.Home; u.Person {
			u.Real = real(u.Home, automounts)
		}
		l.users = append(l.users, u)
	}
}

// The ids of ordinary users (login.defs(5), UID_MIN and UID_MAX).
const (
	firstPerson = 1000
	endPersons  = 60_000
)

// noShells are the programs that stand in place of a shell for users without logins.
var noShells = []string{"nologin", "false", "true", "sync", "halt", "shutdown"}

// autofs is the magic number of directories whose names are mounted as they are looked up
// (linux/magic.h, AUTOFS_SUPER_MAGIC).
const autofs = 0x187

// real returns a path without links. A lookup in an automounter's directory would mount each home.
func real(home string, automounts map[string]bool) string {
	dir := path.Dir(home)
	mounts, known := automounts[dir]
	if !known {
		var fs unix.Statfs_t
		mounts = unix.Statfs(dir, &fs) == nil && fs.Type == autofs
		automounts[dir] = mounts
	}
	if mounts {
		return path.Join(openat.Resolve(dir, openat.Real), path.Base(home))
	}
	return openat.Resolve(home, openat.Real)
}

// All returns all users of the list.
func (l *List) All() []User {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load()
	return slices.Clone(l.users)
}

// Know adds users that passwd(5) lacks, by their ids as this process sees them.
func (l *List) Know(uids ...uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load()
	for _, uid := range uids {
		uid, err := rootless.OutsideUID(uid)
		listed := slices.ContainsFunc(l.users, func(u User) bool { return u.UID == uid })
		if err != nil || uid == idmap.Overflow || l.tried[uid] || listed {
			continue
		}
		l.tried[uid] = true
		l.add(getent(uid))
	}
}

// Of returns the users with these ids, as this process sees them.
func (l *List) Of(uids ...uint32) (out []User) {
	l.Know(uids...)
	var outside []uint32
	for _, uid := range uids {
		if uid, err := rootless.OutsideUID(uid); err == nil {
			outside = append(outside, uid)
		}
	}
	return slices.DeleteFunc(l.All(), func(u User) bool { return !slices.Contains(outside, u.UID) })
}

// Homes returns the homes that a path without links is, lies in, or holds. Those of other persons
// below Parents are not among them, as long as no link leads to them.
func (l *List) Homes(at string) (out []string) {
	for _, u := range l.All() {
		if u.Person && (pathname.Within(at, u.Real) || pathname.Below(u.Real, at)) {
			out = append(out, u.Real)
		}
	}
	for _, home := range l.links {
		if pathname.Within(at, home) || pathname.Below(home, at) {
			out = append(out, home)
		}
	}
	for _, parent := range l.real {
		if rest, below := pathname.Rel(at, parent); below {
			name, _, _ := strings.Cut(rest, "/")
			out = append(out, path.Join(parent, name))
		} else if pathname.Within(parent, at) {
			out = append(out, parent)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Caller returns the user for whom this process works, as it sees the id: the invoker, or its own.
func Caller() uint32 {
	if u, err := invoker.Here(); err == nil && u != nil {
		return u.UID
	}
	return uint32(os.Geteuid())
}

// Bounds of getent(1): a directory service may not answer.
const (
	getentTime   = 2 * time.Second
	getentOutput = 64 << 10
)

// getent returns the entry of a user in the form of passwd(5); "" for none.
func getent(uid uint32) string {
	program, err := trusted.Executable("/usr/bin/getent")
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), getentTime)
	defer cancel()
	out := atomicfile.Head{Max: getentOutput}
	cmd := exec.CommandContext(ctx, program, "passwd", strconv.FormatUint(uint64(uid), 10))
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.WaitDelay = "/", []string{"LC_ALL=C"}, &out, time.Second
	// The status does not matter: without an entry there is no line.
	_ = fork.RunCommand(cmd)
	line, _, _ := strings.Cut(string(out.Text), "\n")
	if f := strings.Split(line, ":"); len(f) < 7 || f[2] != strconv.FormatUint(uint64(uid), 10) {
		return ""
	}
	return line
}
