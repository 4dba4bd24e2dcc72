package runccli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/refusal"
)

// TestFailJSON: the log that engines read has a refusal's text as its message, and its parts beside
// it.
func TestFailJSON(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		log := filepath.Join(t.TempDir(), "log")
		c := &Caller{}
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		c.Stdio[2] = null
		global, _, _, err := Parse([]string{"--log", log, "--log-format", format, "state", "x"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Open(global); err != nil {
			t.Fatal(err)
		}
		c.Fail(errors.New("no refusal"))
		c.Fail(fmt.Errorf("create: %w", refusal.New(refusal.BindSocket, "it listens").WithRemedy("none")))
		c.Close()
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if format == "text" {
			if strings.Contains(string(text), "refusals") || strings.Count(string(text), "\n") != 2 {
				t.Errorf("%s", text)
			}
			continue
		}
		var got [2]struct {
			Level, Msg string
			Refusals   []refusal.Error
		}
		for i, line := range strings.SplitN(strings.TrimSpace(string(text)), "\n", 2) {
			if err := json.Unmarshal([]byte(line), &got[i]); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
		}
		if got[0].Msg != "no refusal" || got[0].Refusals != nil {
			t.Errorf("%+v", got[0])
		}
		if want := "create: refused: it listens (remedy: none)"; got[1].Level != "error" || got[1].Msg != want ||
			len(got[1].Refusals) != 1 || got[1].Refusals[0].Code != refusal.BindSocket || got[1].Refusals[0].Remedy != "none" {
			t.Errorf("%+v", got[1])
		}
	}
}

// TestArguments: no verb takes fewer or more words than its help has. The others are not tried: their further words are options' or a program's.
func TestArguments(t *testing.T) {
	free := []string{"exec", "ps", "checkpoint", "restore"}
	for _, v := range Verbs() {
		ran := false
		tried := v
		tried.Run = func(*Call) error { ran = true; return nil }
		words := strings.Fields(v.Args)
		try := func(n int) error {
			ran = false
			return (&Caller{}).Run(&tried, &Call{Args: slices.Repeat([]string{"word"}, n)})
		}
		if err := try(len(words)); err != nil || !ran {
			t.Errorf("%s %s: %v", v.Name, v.Args, err)
		}
		if err := try(len(words) + 1); !slices.Contains(free, v.Name) && (err == nil || ran || !strings.Contains(err.Error(), `"word" is one more`)) {
			t.Errorf("%s with %d words: %v", v.Name, len(words)+1, err)
		}
		if err := try(0); len(words) > 0 && (err == nil || ran) {
			t.Errorf("%s without a word: %v", v.Name, err)
		}
	}
}
