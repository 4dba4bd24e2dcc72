package docs

import (
	"path/filepath"
	"strings"

	"agentjail.dev/tests/engine"
)

// plays run what no other suite does. In commands ID, IMAGE and so on stand for what the play's stage has.
var plays = []play{
	// docs/workspace.md, in its order. ID is the view without a name.
	{"views", views, []row{ // 1 reports changes, or that something was left out
		{"agentjail sandbox --workspace . --review --view fix -- make", 0, "", ""},
		{"agentjail workspace diff fix", 1, "A new", ""},
		{"agentjail workspace apply fix", 0, "new", ""},
		{"agentjail workspace discard fix", 0, "discarded", ""},
		{"agentjail sandbox --workspace . --review -- make", 0, "in view ", ""},
		{"agentjail workspace list", 0, "ID", ""},
		{"agentjail sandbox --workspace . --review --view fix -- make test", 0, "", ""},
		{"agentjail workspace diff ID", 1, "M src/a", ""},
		{"agentjail workspace diff ID -p src", 1, "+more", ""},
		{"agentjail workspace export ID > changes.patch", 0, "", ""},
		{"agentjail git --view ID . format-patch --stdout BASE.. > commits.patch", 0, "", ""},
		{"agentjail workspace apply ID [PATH...]", 0, "", ""},
		{"agentjail workspace discard ID", 0, "discarded", ""},
		{"agentjail workspace discard --expired", 0, "", ""},
	}},
}

// elsewhere are commands that other suites run: the file, and what stands in it.
var elsewhere = map[string]struct{ file, text string }{}

// views is a project whose make has changes of each kind that the page's commands show, and a commit.
func views(s *stage) {
	engine.NeedsViews(s)
	s.policy("workspace.size = \"32MiB\"\nworkspace.files = 4000\n")
	s.file("Makefile", "all:\n\techo made >new\n\techo more >>src/a\n\tgit add src/a && git -c user.name=a -c user.email=a@j commit -qm second\ntest:\n\techo tested >tested\n")
	s.words["BASE"] = s.host("mkdir src; echo a >src/a; git init -q -b main . && git add src && git -c user.name=u -c user.email=u@h commit -qm first && git rev-parse HEAD")
	s.words["fix"] = "v" + filepath.Base(s.dir)
	s.Cleanup(func() { s.run(row{as: "agentjail workspace discard fix", has: "discarded"}) })
	s.after = func(r row, out string) {
		switch {
		case strings.HasSuffix(r.command, "--review -- make"):
			_, rest, _ := strings.Cut(out, "in view ")
			s.words["ID"], _, _ = strings.Cut(rest, ":")
		case strings.HasSuffix(r.command, "commits.patch"):
			s.host("git apply --stat changes.patch && grep -q '^Subject: .*second' commits.patch")
		}
	}
}
