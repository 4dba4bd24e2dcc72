// Package hasher finds the SHA-256 of programs that jails execute, after they were executed, for their journals. It is two halves. A Client, in
// the collector's writer, decides which files are worth it, and remembers; Serve, a process of its own that can open what jails execute,
// reads them.
//
// A jail chooses what is hashed, so all of it is bounded, and nothing is taken for the file that was executed but a regular file with the same
// file system, inode number, change time and size, before and after it was read.
package hasher

import (
	"bytes"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of what is hashed.
const (
	// MaxSize is the largest file, in bytes.
	MaxSize = 256 << 20
	// Wait is how long an event may wait for its hash.
	Wait = 3 * time.Second
	// patience is how long a file may take: what hangs longer is left behind, and maxStuck of those end all hashing until they come back.
	patience = 10 * time.Second
	maxStuck = 4
	// again is when a file is looked for once more: an event is sent before the kernel has put the new program in the old one's place.
	again = 50 * time.Millisecond
	// looking and reading are how many files are looked for and read at a time.
	looking = 16
	reading = 2
)

// PathSize is how much of a path an event has. What fills it may have been cut.
const PathSize = 64

// MaxRoots is how many jails' first processes a request names.
const MaxRoots = 4

// A File is which file was executed, as the kernel has it.
type File struct {
	// Device and Kind are of the file system: its number (MKDEV), and its magic number (statfs(2)).
	Device, Kind uint32
	Inode        uint64
	// Changed is its ctime, in nanoseconds since 1970.
	Changed int64
	Size    uint64
}

// kinds are the file systems whose files are hashed: those of the kernel itself that change a file's ctime with its content, and wait for no other
// program or machine. On tmpfs, what is written through a shared mapping leaves no trace.
var kinds = []uint32{
	unix.OVERLAYFS_SUPER_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.EROFS_SUPER_MAGIC_V1,
	unix.SQUASHFS_MAGIC, unix.TMPFS_MAGIC,
}

// known says whether files of its file system are hashed.
func (f *File) known() bool { return slices.Contains(kinds, f.Kind) }

// UnchangedSince says whether the file cannot have another content than at that time, by its ctime. Memory keeps no such time (kinds).
func (f *File) UnchangedSince(t time.Time) bool {
	// Files get the time of the last tick, which is 10 ms ago at most.
	const tick = 20 * time.Millisecond
	return f.Kind != unix.TMPFS_MAGIC && !t.IsZero() && f.Changed < t.Add(-tick).UnixNano()
}

// A Request asks for the hash of a file.
type Request struct {
	Number uint64
	File   File
	// Pid is the process that executed it, and Roots are processes from which Path may be seen where that has ended; 0 is none.
	Pid   uint32
	Roots [MaxRoots]uint32
	// Path is what the jail asked for.
	Path [PathSize]byte
}

// path is Path, "" where it may have been cut.
func (r *Request) path() string {
	text, _, ended := bytes.Cut(r.Path[:], []byte{0})
	if !ended || len(text) >= PathSize-1 {
		return ""
	}
	return string(text)
}

// An Answer is the hash, or why there is none.
type Answer struct {
	Number uint64
	Why    Why
	Sum    [32]byte
}

// Why there is no hash.
type Why uint32

// Reasons.
const (
	None       Why = iota
	TooLarge       // than MaxSize
	FileSystem     // none of kinds
	Gone           // neither the process nor its path has the file any more
	Changed        // while it was read
	Unreadable     // an error
	Late           // not within Wait
	Budget         // the jail, or all together, have had as much hashed as they may
	Busy           // too many wait
	Ended          // the process that hashes
	whys
)

var words = [whys]string{"", "too-large", "filesystem", "gone", "changed", "unreadable", "late", "budget", "busy", "ended"}

// String is the reason's word, as events have it.
func (w Why) String() string {
	if w < whys {
		return words[w]
	}
	return "unknown"
}
