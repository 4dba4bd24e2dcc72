package e2e

import (
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestSwarm: a service's tasks are jails where agentjail is the default runtime, and its user reads the secret and the configuration that are
// the user's alone.
func TestSwarm(t *testing.T) {
	under := env.Get(t, engine.UnderTest)
	d := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{engine.Name: {Path: under}}, Default: engine.Name}).For(t)
	d.Must("swarm", "init", "--advertise-addr", "127.0.0.1", "--default-addr-pool", "198.18.0.0/16")
	defer d.Must("swarm", "leave", "--force")
	for what, text := range map[string]string{"secret": "hush", "config": "colour = blue"} {
		if r := d.DockerIn(strings.NewReader(text), what, "create", "agent-"+what, "-"); r.Code != 0 {
			t.Fatal(r)
		}
	}
	d.Must("service", "create", "--detach", "--name", "agent", "--user", "1000:1000", "--stop-grace-period", "0s",
		"--secret", "source=agent-secret,target=token,uid=1000,gid=1000,mode=0400", "--config", "source=agent-config,target=/etc/agent.conf,uid=1000,gid=1000,mode=0400",
		engine.Busybox, "sleep", "3600")
	id := ""
	env.Eventually(d, "a task of the service", func() bool {
		id = d.Must("ps", "-q", "--filter", "label=com.docker.swarm.service.name=agent")
		return id != ""
	})
	jailed(t, "a task", probeIn[engine.Who](d, nil, id, "identity"))
	env.Equal(t, "the secret", d.Must("exec", id, "cat", "/run/secrets/token"), "hush")
	env.Equal(t, "the configuration", d.Must("exec", id, "cat", "/etc/agent.conf"), "colour = blue")
	env.Equal(t, "others' place in the secret", d.Must("exec", id, "stat", "-c", "%a %u:%g", "/run/secrets/token"), "400 1000:1000")
	if r := d.Docker("exec", id, "sh", "-c", "echo changed > /run/secrets/token"); r.Code == 0 {
		t.Error("the secret can be written")
	}
	d.Must("service", "rm", "agent")
	env.Eventually(d, "the end of the task", func() bool { return d.Must("ps", "-q", "--no-trunc") == "" })
}
