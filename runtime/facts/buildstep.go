package facts

import (
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/enginerecord"
	"agentjail.dev/runtime/refusal"
)

// refuseBuild refuses a step of an image's build, with the way to do it. Such a step must keep its
// changes, with owners and set-id bits: a jail's layer is thrown away, and no process in a jail can
// make such files. By engine, a step is recognised by files of the engine alone, which a container
// cannot write.
func refuseBuild(id, bundle string, s *specs.Spec, d *enginerecord.Docker) error {
	docker, err := dockerBuildStep(d)
	if err != nil {
		return err
	}
	remedy := ""
	switch {
	case id == "buildah-"+filepath.Base(bundle): // the id of a step for Podman and Buildah (buildah run_common.go)
		remedy = "`podman build --runtime=crun`"
	case docker:
		remedy = "build with BuildKit, which runs its steps itself: `DOCKER_BUILDKIT=1 docker build`, `docker buildx build`, docker compose 2; " +
			"for programs that know only the old builder, leave Docker's default runtime as it was and start jails with `--runtime=agentjail`"
	case buildKitStep(id, bundle, s):
		remedy = "leave BuildKit its runc: `worker.oci.binary` and `worker.containerd.runtime` in buildkitd.toml, DOCKER_BUILDKIT_RUNC_COMMAND of dockerd, a program named runc before the real one in PATH"
	default:
		return nil
	}
	return refusal.New(refusal.Build, "a step of an image's build is to keep what it changes, and a jail throws that away").
		WithRemedy("%s", remedy)
}

// buildKitStep reports whether BuildKit made a container for a step of a build. BuildKit provides
// each step with its own network files, from the directory of its executor (moby/buildkit,
// executor/oci, GetResolvConf). The worker that calls a runtime keeps the bundles in that
// directory, too (executor/runcexecutor). containerd's worker keeps the record of its own id there
// (worker/base, ID).
func buildKitStep(id, bundle string, s *specs.Spec) bool {
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
