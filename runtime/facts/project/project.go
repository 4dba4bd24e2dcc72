// Package project reads a project's own policy file, which can only narrow: .agentjail.toml in the
// directory that a container's annotation names, or the workspace of agentjail sandbox. Strangers
// write that file. It is opened as the directory's owner, and parsed by a process without rights.
package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// patience bounds the process that parses.
const patience = 10 * time.Second

// maxAnswer bounds its answer: each setting is written with its key.
const maxAnswer = 16 * policy.MaxProject

// Apply narrows a policy by the file of the mount that a bundle's annotation names. Without the
// annotation or the file it is the same policy.
func Apply(p policy.Policy, spec *specs.Spec) (policy.Policy, error) {
	places, ok := spec.Annotations[policy.AnnotationPrefix+policy.ProjectAnnotation]
	if !ok {
		return p, nil
	}
	for place := range strings.SplitSeq(places, ":") {
		dir, err := source(spec, place)
		if err != nil {
			return p, &refusal.Error{
				Code: refusal.Annotation, Of: "the annotation " + policy.AnnotationPrefix + policy.ProjectAnnotation, Why: err.Error(),
				Remedy: "the place of a mounted directory",
			}
		}
		if p, err = Narrow(p, dir); err != nil {
			return p, &refusal.Error{
				Code: refusal.Project, Of: "the project's own policy", Why: err.Error(), Remedy: "correct the file, or remove it",
			}
		}
	}
	return p, nil
}

// source is the directory of the host that is mounted at a place.
func source(spec *specs.Spec, place string) (string, error) {
	for _, m := range spec.Mounts {
		if filepath.Clean(m.Destination) == filepath.Clean(place) && filepath.IsAbs(m.Source) {
			return m.Source, nil
		}
	}
	return "", fmt.Errorf("nothing of the host is mounted at %s", place)
}

// Narrow narrows a policy by the file of a directory. Without the file it is the same policy.
func Narrow(p policy.Policy, dir string) (policy.Policy, error) {
	path := filepath.Join(dir, policy.ProjectFile)
	text, err := read(dir)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("reading %s: %w", path, err)
	}
	own, err := parse(text, path)
	if err != nil {
		return p, fmt.Errorf("reading %s: %w", path, err)
	}
	return p.Narrow(own)
}

// read reads the file as the directory's owner. It follows no link.
func read(dir string) (text []byte, err error) {
	fd, err := openat.Open(unix.AT_FDCWD, dir, openat.Real, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOTDIR) {
		return nil, os.ErrNotExist // a mounted file has no project
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if err := invoker.Owns(st.Uid, dir); err != nil {
		return nil, err
	}
	err = thread.AsOwner(st.Uid, st.Gid, func() error {
		f, err := openat.Regular(fd, policy.ProjectFile, openat.Beneath)
		if err != nil {
			return err
		}
		defer f.Close()
		text, err = atomicfile.ReadAll(f, policy.MaxProject)
		return err
	})
	return text, err
}

// parse has a process without rights parse the text.
func parse(text []byte, path string) (out policy.Project, err error) {
	program, err := parser()
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, errs := atomicfile.Head{Max: maxAnswer}, atomicfile.Head{Max: maxAnswer}
	cmd := exec.CommandContext(ctx, program, Verb, path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = bytes.NewReader(text), &answer, &errs, "/", []string{}
	if os.Geteuid() == 0 && !rootless.Inside() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: idmap.ParserID, Gid: idmap.ParserID}}
	}
	if err := fork.RunCommand(cmd); err != nil {
		return out, fmt.Errorf("parsing it: %w: %s", err, errs.Text)
	}
	if len(answer.Text) >= maxAnswer {
		return out, errors.New("parsing it: the answer is too long")
	}
	if err := json.Unmarshal(answer.Text, &out); err != nil {
		return out, fmt.Errorf("parsing it: %w", err)
	}
	// No more than the file can have.
	out.Path = path
	for i := range out.Problems {
		out.Problems[i].File = path
	}
	return out, nil
}

// parser returns the path of the program that calls Work. Tests have their own.
var parser = func() (string, error) { return programs.Path(programs.Ctl) }
