package install

import (
	"bytes"
	"fmt"

	"github.com/aymanbagabas/go-udiff"
)

// File is a configuration file and what shall become of it.
type File struct {
	Path   string
	Before []byte // its content; nil if there is none
	After  []byte // its content to be
	Remove bool   // the file goes
	// Own reports that the file is agentjail's alone, so that no backup of it is kept.
	Own bool
	// Diff is Before against After as a unified diff, "" if there is no change.
	Diff string
	// Backup is where Plan.Apply has left the content from before, "" for nowhere.
	Backup string

	exists bool
	// interim is what a running engine has to read before the file may be as it shall be; nil for
	// nothing.
	interim []byte
}

// file reads a file for the plan, which need not exist. It stays as it is unless its After is
// changed.
func (p *Plan) file(path string) (*File, error) {
	c, err := openConfig(path)
	if err != nil {
		return nil, err
	}
	defer c.close()
	f := &File{Path: path, Before: c.content, After: c.content, exists: c.exists}
	p.Files = append(p.Files, f)
	return f, nil
}

// Changed reports whether there is anything to write.
func (f *File) Changed() bool { return f.Remove || !bytes.Equal(f.Before, f.After) }

// compare fills in the diff.
func (f *File) compare() {
	if !f.Changed() {
		return
	}
	from, to, after := f.Path, f.Path, f.After
	if !f.exists {
		from = "/dev/null"
	}
	if f.Remove {
		to, after = "/dev/null", nil
	}
	f.Diff = udiff.Unified(from, to, string(f.Before), string(after))
}

// unchanged makes sure that a file that is to change is still as it was read.
func (f *File) unchanged() error {
	if !f.Changed() {
		return nil
	}
	c, err := f.open()
	if err != nil {
		return err
	}
	c.close()
	return nil
}

// open opens the file as long as it is as it was read.
func (f *File) open() (*config, error) {
	c, err := openConfig(f.Path)
	if err != nil {
		return nil, err
	}
	if c.exists != f.exists || !bytes.Equal(c.content, f.Before) {
		c.close()
		return nil, fmt.Errorf("%s: %w", f.Path, errFileChanged)
	}
	return c, nil
}

// write keeps the content beside the file and makes the change, or the first step of it.
func (f *File) write() error {
	c, err := f.open()
	if err != nil {
		return err
	}
	defer c.close()
	if c.exists {
		if f.Backup, err = c.backup(); err != nil {
			return fmt.Errorf("back up %s: %w", f.Path, err)
		}
	}
	if f.interim != nil {
		err = c.replace(f.interim)
	} else {
		err = f.put(c)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	return nil
}

// put removes the file, or writes its new content.
func (f *File) put(c *config) error {
	if f.Remove {
		return c.remove()
	}
	return c.replace(f.After)
}

// rewrite makes the second step of a change whose first was the interim content.
func (f *File) rewrite() error {
	if !f.Remove && bytes.Equal(f.interim, f.After) {
		return nil
	}
	c, err := openConfig(f.Path)
	if err != nil {
		return err
	}
	defer c.close()
	if !c.exists || !bytes.Equal(c.content, f.interim) {
		return fmt.Errorf("%s: %w", f.Path, errFileChanged)
	}
	if err := f.put(c); err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	return nil
}
