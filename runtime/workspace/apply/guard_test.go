package apply

import (
	"bytes"
	"strings"
	"testing"

	"agentjail.dev/runtime/workspace/review"
)

// TestGuard: a patch passes up to a change that an apply would leave out, however a jail writes its
// head; with the options it passes as a whole.
func TestGuard(t *testing.T) {
	p := newPlace(t, map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", ".git/config": "[core]\n\thooksPath = gh\n"})
	r := p.review(t)
	const good = "From 0123\nFrom: a <a@b>\nSubject: x\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n---\n" +
		"diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n a\n+ charset=utf-16\n"
	link := func(mode string) string {
		return "diff --git a/li b/li\n" + mode + "\n--- a/li\n+++ b/li\n@@ -0,0 +1 @@\n"
	}
	for name, c := range map[string]struct {
		text string
		with Options
	}{
		"protected":            {"diff --git a/.husky/x b/.husky/x\n", Options{Protected: true}},
		"in a directory":       {"diff --git a/d/.vscode/tasks.json b/d/.vscode/tasks.json\n", Options{Protected: true}},
		"named by a setting":   {"diff --git a/gh/x b/gh/x\n", Options{Protected: true}},
		"quoted":               {"diff --git \"a/.hus\\153y/x\" \"b/.hus\\153y/x\"\n", Options{Protected: true}},
		"with a space":         {"diff --git a/.husky/x y b/.husky/x y\n", Options{Protected: true}},
		"renamed":              {"diff --git a/a b/b\nrename from a\nrename to .husky/x\n", Options{Protected: true}},
		"not git's":            {"--- a\t2020\n+++ x/.husky/x\t2020\n", Options{Protected: true}},
		"without the prefixes": {"--- /dev/null\r\n+++ .husky/x\r\n", Options{Protected: true}},
		"link":                 {link("new file mode 120000") + "+/etc/passwd\n", Options{Links: true}},
		"link up":              {link("index 1..2 120000") + "-a\n+../../x\n", Options{Links: true}},
		"binary link":          {link("new file mode 120000") + "GIT binary patch\nliteral 1\n", Options{Links: true}},
	} {
		for _, o := range []Options{{}, c.with} {
			g := Guard{Options: o, Review: func() (*review.Review, error) { return r, nil }}
			var out bytes.Buffer
			err := g.Copy(&out, strings.NewReader(good+c.text+"more\n"))
			passed := strings.HasSuffix(out.String(), c.text+"more\n")
			if (err == nil) != passed || passed != (o != Options{}) || !strings.HasPrefix(out.String(), good) {
				t.Errorf("%s, %+v: %v: %q", name, o, err, out.String()[len(good):])
			}
		}
	}
	for _, text := range []string{
		"Content-Transfer-Encoding: base64\n\nZGlmZg==\n", "content-transfer-encoding:\n quoted-printable\n", "Content-Type: text/plain; charset=UTF-7\n",
		"Content-Type: text/plain;\n\tcharset=\"utf-16\"\n", "--- " + strings.Repeat("x", 2*maxLine) + "\n", "+++ " + strings.Repeat(" ", 100) + "\n", "+++ " + strings.Repeat("d/", 500) + "x\n",
	} {
		g := Guard{Options: Options{Protected: true, Links: true}, Review: func() (*review.Review, error) { return r, nil }}
		var out bytes.Buffer
		if err := g.Copy(&out, strings.NewReader(good+text+"more\n")); err == nil || strings.HasSuffix(out.String(), "more\n") {
			t.Errorf("%.80q passes", text)
		}
	}
	g := Guard{}
	long := strings.Repeat("x", 3*maxLine) + "\nend"
	var out bytes.Buffer
	if err := g.Copy(&out, strings.NewReader(long)); err != nil || out.String() != long {
		t.Errorf("%d bytes of %d: %v", out.Len(), len(long), err)
	}
}
