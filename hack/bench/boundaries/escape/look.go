package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"agentjail.dev/hack/bench/boundaries/shown"
)

// looks are what else the program finds out of a boundary from inside.
var looks = map[string]func() error{
	"files": files,
	"shown": func() error { return json.NewEncoder(os.Stdout).Encode(shown.Read()) },
}

// ofFiles is how many files are made, read, looked at and removed.
const ofFiles = 400

// files prints how many small files a second are made, read, looked at and removed.
func files() error {
	dir := mkdir()
	began := time.Now()
	for i := range ofFiles {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte("a line of text\n"), 0o644); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if _, err := e.Info(); err != nil {
			return err
		}
		if _, err := os.ReadFile(path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	fmt.Println(int(ofFiles / time.Since(began).Seconds()))
	return nil
}
