// Package kubernetes runs a whole cluster of Kubernetes' own programs on this machine and has pods in it become jails: etcd,
// the API server, its controllers, the scheduler, a kubelet, containerd and CNI's plugins, with agentjail installed by the
// manifests of hack/kubernetes.
//
// The node is this machine as it looks from namespaces of the tests' own: its /run, and all below /etc, /opt, /usr/local,
// /var/lib and /var/log that is changed, are gone with them, and so is every process.
package kubernetes

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/version/form"
	"agentjail.dev/tests/engine"
)

// stageEnv reports what a process of this program is: the tests' own caller if unset, the first process of the node's namespaces,
// or what runs the tests there.
const stageEnv = "AGENTJAIL_TEST_NODE"

// Further variables that pass to the inner processes what was built.
const (
	dirEnv        = "AGENTJAIL_TEST_NODE_DIR"
	programsEnv   = "AGENTJAIL_TEST_NODE_PROGRAMS"
	containerdEnv = "AGENTJAIL_TEST_NODE_CONTAINERD"
	kubernetesEnv = "AGENTJAIL_TEST_NODE_KUBERNETES"
)

// bySystemd is whether systemd makes the control groups, as on a node that a distribution set up. Then the machine itself is the node: its first
// process is systemd, which could not find processes of another process id namespace by what they call themselves.
var bySystemd = flag.Bool("systemd", false, "have systemd, this machine's first process, make the pods' control groups; for a machine that is thrown away")

// patience is by how much everything takes longer than on a machine of its own.
var patience = flag.Int("patience", 1, "wait this many `times` as long for everything, for an emulated machine")

// patient is how long to wait for what takes at most d elsewhere.
func patient(d time.Duration) time.Duration { return d * time.Duration(*patience) }

// timeout is patient as kubectl wants it.
func timeout(d time.Duration) string { return "--timeout=" + patient(d).String() }

// prefix starts the names of a node's directory and control groups.
const prefix = "agentjail-cluster-"

func TestMain(m *testing.M) {
	flag.Parse()
	switch os.Getenv(stageEnv) {
	case "init":
		os.Exit(firstProcess())
	case "tests":
		os.Exit(onNode(m))
	}
	engine.SuiteNeedsRoot("it starts a cluster of its own")
	engine.Exit(outside())
}

// outside builds what the node needs, starts its first process in namespaces of their own, and cleans up after it.
func outside() (int, error) {
	sweepNodes()
	dir, err := os.MkdirTemp("/var/tmp", prefix)
	if err != nil {
		return 1, err
	}
	lock, err := lockNode(dir)
	if err != nil {
		return 1, err
	}
	defer lock.Close()
	env := append(os.Environ(), stageEnv+"=init", dirEnv+"="+dir)
	for name, build := range map[string]func() (string, error){
		programsEnv:   buildPrograms,
		containerdEnv: func() (string, error) { return engine.Tool("containerd") },
		kubernetesEnv: func() (string, error) { return engine.Tool("kubernetes") },
	} {
		path, err := build()
		if err != nil {
			return 1, errors.Join(err, os.RemoveAll(dir))
		}
		env = append(env, name+"="+path)
	}
	if err := buildImages(dir); err != nil {
		return 1, errors.Join(err, os.RemoveAll(dir))
	}
	code, err := runInit(env)
	if *bySystemd {
		return code, err // what is left ends with the machine
	}
	return code, errors.Join(err, sweepNode(dir), engine.RemoveBuilt())
}

// buildPrograms builds what is installed, beside it the collector of refused system calls, and other releases.
func buildPrograms() (string, error) {
	dir, err := engine.Shim()
	if err != nil {
		return "", err
	}
	return dir, errors.Join(engine.Build("./cmd/agentjail-journal", filepath.Join(dir, "agentjail-journal")), buildReleases(dir))
}

// releaseDir is the directory of a release's programs. "this" is the one under test, "next" has forms that this one does not read and reads
// none of its forms, "previous" is the commit of main before.
func releaseDir(name string) string {
	dir := os.Getenv(programsEnv)
	if name == "this" {
		return dir
	}
	return filepath.Join(dir, "release-"+name)
}

// buildReleases builds the other releases, unless the machine is thrown away: that one has no Go.
func buildReleases(programs string) error {
	if *bySystemd {
		return nil
	}
	at := func(name string) string { return filepath.Join(programs, "release-"+name) }
	return errors.Join(engine.OtherForm(at("next"), form.Number+1, form.Number+1), engine.PreviousRelease(at("previous")))
}

// buildImages makes what images are made of: the node has no process ids by which the builds of several test runs are distinguished.
func buildImages(dir string) error {
	if err := engine.Build("./tests/cri/pause", filepath.Join(dir, "pause")); err != nil {
		return err
	}
	var busybox bytes.Buffer
	if err := engine.BusyboxTree(&busybox); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "busybox.tar"), busybox.Bytes(), 0o600)
}

// runInit starts the first process and waits for its end. It dies with this process, and everything in its namespaces with it.
func runInit(env []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if !*bySystemd {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID
	}
	// The signal comes when the thread ends that forked (prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = cmd.Process.Kill()
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// firstProcess makes the node's file tree, runs the tests, and reaps what loses its parent. When it ends, the kernel ends all
// others (pid_namespaces(7)).
func firstProcess() int {
	if err := makeNode(os.Getenv(dirEnv)); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes: make the node:", err)
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		return 1
	}
	_ = os.Setenv(stageEnv, "tests")
	tests, err := os.StartProcess(self, os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		return 1
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1
		case pid == tests.Pid && status.Exited():
			return status.ExitStatus()
		case pid == tests.Pid:
			return 1
		}
	}
}

// onNode brings the cluster up and runs the tests against it.
func onNode(m *testing.M) int {
	var err error
	if mountsBefore, err = jailMounts(); err != nil {
		fmt.Fprintf(os.Stderr, "kubernetes: %v\n", err)
		return 1
	}
	c, err := startCluster(os.Getenv(dirEnv))
	if err != nil {
		fmt.Fprintf(os.Stderr, "kubernetes: %v\n%s", err, c.logs(30))
		return 1
	}
	cluster = c
	// Tests wait for the kubelet most of the time.
	if f := flag.Lookup("test.parallel"); f != nil {
		_ = f.Value.Set("10")
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprint(os.Stderr, c.logs(25))
	}
	printMatrix(os.Stdout)
	return code
}

// lockNode marks a directory as one that is used.
func lockNode(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return f, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// sweepNodes removes what runs left that were killed: their lock is free.
func sweepNodes() {
	old, _ := filepath.Glob("/var/tmp/" + prefix + "*")
	for _, dir := range old {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue // just being made, or not ours
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if err := sweepNode(dir); err != nil {
				fmt.Fprintf(os.Stderr, "kubernetes: sweep what an earlier run left in %s: %v\n", dir, err)
			}
		}
		f.Close()
	}
}

// sweepNode removes a node's control groups and its directory. Its processes and mounts are gone with their namespaces.
func sweepNode(dir string) error {
	if !strings.HasPrefix(dir, "/var/tmp/"+prefix) {
		return fmt.Errorf("refusing to sweep %q: not a node's directory", dir)
	}
	return errors.Join(engine.RemoveCgroups(filepath.Base(dir)), os.RemoveAll(dir))
}
