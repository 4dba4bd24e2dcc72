package facts

import (
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/enginerecord"
	"agentjail.dev/runtime/refusal"
)

// A step of an image's build must keep its changes, with owners and set-id bits. A jail's layer is
// thrown away, and no process in a jail can make such files.
func errBuild() *refusal.Error {
	return refusal.New(refusal.Build, "a step of an image's build is to keep what it changes, and a jail throws that away")
}

// buildSteps recognise, by engine, a container that is a step. They read only files of the engine,
// which a container cannot write, and can only refuse a start.
var buildSteps = []struct {
	is     func(id, bundle string, s *specs.Spec, d *enginerecord.Docker) bool
	remedy string
}{
	{func(id, bundle string, _ *specs.Spec, _ *enginerecord.Docker) bool {
		return id == buildID(bundle)
	}, "`podman build --runtime=crun`"},
	{
		func(_, _ string, _ *specs.Spec, d *enginerecord.Docker) bool { return dockerBuildStep(d) },
		"build with BuildKit, which runs its steps itself: `DOCKER_BUILDKIT=1 docker build`, `docker buildx build`, docker compose 2; " +
			"for programs that know only the old builder, leave Docker's default runtime as it was and start jails with `--runtime=agentjail`",
	},
	{buildKitStep, "leave BuildKit its runc: `worker.oci.binary` and `worker.containerd.runtime` in buildkitd.toml, DOCKER_BUILDKIT_RUNC_COMMAND of dockerd, a program named runc before the real one in PATH"},
}

// refuseBuild refuses a step of an image's build, with the way to do it.
func refuseBuild(id, bundle string, s *specs.Spec, d *enginerecord.Docker) error {
	for _, b := range buildSteps {
		if b.is(id, bundle, s, d) {
			return errBuild().WithRemedy("%s", b.remedy)
		}
	}
	return nil
}

// buildKitStep reports whether BuildKit made a container for a step of a build. BuildKit provides
// each step with its own network files, from the directory of its executor (moby/buildkit,
// executor/oci, GetResolvConf). The worker that calls a runtime keeps the bundles in that
// directory, too (executor/runcexecutor). containerd's worker keeps the record of its own id there
// (worker/base, ID).
func buildKitStep(id, bundle string, s *specs.Spec, _ *enginerecord.Docker) bool {
	for _, m := range s.Mounts {
		if m.Destination != "/etc/resolv.conf" && m.Destination != "/etc/hosts" || !filepath.IsAbs(m.Source) {
			continue
		}
		dir := filepath.Dir(m.Source)
		if filepath.Base(dir) == "executor" && bundle == filepath.Join(dir, id) {
			return true
		}
		if unix.Access(filepath.Join(dir, "workerid"), unix.F_OK) == nil {
			return true
		}
	}
	return false
}

// buildID returns the container id that Podman's and Buildah's builds use for the step with this
// bundle (buildah run_common.go).
func buildID(bundle string) string { return "buildah-" + filepath.Base(bundle) }
