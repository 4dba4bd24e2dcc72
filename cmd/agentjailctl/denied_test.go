package main

import (
	"testing"

	"agentjail.dev/runtime/journal"
)

// TestDeniedProgram: of a program that was not executed, `denied` says what its file held.
func TestDeniedProgram(t *testing.T) {
	e := journal.Event{Kind: "exec.blocked", Path: "/x", Facts: []string{"contents=sha256:bb"}}
	if err := e.Complete(); err != nil {
		t.Fatal(err)
	}
	all, _ := denials([]journal.Event{e})
	if len(all) != 1 || all[0].Contents != "sha256:bb" || all[0].What != "/x" {
		t.Errorf("%+v", all)
	}
}
