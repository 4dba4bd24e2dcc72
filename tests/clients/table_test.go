package clients

import (
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/workloads"
)

// Programs and modules as Debian has them.
const (
	compose1 = "/usr/bin/docker-compose"
	pySDK    = "/usr/lib/python3/dist-packages/docker"
)

// ownersFile is the reason of each line about the owner of what root of a container makes in a mounted directory.
const ownersFile = "what a jail makes in a mounted directory belongs to the directory's owner"

// composeDiffers is what differs for compose of any version.
var composeDiffers = []workloads.Difference{{Runc: "0 owns work/made", Jail: "1000 owns work/made", Why: ownersFile}}

// clients are those that are run, in order.
var clients = []client{
	{name: "compose 1", dir: "compose", needs: []string{compose1}, env: []string{"COMPOSE=" + compose1}, differs: composeDiffers},
	{name: "classic builder", dir: "build", needs: []string{compose1, pySDK}, byName: true},
	{
		name: "classic builder in jails", dir: "build-default", needs: []string{pySDK},
		differs: []workloads.Difference{{
			Runc: "Successfully built",
			Jail: "refused: a step of an image's build is to keep what it changes, and a jail throws that away",
			Why:  "its layer would be thrown away without a word",
		}},
	},
	{name: "testcontainers", dir: "testcontainers", tools: []string{"testcontainers"}},
	{name: "testcontainers on a network", dir: "testcontainers-net", tools: []string{"testcontainers"}, jail: engine.Name + "-net"},
	{
		name: "editor's server", dir: "vscode", work: true,
		open: "the workspace is root's of the container, and the server runs as another user: binds.owner",
	},
	{name: "nerdctl", dir: "nerdctl", tools: []string{"nerdctl"}, overContainerd: true},
}
