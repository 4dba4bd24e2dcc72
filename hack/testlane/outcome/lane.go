package outcome

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Lane is what became of a part of the tests: of one call of go test, of a virtual machine, or of
// a command.
type Lane struct {
	Name string // the task of make
	Part string // what it is of the task, "" for the whole
	// Trouble is what failed that is no test, "" for nothing.
	Trouble  string
	Failed   []Entry
	Unsteady []Entry // failed, and passed when they ran once more
	Passed   []Entry // at once
	Cost
	Packages []PackageCost // of a call of go test
}

// Whole is the part that stands for all parts of a task, and for the command that ran them.
const Whole = "command"

// Red reports whether something failed.
func (l Lane) Red() bool { return l.Trouble != "" || len(l.Failed) > 0 }

// An Entry names a test.
type Entry struct {
	Package string
	Test    string // "" for the package outside of its tests
	Note    string `json:",omitempty"` // why it did not run once more, or what failed that is no test
	File    string `json:",omitempty"` // where its output is
}

// Same reports whether both name the same test.
func (e Entry) Same(other Entry) bool { return e.Package == other.Package && e.Test == other.Test }

// String names the test as people write it, and what there is to know of it.
func (e Entry) String() string {
	text := strings.TrimPrefix(e.Package, "agentjail.dev/")
	if e.Test != "" {
		text += " " + e.Test
	}
	notes := slices.DeleteFunc([]string{e.Note, e.File}, func(note string) bool { return note == "" })
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, ": ") + ")"
	}
	return text
}

// Write keeps the lane in a directory, which is made where it is missing.
func (l Lane) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(l, "", "\t")
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(l.Name+"."+l.Part, ".")
	return os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644)
}

// ReadAll reads the lanes that are in a directory, by name.
func ReadAll(dir string) ([]Lane, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var lanes []Lane
	var errs []error
	for _, file := range files {
		var l Lane
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		lanes = append(lanes, l)
	}
	return lanes, errors.Join(errs...)
}
