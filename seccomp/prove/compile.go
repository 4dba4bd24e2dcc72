//go:build cgo

package prove

import (
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"
	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp/bpf"
)

var actions = map[specs.LinuxSeccompAction]libseccomp.ScmpAction{
	specs.ActKill:        libseccomp.ActKillThread,
	specs.ActKillThread:  libseccomp.ActKillThread,
	specs.ActKillProcess: libseccomp.ActKillProcess,
	specs.ActTrap:        libseccomp.ActTrap,
	specs.ActErrno:       libseccomp.ActErrno,
	specs.ActTrace:       libseccomp.ActTrace,
	specs.ActAllow:       libseccomp.ActAllow,
	specs.ActLog:         libseccomp.ActLog,
	specs.ActNotify:      libseccomp.ActNotify,
}

var operators = map[specs.LinuxSeccompOperator]libseccomp.ScmpCompareOp{
	specs.OpNotEqual:     libseccomp.CompareNotEqual,
	specs.OpLessThan:     libseccomp.CompareLess,
	specs.OpLessEqual:    libseccomp.CompareLessOrEqual,
	specs.OpEqualTo:      libseccomp.CompareEqual,
	specs.OpGreaterEqual: libseccomp.CompareGreaterEqual,
	specs.OpGreaterThan:  libseccomp.CompareGreater,
	specs.OpMaskedEqual:  libseccomp.CompareMaskedEqual,
}

var arches = map[specs.Arch]libseccomp.ScmpArch{
	specs.ArchX86_64:  libseccomp.ArchAMD64,
	specs.ArchX86:     libseccomp.ArchX86,
	specs.ArchX32:     libseccomp.ArchX32,
	specs.ArchAARCH64: libseccomp.ArchARM64,
	specs.ArchARM:     libseccomp.ArchARM,
}

// action maps an OCI action; ERRNO and TRACE carry a value, EPERM by default.
func action(a specs.LinuxSeccompAction, errno *uint) (libseccomp.ScmpAction, error) {
	act, ok := actions[a]
	if !ok {
		return 0, fmt.Errorf("unknown action %q", a)
	}
	if act == libseccomp.ActErrno || act == libseccomp.ActTrace {
		ret := int16(unix.EPERM)
		if errno != nil {
			ret = int16(*errno)
		}
		act = act.SetReturnCode(ret)
	}
	return act, nil
}

// Compile turns an OCI seccomp section into BPF for one architecture (specs
// name). It treats the section as runc does (libcontainer/seccomp): rules whose
// action is the default are skipped, unknown names ignored, several conditions
// on one argument of a rule split into one rule each, a binary tree for more
// than 32 rules where the library can. Unlike runc it takes no ENOSYS stub in
// front: that stub only ever refuses numbers above the highest listed one.
//
// Errors: an action, operator or architecture that libseccomp does not know, or
// a rule it cannot add.
func Compile(s *specs.LinuxSeccomp, arch specs.Arch, tree bool) ([]bpf.Insn, error) {
	def, err := action(s.DefaultAction, s.DefaultErrnoRet)
	if err != nil {
		return nil, fmt.Errorf("default action: %w", err)
	}
	filter, err := libseccomp.NewFilter(def)
	if err != nil {
		return nil, fmt.Errorf("making a filter: %w", err)
	}
	defer filter.Release()
	want := append([]specs.Arch{arch}, s.Architectures...)
	native := false
	for _, a := range want {
		scmp, ok := arches[a]
		if !ok {
			return nil, fmt.Errorf("unknown architecture %q", a)
		}
		if err := filter.AddArch(scmp); err != nil {
			return nil, fmt.Errorf("adding architecture %s: %w", a, err)
		}
		host, err := libseccomp.GetNativeArch()
		if err != nil {
			return nil, fmt.Errorf("reading the native architecture: %w", err)
		}
		native = native || scmp == host
	}
	if !native {
		if err := filter.RemoveArch(libseccomp.ArchNative); err != nil {
			return nil, fmt.Errorf("removing the native architecture: %w", err)
		}
	}
	if tree && len(s.Syscalls) > 32 {
		_ = filter.SetOptimize(2) // an older library: the filter is only slower
	}
	for i := range s.Syscalls {
		for _, name := range s.Syscalls[i].Names {
			if err := add(filter, name, &s.Syscalls[i], def); err != nil {
				return nil, err
			}
		}
	}
	return export(filter)
}

// add puts one OCI rule for one call into the filter.
func add(filter *libseccomp.ScmpFilter, name string, s *specs.LinuxSyscall, def libseccomp.ScmpAction) error {
	act, err := action(s.Action, s.ErrnoRet)
	if err != nil {
		return fmt.Errorf("rule for %s: %w", name, err)
	}
	if act == def {
		return nil
	}
	nr, err := libseccomp.GetSyscallFromName(name)
	if err != nil {
		return nil // not known to this library: runc ignores it too
	}
	if len(s.Args) == 0 {
		if err := filter.AddRule(nr, act); err != nil {
			return fmt.Errorf("rule for %s: %w", name, err)
		}
		return nil
	}
	var conds []libseccomp.ScmpCondition
	var seen [6]int
	twice := false
	for _, a := range s.Args {
		op, ok := operators[a.Op]
		if !ok {
			return fmt.Errorf("rule for %s: unknown operator %q", name, a.Op)
		}
		c, err := libseccomp.MakeCondition(a.Index, op, a.Value, a.ValueTwo)
		if err != nil {
			return fmt.Errorf("rule for %s: %w", name, err)
		}
		seen[a.Index]++
		twice = twice || seen[a.Index] > 1
		conds = append(conds, c)
	}
	sets := [][]libseccomp.ScmpCondition{conds}
	if twice {
		sets = sets[:0]
		for _, c := range conds {
			sets = append(sets, []libseccomp.ScmpCondition{c})
		}
	}
	for _, set := range sets {
		if err := filter.AddRuleConditional(nr, act, set); err != nil {
			return fmt.Errorf("rule for %s %v: %w", name, s.Args, err)
		}
	}
	return nil
}

// export reads the filter's BPF back through a pipe.
func export(filter *libseccomp.ScmpFilter) ([]bpf.Insn, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer r.Close()
	done := make(chan error, 1)
	go func() {
		err := filter.ExportBPF(w)
		w.Close()
		done <- err
	}()
	raw, err := io.ReadAll(r)
	if err := <-done; err != nil {
		return nil, fmt.Errorf("compiling the filter: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the compiled filter: %w", err)
	}
	return bpf.Parse(raw)
}
