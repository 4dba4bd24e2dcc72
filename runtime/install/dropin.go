package install

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// ownDropIn reads a drop-in that holds nothing but what a plan wrote, into the value at dst. The
// drop-in must be as render writes it, so that nothing is lost when it is written again.
func (p *Plan) ownDropIn(engine string, dst any, render func() ([]byte, error)) (*File, error) {
	f, err := p.file(p.options.DropIn)
	if err != nil {
		return nil, err
	}
	f.Own = true
	if err := toml.Unmarshal(f.Before, dst); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if text, err := render(); f.exists && !p.options.Force && (err != nil || !bytes.Equal(text, f.Before)) {
		return nil, fmt.Errorf("%s is not as `agentjail install %s` writes it: move what is yours to another file of that directory: %w", f.Path, engine, errConflict)
	}
	return f, nil
}

// checkOtherFiles has look judge each other file that an engine reads with a drop-in: those of its
// directory NAME.d, and NAME itself. C is what is read of them.
func checkOtherFiles[C any](dropIn string, look func(file string, conf *C) error) error {
	directory := filepath.Dir(dropIn)
	files, err := filepath.Glob(filepath.Join(directory, "*.conf"))
	if err != nil {
		return err
	}
	if main, ok := strings.CutSuffix(directory, ".d"); ok {
		files = append(files, main)
	}
	for _, file := range files {
		if file == dropIn {
			continue
		}
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		conf := new(C)
		if err := toml.Unmarshal(text, conf); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := look(file, conf); err != nil {
			return err
		}
	}
	return nil
}

// readLater reports whether a file is read after the drop-in, as one of the same directory.
func readLater(file, dropIn string) bool {
	return filepath.Dir(file) == filepath.Dir(dropIn) && filepath.Base(file) > filepath.Base(dropIn)
}

// tomlKey is a runtime's name as a key: but for dots it has nothing that a bare key cannot have.
func tomlKey(name string) string {
	if strings.Contains(name, ".") {
		return quoted(name)
	}
	return name
}

// quoted is a TOML basic string; names and paths have no control characters that Go would escape
// otherwise.
func quoted(s string) string { return strconv.Quote(s) }
