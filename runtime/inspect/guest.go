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
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/state"
)

// A guestReport is what the init step reported of a guest (jailinit.Report). The guest wrote it.
type guestReport struct {
	processes []guestProcess
	mounts    []guestMount
	devices   []string // "c 1:3 /dev/null"
	rlimits   map[int]uint64
}

type guestProcess struct {
	pid    int
	status map[string]string
}

type guestMount struct {
	point, fs string
	readOnly  bool
	size      uint64 // of a tmpfs, in bytes
}

var errReport = errors.New("the guest's report is not in the init step's form")

// parseReport reads a report.
func parseReport(text string) (*guestReport, error) {
	g := &guestReport{rlimits: map[int]uint64{}}
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
	words := strings.SplitN(rest, " ", 4)
	switch kind {
	case "process":
		words = strings.Split(rest, " ")
		pid, err := strconv.Atoi(words[0])
		if err != nil || len(words) != 1+len(jailinit.ReportedStatus) {
			return errReport
		}
		p := guestProcess{pid, map[string]string{}}
		for i, key := range jailinit.ReportedStatus {
			p.status[key] = words[i+1]
		}
		g.processes = append(g.processes, p)
	case "mount":
		if len(words) != 4 {
			return errReport
		}
		size, err := strconv.ParseUint(words[2], 10, 64)
		point, perr := strconv.Unquote(words[3])
		g.mounts = append(g.mounts, guestMount{path.Clean("/" + point), words[1], words[0] == "ro", size})
		return errors.Join(err, perr)
	case "device":
		words = strings.SplitN(rest, " ", 3)
		if len(words) != 3 {
			return errReport
		}
		name, err := strconv.Unquote(words[2])
		g.devices = append(g.devices, words[0]+" "+words[1]+" "+name)
		return err
	case "rlimit":
		if len(words) != 3 {
			return errReport
		}
		n, err := strconv.Atoi(words[0])
		hard, herr := strconv.ParseUint(words[2], 10, 64)
		g.rlimits[n] = hard
		return errors.Join(err, herr)
	default:
		return errReport
	}
	return nil
}

// guestChecks are the checks that are made inside, by the names of the protections.
var guestChecks = map[string]func(*demands, *guestReport) outcome{
	"capabilities": guestCapabilities, "seccomp": guestSeccomp, "bind mounts": guestBinds, "tmpfs": guestTmpfs,
	"device nodes": guestDevices, "rlimits": guestRlimits,
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
	if len(out) > 0 {
		return brokenList(want, out)
	}
	return holds("%s, of %s", want, printable.Count(len(g.processes), "process"))
}

func guestCapabilities(_ *demands, g *guestReport) outcome {
	return guestStatus(g, "all five sets are empty", func(status map[string]string) string {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if strings.Trim(status[set], "0") != "" || status[set] == "" {
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
	if len(bad) > 0 {
		return brokenList(want, bad)
	}
	return holds("%s writable, all the bundle's", printable.Count(n, "mount"))
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
	if len(bad) > 0 {
		return brokenList(want, bad)
	}
	return holds("%d tmpfs, each with a %s", n, want)
}

// guestFuse is a device that gVisor's kernel makes by itself, for file systems of its own: without
// privileges no program mounts one.
const guestFuse = "c 10:229"

func guestDevices(d *demands, g *guestReport) outcome {
	var bad []string
	for _, dev := range g.devices {
		kind, rest, _ := strings.Cut(dev, " ")
		number, name, _ := strings.Cut(rest, " ")
		if id := kind + " " + number; id != guestFuse && !standardNode(id) &&
			!slices.Contains(d.jail.Policy.Devices.Allow, path.Clean(name)) {
			bad = append(bad, printable.Line(name, 0)+" is device "+kind+" "+number)
		}
	}
	if len(bad) > 0 {
		return brokenList("the standard nodes and those of policy", bad)
	}
	return holds("%s, all standard, policy's or the guest kernel's own", printable.Count(len(g.devices), "device"))
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
	if len(bad) > 0 {
		return brokenList(want, bad)
	}
	return holds("%s of the bundle, none above it", printable.Count(n, "limit"))
}
