package policy

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/netrules/presets"
)

// presetDir is the administrator's directory of presets (network.allow = ["@NAME"]), as NAME.txt.
const presetDir = "/etc/agentjail/presets"

// source knows the presets of this host: files of root's alone.
func source() netrules.Presets {
	return &presets.Source{Dir: roots(presetDir), Root: roots("/"), Home: "root"}
}

// roots is a directory of which only files are opened that only root can have written.
type roots string

// Open opens a file.
func (r roots) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return trusted.Open(path.Join(string(r), name))
}

// ReadDir lists a directory. Open checks each of its files.
func (r roots) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	return os.ReadDir(path.Join(string(r), name))
}

// expand replaces presets by their present content: a jail's rules do not change with the files
// of the presets.
func (n *Network) expand() error {
	preset := func(entry string) bool { return strings.HasPrefix(entry, "@") }
	if !slices.ContainsFunc(n.Allow, preset) && !slices.ContainsFunc(n.Deny, preset) {
		return nil
	}
	set, err := n.Rules()
	if err != nil {
		return err
	}
	n.Allow, n.Deny = set.Entries(), set.Denied()
	return nil
}
