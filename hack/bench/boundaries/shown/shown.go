// Package shown compares what a file tree shows of its host with the host's own files.
package shown

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/rootfs/procfiles"
)

// Rows are the ways to learn of the host that are compared by their text: files and directories
// that have one text for all processes. Namespaces of mounts and control groups show another text
// to each process, and system calls and instructions have none.
func Rows() (paths []string) {
	for _, e := range procfiles.Table {
		if strings.HasPrefix(e.Path, "/") && !strings.Contains(e.Path, " ") && e.Of != "mnt" && e.Of != "cgroup" {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// most bounds what is read of a file, in bytes.
const most = 16 << 10

// Read returns the text of each row that can be read, of a directory the names in it.
func Read() map[string]string {
	out := map[string]string{}
	for _, row := range Rows() {
		path := strings.Replace(row, "/PID/", "/self/", 1)
		if entries, err := os.ReadDir(path); err == nil {
			for _, e := range entries {
				out[row] += e.Name() + "\n"
			}
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(f, most))
		f.Close()
		out[row] = string(text)
	}
	return out
}

// Host reports whether a text is the host's own, which was read before and after it: the same text,
// or, where the host's changes, a half of its numbers.
func Host(before, text, after string) bool {
	if strings.TrimSpace(text) == "" {
		return false
	}
	if text == before || text == after {
		return true
	}
	first, words, last := strings.Fields(before), strings.Fields(text), strings.Fields(after)
	numbers, same := 0, 0
	for i, w := range words {
		if !distinct(w) {
			continue
		}
		numbers++
		if i < len(first) && i < len(last) && (w == first[i] || w == last[i] || between(first[i], w, last[i])) {
			same++
		}
	}
	return same > 0 && 2*same >= numbers
}

// distinct reports whether a word distinguishes a machine: small numbers are the same on many.
func distinct(word string) bool { return len(word) > 2 && strings.ContainsAny(word, "123456789") }

// between reports whether a number lies between two others, in either order.
func between(a, n, b string) bool {
	var v [3]float64
	for i, text := range []string{a, n, b} {
		var err error
		if v[i], err = strconv.ParseFloat(text, 64); err != nil {
			return false
		}
	}
	return slices.IsSorted(v[:]) || v[0] >= v[1] && v[1] >= v[2]
}
