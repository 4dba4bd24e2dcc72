// Package state keeps what agentjail knows of each jail below one directory in
// /run, so that a reboot clears it together with the jails, and the exclusive
// ranges of host ids.
//
// # Layout below Root
//
//	jails/KEY/state.json   the record; KEY names the delegate's root and the id
//	jails/KEY/first        its first process, once there is one
//	jails/KEY/started      empty: its program was started
//	jails/KEY/report.json  what hardening changed
//	jails/KEY/filter.bpf   the inner system call filter
//	jails/KEY/bundle/      the hardened bundle
//	jails/KEY/root         empty; the jail's root is mounted here, but only in
//	                       the mount namespace in which the delegate runs
//	ids/N/KEY              jail KEY uses the Nth block of the id pool
package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/version/form"
)

// FilterFile is the inner system call filter in a jail's directory, as its processes load it: an
// array of struct sock_filter.
const FilterFile = "filter.bpf"

// DefaultRoot holds the state of all of root's jails.
const DefaultRoot = "/run/agentjail"

// Default returns the store of this process's user: DefaultRoot for the machine's root, else a
// directory in the user's runtime directory.
func Default() (Store, error) {
	if os.Geteuid() == 0 && !rootless.Inside() {
		return Store{Root: DefaultRoot}, nil
	}
	dir, err := rootless.RuntimeDir()
	if !rootless.Inside() {
		// This is an ordinary user, who makes no jails here: commands that do not need the
		// directory must not fail without it.
		if err != nil {
			dir = fmt.Sprintf("/run/user/%d", os.Geteuid())
		}
		err = nil
	}
	return Store{Root: filepath.Join(dir, "agentjail")}, err
}

// ErrNotFound means that there is no such jail.
var ErrNotFound = errors.New("container does not exist")

// ErrExists means that the id is taken.
var ErrExists = errors.New("container with given ID already exists")

// Brief is the part of a jail's record that every verb needs. It is a type of its own since reading
// and writing the rest costs each start and delete more than a millisecond: encoding/json has to
// inspect every type of the specification.
type Brief struct {
	// Form is the form of the whole record (package form). Each release reads a Brief of any form:
	// its fields keep their meaning.
	Form         int    `json:"form,omitempty"`
	ID           string `json:"id"`
	Key          string `json:"key"`
	DelegateRoot string `json:"delegateRoot,omitempty"` // --root as the engine set it
	Delegate     string `json:"delegate"`               // absolute path
	Bundle       string `json:"bundle"`                 // the engine's
	BootID       string `json:"bootID"`

	// PIDNS is the inode number of the PID namespace that the numbers of processes here are of.
	PIDNS        uint64 `json:"pidNS,omitempty"`
	CreatorPid   int    `json:"creatorPid"`
	CreatorStart uint64 `json:"creatorStart"`
	// Invoker is the user on whose behalf root made the jail; 0 is root itself, or an engine.
	Invoker uint32 `json:"invoker,omitempty"`
	// Bound reports that the jail ends with the process that made it.
	Bound bool `json:"bound,omitempty"`
	// Stays reports that the init step stays as the first process, with the jail's program as a
	// child.
	Stays     bool   `json:"stays,omitempty"`
	InitPid   int    `json:"initPid,omitempty"`
	InitStart uint64 `json:"initStart,omitempty"` // clock ticks since boot, as the host sees it
	// MountNS is the inode number of the jail's mount namespace, which no other jail has; 0 is one
	// that is not known.
	MountNS uint32 `json:"mountNS,omitempty"`
	// HolderPid is the process of a sandbox that has the jail's mounts, where a protection of the
	// jail's depends on them; else 0.
	HolderPid int `json:"-"`

	IDs idmap.Map `json:"ids"`
	// Userns is the pool that IDs came from, and return to.
	Userns policy.Userns `json:"userns"`
	// EngineRoot is the engine's rootfs directory when the jail's root is mounted
	// over it, and EngineRootDev that mount's device number.
	EngineRoot    string `json:"engineRoot,omitempty"`
	EngineRootDev uint64 `json:"engineRootDev,omitempty"`
	CgroupsPath   string `json:"cgroupsPath,omitempty"`
	// CgroupDirs are the control group directories that did not exist before the
	// jail.
	CgroupDirs    []string `json:"cgroupDirs,omitempty"`
	SystemdCgroup bool     `json:"systemdCgroup,omitempty"`
	// Direct marks a jail of which the delegate makes only CgroupDirs and its own directory, and
	// whose processes end with its first one: start and delete do without the delegate.
	Direct bool `json:"direct,omitempty"`
	// OwnTime reports that this program has to enter the time namespace, since the delegate does
	// not know of it.
	OwnTime bool `json:"ownTime,omitempty"`
	// PacketFilter is policy's network.filter.
	PacketFilter string `json:"packetFilter,omitempty"`
	// Network is the decision about the jail's network.
	Network network.Decision `json:"network"`
	// Rules are the rules with which the jail's network was made, parsed; nil if Store.Network has
	// to be read. They hold until SaveRules.
	Rules *network.Rules `json:"rules,omitempty"`
	// Journal is the path of the jail's journal, "" where it has none.
	Journal string `json:"journal,omitempty"`
	// JournalSize bounds it, in bytes.
	JournalSize int64 `json:"journalSize,omitempty"`
	// EngineEvents is the file of Podman's events, which has the exit status at the delete; "" for
	// another engine's jail.
	EngineEvents string `json:"engineEvents,omitempty"`
	// FullReceipt is policy's journal.receipt = "full".
	FullReceipt bool `json:"fullReceipt,omitempty"`
	// Mounted are the host's directories that the jail may write to, and MountedSince is when only
	// the jail was still to come, in nanoseconds since 1970: the accounting before removal needs
	// both.
	Mounted      []Mounted `json:"mounted,omitempty"`
	MountedSince int64     `json:"mountedSince,omitempty"`
	// Copies are the copies of the engine's files that the start brings up to date.
	// CopiesDev is the device number of their file system.
	Copies    []Copy `json:"copies,omitempty"`
	CopiesDev uint64 `json:"copiesDev,omitempty"`
	// Capabilities are the most that a process of the jail's root has, over the jail's own ids:
	// policy's, the bundle's bounding set and a joined jail's in common (policy.Grantable).
	Capabilities []string `json:"capabilities,omitempty"`
	// SetGID reports that its filter lets set-group-ID bits pass.
	SetGID bool `json:"setGID,omitempty"`
	// Reviews are the jail's views of mounted directories.
	Reviews []Review `json:"reviews,omitempty"`
	// Removed are those of CgroupDirs that the holder of this record has removed.
	Removed []string `json:"-"`
	// Ended reports that the holder of this record has seen that the first process had ended. The
	// process cannot come back, and is not looked at again.
	Ended bool `json:"-"`
	// Started reports that the jail's program was started; see Store.Start.
	Started bool `json:"-"`
}

// A Copy is a jail's copy of a file of the engine's.
type Copy struct {
	Source string `json:"source"` // on the host
	At     string `json:"at"`     // in the jail
	// Sum is of the text that the jail has. Names are the jail's own, to which the copy gives an
	// address of lo; "" for none.
	Sum   string `json:"sum"`
	Names string `json:"names,omitempty"`
}

// A Review is a mounted directory that is a view (runtime/workspace).
type Review struct {
	ID  string `json:"id"`  // the view's
	At  string `json:"at"`  // in the jail
	Dev uint64 `json:"dev"` // the device number of its file system in the jail
	// Size is the size of its layer, in bytes.
	Size int64 `json:"size"`
	// Source is the directory on the host.
	Source pathname.Text `json:"source"`
}

// A Mounted is a directory or file of the host's that is mounted in a jail, which may write to it.
type Mounted struct {
	At     string        `json:"at"`     // in the jail
	Source pathname.Text `json:"source"` // on the host
	// Dev and Ino are its own numbers.
	Dev uint64 `json:"dev,omitempty"`
	Ino uint64 `json:"ino,omitempty"`
	// Unseen reports why the layer will not be scanned.
	Unseen string `json:"unseen,omitempty"`
}

// Jail is the record of one jail. It is written before each step whose effect
// must be undone after a crash.
type Jail struct {
	Brief
	Policy  policy.Policy         `json:"policy"`
	Process *specs.Process        `json:"process,omitempty"` // hardened; the upper bound of an exec
	Limits  *specs.LinuxResources `json:"resources,omitempty"`
	// MountLabel is the SELinux label of the jail's files.
	MountLabel string `json:"mountLabel,omitempty"`
	// SyntheticDev is the device number of the file system that holds the jail's synthetic files.
	// Born is when the jail was made, in seconds since 1970, which those files report as the time
	// of boot.
	SyntheticDev uint64 `json:"viewsDev,omitempty"`
	Born         int64  `json:"born,omitempty"`
	// OwnUserNS is the path by which the delegate found the jail's user namespace, if that was made
	// for this jail and before the delegate.
	OwnUserNS string `json:"ownUserNS,omitempty"`
	// Protected are the jail's paths that are read-only mounts in directories that
	// it may otherwise write to.
	Protected []string `json:"protected,omitempty"`
	// MountOwner is the jail's user who owns the writable mounts; nil if owners are not mapped to
	// one user.
	MountOwner *Owner `json:"mountOwner,omitempty"`
	// Pinned is Rules.Pinned.
	Pinned []string `json:"-"`
}

// Owner is a user and a group of a jail.
type Owner struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// Store is the directory of all jails' state.
type Store struct{ Root string }

// idChars are the characters of ids (runc's validateID).
const idChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-"

// CheckID refuses ids that could not be a file's name, with runc's messages (libcontainer,
// validateID), and those that a delegate would take for an option: runc has them behind "--".
func CheckID(id string) error {
	if id == "" {
		return errors.New("container id cannot be empty")
	}
	if len(id) > 1024 {
		return fmt.Errorf("invalid container ID format: %d characters, and 1024 are allowed", len(id))
	}
	if id == "." || id == ".." || id[0] == '-' || strings.Trim(id, idChars) != "" {
		return fmt.Errorf("invalid container ID format: %q", id)
	}
	return nil
}

// Key returns the key of a jail: ids are unique within one delegate root only.
func Key(delegateRoot, id string) string {
	sum := sha256.Sum256([]byte(delegateRoot))
	name := id
	if len(name) > 200 {
		s := sha256.Sum256([]byte(id))
		name = id[:100] + "." + hex.EncodeToString(s[:16])
	}
	return hex.EncodeToString(sum[:4]) + "-" + name
}

// Dir returns the jail's directory.
func (s Store) Dir(key string) string { return filepath.Join(s.Root, "jails", key) }

// Private makes a directory in the store for its owner alone, and returns its path. The directories
// above it are made as for jails: the first caller after the machine was started must not make them
// impassable.
func (s Store) Private(name string) (string, error) {
	if err := s.init(); err != nil {
		return "", err
	}
	dir := filepath.Join(s.Root, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("making the directory: %w", err)
	}
	return dir, nil
}

// init makes the directories. Container root, an unprivileged host user, must be
// able to pass through to its root: hence 0711.
func (s Store) init() error {
	for _, d := range []string{s.Root, filepath.Join(s.Root, "jails"), filepath.Join(s.Root, "ids")} {
		err := os.Mkdir(d, 0o711)
		if errors.Is(err, os.ErrNotExist) {
			err = os.MkdirAll(d, 0o711)
		}
		if err == nil {
			err = os.Chmod(d, 0o711) // whatever the caller's umask
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("making the state directory: %w", err)
		}
	}
	// /run is writable by root only, but an operator may have made the directory.
	var st unix.Stat_t
	if err := unix.Lstat(s.Root, &st); err != nil {
		return fmt.Errorf("state directory %s: %w", s.Root, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("state directory %s is not a directory", s.Root)
	}
	if os.Geteuid() != 0 || rootless.Inside() {
		return rootless.Own(s.Root, &st)
	}
	return trusted.Owner(s.Root, &st)
}

// recordFile is the record, and directories are the directories that every jail's directory has
// from the beginning.
const recordFile = "state.json"

var directories = [...]string{"bundle", "root", "layer"}

// newPrefix begins the name of a jail's directory until its record is written; the
// maker's PID namespace and pid follow.
const newPrefix = ".new-"

// Create makes the jail's directory with its first record, in one step: a directory without a
// record is always the remains of an interrupted Remove. ErrExists is returned when the jail
// exists.
func (s Store) Create(j *Jail) error {
	if err := s.init(); err != nil {
		return err
	}
	tmp := s.Dir(atomicfile.Unique(fmt.Sprintf("%s%d.", newPrefix, PIDNS())) + "-" + j.Key)
	if err := os.Mkdir(tmp, 0o711); err != nil {
		return fmt.Errorf("making the jail's state: %w", err)
	}
	err := func() error {
		for _, d := range directories {
			if err := os.Mkdir(filepath.Join(tmp, d), 0o711); err != nil {
				return err
			}
		}
		j.Form = form.Number
		data, err := json.Marshal(j)
		if err != nil {
			return err
		}
		if err := atomicfile.WriteNew(filepath.Join(tmp, recordFile), data, 0o600); err != nil {
			return err
		}
		return unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, s.Dir(j.Key), unix.RENAME_NOREPLACE)
	}()
	if err != nil {
		os.RemoveAll(tmp)
		if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
			return ErrExists
		}
		return fmt.Errorf("making the jail's state: %w", err)
	}
	return nil
}

// Save writes the record.
func (s Store) Save(j *Jail) error {
	data, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("encoding the jail's state: %w", err)
	}
	return atomicfile.Write(filepath.Join(s.Dir(j.Key), recordFile), data, 0o600)
}

// SaveReport writes the report beside the record.
func (s Store) SaveReport(j *Brief, r *report.Report) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	return atomicfile.Write(filepath.Join(s.Dir(j.Key), "report.json"), data, 0o600)
}

// Report reads the report that SaveReport wrote.
func (s Store) Report(j *Brief) (*report.Report, error) {
	data, err := atomicfile.Read(filepath.Join(s.Dir(j.Key), "report.json"), bundle.MaxConfig)
	if err != nil {
		return nil, err
	}
	r := new(report.Report)
	return r, json.Unmarshal(data, r)
}

// Load reads the record of a jail; ErrNotFound when there is none. It refuses the record of another
// release that this one would misunderstand.
func (s Store) Load(key string) (*Jail, error) {
	j := new(Jail)
	if err := s.decode(key, j.read); err != nil {
		return nil, err
	}
	if err := j.Understood(); err != nil {
		return nil, err
	}
	s.addChanges(&j.Brief, key)
	var err error
	j.Pinned, err = s.rules(&j.Policy.Network, key)
	return j, err
}

// read decodes a whole record. It refuses a field that it does not know, but not where an earlier
// release had that field.
func (j *Jail) read(record []byte) error {
	d := json.NewDecoder(bytes.NewReader(record))
	d.DisallowUnknownFields()
	unknown := d.Decode(j)
	if unknown == nil {
		return nil
	}
	*j = Jail{}
	if err := json.Unmarshal(record, j); err != nil || j.Form != form.Number {
		return err
	}
	return fmt.Errorf("container %q: %w, a field of another release of agentjail (remedy: the release that made it, or %s)", j.ID, unknown, j.anew())
}

// anew is what ends a jail of another release.
func (j *Brief) anew() string {
	return fmt.Sprintf("`agentjail kill %s KILL` and `agentjail delete %[1]s`, and start it anew", j.ID)
}

// Understood returns an error for a record of another release that this one would misunderstand.
// Such a jail can still be ended and removed.
func (j *Brief) Understood() error {
	if err := form.Check(j.Form, j.anew()); err != nil {
		return fmt.Errorf("container %q: %w", j.ID, err)
	}
	return nil
}

// Brief reads the part of a jail's record that every verb needs.
func (s Store) Brief(key string) (*Brief, error) {
	j := new(Brief)
	if err := s.decode(key, func(record []byte) error { return json.Unmarshal(briefPart(record), j) }); err != nil {
		return nil, err
	}
	s.addChanges(j, key)
	return j, nil
}

// decode calls by with a jail's record.
func (s Store) decode(key string, by func(record []byte) error) error {
	path := filepath.Join(s.Dir(key), recordFile)
	data, err := atomicfile.Read(path, bundle.MaxConfig)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	if err := by(data); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// briefPart returns the part of a record that is its Brief: the part before Policy, the first field
// of Jail's own. In a string the quotes would be escaped. This spares every verb the reading of the
// rest, which takes some ten times as long.
func briefPart(record []byte) []byte {
	i := bytes.Index(record, []byte(`,"policy":{`))
	if i < 0 {
		return record
	}
	return append(record[:i:i], '}')
}

// Changes to every jail after its record was written are kept in files of their own, so that the
// whole record need not be written again.
const (
	// firstFile is the first process: its id, its start time and the number of its mount namespace,
	// with blanks between them.
	firstFile = "first"
	// startedFile exists once the jail's program was started.
	startedFile = "started"
	holderFile  = "holder"
)

// First records the jail's first process, and its mount namespace: 0 if that is unknown.
func (s Store) First(j *Brief, pid int, start uint64, mountNS uint32) error {
	j.InitPid, j.InitStart, j.MountNS = pid, start, mountNS
	return atomicfile.WriteNew(filepath.Join(s.Dir(j.Key), firstFile), fmt.Appendf(nil, "%d %d %d", pid, start, mountNS), 0o600)
}

// FirstAt is the time at which the first process, which then waits for start, was recorded. Files
// in the jail's layer from before are agentjail's and the delegate's. It is the zero time if
// unknown.
func (s Store) FirstAt(key string) time.Time {
	fi, err := os.Lstat(filepath.Join(s.Dir(key), firstFile))
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}

// Holder records the process of a sandbox that has the jail's mounts. It lives as long as the first
// process.
func (s Store) Holder(j *Brief, pid int) error {
	j.HolderPid = pid
	return atomicfile.WriteNew(filepath.Join(s.Dir(j.Key), holderFile), strconv.AppendInt(nil, int64(pid), 10), 0o600)
}

// MountsPid is the process whose mounts are the jail's.
func (j *Brief) MountsPid() int { return cmp.Or(j.HolderPid, j.InitPid) }

// addChanges adds the changes since the record was written.
func (s Store) addChanges(j *Brief, key string) {
	j.Started = unix.Access(filepath.Join(s.Dir(key), startedFile), unix.F_OK) == nil
	if j.Elsewhere() {
		j.InitPid, j.InitStart = 0, 0 // here that is another process
		return
	}
	if j.InitPid != 0 {
		return
	}
	if pid, start, mountNS, ok := s.first(key); ok {
		j.InitPid, j.InitStart, j.MountNS = pid, start, mountNS
	}
	if traits.Of(j.Delegate).Sandbox != "" {
		j.HolderPid, _ = ReadPid(filepath.Join(s.Dir(key), holderFile)) // there is none without protected paths
	}
}

// first reads the process that First wrote, if there is one.
func (s Store) first(key string) (pid int, start uint64, mountNS uint32, ok bool) {
	data, err := atomicfile.Read(filepath.Join(s.Dir(key), firstFile), 64)
	if err != nil {
		return 0, 0, 0, false
	}
	_, err = fmt.Sscan(string(data), &pid, &start, &mountNS)
	return pid, start, mountNS, err == nil && pid > 1
}

// Start records that the jail's program is started.
func (s Store) Start(j *Brief) error {
	f, err := os.OpenFile(filepath.Join(s.Dir(j.Key), startedFile), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("recording the start: %w", err)
	}
	j.Started = true
	return f.Close()
}

// Exists reports whether there is a record of a jail, or one is being made.
func (s Store) Exists(key string) bool {
	_, err := os.Lstat(s.Dir(key))
	return !errors.Is(err, os.ErrNotExist)
}

// Keys lists the jails.
func (s Store) Keys() ([]string, error) {
	return readNames(filepath.Join(s.Root, "jails"))
}

// KeysOf returns the keys of jails with this id, in any delegate root, also of those that are just
// being made.
func (s Store) KeysOf(id string) ([]string, error) {
	keys, err := s.Keys()
	_, name, _ := strings.Cut(Key("", id), "-")
	return slices.DeleteFunc(keys, func(k string) bool { return !strings.HasSuffix(k, "-"+name) }), err
}

// WithID returns the jails with exactly this id, in any delegate root.
func (s Store) WithID(id string) ([]*Brief, error) {
	keys, err := s.KeysOf(id)
	var out []*Brief
	for _, k := range keys {
		if j, err := s.Brief(k); err == nil && j.ID == id {
			out = append(out, j)
		}
	}
	return out, err
}

// Remove removes the jail's directory. Mounts inside it existed only in a mount namespace that has
// ended.
func (s Store) Remove(key string) error {
	dir := s.Dir(key)
	// The usual files are removed without looking. The record goes last: while it is there, a crash
	// leaves something to clean up by.
	_ = unix.Unlink(filepath.Join(dir, directories[0], bundle.ConfigName))
	for _, d := range directories {
		if path := filepath.Join(dir, d); unix.Rmdir(path) != nil {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("removing the jail's state: %w", err)
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the jail's state: %w", err)
	}
	return nil
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// StartTicks are the ticks of a second in which StartTime is given (USER_HZ).
const StartTicks = 100

// StartTime returns field 22 of /proc/PID/stat (proc_pid_stat(5)), clock ticks since boot, and the
// state letter. The ticks distinguish a process from a later one with the same number.
func StartTime(pid int) (ticks uint64, state byte, err error) {
	f, err := procstatus.Stat(pid)
	if err != nil {
		return 0, 0, err
	}
	ticks, err = strconv.ParseUint(f[19], 10, 64)
	return ticks, f[0][0], err
}

// process returns one of the processes in the record.
func (j *Brief) process(pid int, start uint64) Process {
	return Process{Pid: pid, Start: start, PIDNS: j.PIDNS, BootID: j.BootID}
}

// Init returns the jail's first process, with number 0 while there is none.
func (j *Brief) Init() Process { return j.process(j.InitPid, j.InitStart) }

// creator returns the process that makes or made the jail.
func (j *Brief) creator() Process { return j.process(j.CreatorPid, j.CreatorStart) }

// Elsewhere reports that the jail was made in another PID namespace: none of its processes is known
// here.
func (j *Brief) Elsewhere() bool { return j.creator().Elsewhere() }

// InitAlive reports whether the jail's first process runs.
func (j *Brief) InitAlive() bool { return !j.Ended && j.Init().Alive() }

// CreatorAlive reports whether the process that is making the jail still runs.
func (j *Brief) CreatorAlive() bool { return j.creator().Alive() }

// bootID caches BootID.
var bootID atomic.Pointer[string]

// BootID returns the id of this boot (random(4)), "" if it cannot be read.
func BootID() string {
	if known := bootID.Load(); known != nil {
		return *known
	}
	b, err := atomicfile.Read("/proc/sys/kernel/random/boot_id", 64)
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(b))
	bootID.Store(&id)
	return id
}
