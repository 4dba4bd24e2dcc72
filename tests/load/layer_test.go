package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// dockersOwn reports whether a mount below an engine's directory is one that Docker makes for itself: before it calls any runtime, or without
// any container.
func dockersOwn(at string) bool {
	if strings.Contains(at, "/docker-run/netns/") || strings.HasSuffix(at, "/docker/overlay2") || strings.HasSuffix(at, "/docker") {
		return true
	}
	// docker create mounts the layer with /etc/hosts and its like for as long as it writes them (moby daemon/initlayer, layer.initMount). A dockerd
	// that is killed meanwhile leaves that mount, and never looks for it again: TestInitLayerIsDockers.
	layer, isMerged := strings.CutSuffix(at, "/merged")
	return isMerged && strings.HasSuffix(layer, "-init") && filepath.Base(filepath.Dir(layer)) == "overlay2"
}

// TestDockersMountsAreRecognised: Docker's own mounts are distinguished from a container's.
func TestDockersMountsAreRecognised(t *testing.T) {
	id := strings.Repeat("0af", 21) + "1"
	for at, want := range map[string]bool{
		"/x/docker": true, "/x/docker/overlay2": true, "/x/docker-run/netns/abc": true,
		"/x/docker/overlay2/" + id + "-init/merged":       true,
		"/x/docker/overlay2/" + id + "/merged":            false,
		"/x/docker/overlay2/" + id + "-init/merged/proc":  false,
		"/x/docker/containers/" + id + "/mounts/shm":      false,
		"/x/docker/volumes/" + id + "-init/merged":        false,
		"/run/agentjail/jails/" + id + "-init/merged/etc": false,
	} {
		if got := dockersOwn(at); got != want {
			t.Errorf("%s: %v", at, got)
		}
	}
}

// TestInitLayerIsDockers kills dockerd while it makes a container for runc, which it does not call for that, until the mount of the half-made
// layer is left. So what the load test finds of that kind is not the jail's.
func TestInitLayerIsDockers(t *testing.T) {
	d := dockerDoor{docker, "runc"}
	deadline := time.Now().Add(time.Minute)
	for tries := 1; ; tries++ {
		left, err := killWhileMaking(d)
		env.Check(t, err)
		if len(left) == 0 {
			if time.Now().After(deadline) {
				t.Logf("dockerd was quicker in %d tries: its half-made layer was never seen", tries)
				return
			}
			continue
		}
		t.Logf("left in try %d: %s", tries, left[0])
		for _, at := range left {
			if !dockersOwn(at) {
				t.Errorf("%s is not taken for Docker's own", at)
			}
			if err := unix.Unmount(at, 0); err != nil {
				t.Error(err)
			}
		}
		return
	}
}

// killWhileMaking kills dockerd as soon as a docker create has mounted a half-made layer, starts it again, and returns which such mounts are
// left then.
func killWhileMaking(d dockerDoor) ([]string, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	made := make(chan struct{})
	go func() {
		defer close(made)
		_, _ = d.call(ctx, "create", "--network=none", "--runtime="+d.runtime, engine.Busybox, "true")
	}()
	for seen := false; !seen; {
		select {
		case <-made:
			return nil, d.clear(ctx)
		default:
		}
		// A change of the list is an exceptional condition (proc_pid_mounts(5)).
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(mounts.Fd()), Events: unix.POLLPRI}}, 10); err != nil && err != unix.EINTR {
			return nil, err
		}
		at, err := halfMade(d.Dir)
		if err != nil {
			return nil, err
		}
		seen = len(at) > 0
	}
	if err := d.crash("dockerd"); err != nil {
		return nil, err
	}
	<-made
	if err := d.clear(ctx); err != nil {
		return nil, err
	}
	return halfMade(d.Dir)
}

// clear removes all containers.
func (d dockerDoor) clear(ctx context.Context) error {
	all, err := d.call(ctx, "ps", "-aq", "--no-trunc")
	if err != nil || all == "" {
		return err
	}
	if _, err := d.call(ctx, append([]string{"rm", "-f"}, strings.Fields(all)...)...); err != nil {
		return fmt.Errorf("removing containers: %w", err)
	}
	return nil
}

// halfMade lists the mounts of half-made layers below an engine's directory.
func halfMade(dir string) ([]string, error) {
	all, err := engine.MountsBelow(dir)
	var out []string
	for _, at := range all {
		if strings.HasSuffix(at, "-init/merged") {
			out = append(out, at)
		}
	}
	return out, err
}
