// Package source looks at what bind mounts would mount: it opens each source
// once, learns from the open file what it is, and keeps the file, so that what
// was judged is what gets mounted.
package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is a source's file type.
type Kind string

// The kinds of source.
const (
	Dir    Kind = "folder"
	File   Kind = "file"
	Socket Kind = "socket"
	Device Kind = "device"
	Pipe   Kind = "pipe"
)

// Role is what a source is to the engine that named it.
type Role string

// The roles.
const (
	Plain    Role = ""         // a path that somebody chose
	Injected Role = "injected" // the engine's own file for this container
	Volume   Role = "volume"   // an engine's volume
)

// Fact is what was found out about a source.
type Fact struct {
	Path string `json:"path"` // after resolution of symbolic links
	Kind Kind   `json:"kind"`
	Role Role   `json:"role,omitempty"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	// Disk is the block device below the file system; 0:0 for others.
	DiskMajor uint32 `json:"diskMajor,omitempty"`
	DiskMinor uint32 `json:"diskMinor,omitempty"`
	// Link is a symbolic link on the way that leads out of its folder.
	Link string `json:"link,omitempty"`
	// Storage says that the path is, holds, or lies in an engine's storage.
	Storage string `json:"storage,omitempty"`
}

// Source is an opened source.
type Source struct {
	Fact
	File *os.File // O_PATH
}

// Engine is what is known of the engine that made the bundle.
type Engine struct {
	IDs     []string // the container's id, and those of jails that it joins
	Storage []string // its storage folders
}

// Open opens the source of a bind mount and finds out what it is.
func Open(path string, e Engine) (*Source, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("bind source %q is not an absolute path", path)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "bind source", Path: path, Err: err}
	}
	s := &Source{File: os.NewFile(uintptr(fd), path)}
	if err := s.look(path, e); err != nil {
		s.File.Close()
		return nil, err
	}
	return s, nil
}

func (s *Source) look(path string, e Engine) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(s.File.Fd()), &st); err != nil {
		return fmt.Errorf("bind source %s: %w", path, err)
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
	}
	s.UID, s.GID = st.Uid, st.Gid
	if maj := unix.Major(st.Dev); maj != 0 {
		s.DiskMajor, s.DiskMinor = wholeDisk(maj, unix.Minor(st.Dev))
	}
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(s.File.Fd())))
	if err != nil {
		return fmt.Errorf("bind source %s: %w", path, err)
	}
	s.Path = real
	if s.Path != filepath.Clean(path) {
		if s.Link, err = leavingLink(path); err != nil {
			return fmt.Errorf("bind source %s: %w", path, err)
		}
	}
	s.Role = role(s.Fact, e)
	for _, dir := range append(e.Storage, storage...) {
		if s.Role == Plain && (within(s.Path, dir) || within(dir, s.Path)) {
			s.Storage = dir
			break
		}
	}
	return nil
}

// wholeDisk is the disk of a partition: control groups throttle disks.
func wholeDisk(major, minor uint32) (uint32, uint32) {
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

// systemLinkFolders are folders whose symbolic links are the system's layout
// (/bin, /var/run), made by nobody but root and not shared with any jail.
var systemLinkFolders = map[string]bool{"/": true, "/var": true}

// leavingLink walks path and returns the first symbolic link that leads out of
// the folder that holds it: an agent with a writable folder can make one and
// wait for it to be mounted. "" when there is none.
func leavingLink(path string) (string, error) {
	rest := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	cur := "/"
	for hops := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			cur = filepath.Dir(cur)
			continue
		}
		next := filepath.Join(cur, name)
		target, err := os.Readlink(next)
		if errors.Is(err, unix.EINVAL) {
			cur = next // not a link
			continue
		}
		if err != nil {
			return "", err
		}
		if hops++; hops > 40 {
			return "", unix.ELOOP
		}
		to := target
		if !filepath.IsAbs(to) {
			to = filepath.Join(cur, to)
		}
		if !systemLinkFolders[cur] && !within(filepath.Clean(to), cur) {
			return next, nil
		}
		if filepath.IsAbs(target) {
			cur = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return "", nil
}

// within says whether path is dir or lies below it, by name.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
