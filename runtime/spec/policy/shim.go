package policy

import (
	"fmt"
	"net/url"
	"strings"
)

// Shim decides the rights of the containerd shim on the host for a jail's output.
type Shim struct {
	// Loggers are the programs that may receive a jail's output by a log URI of the scheme binary
	// or binary-v2. containerd's shims run them as root on the host, and an image's label could
	// name them (CVE-2026-53488). Each entry is an absolute path, with the arguments as the URI
	// has them: /usr/local/bin/nerdctl?_NERDCTL_INTERNAL_LOGGING=/var/lib/nerdctl/1935db59
	Loggers []string `toml:"loggers" json:"loggers"`
	// Logs are directories below which a jail's output may be written to files
	// (log URIs of the scheme file, and plain paths), and in which pipes of an
	// engine at a place of its own may be.
	Logs []string `toml:"logs" json:"logs"`
}

// Logger reports whether an entry of Loggers allows a program with these arguments, the key and
// value pairs of a URI. All of them must be listed: with other arguments a program such as
// nerdctl can do anything that root can.
func (s Shim) Logger(path string, arguments url.Values) bool {
	for _, entry := range s.Loggers {
		program, query, _ := strings.Cut(entry, "?")
		listed, err := url.ParseQuery(query)
		if err == nil && program == path && listed.Encode() == arguments.Encode() {
			return true
		}
	}
	return false
}

// LoggerEntry is the entry of Loggers that would allow a program.
func LoggerEntry(path string, arguments url.Values) string {
	if len(arguments) == 0 {
		return path
	}
	return path + "?" + arguments.Encode()
}

func (s Shim) validate() error {
	for _, entry := range s.Loggers {
		program, query, _ := strings.Cut(entry, "?")
		if err := paths("shim.loggers", "/", []string{program}); err != nil {
			return err
		}
		if _, err := url.ParseQuery(query); err != nil {
			return fmt.Errorf("shim.loggers: %q: the arguments after ? are not KEY=VALUE&…: %w", entry, err)
		}
	}
	return nil
}
