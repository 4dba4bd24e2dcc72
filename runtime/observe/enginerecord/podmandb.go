package enginerecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// patience bounds how long a start waits for Podman to release its database.
const patience = 20 * time.Second

// errNone means that a database has no such container.
var errNone = errors.New("it has no such container")

// Labels returns the labels of the container id, with those of its image, from Podman's database,
// which has them before Podman calls the runtime. `podman inspect` has none during a create, since
// Podman holds the container's lock meanwhile. A conmon of another engine's has none.
func (c Conmon) Labels(id string) (map[string]string, error) {
	if c.root == "" {
		return nil, nil
	}
	// The places of SQLite's are those of Podman 4.4 and later, also of --transient-store
	// (libpod/sqlite_state.go); of BoltDB's those before release 6 (libpod/runtime.go).
	var looked []string
	for _, db := range []struct {
		dir, name string
		read      func(path, id string) ([]byte, error)
	}{
		{c.root, "db.sql", sqliteConfig},
		{filepath.Join(c.root, "libpod"), "bolt_state.db", boltConfig},
		{filepath.Join(c.root, "libpod"), "db.sql", sqliteConfig},
		{c.runroot, "db.sql", sqliteConfig},
		{c.tmpdir, "bolt_state.db", boltConfig},
	} {
		path := filepath.Join(db.dir, db.name)
		if !filepath.IsAbs(path) {
			continue
		}
		text, err := db.read(path, id)
		if errors.Is(err, errNone) || errors.Is(err, fs.ErrNotExist) {
			looked = append(looked, path)
			continue
		}
		var config struct {
			ID     string
			Labels map[string]string
		}
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if err == nil && config.ID != id {
			err = fmt.Errorf("the record is of container %q", config.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("reading Podman's database %s: %w", path, err)
		}
		return config.Labels, nil
	}
	return nil, fmt.Errorf("no database of Podman's has container %s: %s (static_dir of containers.conf(5) is to be the default)",
		id, strings.Join(looked, ", "))
}

// boltConfig returns a container's configuration from a database of BoltDB's.
func boltConfig(path, id string) (config []byte, err error) {
	db, err := bbolt.Open(path, 0, &bbolt.Options{
		ReadOnly: true, Timeout: patience,
		OpenFile: func(path string, _ int, _ os.FileMode) (*os.File, error) { return openOwn(path) },
	})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		all := tx.Bucket([]byte("ctr")) // libpod/boltdb_state_internal.go
		if all == nil || all.Bucket([]byte(id)) == nil {
			return errNone
		}
		config = append(config, all.Bucket([]byte(id)).Get([]byte("config"))...)
		return nil
	})
	return config, err
}

// sqliteConfig returns a container's configuration from a database of SQLite's
// (https://www.sqlite.org/fileformat2.html).
func sqliteConfig(path, id string) ([]byte, error) {
	f, err := openOwn(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// SQLite's SHARED lock: no process writes to the file meanwhile (lockingv3.html).
	lock := unix.Flock_t{Type: unix.F_RDLCK, Start: 0x40000000 + 2, Len: 510}
	for end := time.Now().Add(patience); ; time.Sleep(patience / 2000) {
		if err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err == nil {
			break
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) || time.Now().After(end) {
			return nil, fmt.Errorf("locking it: %w", err)
		}
	}
	return readSQLite(f, id)
}
