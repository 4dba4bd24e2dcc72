package presets

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"agentjail.dev/runtime/spec/netrules"
)

// TestEmbedded: every file of this package parses, and names no registry of packages by its usual words.
func TestEmbedded(t *testing.T) {
	for _, name := range names() {
		if _, ok := tools[name]; ok {
			continue
		}
		s, err := netrules.Parse([]string{"@" + name}, nil, &Source{})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, r := range s.Rules() {
			if r.Wildcard || r.Private || r.TLS != "" || r.ECH || r.Preset != name {
				t.Errorf("@%s: %q", name, r.Text)
			}
			for _, word := range []string{"npm", "registry", "proxy", "pypi", "pkg", "packages", "deb", "crates"} {
				if strings.Contains(r.Name, word) {
					t.Errorf("@%s: %s looks like a registry", name, r.Name)
				}
			}
		}
	}
}

func files(kv ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = &fstest.MapFile{Data: []byte(kv[i+1])}
	}
	return m
}

func env(kv ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == name {
				return kv[i+1]
			}
		}
		return ""
	}
}

func TestTools(t *testing.T) {
	for _, c := range []struct {
		what, name string
		s          Source
		want       []string // nil for an error
	}{
		{"nothing", "npm", Source{}, nil},
		{"other settings", "npm", Source{Root: files("etc/npmrc", "cafile=/etc/ssl/ca.pem\n")}, nil},
		{
			"npm", "npm",
			Source{Root: files("etc/npmrc", "; c\nregistry = https://user:secret@npm.house.example:8443/x/\n@a:registry=http://scope.example\n//npm.house.example/:_authToken=secret\n")},
			[]string{"npm.house.example:8443", "scope.example:80"},
		},
		{"npm: the user's wins", "npm", Source{Home: "root", Root: files("etc/npmrc", "registry=https://global.example", "root/.npmrc", "registry=\"https://user.example/\"")}, []string{"user.example:443"}},
		{"npm: no home", "npm", Source{Root: files("etc/npmrc", "registry=https://global.example", "root/.npmrc", "registry=https://user.example/")}, []string{"global.example:443"}},
		{"npm: environment", "npm", Source{Getenv: env("npm_config_registry", "https://env.example"), Root: files("etc/npmrc", "registry=https://global.example")}, []string{"env.example:443"}},
		{"npm: indented", "npm", Source{Root: files("etc/npmrc", "a=b\n  registry=https://indented.example\n")}, []string{"indented.example:443"}},
		{"npm: variable", "npm", Source{Root: files("etc/npmrc", "registry=https://${HOST}/")}, nil},
		{"npm: no URL", "npm", Source{Root: files("etc/npmrc", "registry=true")}, nil},
		{"npm: wildcard", "npm", Source{Root: files("etc/npmrc", "registry=https://*.a.example")}, nil},
		{"npm: loopback by name", "npm", Source{Root: files("etc/npmrc", "registry=http://localhost:4873")}, nil},
		{"npm: address", "npm", Source{Root: files("etc/npmrc", "registry=http://[2001:db8::1]:4873")}, []string{"[2001:db8::1]:4873"}},
		{"npm: too long", "npm", Source{Root: files("etc/npmrc", "registry=https://a.example\n"+strings.Repeat("#\n", maxFile))}, nil},
		{"go", "go", Source{Home: "root", Root: files("usr/local/go/go.env", "# c\nGOPROXY=https://proxy.example,direct\nGOSUMDB=sum.example\n")}, []string{"proxy.example:443", "sum.example:443"}},
		{
			"go: the user's wins", "go",
			Source{Home: "root", Root: files("root/.config/go/env", "GOPROXY=http://a.example:81/p|b.example,off\n", "usr/local/go/go.env", "GOPROXY=https://proxy.example\nGOSUMDB=sum.example+1234+key https://mirror.example/s\n")},
			[]string{"a.example:81", "b.example:443", "mirror.example:443"},
		},
		{"go: off", "go", Source{Root: files("usr/local/go/go.env", "GOPROXY=direct\nGOSUMDB=off\n")}, nil},
		{
			"pip", "pypi",
			Source{Root: files("etc/pip.conf", "[global]\nindex-url = https://pip.example/simple\nextra-index-url =\n    https://b.example/simple\n    https://c.example/simple?a=b\n[search]\nindex-url = https://no.example\n")},
			[]string{"pip.example:443", "b.example:443", "c.example:443"},
		},
		{"pip: none", "pypi", Source{Root: files("etc/pip.conf", "[global]\ncert = /x\n")}, nil},
		{
			"apt", "apt",
			Source{Root: files(
				"etc/apt/sources.list", "# deb http://no.example x y\ndeb [arch=amd64 signed-by=/a] http://one.example/debian stable main\ndeb-src https://src.example:8443/ stable main\ndeb cdrom:[Debian]/ stable main\ndeb file:/srv/x ./\n",
				"etc/apt/sources.list.d/a.sources", "Types: deb\n# http://no.example\nURIs: http://two.example/debian\n https://three.example/\nSuites: stable\n\nEnabled: no\nURIs: http://no.example\n\nURIs: http://one.example/security\n",
				"etc/apt/sources.list.d/b.list", "deb http://four.example/ x main",
				"etc/apt/sources.list.d/c.save", "deb http://no.example/ x main")},
			[]string{"one.example:80", "src.example:8443", "two.example:80", "three.example:443", "four.example:80"},
		},
		{"apt: none", "apt", Source{Root: files("etc/apt/sources.list", "deb file:/srv ./")}, nil},
		{"administrator's", "house", Source{Dir: files("house.txt", "# c\nci.house.example:443 private # why\n\n")}, []string{"ci.house.example:443 private"}},
		{"administrator's before a tool's", "npm", Source{Dir: files("npm.txt", "a.example"), Root: files("etc/npmrc", "registry=https://b.example")}, []string{"a.example"}},
		{"administrator's before ours", "github", Source{Dir: files("github.txt", "a.example")}, []string{"a.example"}},
		{"administrator's, broken", "github", Source{Dir: files("github.txt", "a.example\n*.com")}, nil},
		{"administrator's, empty", "github", Source{Dir: files("github.txt", "# nothing")}, nil},
		{"a preset in a preset", "house", Source{Dir: files("house.txt", "@github")}, nil},
		{"unknown", "house", Source{}, nil},
		{"path", "../etc/passwd", Source{Dir: files("a.txt", "a.example")}, nil},
	} {
		got, err := c.s.Preset(c.name)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s: %q, %v", c.what, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func FuzzTools(f *testing.F) {
	f.Add("[global]\nindex-url = https://a.example\n b\nregistry=x\nGOPROXY=a,b\ndeb [a] http://a.example x\nURIs: http://b.example\n")
	f.Fuzz(func(t *testing.T, text string) {
		root := files("etc/npmrc", text, "usr/local/go/go.env", text, "etc/pip.conf", text, "etc/apt/sources.list", text, "etc/apt/sources.list.d/a.sources", text)
		for name := range tools {
			entries, err := (&Source{Root: root, Dir: files("x.txt", text)}).Preset(name)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if r, err := netrules.ParseEntry(e, false); err != nil || r.Wildcard || r.Private || r.TLS != "" {
					t.Fatalf("@%s: %q: %v", name, e, err)
				}
			}
		}
		_, _ = (&Source{Dir: files("x.txt", text)}).Preset("x")
	})
}
