package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// misspelled are words as people often misspell them (from Wikipedia's list of common
// misspellings), and words that this project calls otherwise, with what to write.
var misspelled = map[string]string{
	"accomodate": "accommodate", "acheive": "achieve", "agressive": "aggressive", "appearence": "appearance", "arguement": "argument", "asynchonous": "asynchronous",
	"begining": "beginning", "beleive": "believe", "catagory": "category", "commited": "committed", "commiting": "committing", "compatability": "compatibility",
	"concensus": "consensus", "definately": "definitely", "dependancy": "dependency", "descritor": "descriptor", "desciptor": "descriptor", "diffrent": "different",
	"existance": "existence", "explicitely": "explicitly", "fucntion": "function", "futher": "further", "guarentee": "guarantee", "guarenteed": "guaranteed",
	"heirarchy": "hierarchy", "immediatly": "immediately", "implmentation": "implementation", "independant": "independent", "initalize": "initialize", "intepreter": "interpreter",
	"lenght": "length", "maintainance": "maintenance", "neccessary": "necessary", "occured": "occurred", "occurence": "occurrence", "occuring": "occurring",
	"overriden": "overridden", "paramter": "parameter", "permisson": "permission", "persistant": "persistent", "posess": "possess", "preceeding": "preceding",
	"prefered": "preferred", "priviledge": "privilege", "priviledged": "privileged", "proccess": "process", "recieve": "receive", "recieved": "received",
	"reccomend": "recommend", "refered": "referred", "relevent": "relevant", "seperate": "separate", "seperator": "separator", "succesful": "successful",
	"succesfully": "successfully", "sucessful": "successful", "supress": "suppress", "teh": "the", "threshhold": "threshold", "transfered": "transferred",
	"truely": "truly", "unneccessary": "unnecessary", "untill": "until", "usefull": "useful", "wether": "whether", "wich": "which", "writeable": "writable",
	"folder": "directory", "folders": "directories",
}

var word = regexp.MustCompile(`[A-Za-z]+`)

// TestSpelling: no word of the list stands in code, comments, scripts or docs. Data of others' is
// left out.
func TestSpelling(t *testing.T) {
	files, err := exec.Command("git", "-C", top, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("git lists no files here: %v", err)
	}
	looked := 0
	for rel := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		switch {
		case strings.Contains(rel, "/testdata/"), strings.HasPrefix(rel, "tests/conformance/"), rel == "hack/lint/spelling_test.go":
			continue
		case !strings.Contains(".go.md.sh.json.c.yaml.te.awk.Makefile.", filepath.Ext(rel)+".") && filepath.Base(rel) != "Makefile":
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, rel))
		if err != nil {
			continue // removed, and not yet so for git
		}
		looked++
		for n, line := range strings.Split(string(text), "\n") {
			for _, w := range word.FindAllString(line, -1) {
				if right, bad := misspelled[strings.ToLower(w)]; bad {
					t.Errorf("%s:%d: %q should be %q", rel, n+1, w, right)
				}
			}
		}
	}
	if looked < 500 {
		t.Errorf("only %d files were looked at", looked)
	}
}
