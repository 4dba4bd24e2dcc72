package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// TestSign: the checksums are signed by the command, here with a key made for the test, and a
// command that fails or signs nothing fails the release.
func TestSign(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("needs openssl, for a key")
	}
	dir := filepath.Join(t.TempDir(), "a place")
	env.Check(t, os.Mkdir(dir, 0o755))
	key, sums := filepath.Join(t.TempDir(), "key"), filepath.Join(dir, checksums)
	if out, err := exec.Command(openssl, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env.Check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644))
	env.Check(t, writeChecksums(dir, []string{"f"}))
	for command, want := range map[string]string{"": "", "false": "exit status 1", "true": "no signature"} {
		if err := sign(t.Context(), command, sums); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", command, err)
		}
	}
	env.Check(t, sign(t.Context(), openssl+" dgst -sha256 -sign "+key+" -out '"+sums+".sig'", sums))
	verify := func() error {
		return exec.Command(openssl, "dgst", "-sha256", "-prverify", key, "-signature", sums+".sig", sums).Run()
	}
	if err := verify(); err != nil {
		t.Errorf("the signature: %v", err)
	}
	env.Check(t, os.WriteFile(sums, []byte("other\n"), 0o644))
	if verify() == nil {
		t.Error("changed checksums pass")
	}
}
