// Package bindsource examines the sources of bind mounts: it opens each source once, determines
// from the open file what it is, and keeps the file open, so that the judged file is the mounted
// one.
package bindsource

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/users"
	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/plan"
)

// Kind is a source's file type.
type Kind string

// The kinds of source.
const (
	Dir    Kind = "directory"
	File   Kind = "file"
	Socket Kind = "socket"
	Device Kind = "device"
	Pipe   Kind = "pipe"
)

// Role is a source's relation to the engine that named it.
type Role string

// The roles.
const (
	Plain       Role = ""             // a path that a user chose
	Injected    Role = "injected"     // the engine's own file for this container
	Volume      Role = "volume"       // an engine's volume
	OwnImage    Role = "image"        // a file system that agentjail made (Image)
	EngineImage Role = "engine-image" // an image that the engine mounted for this container
)

// Fact holds the facts about a source.
type Fact struct {
	Path string `json:"path"` // after resolution of symbolic links
	Kind Kind   `json:"kind"`
	Role Role   `json:"role,omitempty"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	// Node is the path of the device of every jail that it is, by its numbers; "" for others.
	Node string `json:"node,omitempty"`
	// Disk is the block device below the file system; 0:0 for others.
	DiskMajor uint32 `json:"diskMajor,omitempty"`
	DiskMinor uint32 `json:"diskMinor,omitempty"`
	// Homes are the homes of users that Path or Also is, lies in, or holds (users.List.Homes).
	Homes []string `json:"homes,omitempty"`
	// Link is a symbolic link on the way that leads out of its directory.
	Link string `json:"link,omitempty"`
	// Rooted reports that only root can have chosen any part of the way there, links
	// included. It is looked at where there is such a link.
	Rooted bool `json:"rooted,omitempty"`
	// Storage is the engine's storage that Path, or Also of a volume, is, holds, or lies in.
	Storage string `json:"storage,omitempty"`
	// Also is where the host's file tree really has it, if it was mounted at
	// Path from there: an engine's volume can be any directory of the host.
	Also string `json:"also,omitempty"`
	// Shown are all further places of its content, of a source that a user chose.
	Shown Shown `json:"shown,omitzero"`
	// Below are directories of the host that no jail may have, mounted below Path.
	Below []string `json:"below,omitempty"`
	// Mounts are the places of all mounts below Path.
	Mounts []string `json:"mounts,omitempty"`
	// ReachedBelow are the places of the content of Mounts.
	ReachedBelow []string `json:"reachedBelow,omitempty"`
	// System reports that it is a part of the host that may only be read.
	System bool `json:"system,omitempty"`
	// Pod is the id of the pod that the source belongs to.
	Pod string `json:"pod,omitempty"`
	// Plugin is the kind of volume that it is of its pod's, as the kubelet names
	// it ("kubernetes.io~csi"); "" where that cannot be shown.
	Plugin string `json:"plugin,omitempty"`
	// Rootless reports that UID and GID are those of a user's own namespace, in which
	// 0 is that user.
	Rootless bool `json:"rootless,omitempty"`
	// HostPath reports that a pod's author chose it from the node's file tree.
	HostPath bool `json:"hostPath,omitempty"`
	// SetID are programs below that run as its owner or group (FindSetID), and
	// SetIDGaveUp reports that not everything was looked at.
	SetID       []string `json:"setID,omitempty"`
	SetIDGaveUp bool     `json:"setIDGaveUp,omitempty"`
	// Public reports how a jail gets this part of the host's configuration, and Withheld
	// why it does not get one that is of the kind.
	Public   Public `json:"public,omitempty"`
	Withheld string `json:"withheld,omitempty"`
	// New reports that it is the top of an engine's volume in which nothing is yet, with
	// the mode that engines make it with (NewVolume).
	New bool `json:"new,omitempty"`
	// Missing reports that it is as an engine makes a directory that was named and missing.
	Missing bool `json:"missing,omitempty"`
	// Secret reports a secret or a configuration, whose owner and mode the engine set on request.
	Secret bool `json:"secret,omitempty"`
	// ImageRoot is where the engine mounted an image, and Inside the source's path in it.
	ImageRoot string `json:"imageRoot,omitempty"`
	Inside    string `json:"inside,omitempty"`
	// ThrowAway reports that the jail's changes to it are to end with the jail (SetThrowAway).
	ThrowAway bool `json:"throwAway,omitempty"`
	// Part reports that it is a part of the machine's own file tree, at its own path.
	Part bool `json:"part,omitempty"`
	// Room is the size of the tmpfs that it lies on, in bytes; 0 for others.
	Room int64 `json:"room,omitempty"`
}

// Source is an opened source.
type Source struct {
	Fact
	File *os.File // O_PATH
	// Text is the text of a public file that was judged and is to be copied.
	Text string
	// Users are the host's, by which Homes was found.
	Users *users.List
}

// Engine describes the engine that made the bundle.
type Engine struct {
	IDs     []string // the container's id, and those of jails that it joins and of its pod's sandbox
	Storage []string // its storage directories
	Pod     string   // the id of the container's Kubernetes pod, or "" (PodUID)
	CRI     bool     // the container is one of a pod's (OfPod)
	// Rootless reports that the engine is a user's, in a user namespace.
	Rootless bool
	Mounts   *Mounts // the host's; nil: Open reads them
	// Users are the host's; nil: Open reads them.
	Users *users.List
}

// Open opens the source of a bind mount and determines its facts.
func Open(path string, e Engine) (*Source, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("bind source %q is not an absolute path", path)
	}
	way := &trail{place: publicPlaceOf(path)}
	fd, link, err := walk(path, way.look)
	if err != nil {
		return nil, err
	}
	rooted := false
	if link != "" {
		// Open again, and check the possible creators of each part: the file opened now is the
		// judged one.
		unix.Close(fd)
		var r rootTrail
		if fd, link, err = walk(path, func(fd int, at string, st *unix.Stat_t) {
			way.look(fd, at, st)
			r.look(fd, at, st)
		}); err != nil {
			return nil, err
		}
		rooted = r.why == nil
	}
	s := &Source{File: os.NewFile(uintptr(fd), path), Fact: Fact{Link: link, Rooted: rooted}}
	if err := s.look(e); err != nil {
		s.File.Close()
		return nil, fmt.Errorf("bind source %s: %w", path, err)
	}
	s.setPublic(way)
	return s, nil
}

func (s *Source) look(e Engine) error {
	fd := int(s.File.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.Kind = Dir
	case unix.S_IFREG:
		s.Kind = File
	case unix.S_IFSOCK:
		s.Kind = Socket
	case unix.S_IFIFO:
		s.Kind = Pipe
	default:
		s.Kind = Device
		if st.Mode&unix.S_IFMT == unix.S_IFCHR {
			s.Node = plan.OwnNode(unix.Major(st.Rdev), unix.Minor(st.Rdev))
		}
	}
	s.UID, s.GID = st.Uid, st.Gid
	s.DiskMajor, s.DiskMinor = DiskOf(st.Dev)
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
		s.Room = int64(fs.Blocks) * fs.Bsize
	}
	// The kernel's own name of the open file, even if it was renamed since.
	real, err := openat.Name(fd)
	if err != nil {
		return err
	}
	s.Path = real
	if s.Role = role(s.Path, e); s.Role == Pod {
		s.Pod = e.Pod
	}
	s.Secret = s.Role == Injected && isSecret(s.Path)
	s.System = system(s.Path)
	s.Rootless = e.Rootless
	s.HostPath = e.CRI && s.Role == Plain
	s.New = s.Role == Volume && s.Kind == Dir && path.Base(s.Path) == volumeData && NewVolume(fd, &st)
	s.Missing = s.Role == Plain && s.UID == 0 && NewVolume(fd, &st)
	if s.Users = e.Users; s.Users == nil {
		s.Users = users.New()
	}
	if s.Role == Plain {
		s.Users.Know(s.UID, users.Caller())
	}
	if err := s.lookAtMounts(e); err != nil {
		return err
	}
	s.lookForHomes()
	switch {
	case s.Role == Plain:
		s.Storage = storageAt(s.Path, e)
	case s.Role == Volume && s.Also != "" && role(s.Also, e) != Volume:
		s.Storage = storageAt(s.Also, e)
	}
	return nil
}

// lookForHomes finds the homes of users at the source's places.
func (s *Source) lookForHomes() {
	if s.Role == Plain { // of others only the real places count
		s.Homes = s.Users.Homes(s.Path)
	}
	for _, at := range append(s.Shown.counted(), s.Also) {
		if at != "" {
			s.Homes = lists.Union(s.Homes, s.Users.Homes(at)...)
		}
	}
}

// storageAt returns the engine's storage that a path is, holds, or lies in; "" for none.
func storageAt(path string, e Engine) string {
	return overlapping(path, append(slices.Concat(e.Storage, storage), KubeletRoot(path)))
}

// overlapping returns the first of some directories that a path is, holds, or lies in; "" for none.
// A directory "" is ignored.
func overlapping(path string, dirs []string) string {
	for _, dir := range dirs {
		if dir != "" && (pathname.Within(path, dir) || pathname.Within(dir, path)) {
			return dir
		}
	}
	return ""
}

// lookAtMounts finds the real place of the source, and the mounts below it.
func (s *Source) lookAtMounts(e Engine) (err error) {
	mounts := e.Mounts
	if mounts == nil {
		if mounts, err = OpenMounts(); err != nil {
			return err
		}
		defer mounts.Close()
	}
	id, err := mountOf(int(s.File.Fd()))
	if err != nil {
		return err
	}
	if s.Also, s.Shown, err = mounts.elsewhere(id, s.Path, s.Role != Injected); err != nil {
		return err
	}
	if s.Role == Plain && s.Also != "" && isSubpath(s.Path, e) {
		s.setSubpath(e)
	}
	if s.Kind == Dir {
		if s.Mounts, s.Below, s.ReachedBelow, err = mounts.below(s.Path, s.Users); err != nil {
			return err
		}
	}
	if s.Role == Pod {
		s.Plugin, err = mounts.plugin(id, s.Path, s.Pod)
	}
	return err
}

// DiskOf returns the numbers of the disk that a file system's device is, or is a partition of:
// control groups throttle disks. They are 0 for a file system on none.
func DiskOf(dev uint64) (major, minor uint32) {
	major, minor = unix.Major(dev), unix.Minor(dev)
	if major == 0 {
		return 0, 0
	}
	dir := fmt.Sprintf("/sys/dev/block/%d:%d", major, minor)
	if unix.Access(dir+"/partition", unix.F_OK) != nil {
		return major, minor
	}
	b, err := os.ReadFile(dir + "/../dev")
	if err != nil {
		return major, minor
	}
	ma, mi, _ := strings.Cut(strings.TrimSpace(string(b)), ":")
	m1, err1 := strconv.ParseUint(ma, 10, 32)
	m2, err2 := strconv.ParseUint(mi, 10, 32)
	if err1 != nil || err2 != nil {
		return major, minor
	}
	return uint32(m1), uint32(m2)
}
