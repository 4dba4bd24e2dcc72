package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentjail.dev/tests/engine"
)

// podmanFiles are the files of Podman's system tests that run containers. The others try its
// command line, storage, services, registries or systemd.
var podmanFiles = []string{
	"001-basic.bats", "030-run.bats", "032-sig-proxy.bats", "035-logs.bats", "037-runlabel.bats", "040-ps.bats",
	"045-start.bats", "050-stop.bats", "055-rm.bats", "060-mount.bats", "065-cp.bats", "070-build.bats", "075-exec.bats",
	"080-pause.bats", "090-events.bats", "125-import.bats", "130-kill.bats", "140-diff.bats", "160-volumes.bats",
	"170-run-userns.bats", "180-blkio.bats", "190-run-ipcns.bats", "200-pod.bats", "220-healthcheck.bats",
	"280-update.bats", "420-cgroups.bats", "450-interactive.bats", "500-networking.bats", "520-checkpoint.bats",
	"700-play.bats", "710-kube.bats",
}

// podmanWait bounds what one file of it may take, podmanTimeout a command of Podman's.
const (
	podmanWait    = 40 * time.Minute
	podmanTimeout = time.Minute
)

// podmanSuite is Podman's system tests, of the release that is installed, as root. A unit is a
// file.
func podmanSuite(ctx context.Context, o *options, _ string) ([]unit, error) {
	for _, tool := range []string{"podman", "bats", "jq", "socat", "nc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is needed (Debian: apt-get install podman bats jq socat ncat)", tool)
		}
	}
	out, err := do(ctx, "", "podman", "--version")
	if err != nil {
		return nil, err
	}
	v := regexp.MustCompile(`podman version (\d+)(\.\d+\.\d+)`).FindStringSubmatch(string(out))
	if v == nil {
		return nil, fmt.Errorf("podman does not print its version: %q", out)
	}
	version := "v" + v[1] + v[2]
	dir, err := moduleCopy(ctx, "github.com/containers/podman/v"+v[1]+"@"+version, "podman-"+version, nil)
	if err != nil {
		return nil, err
	}
	images, err := podmanImages(ctx, dir)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "test/system/*.bats"))
	if err != nil {
		return nil, err
	}
	var units []unit
	for _, f := range files {
		name := filepath.Base(f)
		if !slices.Contains(podmanFiles, name) {
			continue
		}
		args := []string{"bats", "-t", f}
		if o.tests != "" {
			args = []string{"bats", "-t", "-f", o.tests, f}
		}
		units = append(units, unit{name: name, wait: podmanWait, run: func(ctx context.Context, path, log string) error {
			return onPodman(ctx, path, log, dir, args, images)
		}, read: func(log string) (results, error) { return readTAPFile(log, name, withoutNumber) }})
	}
	return units, nil
}

// withoutNumber takes the file's number off a test's name, which Podman 5 has there: "[030] ".
func withoutNumber(name string) string { return fileNumber.ReplaceAllString(name, "") }

var fileNumber = regexp.MustCompile(`^\[\d+\] `)

// onPodman runs a command in a Podman's place of its own whose runtime is the one at path.
func onPodman(ctx context.Context, path, log, dir string, args []string, images *registry) (err error) {
	p, err := engine.StartPodman()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	// Podman's own image for pods: the tests remove all that they do not know.
	if err := p.Configure("conformance.conf", fmt.Sprintf("[engine]\nruntime = %q\ninfra_image = \"\"\n", path)); err != nil {
		return err
	}
	tmp := filepath.Join(p.Dir, "tmp")
	mirror := fmt.Sprintf("[[registry]]\nprefix = \"quay.io\"\nlocation = \"%s/quay.io\"\ninsecure = true\n", registryAddress)
	if err := errors.Join(
		os.Mkdir(tmp, 0o711), os.Chmod(p.Dir, 0o711), os.MkdirAll(filepath.Join(p.Dir, "etc/registries.conf.d"), 0o755),
		os.WriteFile(filepath.Join(p.Dir, "etc/registries.conf.d/conformance.conf"), []byte(mirror), 0o644),
	); err != nil {
		return err
	}
	cmd := p.Inside(ctx, args...)
	env := append(cmd.Env, "TMPDIR="+tmp, fmt.Sprintf("PODMAN_TIMEOUT=%.0f", podmanTimeout.Seconds()))
	return p.InNetns(func() error {
		return images.during(func() error { return command(ctx, dir, log, env, cmd.Args...) })
	})
}

// podmanImages makes stand-ins for the images that Podman's tests pull: this machine's busybox,
// with the files that they look for.
func podmanImages(ctx context.Context, dir string) (*registry, error) {
	helpers, err := os.ReadFile(filepath.Join(dir, "test/system/helpers.bash"))
	if err != nil {
		return nil, err
	}
	tag := regexp.MustCompile(`PODMAN_TEST_IMAGE_TAG:-"(\d+)"`).FindSubmatch(helpers)
	other := regexp.MustCompile(`PODMAN_NONLOCAL_IMAGE_TAG:-"(\d+)"`).FindSubmatch(helpers)
	if tag == nil || other == nil {
		return nil, errors.New("the tests do not name their images as they did")
	}
	bin, err := engine.BinDir()
	if err != nil {
		return nil, err
	}
	busybox := filepath.Join(bin, "podman.tar")
	if err := busyboxTar(ctx, busybox, mobyUsers, mobyGroups); err != nil {
		return nil, err
	}
	// As test/system/build-testimage of Podman's has them, and what Alpine has.
	const script = `d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"; mkdir -p home/podman srv usr/bin bin etc
echo "$2" >home/podman/testimage-id; touch --date=@1600000000 home/podman/testimage-id
printf '#!/bin/sh\necho Confirmed: testimage pause invoked as $0\nwhile :; do sleep 0.1; done\n' >home/podman/pause; chmod 755 home/podman/pause
printf '#!/bin/sh\n[ $# -gt 0 ] || exec env\neval "echo \\"\\$$1\\""\n' >usr/bin/printenv; chmod 755 usr/bin/printenv
ln -s busybox bin/busybox-extras; ln -s ../proc/mounts etc/mtab
tar --owner=0 --group=0 -rf "$1" home/podman srv usr/bin/printenv bin/busybox-extras etc/mtab`
	if _, err := do(ctx, "", "sh", "-ec", script, "sh", busybox, string(tag[1])); err != nil {
		return nil, err
	}
	layer, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	r := &registry{manifests: map[string][]byte{}, blobs: map[string][]byte{}}
	const name = "quay.io/libpod/testimage:"
	config := engine.ImageConfig{
		Cmd: []string{"/bin/echo", "This container is intended for podman CI testing"}, WorkingDir: "/home/podman",
		Env:    []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: map[string]string{"created_by": "test/system/build-testimage", "created_at": "2022-06-15T00:00:00Z"},
	}
	if err := r.add(layer, config, name+string(tag[1])); err != nil {
		return nil, err
	}
	return r, r.add(layer, engine.ImageConfig{Cmd: []string{"sh"}}, name+strings.TrimSpace(string(other[1])))
}
