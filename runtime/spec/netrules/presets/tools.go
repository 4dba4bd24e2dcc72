package presets

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/netrules"
)

// A host reads the configuration files of tools. It keeps the first error other than an absent
// file.
type host struct {
	*Source
	err error
}

// file returns a file's text, "" for an absent file. The path is absolute.
func (h *host) file(name string) string {
	if h.Root == nil {
		return ""
	}
	text, err := read(h.Root, strings.TrimPrefix(name, "/"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && h.err == nil {
		h.err = err
	}
	return text
}

// home returns a path in the home directory, or a path that does not exist.
func (h *host) home(name string) string {
	if h.Home == "" {
		return "/nonexistent"
	}
	return path.Join("/", h.Home, name)
}

func (h *host) env(name string) string {
	if h.Getenv == nil {
		return ""
	}
	return h.Getenv(name)
}

// settings calls f with each "key = value" of a text, with the section it is in. "#" and ";" begin
// comments. If continued is true, an indented line is a further value of the key before it, as in
// Python's configparser.
func settings(text string, continued bool, f func(section, key, value string)) {
	section, key := "", ""
	for line := range strings.Lines(text) {
		s := strings.TrimSpace(line)
		switch {
		case s == "" || s[0] == '#' || s[0] == ';':
		case s[0] == '[':
			section, key = strings.Trim(s, "[]"), ""
		case continued && key != "" && (line[0] == ' ' || line[0] == '\t'):
			f(section, key, s)
		default:
			k, v, _ := strings.Cut(s, "=")
			key = strings.TrimSpace(k)
			f(section, key, strings.Trim(strings.TrimSpace(v), `"'`))
		}
	}
}

// npm reads npm's registry from the file with the highest precedence, and the registries of scopes.
func npm(h *host) []string {
	registry := h.env("npm_config_registry")
	var out []string
	// The order of npm: environment, user, global, built-in.
	for _, name := range []string{h.home(".npmrc"), "/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc"} {
		settings(h.file(name), false, func(_, key, value string) {
			if strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry") {
				out = append(out, value)
			} else if key == "registry" && registry == "" {
				registry = value
			}
		})
	}
	if registry == "" {
		return out
	}
	return append([]string{registry}, out...)
}

// golang reads Go's module proxies and its sum database.
func golang(h *host) []string {
	values := map[string]string{"GOPROXY": h.env("GOPROXY"), "GOSUMDB": h.env("GOSUMDB")}
	for _, name := range []string{h.home(".config/go/env"), "/usr/local/go/go.env", "/usr/lib/go/go.env", "/usr/share/go/go.env"} {
		settings(h.file(name), false, func(_, key, value string) {
			if v, ok := values[key]; ok && v == "" {
				values[key] = value
			}
		})
	}
	var out []string
	for _, p := range strings.FieldsFunc(values["GOPROXY"], func(r rune) bool { return r == ',' || r == '|' }) {
		switch p = strings.TrimSpace(p); {
		case p == "direct" || p == "off" || p == "noproxy":
		case strings.Contains(p, "://"):
			out = append(out, p)
		default:
			out = append(out, "https://"+p)
		}
	}
	// "name", "name+hash+key" or one of them and a URL (go help environment).
	if db := strings.Fields(values["GOSUMDB"]); len(db) > 1 {
		out = append(out, db[1])
	} else if len(db) == 1 && db[0] != "off" {
		name, _, _ := strings.Cut(db[0], "+")
		out = append(out, "https://"+name)
	}
	return out
}

// pip reads the indexes of pip.
func pip(h *host) []string {
	index, extra := h.env("PIP_INDEX_URL"), strings.Fields(h.env("PIP_EXTRA_INDEX_URL"))
	for _, name := range []string{
		h.home(".config/pip/pip.conf"), h.home(".pip/pip.conf"), "/etc/pip.conf",
		"/etc/xdg/pip/pip.conf",
	} {
		settings(h.file(name), true, func(section, key, value string) {
			if section != "global" && section != "install" {
				return
			}
			switch strings.ReplaceAll(key, "_", "-") {
			case "index-url":
				if index == "" {
					index = value
				}
			case "extra-index-url":
				extra = append(extra, strings.Fields(value)...)
			}
		})
	}
	if index == "" {
		return extra
	}
	return append([]string{index}, extra...)
}

// apt reads the URIs of the sources of packages. Sources that are no http or https have no host to
// allow.
func apt(h *host) []string {
	out := oneLine(h.file("/etc/apt/sources.list"))
	if h.Root == nil {
		return out
	}
	files, err := fs.ReadDir(h.Root, "etc/apt/sources.list.d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.err = err
	}
	for _, f := range files[:min(len(files), maxFiles)] {
		switch name := path.Join("/etc/apt/sources.list.d", f.Name()); path.Ext(name) {
		case ".list":
			out = append(out, oneLine(h.file(name))...)
		case ".sources":
			out = append(out, deb822(h.file(name))...)
		}
	}
	return slices.DeleteFunc(out, func(u string) bool {
		return !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://")
	})
}

// oneLine reads "deb [options] URI suite component ...".
func oneLine(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb")
		if !ok {
			continue
		}
		rest = strings.TrimSpace(strings.TrimPrefix(rest, "-src"))
		if strings.HasPrefix(rest, "[") {
			if _, rest, ok = strings.Cut(rest, "]"); !ok {
				continue
			}
		}
		if fields := strings.Fields(rest); len(fields) > 0 {
			out = append(out, fields[0])
		}
	}
	return out
}

// deb822 reads the field URIs of stanzas that are not switched off.
func deb822(text string) []string {
	var out, uris []string
	enabled, key := true, ""
	end := func() {
		if enabled {
			out = append(out, uris...)
		}
		uris, enabled, key = nil, true, ""
	}
	for line := range strings.Lines(text) {
		if line[0] == '#' {
			continue
		}
		if strings.TrimSpace(line) == "" {
			end()
			continue
		}
		value := line
		if line[0] != ' ' && line[0] != '\t' {
			key, value, _ = strings.Cut(line, ":")
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "uris":
			uris = append(uris, strings.Fields(value)...)
		case "enabled":
			enabled = !slices.Contains([]string{"no", "false", "off", "0", "without", "disable"},
				strings.ToLower(strings.TrimSpace(value)))
		}
	}
	end()
	return out
}

// entries returns the hosts and ports of URLs, each once. An error does not contain the URL, which
// may contain a password.
func entries(urls []string) ([]string, error) {
	var out []string
	for i, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return nil, fmt.Errorf("address %d of its configuration is no http or https URL", i+1)
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
		}
		host := u.Hostname()
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		r, err := netrules.ParseEntry(host+":"+port, false)
		if err != nil || r.Wildcard {
			return nil, fmt.Errorf("address %d of its configuration has no host that a policy can name", i+1)
		}
		if e := r.String(); !slices.Contains(out, e) {
			if len(out) == maxEntries {
				return nil, fmt.Errorf("more than %d entries", maxEntries)
			}
			out = append(out, e)
		}
	}
	return out, nil
}
