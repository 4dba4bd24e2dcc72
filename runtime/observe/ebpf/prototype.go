package ebpf

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// fits reports whether the kernel's function has the prototype that a program was written for: they
// change from release to release, and the verifier only sees it where an argument is missing.
func (p program) fits(kernel *btf.Spec) error {
	params, err := p.prototype(kernel)
	if err != nil {
		return err
	}
	have := make([]string, len(params))
	for i, param := range params {
		have[i] = typeName(param.Type)
	}
	if len(have) < len(p.parameters) || p.exact && len(have) != len(p.parameters) {
		return fmt.Errorf("%s has other parameters here: (%s)", p.target, strings.Join(have, ", "))
	}
	for i, want := range p.parameters {
		if have[i] != want && (want != "*" || !strings.HasPrefix(have[i], "*")) {
			return fmt.Errorf("parameter %d of %s is %s here, not %s", i+1, p.target, have[i], want)
		}
	}
	return nil
}

// prototype is what the kernel reports that the program's target takes.
func (p program) prototype(kernel *btf.Spec) ([]btf.FuncParam, error) {
	if p.tracepoint {
		var def *btf.Typedef
		if err := kernel.TypeByName("btf_trace_"+p.target, &def); err != nil {
			return nil, fmt.Errorf("this kernel has no tracepoint %s", p.target)
		}
		to, _ := def.Type.(*btf.Pointer)
		if to != nil {
			if proto, ok := to.Target.(*btf.FuncProto); ok && len(proto.Params) > 0 {
				return proto.Params[1:], nil
			}
		}
		return nil, fmt.Errorf("the tracepoint %s has no prototype", p.target)
	}
	var f *btf.Func
	if err := kernel.TypeByName(p.target, &f); err != nil {
		return nil, fmt.Errorf("this kernel has no %s", p.target)
	}
	proto, ok := f.Type.(*btf.FuncProto)
	if !ok {
		return nil, fmt.Errorf("%s has no prototype", p.target)
	}
	return proto.Params, nil
}

// typeName is a type's name, without qualifiers; "*name" is a pointer to it.
func typeName(t btf.Type) string {
	for range 8 {
		switch v := t.(type) {
		case *btf.Const:
			t = v.Type
			continue
		case *btf.Volatile:
			t = v.Type
			continue
		case *btf.Pointer:
			return "*" + typeName(v.Target)
		}
		break
	}
	return t.TypeName()
}
