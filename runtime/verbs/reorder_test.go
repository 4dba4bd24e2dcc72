package verbs

import (
	"slices"
	"strings"
	"testing"
)

func TestReorder(t *testing.T) {
	for in, want := range map[string]string{
		"a":                                     "a",
		"a --version":                           "a --version",
		"a update x --memory 5 --cpu-quota -1":  "a update --memory 5 --cpu-quota -1 x",
		"a update x --memory=5":                 "a update --memory=5 x",
		"a --root update update x -r -":         "a --root update update -r - x",
		"a --root=/r --debug delete x --force":  "a --root=/r --debug delete --force x",
		"a kill x -9":                           "a kill x -9",
		"a kill x 9 -a":                         "a kill -a x 9",
		"a exec x ls --cwd /":                   "a exec x ls --cwd /",
		"a exec --cwd / x ls -t":                "a exec --cwd / x ls -t",
		"a ps x -f y":                           "a ps x -f y",
		"a run -d x --pid-file p -- --bundle b": "a run -d --pid-file p x -- --bundle b",
		"a checkpoint x --work-path w":          "a checkpoint x --work-path w",
		"a sandbox ls --memory 5":               "a sandbox ls --memory 5",
		"a update x --memory":                   "a update --memory x",
		"a --root":                              "a --root",
	} {
		got := strings.Join(Reorder(strings.Fields(in)), " ")
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
		if again := strings.Join(Reorder(strings.Fields(got)), " "); again != got && in != "a update x --memory" {
			t.Errorf("%s becomes %s the second time", got, again)
		}
	}
	if in := strings.Fields("a update x --memory 5"); !slices.Equal(in, strings.Fields("a update x --memory 5")) {
		t.Error("the arguments were changed in place")
	}
}
