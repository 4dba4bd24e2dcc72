package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A release is what is made of one commit.
type release struct {
	o       options
	version string // as packages have it: without v, and comparable by dpkg and rpm
	commit  string
	time    time.Time // the only time that is in what is made
	nfpm    string    // the program
	out     string
	help    *page             // agentjail's own
	shells  map[string][]byte // files of completion, by their path below /usr/share
	others  []*page           // of its other programs
	mains   []string          // the programs' names
}

// newRelease queries git for HEAD.
func newRelease(ctx context.Context, o options) (*release, error) {
	r := &release{o: o}
	head, err := git(ctx, o.root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of commit %s: %w", commit, err)
	}
	if v := os.Getenv("SOURCE_DATE_EPOCH"); v != "" {
		if at, err = strconv.ParseInt(v, 10, 64); err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
	}
	r.commit, r.time = commit, time.Unix(at, 0).UTC()
	if r.version = o.version; r.version == "" {
		tag, _ := git(ctx, o.root, "describe", "--tags", "--exact-match", "--match", "v[0-9]*") // an error means that there is none
		changed, err := git(ctx, o.root, "status", "--porcelain")
		if err != nil {
			return nil, err
		}
		r.version = versionOf(tag, commit, r.time, changed != "")
	}
	if !packageVersion.MatchString(r.version) {
		return nil, fmt.Errorf("version %q: digits first, then digits, letters, dots, + and ~", r.version)
	}
	return r, nil
}

// packageVersion is what both dpkg (deb-version(7)) and rpm take as an upstream version.
var packageVersion = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~]*$`)

// versionOf is the tag's version, or a snapshot's, which is older than every release and ordered by
// time. A pre-release comes before its release: v1.0.0-rc1 is 1.0.0~rc1.
func versionOf(tag, commit string, at time.Time, changed bool) string {
	v := strings.Replace(strings.TrimPrefix(tag, "v"), "-", "~", 1)
	if tag == "" {
		v = fmt.Sprintf("0~%s.g%.10s", at.Format("20060102150405"), commit)
	}
	if changed {
		v += "+changed" // not what the commit has
	}
	return v
}

// git runs git and returns its first output without the last newline.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	// The one who makes a release need not be the one who made the clone.
	return output(ctx, dir, nil, "git", append([]string{"-c", "safe.directory=" + dir}, args...)...)
}

// output runs a program and returns its output without the last newline.
func output(ctx context.Context, dir string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}

// moduleRoot is the directory of agentjail's module.
func moduleRoot(ctx context.Context) (string, error) {
	mod, err := output(ctx, "", nil, "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(mod)
	if err != nil || !bytes.HasPrefix(text, []byte("module agentjail.dev\n")) {
		return "", errors.New("run it inside agentjail's module")
	}
	return filepath.Dir(mod), nil
}
