package apply

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/workspace/review"
)

// TestModes: a change of mode is shown, and marked where others than before can write.
func TestModes(t *testing.T) {
	const everyone, group = "every user may write to it", "the group 1235 may write to it"
	old := map[string]string{"script": "s\n", "both": "1\n", "dir/x": "x\n", "open/x": "x\n", "less": "l\n", "team": "t\n", "renamed/x": "x\n"}
	p := newPlace(t, old)
	must(t, os.Chmod(p.dir+"/open", 0o777))
	must(t, os.Chmod(p.dir+"/less", 0o666))
	must(t, os.Chmod(p.dir+"/renamed/x", 0o666))
	p.settled(t)
	p.write(t, p.merged, map[string]string{"both": "2\n", "new": "n\n", "newdir/y": "y\n", "newteam": "n\n", "newlink": "->new", "open/z": "z\n"})
	must(t, os.Rename(p.merged+"/renamed", p.merged+"/moved"))
	for at, mode := range map[string]os.FileMode{
		"script": 0o777, "both": 0o646, "dir": 0o777 | os.ModeSticky, "open": 0o757, "less": 0o644, "team": 0o664, "new": 0o666, "newdir": 0o777, "newteam": 0o664,
	} {
		must(t, os.Chmod(p.merged+"/"+at, mode))
	}
	p.unmount(t)
	want := map[string][2]string{ // the line, and the mark
		"script": {"m script  0644 → 0777", everyone}, "both": {"M both  0644 → 0646", everyone}, "dir": {"m dir/  0755 → 0777", everyone},
		"open": {"m open/  0777 → 0757", ""}, "less": {"m less  0666 → 0644", ""}, "team": {"m team  0644 → 0664", group},
		"new": {"A new", everyone}, "newdir": {"A newdir/", everyone}, "newdir/y": {"A newdir/y", ""}, "newteam": {"A newteam", group},
		"newlink": {"A newlink -> new", ""}, "open/z": {"A open/z", ""}, "moved": {"R renamed/ -> moved/", ""}, "moved/x": {"A moved/x", ""}, "renamed": {"D renamed/", ""},
	}
	r := p.review(t)
	for _, c := range r.Changes {
		mark := ""
		if i := slices.IndexFunc(c.Marks, func(m review.Mark) bool { return m.Kind == review.Writable }); i >= 0 {
			mark = c.Marks[i].Why
		}
		if w, ok := want[c.Path]; !ok || w != [2]string{c.String(), mark} {
			t.Errorf("%q %q, not %q", c.String(), mark, w)
		}
		delete(want, c.Path)
		if c.Path == "script" {
			text, err := json.Marshal(c)
			must(t, err)
			if !strings.Contains(string(text), `"mode":"0777","oldMode":"0644"`) {
				t.Errorf("%s", text)
			}
			var out bytes.Buffer
			d := &review.Differ{Upper: p.view.Upper, Directory: p.view.Directory, Out: &out}
			must(t, d.Write(t.Context(), c))
			if !strings.Contains(out.String(), "mode script  0644 → 0777\n") {
				t.Errorf("%s", out.String())
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
	// A group of the owner's own is no other.
	must(t, os.Chown(p.dir, uid, uid))
	must(t, os.Chown(p.dir+"/team", uid, uid))
	for _, c := range p.review(t).Changes {
		if strings.HasSuffix(c.Path, "team") && c.Has(review.Writable) {
			t.Errorf("%s %v", c, c.Marks)
		}
	}
}
