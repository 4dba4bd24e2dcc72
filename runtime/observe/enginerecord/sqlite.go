package enginerecord

import (
	"encoding/binary"
	"errors"
	"io"
)

// A library for all of SQLite is a quarter of agentjail's size. Of its format
// (https://www.sqlite.org/fileformat2.html), this reads the rows of one table.

// maxPages bounds the pages that are read of a database.
const maxPages = 1 << 18

var errSQLite = errors.New("its format is not one of SQLite's that is read here")

// An sqlite is a database that no process changes meanwhile.
type sqlite struct {
	file         io.ReaderAt
	size, usable int // of a page, in bytes
	left         int // how many pages may still be read
}

// A row is a row of a table: its first bytes, and the page that has more.
type row struct {
	*sqlite
	text []byte
	size int
	next uint32
}

// readSQLite returns the configuration of a container: the fourth column of the row of
// ContainerConfig whose first is the id (libpod/sqlite_state_internal.go).
func readSQLite(file io.ReaderAt, id string) (config []byte, err error) {
	defer func() {
		if recover() != nil { // an index beyond its page
			err = errSQLite
		}
	}()
	head := make([]byte, 100)
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, err
	}
	s := &sqlite{file: file, size: int(binary.BigEndian.Uint16(head[16:])), left: maxPages}
	if s.size == 1 {
		s.size = 1 << 16
	}
	s.usable = s.size - int(head[20])
	// Version 2 is that of a write-ahead log, and encoding 1 is UTF-8.
	if string(head[:16]) != "SQLite format 3\x00" || head[19] != 1 || binary.BigEndian.Uint32(head[56:]) != 1 || s.usable < 480 {
		return nil, errSQLite
	}
	schema, err := s.find(1, 1, "ContainerConfig")
	if err != nil {
		return nil, err
	}
	var root uint32
	at, err := schema.column(3)
	if err != nil {
		return nil, err
	}
	for _, b := range at {
		root = root<<8 | uint32(b)
	}
	found, err := s.find(root, 0, id)
	if err != nil {
		return nil, err
	}
	return found.column(3)
}

// find returns the row of the table at a page whose nth column has this text.
func (s *sqlite) find(page uint32, n int, text string) (*row, error) {
	data, err := s.read(page)
	if err != nil {
		return nil, err
	}
	head := data
	if page == 1 {
		head = data[100:]
	}
	cells, first := int(binary.BigEndian.Uint16(head[3:])), 8
	var below []uint32
	switch head[0] {
	case 5: // within the tree
		first = 12
		below = append(below, binary.BigEndian.Uint32(head[8:]))
	case 13: // a leaf
	default:
		return nil, errSQLite
	}
	for i := range cells {
		cell := data[binary.BigEndian.Uint16(head[first+2*i:]):]
		if head[0] == 5 {
			below = append(below, binary.BigEndian.Uint32(cell))
			continue
		}
		r := s.row(cell)
		if got, err := r.column(n); err != nil || string(got) == text {
			return r, err
		}
	}
	for _, page := range below {
		if r, err := s.find(page, n, text); !errors.Is(err, errNone) {
			return r, err
		}
	}
	return nil, errNone
}

func (s *sqlite) read(page uint32) ([]byte, error) {
	if s.left--; s.left < 0 || page == 0 {
		return nil, errSQLite
	}
	data := make([]byte, s.size)
	_, err := s.file.ReadAt(data, (int64(page)-1)*int64(s.size))
	return data, err
}

// row reads a cell of a leaf.
func (s *sqlite) row(cell []byte) *row {
	size, n := varint(cell)
	_, m := varint(cell[n:])
	cell = cell[n+m:]
	r, local := &row{sqlite: s, size: size}, size
	if most := s.usable - 35; size > most {
		least := (s.usable-12)*32/255 - 23
		if local = least + (size-least)%(s.usable-4); local > most {
			local = least
		}
		r.next = binary.BigEndian.Uint32(cell[local:])
	}
	r.text = cell[:local]
	return r
}

// column returns the bytes of the nth column.
func (r *row) column(n int) ([]byte, error) {
	end, at := varint(r.text)
	for start := end; at < end; n-- {
		kind, k := varint(r.text[at:])
		size := [...]int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0}[min(kind, 11)]
		if kind >= 12 {
			size = (kind - 12) / 2
		}
		if n == 0 {
			err := r.readTo(start + size)
			if err != nil {
				return nil, err
			}
			return r.text[start : start+size], nil
		}
		at, start = at+k, start+size
	}
	return nil, errSQLite
}

// readTo reads the row's first n bytes.
func (r *row) readTo(n int) error {
	if n > r.size || r.size > maxRecord {
		return errSQLite
	}
	for len(r.text) < n {
		page, err := r.read(r.next)
		if err != nil {
			return err
		}
		r.next = binary.BigEndian.Uint32(page)
		r.text = append(r.text[:len(r.text):len(r.text)], page[4:min(r.usable, 4+r.size-len(r.text))]...)
	}
	return nil
}

// varint reads a number of up to nine bytes, and how many it takes.
func varint(b []byte) (v, n int) {
	for n < 8 {
		v, n = v<<7|int(b[n]&0x7f), n+1
		if b[n-1] < 0x80 {
			return v, n
		}
	}
	return v<<8 | int(b[8]), 9
}
