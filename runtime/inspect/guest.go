package inspect

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// A guestReport is what the init step reported of a guest (jailinit.Report). The guest wrote it.
type guestReport struct {
	processes []guestProcess
	mounts    []guestMount
	devices   []string // "c 1:3 /dev/null"
	rlimits   map[int]uint64
	paths     map[string]guestPath
	clocks    map[string]uint64 // in seconds
}

// A guestPath is what the step could do with a path.
type guestPath struct{ readable, writable bool }

type guestProcess struct {
	pid    int
	status map[string]string
}

type guestMount struct {
	point, fs        string
	readOnly, shared bool
	size, files      uint64 // of the file system, in bytes and inodes
}

var errReport = errors.New("the guest's report is not in the init step's form")

// parseReport reads a report.
func parseReport(text string) (*guestReport, error) {
	g := &guestReport{rlimits: map[int]uint64{}, paths: map[string]guestPath{}, clocks: map[string]uint64{}}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if err := g.add(kind, rest); err != nil {
			return nil, fmt.Errorf("%w: %.100q", errReport, line)
		}
	}
	if len(g.processes) == 0 || len(g.mounts) == 0 {
		return nil, errReport
	}
	return g, nil
}

// add adds a line's thing.
func (g *guestReport) add(kind, rest string) error {
	if kind == "process" {
		words := strings.Split(rest, " ")
		pid, err := strconv.Atoi(words[0])
		if err != nil || len(words) != 1+len(jailinit.ReportedStatus) {
			return errReport
		}
		p := guestProcess{pid, map[string]string{}}
		for i, key := range jailinit.ReportedStatus {
			p.status[key] = words[i+1]
		}
		g.processes = append(g.processes, p)
		return nil
	}
	n := map[string]int{"mount": 6, "path": 3, "clock": 2, "device": 3, "rlimit": 3}[kind]
	words := strings.SplitN(rest, " ", n) // the last one may be a name with blanks
	if n == 0 || len(words) != n {
		return errReport
	}
	switch kind {
	case "mount":
		size, err := strconv.ParseUint(words[3], 10, 64)
		files, ferr := strconv.ParseUint(words[4], 10, 64)
		point, perr := strconv.Unquote(words[5])
		g.mounts = append(g.mounts, guestMount{
			path.Clean("/" + point), words[2], words[0] == "ro", words[1] != "private", size, files,
		})
		return errors.Join(err, ferr, perr)
	case "path":
		name, err := strconv.Unquote(words[2])
		g.paths[name] = guestPath{words[0] != "hidden", words[1] != "fixed"}
		return err
	case "clock":
		seconds, err := strconv.ParseUint(words[1], 10, 64)
		g.clocks[words[0]] = seconds
		return err
	case "device":
		name, err := strconv.Unquote(words[2])
		g.devices = append(g.devices, words[0]+" "+words[1]+" "+name)
		return err
	}
	number, err := strconv.Atoi(words[0]) // of an rlimit
	hard, herr := strconv.ParseUint(words[2], 10, 64)
	g.rlimits[number] = hard
	return errors.Join(err, herr)
}

// guestChecks are the checks that are made inside, by the names of the protections.
var guestChecks = map[string]func(*demands, *guestReport) outcome{
	"capabilities": guestCapabilities, "seccomp": guestSeccomp, "bind mounts": guestBinds, "tmpfs": guestTmpfs,
	"device nodes": guestDevices, "rlimits": guestRlimits, "clocks": guestClocks, "root": guestRoot, "workspace": guestViews,
	"procfs": guestKernelFiles, "propagation": guestPropagation, "masked paths": guestMasked, "read-only paths": guestReadOnly,
}

// GuestPaths are the paths that the init step is to look at in a guest.
func GuestPaths(s state.Store, j *state.Jail) []string {
	d := demandsOf(s, j)
	out := slices.Concat(d.masked(), d.readOnly())
	slices.Sort(out)
	return slices.Compact(out)
}

// Inside judges the rows of a guest's kernel by what the init step reported there, or adds the
// reason where it reported nothing. Rows without a check inside stay as they are.
func (r *Result) Inside(s state.Store, j *state.Jail, report string, err error) {
	var g *guestReport
	if err == nil {
		g, err = parseReport(report)
	}
	d := demandsOf(s, j)
	for i := range r.Findings {
		f := &r.Findings[i]
		run := guestChecks[f.Name]
		if f.Verdict != InGuest || run == nil {
			continue
		}
		if err != nil {
			f.Seen = "held by the guest kernel, in which nothing could be checked: " + err.Error()
			continue
		}
		o := run(d, g)
		f.Verdict, f.Seen, f.Want = o.verdict, "in the guest: "+o.seen, o.want
		if o.verdict == Holds {
			f.Verdict, f.Want = InGuest, ""
		}
		r.Holds = r.Holds && o.verdict != Broken
	}
}

// guestStatus is the check of one thing in all processes' status.
func guestStatus(g *guestReport, want string, bad func(map[string]string) string) outcome {
	var out []string
	for _, p := range g.processes {
		if why := bad(p.status); why != "" {
			out = append(out, fmt.Sprintf("process %d %s", p.pid, why))
		}
	}
	return holdsUnless(want, out, "%s, of %s", want, printable.Count(len(g.processes), "process"))
}

func guestCapabilities(d *demands, g *guestReport) outcome {
	most, all := policy.CapabilityMask(d.jail.Capabilities), "all five sets are empty"
	if most != 0 {
		all = "no other than " + strings.Join(d.jail.Capabilities, ", ")
	}
	return guestStatus(g, all, func(status map[string]string) string {
		for _, set := range capSets {
			if have, err := strconv.ParseUint(status[set], 16, 64); err != nil || have&^most != 0 || set == "CapAmb" && have != 0 {
				return "has " + set + " " + printable.Line(status[set], 40)
			}
		}
		return ""
	})
}

func guestSeccomp(_ *demands, g *guestReport) outcome {
	return guestStatus(g, "a filter is in force", func(status map[string]string) string {
		if status["Seccomp"] != "2" {
			return "has mode " + printable.Line(status["Seccomp"], 40)
		}
		return ""
	})
}

// guestKernelFS are file systems that hold nothing that is written to them.
var guestKernelFS = []string{"proc", "sysfs", "devpts", "cgroup", "mqueue"}

// guestBinds: what the bundle mounts read-only is read-only inside, and nothing else can be written
// to than what the bundle has.
func guestBinds(d *demands, g *guestReport) outcome {
	const want = "writable only where the bundle is"
	if d.spec == nil {
		return lacking(want, "the jail's bundle cannot be read")
	}
	readOnly := map[string]bool{"/": d.spec.Root != nil && d.spec.Root.Readonly}
	for _, m := range d.spec.Mounts {
		readOnly[path.Clean(m.Destination)] = slices.Contains(m.Options, "ro")
	}
	var bad []string
	n := 0
	for _, m := range g.mounts {
		if m.readOnly || slices.Contains(guestKernelFS, m.fs) {
			continue
		}
		n++
		if ro, known := readOnly[m.point]; !known {
			bad = append(bad, printable.Line(m.point, 0)+" is a writable mount of the guest's own")
		} else if ro {
			bad = append(bad, printable.Line(m.point, 0)+" is writable")
		}
	}
	return holdsUnless(want, bad, "%s writable, all the bundle's", printable.Count(n, "mount"))
}

func guestTmpfs(d *demands, g *guestReport) outcome {
	most := uint64(d.maxTmpfs())
	want := fmt.Sprintf("size of at most %s", d.maxTmpfs())
	var bad []string
	n := 0
	for _, m := range g.mounts {
		if m.fs != "tmpfs" || m.readOnly {
			continue
		}
		n++
		if m.size == 0 || m.size > most {
			bad = append(bad, fmt.Sprintf("%s has %d bytes", printable.Line(m.point, 0), m.size))
		}
	}
	return holdsUnless(want, bad, "%d tmpfs, each with a %s", n, want)
}

// mountAt is the mount that covers a path; nil if none does.
func (g *guestReport) mountAt(name string) (at *guestMount) {
	for i := range g.mounts {
		m := &g.mounts[i]
		if pathname.Within(name, m.point) && (at == nil || len(m.point) >= len(at.point)) {
			at = m
		}
	}
	return at
}

// guestClocks: the guest's clocks begin with the guest, and do not show how long the host runs.
func guestClocks(d *demands, g *guestReport) outcome {
	const want = "clocks that begin near zero"
	// The sandbox's age: its clocks begin a moment after it does.
	age := max(d.host.BootTime-int64(d.jail.InitStart/state.StartTicks), 0) + clockSlack
	for _, name := range []string{"boottime", "monotonic"} {
		switch up, ok := g.clocks[name]; {
		case !ok:
			return broken(want, "%s is not reported", name)
		case up > uint64(age):
			return broken(want, "%s is %d s, and the sandbox began %d s ago", name, up, age-clockSlack)
		}
	}
	return holds("up %d s; the host %d s", g.clocks["boottime"], d.host.BootTime)
}

// clockSlack is what rounding takes, in seconds.
const clockSlack = 2

// guestRoot: what is written to the root is in agentjail's layer, whose bounds show through the
// guest's file system.
func guestRoot(d *demands, g *guestReport) outcome {
	_, bound := d.jail.Policy.Root.Layer()
	want := fmt.Sprintf("a layer %s of at most %s and %d files", d.jail.Policy.Root.Where(), bound, d.jail.Policy.Root.Inodes)
	m := g.mountAt("/")
	if m == nil {
		return broken(want, "no root is mounted")
	}
	if !slices.Contains(guestHostFS, m.fs) {
		return broken(want, "a %s of the guest's own", printable.Line(m.fs, 40))
	}
	if m.size == 0 || m.size > uint64(bound) || m.files == 0 || m.files > uint64(d.jail.Policy.Root.Inodes) {
		return broken(want, "%d bytes and %d files (0: unlimited)", m.size, m.files)
	}
	return holds("%s and %d files at most", size(m.size), m.files)
}

// guestHostFS are the types of file systems by which a guest has the host's files.
var guestHostFS = []string{"9p", "gofer", "virtiofs"}

// guestViews: what is mounted at a directory under review has the size of a view.
func guestViews(d *demands, g *guestReport) outcome {
	const want = "each directory under review: a bounded view, writable"
	var bad []string
	for _, r := range d.jail.Reviews {
		switch m := g.mountAt(r.At); {
		case m == nil || m.point != r.At:
			bad = append(bad, r.At+" is not mounted")
		case m.readOnly:
			bad = append(bad, r.At+" cannot be written to")
		case m.size == 0 || m.size > uint64(r.Size):
			bad = append(bad, fmt.Sprintf("%s has %d bytes, its view %s", r.At, m.size, policy.Size(r.Size)))
		}
	}
	return holdsUnless(want, bad, "%s under review", printable.Count(len(d.jail.Reviews), "directory"))
}

// guestKernelFiles: /proc is the guest kernel's own, with nothing of the host's over it, and /sys
// cannot be written to.
func guestKernelFiles(_ *demands, g *guestReport) outcome {
	const want = "/proc of the guest's kernel, and nothing of the host's below /proc and /sys that can be written to"
	if m := g.mountAt("/proc"); m == nil || m.fs != "proc" {
		return broken(want, "/proc is not the guest kernel's")
	}
	var bad []string
	for _, m := range g.mounts {
		below := pathname.Below(m.point, "/proc") || pathname.Within(m.point, "/sys")
		if below && !m.readOnly && !slices.Contains(guestKernelFS, m.fs) {
			bad = append(bad, printable.Line(m.point, 0)+" is writable")
		}
	}
	return holdsUnless(want, bad, "the guest kernel's own")
}

func guestPropagation(_ *demands, g *guestReport) outcome {
	var bad []string
	for _, m := range g.mounts {
		if m.shared {
			bad = append(bad, printable.Line(m.point, 0)+" is shared")
		}
	}
	return holdsUnless("all mounts private", bad, "all %s private", printable.Count(len(g.mounts), "mount"))
}

// guestMasked: a path that must be hidden is hidden, or describes the guest alone.
func guestMasked(d *demands, g *guestReport) outcome {
	open := func(p guestPath) bool { return p.readable }
	return guestPaths(d.masked(), g, "hidden or of the guest's kernel", "can be read", open)
}

// guestReadOnly: a path that must not be written to is not, or steers the guest alone.
func guestReadOnly(d *demands, g *guestReport) outcome {
	open := func(p guestPath) bool { return p.writable }
	return guestPaths(d.readOnly(), g, "read-only or of the guest's kernel", "can be written to", open)
}

func guestPaths(all []string, g *guestReport, want, fault string, open func(guestPath) bool) outcome {
	var bad []string
	there, own := 0, 0
	for _, name := range all {
		p, ok := g.paths[name]
		if !ok {
			continue
		}
		m := g.mountAt(name)
		switch {
		case !open(p):
			there++
		case m != nil && slices.Contains(guestKernelFS, m.fs):
			own++
		default:
			bad = append(bad, printable.Line(name, 0)+" "+fault)
		}
	}
	return holdsUnless(want, bad, "%d closed, %d of the guest kernel's own, %d not there", there, own, len(all)-there-own)
}

// guestFuse is a device that gVisor's kernel makes by itself, for file systems of its own: without
// privileges no program mounts one.
const guestFuse = "c 10:229"

func guestDevices(d *demands, g *guestReport) outcome {
	var bad []string
	for _, dev := range g.devices {
		kind, rest, _ := strings.Cut(dev, " ")
		number, name, _ := strings.Cut(rest, " ")
		if id := kind + " " + number; id != guestFuse && !isStandardDevice(id) &&
			!slices.Contains(d.jail.Policy.Devices.Allow, path.Clean(name)) {
			bad = append(bad, printable.Line(name, 0)+" is device "+kind+" "+number)
		}
	}
	return holdsUnless("the standard nodes and those of policy", bad, "%s, all standard, policy's or the guest kernel's own",
		printable.Count(len(g.devices), "device"))
}

func guestRlimits(d *demands, g *guestReport) outcome {
	const want = "the bundle's hard limits, or less"
	if d.spec == nil || d.spec.Process == nil {
		return lacking(want, "the jail's bundle cannot be read")
	}
	var bad []string
	n := 0
	for _, l := range d.spec.Process.Rlimits {
		have, ok := g.rlimits[hostfacts.Rlimits[l.Type]]
		if !ok {
			continue
		}
		n++
		if have > l.Hard {
			bad = append(bad, fmt.Sprintf("%s is %d, the bundle's %d", l.Type, have, l.Hard))
		}
	}
	return holdsUnless(want, bad, "%s of the bundle, none above it", printable.Count(n, "limit"))
}
