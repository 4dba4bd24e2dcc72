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

// archivesDiffer is what differs for those who read an archive's owners (get_archive, docker cp).
var archivesDiffer = []workloads.Difference{
	{Runc: "log.txt 0:0 100644 log", Jail: "log.txt ids of the host's 100644 log", Why: hostIDs},
	{Runc: `issue 0:0 100644 Debian GNU/Linux 12 \n \l`, Jail: `issue ids of the host's 100644 Debian GNU/Linux 12 \n \l`, Why: hostIDs},
	{Runc: "private 0:0 100600 private", Jail: "private ids of the host's 100600 private", Why: hostIDs},
}

// hostIDs is the reason of each line about owners in an archive that the engine makes.
const hostIDs = "an engine looks at a jail's root with the host's ids (docs/compatibility.md)"

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
	{name: "compose 2", dir: "compose", tools: []string{"docker-compose"}, env: []string{"COMPOSE=docker-compose"}, heavy: true, differs: composeDiffers},
	{name: "Python SDK as SWE-bench calls it", dir: "swebench", needs: []string{pySDK}, work: true, differs: archivesDiffer},
	{
		name: "act", dir: "act", tools: []string{"act"}, work: true, heavy: true,
		differs: []workloads.Difference{{Runc: "0 made", Jail: "1000 made", Why: ownersFile}},
	},
	{name: "devcontainers", dir: "devcontainer", tools: []string{"devcontainer"}, needs: []string{"/usr/bin/npm"}, work: true, byName: true, heavy: true},
	{name: "editor's server", dir: "vscode", work: true},
	{name: "nerdctl", dir: "nerdctl", tools: []string{"nerdctl"}, overContainerd: true},
}
