package policy

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/seccomp"
)

// AnnotationPrefix begins the annotations that agentjail understands. Any caller that starts a
// container can set them, so they only ever tighten, or choose between equal rights of a jail.
const AnnotationPrefix = "dev.agentjail."

// OwnerAnnotation is the annotation for Binds.Owner, without AnnotationPrefix.
const OwnerAnnotation = "binds.owner"

// An annotation lowers one value of the policy. apply returns false if the requested value is
// higher than the policy's, and an error for a value that the jail cannot have at all; in both
// cases the policy stays as it is.
type annotation struct {
	name  string
	about string
	apply func(*Policy, string) (bool, error)
}

var annotations = []annotation{
	{"root.backing", "\"memory\" in place of \"disk\"", func(p *Policy, v string) (bool, error) { return p.Root.tightenBacking(v) }},
	{"root.size", "size of the ephemeral layer", func(p *Policy, v string) (bool, error) { return lowerSize(&p.Root.Size, v) }},
	{"root.disk", "the same, on disk", func(p *Policy, v string) (bool, error) { return lowerLayer(&p.Root.Disk, v) }},
	{"root.inodes", "files in the ephemeral layer", func(p *Policy, v string) (bool, error) { return lowerInt(&p.Root.Inodes, v) }},
	{"tmpfs.size", "size of every other tmpfs without a size of its own", func(p *Policy, v string) (bool, error) {
		return lowerSize(&p.Tmpfs.Size, v)
	}},
	{"tmpfs.max", "largest size of every other tmpfs", func(p *Policy, v string) (bool, error) { return p.lowerMaxTmpfs(v) }},
	{"limits.pids", "processes and threads", func(p *Policy, v string) (bool, error) { return lowerInt(&p.Limits.Pids, v) }},
	{"limits.memory", "memory", func(p *Policy, v string) (bool, error) { return lowerSize(&p.Limits.Memory, v) }},
	{"network.allow", "fewer names of network.allow, separated by semicolons", func(p *Policy, v string) (bool, error) {
		return p.Network.narrow(v)
	}},
	{"network.approval", "\"off\" in place of \"prompt\"", func(p *Policy, v string) (bool, error) {
		if !slices.Contains(approvalModes, v) {
			return false, fmt.Errorf("%q is neither %q nor %q", v, ApprovalPrompt, ApprovalOff)
		}
		if v == ApprovalOff {
			p.Network.Approval = v
		}
		return v == p.Network.Approval, nil
	}},
	{
		"network.publish", "ports of network.publish as [ADDRESS:]PORT:JAILPORT, separated by commas",
		func(p *Policy, v string) (bool, error) { return p.Network.publish(v) },
	},
	{"seccomp.profile", "\"strict\" in place of \"default\"", func(p *Policy, v string) (bool, error) {
		switch {
		case !slices.Contains(seccomp.Profiles(), v):
			return false, fmt.Errorf("%q is not a profile; an annotation can have \"strict\"", v)
		case v == "strict" && p.Seccomp.Profile == "default":
			p.Seccomp.Profile = v
		}
		return v == p.Seccomp.Profile, nil
	}},
	// The choice of the owner does not change the rights of the jail as a whole: all users are
	// the jail's, and exactly one is the owner.
	{OwnerAnnotation, "the user of the jail who owns mounted directories", func(p *Policy, v string) (bool, error) {
		if err := CheckOwner(v); err != nil {
			return false, err
		}
		p.Binds.Owner = v
		return true, nil
	}},
	{
		"userns.ids", "more ids from 65536 on, separated by commas",
		func(p *Policy, v string) (bool, error) { return p.Userns.addIDs(v) },
	},
	{
		"journal.inside", "\"true\" for a file with the jail's own refusals in it, where policy has \"ask\"",
		func(p *Policy, v string) (bool, error) { return p.Journal.applyInside(v) },
	},
	{
		WorkspaceAnnotation, "\"review\" for a view of each writable directory, or the destinations of those, separated by commas",
		func(p *Policy, v string) (bool, error) { return p.Workspace.want(v) },
	},
	{"workspace.size", "size of each view's layer", func(p *Policy, v string) (bool, error) {
		return lowerLayer(&p.Workspace.Size, v)
	}},
	{"ebpf.block", "more actions that eBPF programs refuse, separated by commas", func(p *Policy, v string) (bool, error) { return p.EBPF.more(v) }},
	// The file was followed before (runtime/facts/project).
	{ProjectAnnotation, "places of mounts whose .agentjail.toml counts, separated by colons (policies.md)", func(_ *Policy, v string) (bool, error) {
		for place := range strings.SplitSeq(v, ":") {
			if !filepath.IsAbs(place) || filepath.Clean(place) != place {
				return false, fmt.Errorf("%q is not a clean absolute path", place)
			}
		}
		return true, nil
	}},
	{"on_loosen", "\"refuse\" in place of \"strip\"", func(p *Policy, v string) (bool, error) {
		switch v {
		case LoosenRefuse:
			p.OnLoosen = v
		case LoosenStrip:
		default:
			return false, fmt.Errorf("%q is neither %q nor %q", v, LoosenStrip, LoosenRefuse)
		}
		return v == p.OnLoosen, nil
	}},
}

// widening are the annotations that give the jail more within policy's range: a port of the host,
// ids, a file with its own refusals.
var widening = []string{"network.publish", "userns.ids", "journal.inside"}

// Widens reports whether an annotation, by its name with AnnotationPrefix, gives the jail more
// within policy's range. The container's caller can request it, and the image cannot.
func Widens(name, value string) bool {
	short, ours := strings.CutPrefix(name, AnnotationPrefix)
	return ours && slices.Contains(widening, short) && value != "false"
}

// Ignored is an annotation in agentjail's name that had no effect.
type Ignored struct {
	Name, Value, Why string
	// Invalid reports a name or a value that agentjail does not understand, or that the jail
	// cannot have: the jail must not start, since it would lack what the annotation requests.
	// Without it the policy already has a tighter value.
	Invalid bool
}

// Tighten applies a bundle's annotations. It returns the policy for that bundle
// and the annotations that were not followed, each with its reason.
func (p Policy) Tighten(ann map[string]string) (Policy, []Ignored) {
	var ignored []Ignored
	for _, a := range annotations {
		name := AnnotationPrefix + a.name
		v, ok := ann[name]
		if !ok {
			continue
		}
		took, err := a.apply(&p, v)
		if err != nil {
			ignored = append(ignored, Ignored{name, v, err.Error(), true})
		} else if !took {
			ignored = append(ignored, Ignored{name, v, "the policy's value is tighter, and annotations can only tighten", false})
		} else {
			p.followed(name, v)
		}
	}
	var unknown []string
	for name := range ann {
		short, ours := strings.CutPrefix(name, AnnotationPrefix)
		if ours && !slices.ContainsFunc(annotations, func(a annotation) bool { return a.name == short }) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		names := AnnotationNames()
		near := Suggestion(strings.TrimPrefix(name, AnnotationPrefix), names)
		if near == "" {
			near = "; known are " + strings.Join(names, ", ")
		}
		why := "unknown annotation" + near
		if slices.ContainsFunc(Keys, func(k Key) bool { return k.Name == strings.TrimPrefix(name, AnnotationPrefix) }) {
			why = "unknown annotation: only the policy file sets this key"
		}
		ignored = append(ignored, Ignored{name, ann[name], why, true})
	}
	return p, ignored
}

// AnnotationNames lists the annotations of Tighten, without AnnotationPrefix.
func AnnotationNames() []string {
	var out []string
	for _, a := range annotations {
		out = append(out, a.name)
	}
	return out
}

// lowerMaxTmpfs is lowerSize for Tmpfs.Max, which is the memory limit where it is 0.
func (p *Policy) lowerMaxTmpfs(v string) (bool, error) {
	most := p.MaxTmpfs(math.MaxInt64, true)
	took, err := lowerSize(&most, v)
	if took {
		p.Tmpfs.Max, p.Tmpfs.Size = most, min(p.Tmpfs.Size, most)
	}
	return took, err
}

func lowerSize(to *Size, v string) (bool, error) {
	s, err := ParseSize(v)
	if err != nil {
		return false, err
	}
	return lower(to, s)
}

// lowerLayer is lowerSize for a layer on disk.
func lowerLayer(to *Size, v string) (bool, error) {
	if s, err := ParseSize(v); err == nil && s < minWorkspace {
		return false, fmt.Errorf("%s is less than %s", v, Size(minWorkspace))
	}
	return lowerSize(to, v)
}

// lower sets a limit. Zero would mean "no limit".
func lower[T Size | int64](to *T, v T) (bool, error) {
	switch {
	case v <= 0:
		return false, fmt.Errorf("%d is not more than 0", int64(v))
	case *to != 0 && v > *to:
		return false, nil
	}
	*to = v
	return true, nil
}

func lowerInt(to *int64, v string) (bool, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return false, fmt.Errorf("%q is not a whole number", v)
	}
	return lower(to, n)
}
