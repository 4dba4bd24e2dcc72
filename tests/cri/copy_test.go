package cri

import (
	"archive/tar"
	"bytes"
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// kubectl cp is tar in the container, its input and output over the streaming server.
func TestCopy(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		p := n.pod(t, "agentjail")
		c := p.container("main", idle, as(1000, 1000))
		want := bytes.Repeat([]byte("copied\x00\xff\n"), 100_000) // more than one frame, not text
		var in bytes.Buffer
		w := tar.NewWriter(&in)
		env.Check(t, w.WriteHeader(&tar.Header{Name: "into/file", Mode: 0o640, Size: int64(len(want)), Typeflag: tar.TypeReg}))
		if _, err := w.Write(want); err != nil {
			t.Fatal(err)
		}
		env.Check(t, w.Close())
		// Busybox' tar reads to the end of its input, which these channels do not transmit.
		if out, errs, code := c.stream(in.Bytes(), "sh", "-c", fmt.Sprintf("head -c %d | tar -xmf - -C /tmp", in.Len())); code != "" {
			t.Fatalf("copy in: %s, %s, %s", code, out, errs)
		}
		if out := c.must("stat -c %u:%g:%s /tmp/into/file"); out != "1000:1000:900000" {
			t.Errorf("copied in: %s", out)
		}
		out, errs, code := c.stream(nil, "tar", "cf", "-", "-C", "/tmp", "into/file")
		if code != "" {
			t.Fatalf("copy out: %s, %s", code, errs)
		}
		r := tar.NewReader(bytes.NewReader(out))
		h, err := r.Next()
		if err != nil {
			t.Fatalf("copied out: %v in %d bytes", err, len(out))
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(r); err != nil || h.Name != "into/file" || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("copied out: %s, %d bytes, %v", h.Name, got.Len(), err)
		}
		if _, errs, code := c.stream(nil, "sh", "-c", "echo no >&2; exit 9"); code == "" || string(errs) != "no\n" {
			t.Errorf("a command that fails: %q, %q", code, errs)
		}
	})
}

// stream runs a command as kubectl exec does. failure is "" for one that succeeded.
func (c *container) stream(stdin []byte, cmd ...string) (stdout, stderr []byte, failure string) {
	c.t.Helper()
	r, err := c.Exec(callContext(c.t), &runtimeapi.ExecRequest{ContainerId: c.id, Cmd: cmd, Stdin: stdin != nil, Stdout: true, Stderr: true})
	env.Check(c.t, err)
	var out [256][]byte
	if err := c.channels(r.Url, stdin, &out); err != nil {
		c.t.Fatalf("streaming %v: %v", cmd, err)
	}
	failure = string(out[3])
	if bytes.Contains(out[3], []byte(`"status":"Success"`)) {
		failure = ""
	}
	return out[1], out[2], failure
}
