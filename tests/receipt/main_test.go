// Package receipt tries the receipts of jails that Docker and the command line have made, and of jails that did not end well.
package receipt

import (
	"os"
	"path/filepath"
	"testing"

	"agentjail.dev/tests/engine"
)

var (
	docker *engine.Engine
	bin    string // agentjail
	base   string // of everything that the tests make
	conf   string // the policy
)

func TestMain(m *testing.M) {
	engine.IfJanitor()
	engine.SuiteNeedsRoot("it starts a Docker of its own")
	os.Exit(func() int {
		var err error
		if base, err = os.MkdirTemp("/var/tmp", "agentjail-receipt-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(base)
		conf = filepath.Join(base, "config.toml")
		text := "[journal]\ndir = \"" + filepath.Join(base, "journal") + "\"\ninside = \"on\"\n"
		if err := os.Chmod(base, 0o711); err != nil {
			panic(err)
		}
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			panic(err)
		}
		engine.Policies = map[string]string{"agentjail-receipt": text}
		return engine.Main(m, func(e *engine.Engine) (err error) {
			docker = e
			if bin, err = engine.UnderTest(); err != nil {
				return err
			}
			return e.ImportBusybox()
		})
	}())
}
