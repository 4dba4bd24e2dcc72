package inside

import (
	"reflect"
	"testing"
)

func TestLabelled(t *testing.T) {
	for _, c := range []struct {
		have, want string
		ok         bool
	}{
		{"agentjail-default (enforce)", "agentjail-default (enforce)", true},
		{"agentjail-default (complain)", "agentjail-default (enforce)", false},
		{"unconfined", "agentjail-default (enforce)", false},
		{"a//&b (enforce)", "b//&a (enforce)", true},
		{"a//&b (mixed)", "b//&a (enforce)", true},
		{"a//&b//&c (enforce)", "b//&a (enforce)", true},
		{"a (enforce)", "b//&a (enforce)", false},
		{"a//&b (complain)", "b//&a (enforce)", false},
		{"ab//&b (enforce)", "b//&a (enforce)", false},
		{"system_u:system_r:container_t:s0:c1,c2", "system_u:system_r:container_t:s0:c1,c2", true},
		{"system_u:system_r:container_t:s0:c1,c3", "system_u:system_r:container_t:s0:c1,c2", false},
	} {
		if got := labelled(c.have, c.want); got != c.ok {
			t.Errorf("labelled(%q, %q) is %v", c.have, c.want, got)
		}
	}
}

func TestParseMounts(t *testing.T) {
	got := parseMounts("36 35 98:0 /a /a\\040b rw,nosuid master:1 - ext4 /dev/x ro,errors=continue\nnonsense\n37 36 0:1 / /proc ro - proc proc rw\n")
	want := []mount{
		{id: "36", dev: "98:0", root: "/a", at: "/a b", kind: "ext4", options: "rw,nosuid", super: "ro,errors=continue"},
		{id: "37", dev: "0:1", root: "/", at: "/proc", kind: "proc", options: "ro", super: "rw"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !got[0].readOnly() || !got[1].readOnly() {
		t.Error("a read-only file system and a read-only mount are both read-only")
	}
}

func TestListed(t *testing.T) {
	for _, c := range []struct {
		list, word string
		ok         bool
	}{{"rw,nosuid", "nosuid", true}, {"nosuid", "nosuid", true}, {"rw,nosuidx", "nosuid", false}, {"", "ro", false}, {"errors=ro", "ro", false}, {"ro,x", "ro", true}} {
		if got := listed(c.list, c.word); got != c.ok {
			t.Errorf("listed(%q, %q) is %v", c.list, c.word, got)
		}
	}
}

func TestUnoctal(t *testing.T) {
	for in, want := range map[string]string{`/a\040b`: "/a b", `\134`: `\`, `\9`: `\9`, `\04`: `\04`, "": "", `\777`: `\777`} {
		if got := unoctal(in); got != want {
			t.Errorf("unoctal(%q) = %q, want %q", in, got, want)
		}
	}
}
