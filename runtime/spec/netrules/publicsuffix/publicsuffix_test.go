package publicsuffix

import (
	"testing"

	"agentjail.dev/runtime/spec/netrules"
)

func TestWarning(t *testing.T) {
	for text, want := range map[string]bool{
		"*.github.io": true, "*.s3.amazonaws.com": true, "*.githubusercontent.com": true, "*.co.uk": true, "*.amazonaws.com": true, "*.blob.core.windows.net": true,
		"*.example.com": false, "*.anthropic.com": false, "*.git.house": false, "*.a.internal": false, "*.me.github.io": false, "user.github.io": false, "github.com": false,
	} {
		r, err := netrules.ParseEntry(text, false)
		if err != nil {
			t.Fatal(err)
		}
		if w := Warning(&r); (w != "") != want {
			t.Errorf("%s: %q", text, w)
		}
	}
}
