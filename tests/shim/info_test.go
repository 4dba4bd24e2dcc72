package shim

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/api/types/runtimeoptions/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// The shim states of itself what the command line states, by the policy that the options name, and touches nothing.
func TestInfoIsTheCommandLines(t *testing.T) {
	engine.NeedsRoot(t, "it runs jails")
	dir := env.Get(t, engine.Shim)
	strict := engine.PolicyFile(t, "[seccomp]\nprofile = \"strict\"\n")
	ask := func(options proto.Message) (*types.RuntimeInfo, string, error) {
		var in []byte
		if options != nil {
			a, err := anypb.New(options)
			env.Check(t, err)
			if in, err = proto.Marshal(a); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(filepath.Join(dir, engine.ShimName), "-info")
		var out, said bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = bytes.NewReader(in), &out, &said, t.TempDir()
		if err := cmd.Run(); err != nil {
			return nil, said.String(), err
		}
		info := &types.RuntimeInfo{}
		return info, said.String(), proto.Unmarshal(out.Bytes(), info)
	}
	for args, options := range map[string]proto.Message{"": nil, "--config " + strict: &runtimeoptions.Options{ConfigPath: strict}} {
		info, said, err := ask(options)
		if err != nil {
			t.Fatal(err, said)
		}
		out, err := exec.Command(filepath.Join(dir, "agentjail"), append(strings.Fields(args), "features")...).Output()
		env.Check(t, err)
		var got, want any
		if json.Unmarshal(info.Features.Value, &got) != nil || json.Unmarshal(out, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s is not %s", args, info.Features.Value, out)
		}
		if info.Name != engine.ShimRuntime || info.Features.TypeUrl != "types.containerd.io/opencontainers/runtime-spec/1/features/Features" {
			t.Errorf("%v", info)
		}
	}
	if _, said, err := ask(&runtimeoptions.Options{ConfigPath: "/no/../such"}); err == nil || !strings.Contains(said, "clean absolute path") {
		t.Errorf("%v: %s", err, said)
	}
}
