package bindsource

import (
	"strings"
	"testing"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/policy"
)

// TestUsersSettings: a directory of a home that holds settings and programs alone is refused, or the jail only reads it; one with data may be
// mounted, without what it holds of them.
func TestUsersSettings(t *testing.T) {
	for names, want := range map[string]string{
		"doom ranger lf yazi mpv zellij k9s lazygit pip uv yarn fish nvim tmux": "refused",
		"opencode goose crush amp github-copilot":                               "read-only",
		"htop": "",
	} {
		for name := range strings.FieldsSeq(names) {
			judge(t, ".config/"+name, want)
		}
	}
	for names, want := range map[string]string{
		".doom.d .fzf .proto .sbt .android .local/share/omf .cargo .gradle .cursor .kiro .config .local/share .local/share/claude":                          "refused",
		".claude .codex .gemini .qwen .copilot .continue .m2 .ivy2 .local/share/opencode .local/share/goose .claude/projects .m2/repository .sbt/boot .npm": "",
		".claude.json .claude/plugins .codex/skills/x .m2/settings.xml .roo .amp":                                                                           "read-only",
	} {
		for name := range strings.FieldsSeq(names) {
			judge(t, name, want)
		}
	}
}

func judge(t *testing.T, below, want string) {
	t.Helper()
	f := Fact{Path: "/home/dev/" + below, Kind: Dir, UID: 1000, GID: 1000}
	got := ""
	if e, _ := protect.Within(f.Path, f.Home(), nil); e != nil {
		got = "read-only"
	}
	if why := text(Refusal(f, false, policy.Binds{})); why != "" {
		got = "refused"
	}
	if got != want {
		t.Errorf("%s: %q, not %q", f.Path, got, want)
	}
}
