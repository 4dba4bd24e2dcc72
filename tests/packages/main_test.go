// Package packages installs agentjail's packages, as hack/release makes them, in a copy of this machine, and tests what they do there:
// install, upgrade, remove and purge, with an engine and jails beside.
package packages

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"agentjail.dev/tests/engine"
)

// madeEnv names the environment variable with the directory that has packages of both versions, where they cannot be made.
const madeEnv = "AGENTJAIL_PACKAGES"

// The versions of the packages: one to install, one to upgrade to.
const (
	first  = "0.0.1~test1"
	second = "0.0.1~test2"
)

// everything are the formats of a release.
const everything = "deb,rpm,tar"

// made is the directory with the packages.
var made string

func TestMain(m *testing.M) {
	engine.SuiteNeedsRoot("it installs packages")
	engine.Exit(runTests(m))
}

func runTests(m *testing.M) (int, error) {
	if made = os.Getenv(madeEnv); made != "" {
		return m.Run(), nil
	}
	var err error
	if made, err = os.MkdirTemp("/var/tmp", "agentjail-made-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(made)
	root, err := engine.ModuleRoot()
	if err != nil {
		return 1, err
	}
	for version, formats := range map[string]string{first: everything, second: "deb,rpm"} {
		if err := release(root, version, formats, filepath.Join(made, version), nil); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// deb is the package for Debian of a version.
func deb(version string) string {
	return filepath.Join(made, version, "agentjail_"+version+"_"+runtime.GOARCH+".deb")
}
