package policy

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeIsTheDefault holds the README's configuration reference to the
// code: it is complete, and it states the defaults.
func TestReadmeIsTheDefault(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```toml\n")
	block, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("the README has no configuration reference")
	}
	p, err := Parse([]byte(block), "README.md", "")
	if err != nil {
		t.Fatal(err)
	}
	// An empty list and an absent one say the same.
	if len(p.Binds.Allow) == 0 {
		p.Binds.Allow = nil
	}
	if len(p.Devices.Allow) == 0 {
		p.Devices.Allow = nil
	}
	if d := Default(); !reflect.DeepEqual(p, d) {
		t.Errorf("the README's values are\n%+v\nthe defaults are\n%+v", p, d)
	}
	for _, key := range keys("", reflect.TypeOf(Policy{})) {
		if !strings.Contains(block, "\n"+key+" = ") && !strings.HasPrefix(block, key+" = ") {
			t.Errorf("the README does not explain %s", key)
		}
	}
	for _, a := range Annotations() {
		if !strings.Contains(string(text), "`"+a[0]+"`") {
			t.Errorf("the README does not name the annotation %s", a[0])
		}
	}
}

func keys(prefix string, t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name := prefix + f.Tag.Get("toml")
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeOf(Pool{}) {
			out = append(out, keys(name+".", f.Type)...)
			continue
		}
		out = append(out, name)
	}
	return out
}

// TestReadmeLinksToTests: every test that the README names is there.
func TestReadmeLinksToTests(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\[(\w+)\]\(([^)]+_test\.go)\)`).FindAllStringSubmatch(string(text), -1)
	if len(links) < 10 {
		t.Fatalf("only %d links to tests", len(links))
	}
	for _, l := range links {
		code, err := os.ReadFile("../../" + l[2])
		if err != nil || !strings.Contains(string(code), "\nfunc "+l[1]+"(") {
			t.Errorf("the README links to %s in %s, which is not there", l[1], l[2])
		}
	}
}
