package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/bundle"
	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/host"
	"agentjail.dev/runtime/idmap"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/internal/without"
	"agentjail.dev/runtime/linux/atomicfile"
	"agentjail.dev/runtime/linux/thread"
	"agentjail.dev/runtime/plan"
	"agentjail.dev/runtime/report"
	"agentjail.dev/runtime/rootless"
	"agentjail.dev/runtime/source"
	"agentjail.dev/runtime/stage"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/views"
	"agentjail.dev/seccomp/kept"
)

// CreateOptions are the options of create and run.
type CreateOptions struct {
	ID     string
	Bundle string
	// Run starts the jail at once and, unless Detach, waits for its end.
	Run, Detach   bool
	PidFile       string
	ConsoleSocket string
	PidfdSocket   string
	// PlainRoot says that the root's files keep their host owners: the host's
	// own file tree, where what is root's alone must stay unreadable.
	PlainRoot bool
}

// pidFile is the delegate's pid file in the jail's state directory.
const pidFile = "init.pid"

// prepared is a bundle on its way, up to what the delegate is started with.
type prepared struct {
	b       *bundle.Bundle
	facts   harden.Facts
	sources []*source.Source
	rootfs  *os.File
	engine  source.Engine
	// inStorage says that the root lies in an engine's storage.
	inStorage bool
	res       *harden.Result
	rep       *report.Report
}

func (p *prepared) close() {
	for _, s := range p.sources {
		if s != nil {
			s.File.Close()
		}
	}
	if p.rootfs != nil {
		p.rootfs.Close()
	}
	p.engine.Mounts.Close()
}

// Create makes a jail from a bundle, and with Run starts it.
func (w *Runtime) Create(ctx context.Context, o CreateOptions) error {
	if err := state.CheckID(o.ID); err != nil {
		return err
	}
	if w.Policy.Passthrough {
		return errors.New("this profile of the policy passes calls through to the delegate: it makes no jails")
	}
	// This thread gets a mount namespace of its own and lends it to the
	// delegate, which dies with the thread. It is never given back.
	runtime.LockOSThread()
	defer hasten()()

	done := w.step("delegate")
	d, err := w.delegateFor(nil)
	if err != nil {
		return err
	}
	caps, err := d.Capabilities(w.Store.Root)
	if err != nil {
		return err
	}
	done()

	j, err := w.newRecord(o, d)
	if err != nil {
		return err
	}
	if err := w.claim(j); err != nil {
		return err
	}
	crash.Point("create.claimed")
	if err := thread.Caught(func() error { return w.create(ctx, o, j, d, caps) }); err != nil {
		var ended *ExitError
		if o.Run && errors.As(err, &ended) && j.Started {
			return err // it ran, and was cleaned up after
		}
		if _, serr := os.Lstat(j.DelegateState()); serr == nil {
			w.abandon(d, j) // an internal error behind the delegate
		}
		// From the host's mount namespace: in this thread's own, the jail's
		// root is busy.
		if rerr := onHostThread(func() error { return w.release(&j.Brief) }); rerr != nil {
			w.Log.Warnf("cleaning up after a failed create: %v", rerr)
		}
		return err
	}
	return nil
}

// buildID is the id that Podman's and Buildah's builds give the container of a
// step whose bundle this is (buildah run_common.go).
func buildID(bundle string) string { return "buildah-" + filepath.Base(bundle) }

// newRecord begins the jail's record.
func (w *Runtime) newRecord(o CreateOptions, d *delegate.Runtime) (*state.Jail, error) {
	abs, err := filepath.Abs(o.Bundle)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", o.Bundle, err)
	}
	start, _, err := state.StartTime(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("reading this process's start time: %w", err)
	}
	return &state.Jail{
		Brief: state.Brief{
			ID: o.ID, Key: state.Key(w.Globals.Root, o.ID), DelegateRoot: w.Globals.Root, Delegate: d.Path,
			Bundle: abs, BootID: state.BootID(), CreatorPid: os.Getpid(), CreatorStart: start,
			SystemdCgroup: w.Globals.SystemdCgroup, IDs: idmap.Map{Block: -1}, Userns: w.Policy.Userns,
			PacketFilter: w.Policy.Network.Filter,
		},
		Policy: w.Policy,
	}, nil
}

// claim takes the id, also from a dead jail that nobody deleted.
func (w *Runtime) claim(j *state.Jail) error {
	err := w.Store.Create(j)
	if !errors.Is(err, state.ErrExists) {
		return err
	}
	unlock, lerr := w.Store.Lock(j.Key)
	if errors.Is(lerr, state.ErrNotFound) {
		return w.Store.Create(j) // gone meanwhile
	}
	if lerr != nil {
		return lerr
	}
	defer unlock()
	old, lerr := w.Store.Brief(j.Key)
	if lerr == nil && !w.complete(old).Dead() {
		return err
	}
	if lerr == nil {
		if rerr := w.release(old); rerr != nil {
			return rerr
		}
	}
	return w.Store.Create(j)
}

func (w *Runtime) create(ctx context.Context, o CreateOptions, j *state.Jail, d *delegate.Runtime, caps delegate.Caps) error {
	done := w.step("load")
	p, err := w.load(o.ID, j.Bundle, o.PlainRoot)
	if err != nil {
		return err
	}
	defer p.close()
	done()

	done = w.step("harden")
	if err := w.assignIDs(j, p); err != nil {
		return err
	}
	crash.Point("create.ids")
	p.facts.IDs = j.IDs
	if err := ensureLSM(ctx, &p.facts, w.Policy); err != nil {
		return err
	}
	policy := harden.Tighten(p.b.Spec, w.Policy)
	filter, err := kept.Store{Dir: filepath.Join(w.Store.Root, "filters")}.Get(policy.Filter(p.b.Spec, p.facts.Host.Arch))
	if err != nil {
		p.facts.Filter = &harden.Filter{Err: err}
	} else {
		p.facts.Filter = &harden.Filter{Section: filter.Delegates, Notes: filter.Notes}
	}
	p.res, p.rep, err = policy.Harden(p.b.Spec, p.facts)
	w.tell(p.rep)
	if err != nil {
		return err
	}
	if c := d.Choice; c != nil && len(c.Not) > 0 {
		p.rep.Add(report.Change{Ring: report.Resources, Kind: report.Set, Field: "delegate", Now: d.Path, Why: "better ones cannot be used here: " + strings.Join(c.Not, "; ")})
	}
	for _, i := range slices.Backward(p.res.Plan.Dropped) {
		p.sources[i].File.Close()
		p.sources = slices.Delete(p.sources, i, i+1)
	}
	spec := p.res.Spec
	if err := without.Spec(spec, p.b.Spec); err != nil {
		return err
	}
	for i := range p.res.Plan.Binds {
		if without.Ring(1) {
			p.res.Plan.Binds[i].Owner = plan.OwnerSame
		}
	}
	j.Process, j.Limits, j.CgroupsPath = spec.Process, spec.Linux.Resources, spec.Linux.CgroupsPath
	j.MountLabel, j.MountOwner = spec.Linux.MountLabel, mountOwner(p.res.Plan)
	var allGroups bool
	j.CgroupDirs, allGroups = cgroupDirs(j.CgroupsPath, o.ID, j.SystemdCgroup, d.Traits())
	j.Direct = allGroups && direct(spec)
	j.Policy = p.res.Policy
	j.Policy.Userns, j.PacketFilter = j.Userns, j.Policy.Network.Filter
	done()

	done = w.step("user namespace")
	userns, err := w.openUserNS(j, p)
	if err != nil {
		return err
	}
	defer w.closeUserNS(userns)
	crash.Point("create.userns")
	done()

	done = w.step("stage")
	p.res.Plan.Plain = o.PlainRoot
	machine := views.ReadHost()
	own := views.For(spec.Linux.Resources, machine, views.NewBootID(), time.Now())
	j.Born = own.Born.Unix()
	st, err := stage.Stage(stage.Request{
		Dir: w.Store.Dir(j.Key), Spec: spec, Plan: p.res.Plan, Sources: p.sources, Rootfs: p.rootfs, Mounts: p.engine.Mounts, Rootless: p.facts.Host.Rootless,
		Needed: w.needed(o, d, spec), AllMounts: spec.Hooks != nil || p.facts.Host.SELinux,
		Single: views.Single(own, machine), Sys: views.Sys(own, machine), UserNS: userns.made(), Ledger: w.ledger(), Key: j.Key,
	})
	if err != nil {
		return err
	}
	defer st.Close()
	j.ViewsDev = st.ViewsDev
	for _, n := range st.Notes {
		p.rep.Add(report.Change{Ring: report.Resources, Kind: report.Set, Field: "root", Why: n})
	}
	reportProtected(p.rep, st.Protected)
	j.Protected = st.ProtectedPaths()
	crash.Point("create.staged")
	if !o.PlainRoot && w.engineSeesRoot(p) {
		j.EngineRoot, j.EngineRootDev = p.b.Spec.Root.Path, st.Dev
	}
	done()

	done = w.step("write")
	second, err := secondFilter(w.Store.Dir(j.Key), spec.Linux, filter)
	if err != nil {
		return err
	}
	j.EngineNetwork = p.res.Plan.EngineNetwork
	network, err := openNetwork(spec, p.res.Plan)
	if err != nil {
		return err
	}
	if network != nil {
		defer network.Close()
		if err := givenNetwork(spec, j, network); err != nil {
			return err
		}
	}
	spec.Linux.Resources = withoutSockets(spec.Linux.Resources)
	timeNS := caps.Dialect(spec)
	j.OwnTime = timeNS.Offsets != ""
	domain := takeDomainname(spec)
	if err := w.Store.Save(j); err != nil {
		return err
	}
	step, err := w.throughEnter(j, withOwnProcess(spec), p.facts.Host, second, spec.Linux, st.Viewed(), p.res.Plan.OwnNetwork)
	if err != nil {
		return err
	}
	defer step.Close()
	hardened := &bundle.Bundle{Dir: filepath.Join(w.Store.Dir(j.Key), "bundle"), Spec: spec}
	if err := hardened.Save(); err != nil {
		return err
	}
	if j.EngineRoot != "" {
		if err := onHostThread(func() error {
			if err := stage.AttachChanges(st.Changes, w.Store.Dir(j.Key)); err != nil {
				return err
			}
			crash.Point("create.changes")
			return stage.Attach(st.Root, p.rootfs)
		}); err != nil {
			return err
		}
	}
	crash.Point("create.attached")
	done()

	if o.ConsoleSocket != "" && !spec.Process.Terminal {
		// runc says so itself; crun waits for a terminal that nobody sends it.
		return errors.New("cannot use console socket if runc will not detach or allocate tty: process.terminal is not set")
	}

	done = w.step("delegate create")
	if uid, ok := j.IDs.HostUID(spec.Process.User.UID); ok && !spec.Process.Terminal {
		gid, _ := j.IDs.HostGID(spec.Process.User.GID)
		w.ownStdio(uid, gid)
	}
	var tty *terminal
	if o.Run && !o.Detach {
		if err := becomeReaper(); err != nil {
			return err
		}
		if spec.Process.Terminal && o.ConsoleSocket == "" {
			if tty, err = newTerminal(w.Store.Dir(j.Key)); err != nil {
				return err
			}
			defer tty.close()
			o.ConsoleSocket = tty.path
		}
	}
	if err := enterNetwork(network); err != nil {
		return err
	}
	spared, giveBack, err := w.sparing(d, p.facts.Host.Rootless)
	if err != nil {
		return err
	}
	beside := w.beside(ctx, &j.Brief, p.rep)
	args := delegate.StartArgs{
		ID: o.ID, Bundle: hardened.Dir, PidFile: filepath.Join(w.Store.Dir(j.Key), pidFile), ConsoleSocket: o.ConsoleSocket, PidfdSocket: o.PidfdSocket, Files: len(step),
	}
	code, err := spared.RunInto(step[:], append(w.Globals.Args(), args.Create()...), timeNS, false)
	giveBack()
	besideErr := <-beside
	if err := w.explained(exitError(code, err)); err != nil {
		return err
	}
	done()
	if besideErr != nil {
		w.abandon(d, j)
		return besideErr
	}
	crash.Point("create.delegated")
	done = w.step("settle")
	if tty != nil {
		err = tty.receive()
	}
	if err == nil {
		err = w.settle(o, j, spec, st)
	}
	if err == nil {
		err = setDomainname(j.InitPid, domain)
	}
	if err == nil {
		err = settleUserNS(userns, j.InitPid)
	}
	if err != nil {
		w.abandon(d, j)
		return err
	}
	done()
	if o.Run {
		return w.finishRun(o, j, d, tty)
	}
	return nil
}

// needed lists the paths that the delegate is given, and those that this process
// uses from the mount namespace in which the delegate works.
func (w *Runtime) needed(o CreateOptions, d *delegate.Runtime, s *specs.Spec) []string {
	self, _ := os.Executable() // the init step is beside it
	out := []string{w.Store.Root, w.Globals.Root, w.Globals.Log, d.Path, self, o.PidFile, o.ConsoleSocket, o.PidfdSocket}
	for _, ns := range s.Linux.Namespaces {
		out = append(out, ns.Path)
	}
	return out
}

// beside does, while the delegate works and this process would wait, what nothing
// else waits for: it keeps the report, and looks at a few jails, so that crashes
// are cleaned up after without anybody asking. What fails at that is `agentjail
// gc`'s to tell. Another thread does it, which is in the host's mount namespace.
func (w *Runtime) beside(ctx context.Context, j *state.Brief, rep *report.Report) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- thread.Caught(func() error {
			defer w.step("beside")()
			if err := w.Store.SaveReport(j, rep); err != nil {
				return err
			}
			_, _ = w.GC(ctx, 2)
			return nil
		})
	}()
	return done
}

// engineSeesRoot says whether the jail's root is to be mounted over the
// engine's: over a directory that an engine made for this container alone. A plain
// directory of somebody's may serve several containers, and stays as it is.
func (w *Runtime) engineSeesRoot(p *prepared) bool {
	path := p.b.Spec.Root.Path
	return p.inStorage || stage.IsMount(p.rootfs) && strings.HasPrefix(path, p.b.Dir+"/")
}

// withOwnProcess gives the spec a process of its own to change: the record keeps
// the one that the jail is to run.
func withOwnProcess(s *specs.Spec) *specs.Process {
	p := *s.Process
	s.Process = &p
	return s.Process
}

// settle records the jail's first process and looks at it from outside before
// anything of the image has run.
func (w *Runtime) settle(o CreateOptions, j *state.Jail, spec *specs.Spec, st *stage.Staged) error {
	pid, err := readPid(filepath.Join(w.Store.Dir(j.Key), pidFile))
	if err != nil {
		return fmt.Errorf("the delegate left no pid: %w", err)
	}
	start, _, err := state.StartTime(pid)
	if err != nil {
		return fmt.Errorf("the jail's first process: %w", err)
	}
	if err := w.Store.First(&j.Brief, pid, start); err != nil {
		return fmt.Errorf("recording the jail's first process: %w", err)
	}
	// Read once: a jail has a hundred mounts. What follows only adds views.
	mounts, err := mountsOf(pid)
	if err != nil {
		return err
	}
	if missing := leftOut(st.Nested, mounts); len(missing) > 0 {
		if mounts, err = attachLeftOut(pid, missing); err != nil {
			return err
		}
	}
	if err := checkPlaces(spec, st.Places, mounts); err != nil {
		return err
	}
	if err := settleMounts(pid, mounts, st); err != nil {
		return err
	}
	if err := checkCwdInside(pid, mounts); err != nil {
		return err
	}
	if err := checkProgram(pid, j.Process); err != nil {
		return err
	}
	if err := diesFirst(pid, j.Process); err != nil {
		return err
	}
	if err := boundSockets(pid, j); err != nil {
		return err
	}
	if o.PidFile != "" {
		if err := atomicfile.Write(o.PidFile, []byte(fmt.Sprint(pid)), 0o644); err != nil {
			return fmt.Errorf("writing the pid file: %w", err)
		}
	}
	crash.Point("create.settled")
	return nil
}

// abandon removes a container that the delegate has made and that may not
// start.
func (w *Runtime) abandon(d *delegate.Runtime, j *state.Jail) {
	t, err := w.inTime(&j.Brief)
	if err == nil {
		_, err = d.Run(append(w.Globals.Args(), "delete", "--force", j.ID), t)
	}
	if err != nil {
		w.Log.Warnf("removing a container that may not start: %v", err)
	}
}

// load reads the bundle and gathers what hardening needs to know.
func (w *Runtime) load(id, dir string, plainRoot bool) (_ *prepared, err error) {
	p := &prepared{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.b, err = bundle.Load(dir); err != nil {
		return p, err
	}
	s := p.b.Spec
	if err := refuseBuild(id, dir, s); err != nil {
		return p, err
	}
	allowCoreOff()
	p.facts = harden.Facts{ID: id, Host: host.Read(), Unknown: p.b.Unknown}
	if s.Root == nil || s.Root.Path == "" {
		return p, errors.New("config.json has no root")
	}
	if err := p.openRoot(plainRoot); err != nil {
		return p, err
	}
	p.facts.Nodes = nodes(w.Policy.Devices.Allow)
	var members []string
	if p.facts.Joins, members, err = w.joins(s); err != nil {
		return p, err
	}
	p.engine.Pod = source.PodUID(s)
	p.engine.CRI, p.engine.Rootless = source.OfPod(s), p.facts.Host.Rootless
	p.engine.IDs = append([]string{id}, members...)
	if len(s.Mounts) > w.Policy.Limits.Mounts {
		return p, fmt.Errorf("mounts: %d, and policy allows %d (limits.mounts)", len(s.Mounts), w.Policy.Limits.Mounts)
	}
	if p.engine.Mounts, err = source.OpenMounts(); err != nil {
		return p, err
	}
	layers, err := stage.EngineLayers(p.rootfs, p.engine.Mounts)
	if err != nil {
		return p, fmt.Errorf("the layers of %s: %w", s.Root.Path, err)
	}
	p.engine.Storage = append(p.engine.Storage, source.LayerStorage(layers)...)
	for _, m := range s.Mounts {
		// Every container in a pod has a file of the kubelet's.
		if root := source.KubeletRoot(m.Source); root != "" && p.engine.Pod != "" && !slices.Contains(p.engine.Storage, root) {
			p.engine.Storage = append(p.engine.Storage, root)
		}
	}
	p.sources = make([]*source.Source, len(s.Mounts))
	p.facts.Sources = make([]*source.Fact, len(s.Mounts))
	for i, m := range s.Mounts {
		if !harden.IsBind(m) || m.Source == "" { // hardening refuses the latter
			continue
		}
		from := m.Source
		if !filepath.IsAbs(from) {
			from = filepath.Join(p.b.Dir, from) // OCI: relative to the bundle
		}
		if p.sources[i], err = source.Open(from, p.engine); err != nil {
			return p, fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
		if plainRoot && m.Source == m.Destination && slices.Contains(m.Options, "ro") {
			p.sources[i].Role = source.Injected // a part of the root, on a file system of its own
		}
		if p.sources[i].OwnerMatters() && !harden.ReadOnly(m) {
			p.sources[i].FindSetID(source.DefaultSetIDLimits)
		}
		p.facts.Sources[i] = &p.sources[i].Fact
	}
	p.facts.Owner = w.namedOwner(p, id)
	return p, nil
}

// openRoot opens the root file system that the spec names.
func (p *prepared) openRoot(plain bool) error {
	r := p.b.Spec.Root
	// containerd's CRI gives a path relative to the bundle, whose own may go
	// through links such as /var/run.
	if !filepath.IsAbs(r.Path) {
		dir, err := filepath.EvalSymlinks(p.b.Dir)
		if err != nil {
			return fmt.Errorf("bundle %s: %w", p.b.Dir, err)
		}
		r.Path = filepath.Join(dir, r.Path)
	}
	r.Path = filepath.Clean(r.Path)
	p.engine.Storage = engineStorage(r.Path, p.b.Dir)
	p.inStorage = len(p.engine.Storage) > 0
	if !plain {
		if why := source.RootRefusal(r.Path, p.b.Dir, p.engine); why != nil {
			return why.About("root.path %s", r.Path)
		}
	}
	if p.facts.Host.Rootless {
		// There Podman keeps what it makes for a user's containers
		// (containers-storage.conf(5), rootless_storage_path).
		dir, err := rootless.RuntimeDir()
		if err != nil {
			return err
		}
		p.engine.Storage = append(p.engine.Storage, dir)
	}
	var err error
	if p.rootfs, err = stage.OpenRoot(r.Path); err != nil {
		return fmt.Errorf("root.path: %w", err)
	}
	return nil
}

// tell logs what the caller asked for and did not get.
func (w *Runtime) tell(r *report.Report) {
	if r == nil {
		return
	}
	for _, c := range r.Of(report.Denied) {
		w.Log.Warnf("agentjail: denied: %s", c)
	}
	// What the host lacks is the same for each jail: the report, inspect and check name it every time, the log once.
	for _, c := range r.Of(report.Missing) {
		if w.Store.OncePerBoot(c.String()) {
			w.Log.Warnf("agentjail: this host cannot hold: %s", c)
		}
	}
}
