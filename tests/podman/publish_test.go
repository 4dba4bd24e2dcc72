package podman

import (
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestNetworkByName: podman keeps the network that it makes as a file, so that the helper of a jail with a network by name is there: -p
// leads to what the jail publishes at the container's address.
func TestNetworkByName(t *testing.T) {
	p := root(t)
	dir := env.Get(t, engine.BinDir)
	config := filepath.Join(dir, "publish.toml")
	env.Put(t, config, "[network]\nmode = \"names\"\npublish = [\"0.0.0.0:8080\"]\nservers = [\"192.0.2.53\"]\n", 0o644, 0)
	r := p.Podman("--runtime-flag=config="+config, "run", "-d", "--publish=127.0.0.1:5056:8080", "--annotation=dev.agentjail.network.publish=0.0.0.0:8080:8081",
		engine.Busybox, "nc", "-ll", "-p", "8081", "-e", "sh", "-c", `read line; echo "heard $line"`)
	id := strings.TrimSpace(r.Stdout)
	if id != "" {
		t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", id) })
	}
	if r.Code != 0 {
		noNetwork(t, r)
	}
	at := p.Must("inspect", "-f", "{{.NetworkSettings.IPAddress}}", id)
	for what, to := range map[string]string{"the container's address": at + "/8080", "podman's -p": "127.0.0.1/5056"} {
		env.Eventually(p, what, func() bool {
			return p.Run(nil, "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+to+"; echo this >&3; cat <&3").Stdout == "heard this\n"
		})
	}
}
