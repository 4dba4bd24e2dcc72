package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"github.com/pelletier/go-toml/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/runccli"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/policy"
)

// maxOptions bounds the size of a container's options, in bytes.
const maxOptions = 1 << 20

// normalise makes the runc shim's options of any kind that callers send to a shim of another name:
// containerd's CRI plugin and dockerd send runtimeoptions.v1.Options, clients before containerd 2.0
// containerd.linux.runc.CreateOptions. The runtime is a name of ours, whatever binary they name:
// policy chooses the delegate.
func normalise(a *anypb.Any) (*options.Options, error) {
	o, n := &options.Options{}, name{}
	value := a.GetValue()
	if len(value) > maxOptions {
		return nil, fmt.Errorf("options of %d bytes, and %d are allowed", len(value), maxOptions)
	}
	kind := a.GetTypeUrl()
	kind = kind[strings.LastIndexByte(kind, '/')+1:]
	var err error
	switch {
	case len(value) == 0 && kind == "":
	case kind == "containerd.runc.v1.Options":
		if err = proto.Unmarshal(value, o); err == nil {
			n.policy = runccli.PolicyName(o.BinaryName)
		}
	case kind == "runtimeoptions.v1.Options":
		n, err = fromRuntimeOptions(value, o)
	case kind == "containerd.linux.runc.CreateOptions":
		err = fromCreateOptions(value, o)
	default:
		err = errors.New("unknown kind")
	}
	if n.policy == "" {
		n.policy = ownPolicy()
	}
	if err == nil {
		err = n.check()
	}
	if err != nil {
		return nil, fmt.Errorf("options of kind %q: %w", kind, err)
	}
	o.BinaryName = n.String()
	// Jails are not restored.
	o.CriuImagePath, o.CriuWorkPath = "", ""
	return o, nil
}

// policyName matches the NAME of a [policies.NAME] that can be used here.
var policyName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func (n name) check() error {
	if n.policy != "" && (len(n.policy) > 64 || !policyName.MatchString(n.policy)) {
		return fmt.Errorf("policy %q: not the name of one (a file is the option config)", n.policy)
	}
	if n.config != "" && (!filepath.IsAbs(n.config) || filepath.Clean(n.config) != n.config ||
		strings.ContainsAny(n.config, ":\x00\n")) {
		return fmt.Errorf("policy file %q: must be a clean absolute path without a colon", n.config)
	}
	return nil
}

// fromRuntimeOptions reads the options in the form in which the CRI plugin and dockerd send their
// configuration. ConfigPath is a policy file, or the name of a policy in the host's own file;
// without it, the configuration's table comes as TOML.
func fromRuntimeOptions(value []byte, o *options.Options) (name, error) {
	var r runtimeoptions.Options
	if err := proto.Unmarshal(value, &r); err != nil {
		return name{}, err
	}
	n := fromPath(r.ConfigPath)
	if len(r.ConfigBody) == 0 {
		return n, nil
	}
	var body map[string]any
	if err := toml.Unmarshal(r.ConfigBody, &body); err != nil {
		return n, fmt.Errorf("config_body: %w", err)
	}
	for key, v := range body {
		var err error
		// The tables of configurations have Go's names (SystemdCgroup), the
		// protocol's are of the other form (systemd_cgroup).
		switch strings.ToLower(strings.ReplaceAll(key, "_", "")) {
		case "typeurl", "nopivotroot", "nonewkeyring", "criupath", "criuimagepath", "criuworkpath", "iouid", "iogid":
			// Not granted, of no use here, or found out.
		case "configpath":
			var s string
			if err = into(v, &s); err == nil && s != "" {
				n = fromPath(s)
			}
		case "profile":
			err = errors.New("is the option policy")
		case "policy":
			err = into(v, &n.policy)
		case "config":
			err = into(v, &n.config)
		case "binaryname":
			var s string
			if err = into(v, &s); err == nil && runccli.PolicyName(s) != "" {
				n.policy = runccli.PolicyName(s)
			}
		case "root":
			err = into(v, &o.Root)
		case "systemdcgroup":
			err = into(v, &o.SystemdCgroup)
		case "shimcgroup":
			err = into(v, &o.ShimCgroup)
		default:
			err = errors.New("unknown key")
		}
		if err != nil {
			return n, fmt.Errorf("config_body: %s: %w", key, err)
		}
	}
	return n, nil
}

// fromPath is a policy file or a policy's name.
func fromPath(s string) name {
	switch {
	case s == policy.DefaultPath, s == "":
		return name{}
	case filepath.IsAbs(s):
		return name{config: s}
	}
	return name{policy: s}
}

func into[T any](v any, to *T) error {
	t, ok := v.(T)
	if !ok {
		return fmt.Errorf("a %T, not a %T", v, *to)
	}
	*to = t
	return nil
}

// Fields of containerd.linux.runc.CreateOptions that have a meaning here
// (containerd 1.x, api/types/runctypes).
const (
	fieldShimCgroup = 9
	fieldIoUID      = 10
	fieldIoGID      = 11
)

func fromCreateOptions(b []byte, o *options.Options) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		switch {
		case num == fieldShimCgroup && typ == protowire.BytesType:
			v, _ := protowire.ConsumeString(b)
			o.ShimCgroup = v
		case num == fieldIoUID && typ == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b)
			o.IoUid = uint32(v)
		case num == fieldIoGID && typ == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b)
			o.IoGid = uint32(v)
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	return nil
}

// systemdPath reports whether a bundle's control groups path has the form of the
// systemd driver, slice:prefix:name. Some callers send no options at all, and
// runc's other driver would make a directory of that name.
func systemdPath(dir string) bool {
	data, err := atomicfile.Read(filepath.Join(dir, bundle.ConfigName), bundle.MaxConfig)
	if err != nil {
		return false // the verb reports the error
	}
	var s struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	if json.NewDecoder(bytes.NewReader(data)).Decode(&s) != nil {
		return false
	}
	return strings.Count(s.Linux.CgroupsPath, ":") == 2 && !strings.Contains(s.Linux.CgroupsPath, "/")
}
