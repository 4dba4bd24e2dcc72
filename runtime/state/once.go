package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
)

// mostReported bounds the files of OncePerBoot.
const mostReported = 256

// OncePerBoot reports whether a text is reported for the first time since the machine was started.
// If that cannot be recorded the text is reported again: twice is better than never.
func (s Store) OncePerBoot(text string) bool {
	dir, err := s.Private("reported")
	if err != nil {
		return true
	}
	sum := sha256.Sum256([]byte(BootID() + "\n" + text))
	path := filepath.Join(dir, hex.EncodeToString(sum[:16]))
	if _, err := os.Lstat(path); err == nil {
		return false
	}
	if names, err := readNames(dir); err != nil || len(names) >= mostReported {
		return true
	}
	// Of two processes at once one makes the file.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return !errors.Is(err, os.ErrExist)
	}
	_ = f.Close()
	return true
}
