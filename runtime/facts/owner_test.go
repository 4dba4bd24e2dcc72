package facts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

// imageRoot opens a root file system with these account files.
func imageRoot(t *testing.T, passwd, group string) *os.File {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"passwd": passwd, "group": group} {
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := rootfs.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// TestFindUser: names and numbers are found as engines find the user of a process.
func TestFindUser(t *testing.T) {
	root := imageRoot(t, "root:x:0:0:root:/root:/bin/sh\n\nshort:x\nnode:x:1000:1001::/home/node:/bin/bash\n1234:x:7:8::/:\nbad:x:-1:5:::\nbig:x:4294967295:5:::\nnode:x:5:5:::\nwide:x:70000:5:::\n", "root:x:0:\ndocker:x:998:node\nbad:x:no:\n")
	for _, c := range []struct {
		text string
		want string // "" where it is not found
	}{
		{"node", "1000:1001"},
		{"1000", "1000:1001"},
		{"4711", "4711:0"},
		{"1234", "1234:0"}, // not the user whose name that is
		{"1000:5", "1000:5"},
		{"node:docker", "1000:998"},
		{"node:5", "1000:5"},
		{"0", "0:0"},
		{"wide", "70000:5"}, // hardening finds that the jail lacks it
		{"nobody", ""},
		{"short", ""},
		{"bad", ""},
		{"big", ""},
		{"node:none", ""},
		{"node:bad", ""},
	} {
		got, err := findUser(root, c.text)
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), "the image's") {
				t.Errorf("%s: %+v, %v", c.text, got, err)
			}
			continue
		}
		if err != nil || fmt.Sprintf("%d:%d", got.UID, got.GID) != c.want {
			t.Errorf("%s: %+v, %v, not %s", c.text, got, err, c.want)
		}
	}
}

// TestFindUserStaysInside: whatever an image has in place of its account file,
// nothing outside is read and nothing is waited for.
func TestFindUserStaysInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("node:x:1000:1000:::\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, place := range map[string]func(at string) error{
		"a link out":          func(at string) error { return os.Symlink(outside, at) },
		"a link up":           func(at string) error { return os.Symlink("../../../../../../../../../.."+outside, at) },
		"the caller's own":    func(at string) error { return os.Symlink("/proc/self/root"+outside, at) },
		"a pipe":              func(at string) error { return unix.Mkfifo(at, 0o644) },
		"a directory":         func(at string) error { return os.Mkdir(at, 0o755) },
		"nothing":             func(string) error { return nil },
		"more than is read":   func(at string) error { return os.WriteFile(at, make([]byte, maxAccounts+1), 0o644) },
		"one line of a file":  func(at string) error { return os.WriteFile(at, []byte(strings.Repeat("x", 200<<10)), 0o644) },
		"a link to a pipe":    func(at string) error { return os.Symlink("group", at) },
		"a link to itself":    func(at string) error { return os.Symlink("passwd", at) },
		"no lines but colons": func(at string) error { return os.WriteFile(at, []byte("::::::::\n\x00:\x00:\x00:\n"), 0o644) },
	} {
		root := imageRoot(t, "", "")
		etc := filepath.Join(root.Name(), "etc")
		for _, f := range []string{"passwd", "group"} {
			if err := os.Remove(filepath.Join(etc, f)); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Mkfifo(filepath.Join(etc, "group"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := place(filepath.Join(etc, "passwd")); err != nil {
			t.Fatal(name, err)
		}
		if got, err := findUser(root, "node"); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
		if got, err := findUser(root, "1000"); err != nil || *got != (plan.User{UID: 1000}) {
			t.Errorf("%s: a number: %+v, %v", name, got, err)
		}
	}
	// Links within the image are its own.
	root := imageRoot(t, "node:x:1000:1000:::\n", "")
	etc := filepath.Join(root.Name(), "etc")
	if err := os.Rename(etc+"/passwd", root.Name()+"/accounts"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/accounts", etc+"/passwd"); err != nil {
		t.Fatal(err)
	}
	if got, err := findUser(root, "node"); err != nil || got.UID != 1000 {
		t.Errorf("a link within the image: %+v, %v", got, err)
	}
}

// TestRemoteUser: who works in a devcontainer, by its metadata.
func TestRemoteUser(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		ignored          bool
	}{
		{"none", "", "", false},
		{"one", `{"remoteUser":"node"}`, "node", false},
		{"a list", `[{"id":"./f","init":true},{"remoteUser":"vscode","customizations":{"vscode":{"extensions":["a"]}}}, {"remoteEnv":{"A":null}}]`, "vscode", false},
		{"the last counts", `[{"remoteUser":"a"},{"remoteUser":"b"}]`, "b", false},
		{"the container's", `[{"containerUser":"c"}]`, "c", false},
		{"both", `[{"remoteUser":"r"},{"containerUser":"c"}]`, "r", false},
		{"as Dockerfiles have it", "[ {\"remoteUser\":\"node\"} ]", "node", false},
		{"nobody", `[{"init":true}]`, "", false},
		{"empty", `[]`, "", false},
		{"a number", `[{"remoteUser":"1000"}]`, "1000", false},
		{"a JSON number", `[{"remoteUser":1000}]`, "", true},
		{"not JSON", `{"remoteUser":`, "", true},
		{"two documents", `{"remoteUser":"a"},{"remoteUser":"b"}`, "b", false},
		{"a string", `"node"`, "", true},
		{"spaces", `   `, "", true},
		{"a path", `{"remoteUser":"../../etc/passwd"}`, "", true},
		{"a negative number", `{"remoteUser":"-1"}`, "", true},
		{"no number", `{"remoteUser":"4294967295"}`, "", true},
		{"past 32 bits", `{"remoteUser":"4294967296"}`, "", true},
		{"a variable", `{"remoteUser":"${localEnv:USER}"}`, "", true},
		{"a line more", `{"remoteUser":"a\nroot"}`, "", true},
		{"zero", `{"remoteUser":"a\u0000"}`, "", true},
		{"our own word", `{"remoteUser":"process"}`, "", true},
		{"huge", `{"remoteUser":"` + strings.Repeat("a", maxMetadata) + `"}`, "", true},
		{"a long name", `{"remoteUser":"` + strings.Repeat("a", 200) + `"}`, "", true},
		{"deep", strings.Repeat("[", 100000), "", true},
		{"deep within", `[{"customizations":` + strings.Repeat("[", 11000) + strings.Repeat("]", 11000) + `,"remoteUser":"a"}]`, "", true},
	} {
		got, err := remoteUser(c.text)
		if (err != nil) != c.ignored || err == nil && got != c.want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: a message of %d bytes", c.name, len(err.Error()))
		}
	}
}

// TestNamedOwner: the place that counts most, and what cannot be followed.
func TestNamedOwner(t *testing.T) {
	const id, name = "0123456789abcdef", "dev.agentjail.binds.owner"
	root := imageRoot(t, "node:x:1000:1001:::\nvscode:x:1500:1501:::\n", "")
	metadata := func(user string) string { return fmt.Sprintf(`[{"remoteUser":%q}]`, user) }
	for _, c := range []struct {
		what                       string
		annotation, label, devices string
		policy                     string
		want                       string // "" for the first process's user
		by                         string
		ignored                    []string
	}{
		{"nothing", "", "", "", "process", "", "", nil},
		{"policy", "", "", "", "4711", "4711:0", "policy", nil},
		{"a label", "", "node", "", "process", "1000:1001", "label " + name, nil},
		{"metadata", "", "", metadata("vscode"), "process", "1500:1501", "label " + metadataLabel, nil},
		{"an annotation", "5:6", "", "", "process", "5:6", "annotations[" + name + "]", nil},
		{"all", "1", "2", metadata("vscode"), "3", "1:0", "annotations", nil},
		{"all but an annotation", "", "2", metadata("vscode"), "3", "2:0", "label " + name, nil},
		{"policy before metadata", "", "", metadata("vscode"), "3", "3:0", "policy", nil},
		{"the first process by annotation", "process", "2", metadata("vscode"), "3", "", "", nil},
		{"the first process by label", "", "process", metadata("vscode"), "process", "", "", nil},
		{"an unknown name", "", "", metadata("unknown"), "process", "", "", []string{"label " + metadataLabel}},
		{"a label that is none", "", "../x", metadata("vscode"), "process", "1500:1501", "label " + metadataLabel, []string{"label " + name}},
		{"unknown names", "unknown", "unknown", metadata("unknown"), "unknown", "", "", []string{"annotations[" + name + "]", "label " + name, "policy: binds.owner", "label " + metadataLabel}},
		{"an annotation that is none", "-1", "", metadata("vscode"), "process", "1500:1501", "label " + metadataLabel, nil}, // Harden reports it
	} {
		s := &specs.Spec{Annotations: map[string]string{}}
		if c.annotation != "" {
			s.Annotations[name] = c.annotation
		}
		pol := policy.Default()
		pol.Binds.Owner = c.policy
		g := Gatherer{Policy: pol}
		p := &Gathered{Bundle: &bundle.Bundle{Spec: s}, labels: map[string]string{"a": "b", name: c.label, metadataLabel: c.devices}, Root: root, Sources: []*bindsource.Source{nil, {}}}
		got := g.namedOwner(p)
		user := ""
		if got.User != nil {
			user = fmt.Sprintf("%d:%d", got.User.UID, got.User.GID)
		}
		if user != c.want || !strings.HasPrefix(got.By, c.by) || len(got.Ignored) != len(c.ignored) {
			t.Errorf("%s: %s by %q, ignored %v", c.what, user, got.By, got.Ignored)
			continue
		}
		for i, n := range c.ignored {
			if got.Ignored[i].Name != n || got.Ignored[i].Why == "" {
				t.Errorf("%s: ignored %v", c.what, got.Ignored)
			}
		}
		p.Sources = []*bindsource.Source{nil, {Fact: bindsource.Fact{Role: bindsource.Injected}}}
		if got := g.namedOwner(p); got.User != nil || got.Ignored != nil {
			t.Errorf("%s: without a mount: %+v", c.what, got)
		}
	}
}

// TestNamedIDs: the ids above a block's that a container, policy and an image name are the jail's, within a bound.
func TestNamedIDs(t *testing.T) {
	var passwd, group strings.Builder
	passwd.WriteString("root:x:0:0::/:\nhigh:x:100000:100001::/:\nbad:x:4294967295:x::/:\nshort:x:70001\n")
	for i := range 1000 {
		fmt.Fprintf(&group, "g%d:x:%d:\n", i, 300000+i)
	}
	pol := policy.Default()
	pol.Userns.IDs = []string{"80000"}
	p := &Gathered{Root: imageRoot(t, passwd.String(), group.String()), Bundle: &bundle.Bundle{Spec: &specs.Spec{
		Process:     &specs.Process{User: specs.User{UID: 65519, GID: 90000, AdditionalGids: []uint32{5, 90001}}},
		Annotations: map[string]string{policy.AnnotationPrefix + "userns.ids": "90002, 90003", policy.AnnotationPrefix + policy.OwnerAnnotation: "90004:90005"},
	}}}
	m := Gatherer{Policy: pol}.Map(p, pol.Userns.Block(0))
	for _, id := range []uint32{0, 5, 65519, 80000, 90000, 90001, 90002, 90003, 90004, 90005, 100000, 100001, 70001, 300000} {
		uid, ok1 := m.HostUID(id)
		gid, ok2 := m.HostGID(id)
		if !ok1 || !ok2 || uid != gid {
			t.Errorf("id %d is host %d, %d", id, uid, gid)
		}
	}
	if _, ok := m.HostUID(300000 + 999); ok {
		t.Error("no bound")
	}
}
