// Package names tries network.mode = "names" on a network of its own: a host and, behind a veth pair, an Internet of the test's own
// with a name server and servers for real names. Nothing in the jail knows of a proxy.
package names

import (
	"os"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// client is this test's program in a jail, and hosted the variable that states that this process is in a network of its own.
const (
	client = "/client"
	hosted = "AGENTJAIL_NAMES_HOSTED"
)

func TestMain(m *testing.M) {
	engine.IfJanitor()
	switch {
	case path.Base(os.Args[0]) == path.Base(client) && len(os.Args) == 2 && os.Args[1] == attacker:
		os.Exit(beAttacker())
	case os.Args[0] == client:
		os.Exit(beClient(os.Args[1:]))
	case os.Getenv(hosted) == "":
		engine.SuiteNeedsRoot("it runs jails")
		os.Exit(engine.OnOwnHost(hosted))
	}
	os.Exit(func() int {
		defer engine.RemoveBuilt()
		return m.Run()
	}())
}

// resolveBy has this process's host query a name server.
func resolveBy(t *testing.T, server string) {
	t.Helper()
	at := t.TempDir() + "/resolv.conf"
	env.Check(t, os.WriteFile(at, []byte("search host.example.test\nnameserver "+server+"\n"), 0o644))
	// A link would be followed to a file that other namespaces share; so it is in /run, and mounted over as well.
	env.Check(t, unix.Mount(at, "/etc/resolv.conf", "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount("/etc/resolv.conf", unix.MNT_DETACH) })
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	env.Check(t, env.IP(strings.Join(args, " ")))
}
