package harden

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
)

// handlers states, for every field of the specification, which step looks at it
// and why no value of it loosens a jail. A new version of the specification
// fails TestEveryFieldIsLookedAt until somebody has thought about its fields.
var handlers = map[string]string{
	"Spec.Version":     "none: a number; fields of a newer version are unknown ones, which are dropped",
	"Spec.Process":     "shape refuses its absence",
	"Spec.Root":        "shape refuses its absence",
	"Spec.Hostname":    "shape bounds its length; hostname sets the jail's own where there is none; it is set in the jail's own UTS namespace",
	"Spec.Domainname":  "shape bounds its length; it is set in the jail's own UTS namespace",
	"Spec.Mounts":      "mounts",
	"Spec.Hooks":       "hooks drops them all",
	"Spec.Annotations": "annotations drops what steers a delegate; policy.Tighten only tightens",
	"Spec.Linux":       "shape makes it",
	"Spec.Solaris":     "shape refuses it",
	"Spec.Windows":     "shape refuses it",
	"Spec.VM":          "shape refuses it",
	"Spec.ZOS":         "shape refuses it",
	"Spec.FreeBSD":     "shape refuses it",

	"Process.Terminal":        "none: a pseudo-terminal of the jail's own devpts",
	"Process.ConsoleSize":     "none: two numbers for that terminal",
	"Process.User":            "process",
	"Process.Args":            "shape refuses none; what runs is the jail's to choose",
	"Process.CommandLine":     "shape and Process refuse it alone: no args",
	"Process.Env":             "none: only the jail's program reads it (TestContainerLoosensNothing)",
	"Process.Cwd":             "process refuses /proc; the jail is checked again when it exists",
	"Process.Capabilities":    "capabilities empties all five sets",
	"Process.Rlimits":         "rlimits",
	"Process.NoNewPrivileges": "process sets it",
	"Process.ApparmorProfile": "lsm",
	"Process.OOMScoreAdj":     "priorities",
	"Process.Scheduler":       "priorities",
	"Process.SelinuxLabel":    "lsm",
	"Process.IOPriority":      "priorities",
	"Process.ExecCPUAffinity": "priorities drops it",

	"Box.Height": "none: a number for the terminal",
	"Box.Width":  "none: a number for the terminal",

	"User.UID":            "process refuses what the jail's mapping does not have",
	"User.GID":            "process refuses what the jail's mapping does not have",
	"User.Umask":          "none: umask(2) is every process's own; the init step sets it",
	"User.AdditionalGids": "process drops what the jail's mapping does not have",
	"User.Username":       "none: Linux delegates do not read it",

	"LinuxCapabilities.Bounding":    "capabilities",
	"LinuxCapabilities.Effective":   "capabilities",
	"LinuxCapabilities.Inheritable": "capabilities",
	"LinuxCapabilities.Permitted":   "capabilities",
	"LinuxCapabilities.Ambient":     "capabilities",

	"POSIXRlimit.Type": "rlimits refuses unknown ones and repetitions",
	"POSIXRlimit.Hard": "rlimits",
	"POSIXRlimit.Soft": "rlimits brings it down to the hard limit",

	"Scheduler.Policy":   "priorities drops all but the three usual ones",
	"Scheduler.Nice":     "priorities drops what is below 0",
	"Scheduler.Priority": "priorities drops all but 0",
	"Scheduler.Flags":    "priorities drops any",
	"Scheduler.Runtime":  "priorities drops all but 0",
	"Scheduler.Deadline": "priorities drops all but 0",
	"Scheduler.Period":   "priorities drops all but 0",

	"LinuxIOPriority.Class":    "priorities drops real-time and unknown ones",
	"LinuxIOPriority.Priority": "priorities drops what is before the usual",

	"CPUAffinity.Initial": "priorities",
	"CPUAffinity.Final":   "priorities",

	"Root.Path":     "staging mounts the jail's root over it",
	"Root.Readonly": "none: kept; without it only the ephemeral layer is writable",

	"Mount.Destination": "mounts refuses the root and what is reserved; staging looks at symbolic links",
	"Mount.Type":        "mounts refuses what fsRules does not have",
	"Mount.Source":      "mounts judges the opened source by policy",
	"Mount.Options":     "mounts keeps what keptFlags and fsRules have",
	"Mount.UIDMappings": "mounts drops them",
	"Mount.GIDMappings": "mounts drops them",

	"Hooks.Prestart":        "hooks",
	"Hooks.CreateRuntime":   "hooks",
	"Hooks.CreateContainer": "hooks",
	"Hooks.StartContainer":  "hooks",
	"Hooks.Poststart":       "hooks",
	"Hooks.Poststop":        "hooks",
	"Hook.Path":             "hooks",
	"Hook.Args":             "hooks",
	"Hook.Env":              "hooks",
	"Hook.Timeout":          "hooks",

	"Linux.UIDMappings":       "ids sets the jail's",
	"Linux.GIDMappings":       "ids sets the jail's",
	"Linux.Sysctl":            "sysctls",
	"Linux.Resources":         "shape makes it; limits and devices",
	"Linux.CgroupsPath":       "shape refuses the root group and what leaves its place",
	"Linux.Namespaces":        "namespaces",
	"Linux.Devices":           "devices",
	"Linux.NetDevices":        "devices drops them",
	"Linux.Seccomp":           "filter",
	"Linux.RootfsPropagation": "paths sets it to rprivate",
	"Linux.MaskedPaths":       "paths",
	"Linux.ReadonlyPaths":     "paths",
	"Linux.MountLabel":        "lsm",
	"Linux.IntelRdt":          "limits drops it",
	"Linux.MemoryPolicy":      "limits drops it",
	"Linux.Personality":       "limits drops all but the native one",
	"Linux.TimeOffsets":       "namespaces sets them",

	"LinuxIDMapping.ContainerID": "ids; in a mount it goes with the mapping",
	"LinuxIDMapping.HostID":      "ids; in a mount it goes with the mapping",
	"LinuxIDMapping.Size":        "ids; in a mount it goes with the mapping",

	"LinuxNamespace.Type": "namespaces refuses unknown ones and repetitions",
	"LinuxNamespace.Path": "namespaces keeps another jail's only",

	"LinuxDevice.Path":     "devices: policy lists it",
	"LinuxDevice.Type":     "devices: the host's own node has it",
	"LinuxDevice.Major":    "devices: the host's own node has it",
	"LinuxDevice.Minor":    "devices: the host's own node has it",
	"LinuxDevice.FileMode": "staging takes the permission bits",
	"LinuxDevice.UID":      "staging maps it to the jail's",
	"LinuxDevice.GID":      "staging maps it to the jail's",

	"LinuxNetDevice.Name": "devices",

	"LinuxSeccomp.DefaultAction":    "filter: seccomp.Intersect, as all of these",
	"LinuxSeccomp.DefaultErrnoRet":  "filter",
	"LinuxSeccomp.Architectures":    "filter",
	"LinuxSeccomp.Flags":            "filter",
	"LinuxSeccomp.ListenerPath":     "filter",
	"LinuxSeccomp.ListenerMetadata": "filter",
	"LinuxSeccomp.Syscalls":         "filter",
	"LinuxSyscall.Names":            "filter",
	"LinuxSyscall.Action":           "filter",
	"LinuxSyscall.ErrnoRet":         "filter",
	"LinuxSyscall.Args":             "filter",
	"LinuxSeccompArg.Index":         "filter",
	"LinuxSeccompArg.Value":         "filter",
	"LinuxSeccompArg.ValueTwo":      "filter",
	"LinuxSeccompArg.Op":            "filter",

	"LinuxIntelRdt.ClosID":           "limits",
	"LinuxIntelRdt.Schemata":         "limits",
	"LinuxIntelRdt.L3CacheSchema":    "limits",
	"LinuxIntelRdt.MemBwSchema":      "limits",
	"LinuxIntelRdt.EnableMonitoring": "limits",

	"LinuxMemoryPolicy.Mode":  "limits",
	"LinuxMemoryPolicy.Nodes": "limits",
	"LinuxMemoryPolicy.Flags": "limits",

	"LinuxPersonality.Domain": "limits",
	"LinuxPersonality.Flags":  "limits",

	"LinuxTimeOffset.Secs":     "namespaces",
	"LinuxTimeOffset.Nanosecs": "namespaces",

	"LinuxResources.Devices":        "devices",
	"LinuxResources.Memory":         "memory",
	"LinuxResources.CPU":            "cpu",
	"LinuxResources.Pids":           "pids",
	"LinuxResources.BlockIO":        "throttles",
	"LinuxResources.HugepageLimits": "hugePages: 0 where the host has the controller",
	"LinuxResources.Network":        "limits drops it",
	"LinuxResources.Rdma":           "none: a limit, where there would be none without",
	"LinuxResources.Unified":        "unified",

	"LinuxDeviceCgroup.Allow":  "devices writes its own rules",
	"LinuxDeviceCgroup.Type":   "devices",
	"LinuxDeviceCgroup.Major":  "devices",
	"LinuxDeviceCgroup.Minor":  "devices",
	"LinuxDeviceCgroup.Access": "devices: a listed device gets no more than the bundle's rules grant",

	"LinuxMemory.Limit":             "memory",
	"LinuxMemory.Reservation":       "memory drops what is above the limit",
	"LinuxMemory.Swap":              "memory",
	"LinuxMemory.Kernel":            "memory drops it: a part of the limit",
	"LinuxMemory.KernelTCP":         "sockets",
	"LinuxMemory.Swappiness":        "none: how early the jail's own pages go to swap",
	"LinuxMemory.DisableOOMKiller":  "memory drops it",
	"LinuxMemory.UseHierarchy":      "memory drops it",
	"LinuxMemory.CheckBeforeUpdate": "memory drops false",

	"LinuxCPU.Shares":          "none: a weight among containers; the quota bounds it",
	"LinuxCPU.Quota":           "cpu",
	"LinuxCPU.Burst":           "cpu drops it",
	"LinuxCPU.Period":          "cpu",
	"LinuxCPU.RealtimeRuntime": "cpu drops it",
	"LinuxCPU.RealtimePeriod":  "cpu drops it",
	"LinuxCPU.Cpus":            "none: fewer processors than all",
	"LinuxCPU.Mems":            "none: fewer memory nodes than all",
	"LinuxCPU.Idle":            "none: behind everybody else",

	"LinuxPids.Limit": "pids",

	"LinuxBlockIO.Weight":                  "none: a weight among containers; rates bound it",
	"LinuxBlockIO.LeafWeight":              "none: a weight among containers; rates bound it",
	"LinuxBlockIO.WeightDevice":            "none: a weight among containers; rates bound it",
	"LinuxBlockIO.ThrottleReadBpsDevice":   "throttles",
	"LinuxBlockIO.ThrottleWriteBpsDevice":  "throttles",
	"LinuxBlockIO.ThrottleReadIOPSDevice":  "none: a limit, where there would be none without",
	"LinuxBlockIO.ThrottleWriteIOPSDevice": "none: a limit, where there would be none without",

	"LinuxWeightDevice.LinuxBlockIODevice":   "none",
	"LinuxWeightDevice.Weight":               "none",
	"LinuxWeightDevice.LeafWeight":           "none",
	"LinuxThrottleDevice.LinuxBlockIODevice": "throttles",
	"LinuxThrottleDevice.Rate":               "throttles",
	"LinuxBlockIODevice.Major":               "throttles",
	"LinuxBlockIODevice.Minor":               "throttles",

	"LinuxHugepageLimit.Pagesize": "none",
	"LinuxHugepageLimit.Limit":    "hugePages",

	"LinuxNetwork.ClassID":            "limits",
	"LinuxNetwork.Priorities":         "limits",
	"LinuxInterfacePriority.Name":     "limits",
	"LinuxInterfacePriority.Priority": "limits",

	"LinuxRdma.HcaHandles": "none",
	"LinuxRdma.HcaObjects": "none",
}

// otherPlatforms are not looked into: shape refuses them whole.
var otherPlatforms = []reflect.Type{
	reflect.TypeFor[specs.Solaris](), reflect.TypeFor[specs.Windows](), reflect.TypeFor[specs.VM](), reflect.TypeFor[specs.ZOS](), reflect.TypeFor[specs.FreeBSD](),
}

// fieldsOf lists the fields of all structs that a type is made of.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return fieldsOf(t.Elem(), seen)
	}
	if t.Kind() != reflect.Struct || seen[t] || slices.Contains(otherPlatforms, t) {
		return nil
	}
	seen[t] = true
	var out []string
	for field := range t.Fields() {
		out = append(out, t.Name()+"."+field.Name)
		out = append(out, fieldsOf(field.Type, seen)...)
	}
	return out
}

func TestEveryFieldIsLookedAt(t *testing.T) {
	all := fieldsOf(reflect.TypeFor[specs.Spec](), map[reflect.Type]bool{})
	if len(all) < 150 {
		t.Fatalf("only %d fields found", len(all))
	}
	for _, f := range all {
		if handlers[f] == "" {
			t.Errorf("%s (runtime-spec %s): which step looks at it, and why is it safe?", f, specs.Version)
		}
	}
	for f := range handlers {
		if !slices.Contains(all, f) {
			t.Errorf("%s is not a field of the specification", f)
		}
	}
	// The steps that are named are there.
	names := map[string]bool{"none": true, "staging": true, "shape": true, "policy": true}
	for _, s := range steps {
		names[s.name] = true
	}
	for _, n := range []string{"filter", "rlimits", "priorities", "pids", "memory", "sockets", "cpu", "hugePages", "throttles", "unified", "sysctls"} {
		names[n] = true
	}
	for f, h := range handlers {
		if first := strings.FieldsFunc(h, func(r rune) bool { return r == ' ' || r == ':' || r == ';' })[0]; !names[first] {
			t.Errorf("%s: there is no step %q", f, first)
		}
	}
}

// fill is a value of a type with something in every field.
func fill(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		p := reflect.New(t.Elem())
		p.Elem().Set(fill(t.Elem()))
		v.Set(p)
	case reflect.Struct:
		for i := range t.NumField() {
			if !slices.Contains(otherPlatforms, t.Field(i).Type) && !(t.Field(i).Type.Kind() == reflect.Pointer && slices.Contains(otherPlatforms, t.Field(i).Type.Elem())) {
				v.Field(i).Set(fill(t.Field(i).Type))
			}
		}
	case reflect.Slice:
		v.Set(reflect.Append(v, fill(t.Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(fill(t.Key()), fill(t.Elem()))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1 << 20)
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1 << 12)
	}
	return v
}

// TestEveryFieldAtOnce fills each field of the specification alone into a small
// spec: whatever comes out is no looser, or nothing does.
func TestEveryFieldAtOnce(t *testing.T) {
	passed := 0
	var into func(v reflect.Value, at string, root *specs.Spec)
	into = func(v reflect.Value, at string, root *specs.Spec) {
		for i := range v.NumField() {
			f := v.Field(i)
			name := at + "." + v.Type().Field(i).Name
			if f.Kind() == reflect.Pointer && slices.Contains(otherPlatforms, f.Type().Elem()) {
				continue
			}
			old := reflect.New(f.Type()).Elem()
			old.Set(f)
			f.Set(fill(f.Type()))
			pol, facts := newGen(1).policy(), testFacts(root)
			pol.OnLoosen = policy.LoosenStrip // what is refused shows nothing
			if check(t, clone(root), pol, facts) {
				passed++
			}
			// Deeper, one by one, with the others at zero.
			if f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct {
				if old.IsNil() {
					f.Set(reflect.New(f.Type().Elem()))
				} else {
					f.Set(old)
				}
				into(f.Elem(), name, root)
			}
			f.Set(old)
		}
	}
	s := small()
	into(reflect.ValueOf(s).Elem(), "Spec", s)
	if passed < 60 {
		t.Errorf("only %d pass", passed)
	}
}

// TestOtherPlatforms are refused, each by itself.
func TestOtherPlatforms(t *testing.T) {
	for _, change := range []func(*specs.Spec){
		func(s *specs.Spec) { s.Windows = &specs.Windows{} },
		func(s *specs.Spec) { s.Solaris = &specs.Solaris{} },
		func(s *specs.Spec) { s.VM = &specs.VM{} },
		func(s *specs.Spec) { s.ZOS = &specs.ZOS{} },
		func(s *specs.Spec) { s.FreeBSD = &specs.FreeBSD{} },
	} {
		s := with(change)
		contain(t, "another platform", refused(t, s, newGen(1).policy(), testFacts(s)), "not for a Linux container")
	}
}
