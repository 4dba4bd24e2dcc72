package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// What a review and an apply are held against.
const (
	reviewDiff  kind = "workspace diff"
	reviewApply kind = "workspace apply"
	plainCopy   kind = "cp -a of the layer, and sync"
)

// viewPairs are about work in a view and its way into the directory. Processor time is that of the
// programs, which other work on the machine changes less.
var viewPairs = []pair{
	inView("git status", ", processor time", 1.3),
	inView("find", ", processor time", 1.3),
	inView("grep", ", processor time", 1.5),
	inView("untar", ", processor time", 1.5),
	inView("npm ci", "", 1.05),
	{"views", "in a view against the directory", side{kind: jailedView}, side{kind: jailedDirect}, nil, 0},
	{"apply", "diff of 50,000 new files", side{kind: reviewDiff}, side{kind: plainCopy}, &target{ofFirst, 3000, "at most 3 s"}, 0},
	{"apply", "apply of 50,000 new files against cp -a of the layer, and sync", side{kind: reviewApply}, side{kind: plainCopy}, atMost(1.3, "at most 1.30"), 0},
}

// inView compares a task in a view with the same in the directory.
func inView(name, of string, most float64) pair {
	return pair{
		"views", "in a view: " + name + of,
		side{jailedView, "", name + of},
		side{jailedDirect, "", name + of},
		atMost(most, fmt.Sprintf("at most %.2f", most)), 0,
	}
}

// viewTasks are done in a mounted directory of 10,000 files. What they make, the last one removes.
var viewTasks = []task{
	{
		"git status", `git init -q r; cd r; for d in $(seq 100); do mkdir d$d; for f in $(seq 100); do echo line{1..100} $d $f > d$d/f$f; done; done
git -c gc.auto=0 add .; git -c user.email=a@example.org -c user.name=a -c gc.auto=0 commit -qm one`,
		`cd r; for i in 1 2 3 4 5; do git status --short || exit 1; done`,
	},
	{"find", "", `for i in $(seq 20); do find ../bench-git-status/r -size +100k || exit 1; done`},
	{"grep", "", `for i in 1 2 3 4 5; do ! grep -rF absent ../bench-git-status/r || exit 1; done`},
	{"untar", `tar -cf files.tar -C ../bench-git-status/r --exclude=.git .`, `mkdir new; tar -xf files.tar -C new`},
	{
		"npm ci", `mkdir app; deps=; for p in $(seq 60); do mkdir -p pack/package/lib; for i in $(seq 30); do echo "module.exports = $p + $i" > pack/package/lib/f$i.js; done
echo "{\"name\":\"p$p\",\"version\":\"1.0.0\"}" > pack/package/package.json; tar -C pack -czf p$p.tgz package; deps="$deps,\"p$p\":\"file:../p$p.tgz\""; done
echo "{\"name\":\"app\",\"version\":\"1.0.0\",\"dependencies\":{${deps#,}}}" > app/package.json; cd app
npm install --package-lock-only --offline --no-audit --no-fund --no-update-notifier`,
		`cd app && npm ci --offline --no-audit --no-fund --no-update-notifier`,
	},
	{"rm -rf", "", `rm -rf ../bench-untar/new ../bench-npm-ci/app/node_modules`},
}

// views measures work in a view, and in a directory of the same content that is mounted directly.
func (b *bench) views(ctx context.Context) error {
	return b.onDisk(func() error { return b.workInViews(ctx) })
}

func (b *bench) workInViews(ctx context.Context) (err error) {
	root, err := b.workRoot()
	if err != nil {
		b.res.leftOut("work in a view", err)
		return nil
	}
	direct, err := b.repository("direct")
	if err != nil {
		return err
	}
	all := b.found
	b.found = all[:1] // as in work
	defer func() { b.found = all }()
	kinds := []withChange{{jailedDirect, withWork(direct)}}
	if err := b.runningChanged(root, "", kinds, func(s []*subject) error { return b.makeReady(s[0], "/work", viewTasks) }); err != nil {
		return err
	}
	reviewed := direct + "-reviewed"
	defer func() { err = errors.Join(err, b.discardViews(reviewed)) }()
	if out, err := exec.Command("cp", "-a", direct, reviewed).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the directory: %w: %s", err, out)
	}
	kinds = append(kinds, withChange{jailedView, withWork(reviewed)})
	return b.runningChanged(root, "", kinds, func(subjects []*subject) error {
		return b.steadyRounds(ctx, "views", "ms", min(b.rounds, workRounds), subjects, func(s *subject) ([]reading, error) {
			return b.doTasks(s, "/work", viewTasks)
		})
	})
}

// onDisk calls a function with a new file system for repository's directories: on a disk that is
// nearly full or long in use, the search for free blocks would be most of what is measured. It ends
// with the function, or with the program that is killed: the janitor unmounts it.
func (b *bench) onDisk(measure func() error) (err error) {
	if err := workspace.CheckHost(); err != nil {
		b.res.leftOut("views", err)
		return nil
	}
	image, at := filepath.Join(b.e.Dir, "disk.ext4"), filepath.Join(b.e.Dir, "disk")
	defer os.Remove(image)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for _, call := range [][]string{
		{"fallocate", "-l", "4GiB", image},
		{"mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", image},
		{"mount", "-o", "loop", image, at},
	} {
		if out, err := exec.Command(call[0], call[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("a disk of its own: %s: %w: %s", call[0], err, out)
		}
	}
	b.repositories = at
	defer func() {
		b.repositories = ""
		err = errors.Join(err, os.NewSyscallError("umount", unix.Unmount(at, 0)))
	}()
	if err := os.Remove(image); err != nil {
		return err
	}
	return measure()
}

// discardViews removes the views of a directory.
func (b *bench) discardViews(dir string) error {
	all, err := workspace.Of(state.Store{Root: state.DefaultRoot}).List()
	errs := []error{err}
	for _, r := range all {
		if r.Path == dir {
			errs = append(errs, b.ctl(new(times), "workspace", "discard", r.ID))
		}
	}
	return errors.Join(errs...)
}

// ctl runs a command of agentjail's for people. Status 1 of a diff is no error.
func (b *bench) ctl(took *times, args ...string) error {
	err := took.run(b.agentjail, args...)
	if ended := (*exec.ExitError)(nil); args[1] == "diff" && errors.As(err, &ended) && ended.ExitCode() == 1 {
		return nil
	}
	return err
}

// times are those of several runs of a program, in milliseconds.
type times struct{ wall, cpu []float64 }

// run runs a program and adds its times.
func (t *times) run(program string, args ...string) error {
	cmd := exec.Command(program, args...)
	unix.Sync() // what was written before is no cost of it
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState != nil {
		t.wall = append(t.wall, ms(time.Since(start)))
		t.cpu = append(t.cpu, ms(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
	}
	if err != nil {
		return fmt.Errorf("%s %v: %w: %.400s", program, args, err, out)
	}
	return nil
}

// applyRounds is how often 50,000 files are applied.
const applyRounds = 5

// applies measures the review of a view with 50,000 new files, their apply, and what is the least
// of it: they are read from the layer, made in the directory, and on the disk in the end.
func (b *bench) applies(ctx context.Context) error {
	return b.onDisk(func() error { return b.applyViews(ctx) })
}

func (b *bench) applyViews(ctx context.Context) (err error) {
	dir, err := b.repository("apply")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.discardViews(dir)) }()
	const write = `for d in $(seq 500); do mkdir -p many/$d; for f in $(seq 100); do echo "file $f of directory $d" > many/$d/$f; done; done`
	many, copied := filepath.Join(dir, "many"), filepath.Join(dir, "copied")
	took := map[kind]*times{reviewDiff: {}, reviewApply: {}, plainCopy: {}}
	copyLayer := func() error {
		store := workspace.Of(state.Store{Root: state.DefaultRoot})
		r, err := store.Open("bench-apply")
		if err != nil {
			return err
		}
		layers, err := store.OpenLayers(r)
		if err != nil {
			return err
		}
		defer layers.Close()
		from := fmt.Sprintf("/proc/%d/fd/%d/many", os.Getpid(), layers.Upper.Fd())
		return took[plainCopy].run("sh", "-c", `cp -a "$1" "$2" && sync -f "$2"`, "sh", from, copied)
	}
	rounds := min(b.rounds, applyRounds)
	b.logf("apply: %d rounds", rounds)
	for range rounds {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := errors.Join(
			b.ctl(new(times), "sandbox", "--workspace", dir, "--review", "--view", "bench-apply", "--", "sh", "-c", write),
			b.ctl(took[reviewDiff], "workspace", "diff", "bench-apply"),
			copyLayer(),
			b.ctl(took[reviewApply], "workspace", "apply", "bench-apply"),
		); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(many), os.RemoveAll(copied), b.discardViews(dir)); err != nil {
			return err
		}
	}
	for _, k := range []kind{reviewDiff, reviewApply, plainCopy} {
		b.res.addValues(measured{Measure: "apply", Delegate: "agentjail", Kind: k, Unit: "ms", CPU: median(took[k].cpu), Samples: took[k].wall})
	}
	return nil
}
