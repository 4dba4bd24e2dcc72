package kubernetes

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"agentjail.dev/tests/env"
)

// commandWait bounds a command of kubectl.
const commandWait = 2 * time.Minute

// try runs kubectl and returns what it states.
func try(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patient(commandWait))
	defer cancel()
	out, err := cluster.kubectl(ctx, []byte(stdin), args...)
	if ctx.Err() != nil {
		t.Fatalf("kubectl %s hangs\n%s", strings.Join(args, " "), out)
	}
	return out, err
}

// kubectl runs a command that has to succeed.
func kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := try(t, "", args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// apply creates objects, and removes them when the test ends.
func apply(t testing.TB, yaml string) {
	t.Helper()
	if out, err := try(t, yaml, "apply", "-f", "-"); err != nil {
		t.Fatalf("apply: %v\n%s\n%s", err, out, yaml)
	}
	t.Cleanup(func() {
		if out, err := try(t, yaml, "delete", "--wait=false", "--ignore-not-found", "-f", "-"); err != nil {
			t.Errorf("delete: %v\n%s", err, out)
		}
	})
}

// A handler is one that a RuntimeClass names.
type handler struct {
	name      string
	namespace string // of the tests' pods
}

var handlers = []handler{{"runc", "as-runc"}, {"agentjail", "as-agentjail"}, {"agentjail-net", "as-agentjail-net"}}

// jail reports whether the handler makes jails.
func (h handler) jail() bool { return h.name != "runc" }

// network reports whether pods have CNI's.
func (h handler) network() bool { return h.name != "agentjail" }

// class is the line of a pod that names the handler.
func (h handler) class() string {
	if !h.jail() {
		return ""
	}
	return "runtimeClassName: " + h.name
}

// in runs kubectl in the handler's namespace.
func (h handler) in(t testing.TB, args ...string) string {
	t.Helper()
	return kubectl(t, append([]string{"--namespace=" + h.namespace}, args...)...)
}

// try is in for what may fail.
func (h handler) try(t testing.TB, args ...string) (string, error) {
	t.Helper()
	return try(t, "", append([]string{"--namespace=" + h.namespace}, args...)...)
}

// apply creates objects in the handler's namespace. Of the text $CLASS is the pods' class, $IMAGE the image, $NS the namespace.
func (h handler) apply(t testing.TB, yaml string) {
	t.Helper()
	apply(t, h.fill(yaml))
}

func (h handler) fill(yaml string) string {
	yaml = strings.NewReplacer("$CLASS", h.class(), "$IMAGE", busyboxImage, "$NS", h.namespace).Replace(yaml)
	return strings.ReplaceAll(yaml, "metadata: {", "metadata: {namespace: "+h.namespace+", ")
}

// ready waits until pods are.
func (h handler) ready(t testing.TB, what ...string) {
	t.Helper()
	out, err := h.try(t, append([]string{"wait", "--for=condition=Ready", timeout(100 * time.Second)}, what...)...)
	if err != nil {
		t.Fatalf("%v is not ready: %v\n%s\n%s", what, err, out, h.describe(t, what...))
	}
}

// waits waits for something of an object.
func (h handler) waits(t testing.TB, condition string, what ...string) {
	t.Helper()
	out, err := h.try(t, append([]string{"wait", "--for=" + condition, timeout(100 * time.Second)}, what...)...)
	if err != nil {
		t.Fatalf("%v: %s is not so: %v\n%s\n%s", what, condition, err, out, h.describe(t, what...))
	}
}

// describe reports what is known of an object.
func (h handler) describe(t testing.TB, what ...string) string {
	t.Helper()
	out, _ := h.try(t, append([]string{"describe"}, what...)...)
	return out
}

// sh runs a script in a pod's container and returns what it prints.
func (h handler) sh(t testing.TB, pod, script string) string {
	t.Helper()
	return h.in(t, "exec", pod, "--", "sh", "-c", script)
}

// eventually polls until a check holds. For what kubectl wait cannot wait for.
func eventually(t testing.TB, what string, ask func() (string, bool)) {
	t.Helper()
	var got string
	if !env.Poll(patient(commandWait), func() (ok bool) { got, ok = ask(); return ok }) {
		t.Fatalf("%s: still %s", what, got)
	}
}

// The matrix: what was found of a feature with each handler.
var (
	matrixLock sync.Mutex
	matrix     = map[string]map[string]string{}
	order      []string
)

// record notes a verdict.
func record(feature, handler, verdict string) {
	matrixLock.Lock()
	defer matrixLock.Unlock()
	if matrix[feature] == nil {
		matrix[feature] = map[string]string{}
	}
	matrix[feature][handler] = verdict
}

// printMatrix prints features × handlers.
func printMatrix(w io.Writer) {
	if len(matrix) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "feature\trunc\tagentjail\tagentjail-net")
	rest := []string{}
	for f := range matrix {
		if !slices.Contains(order, f) {
			rest = append(rest, f)
		}
	}
	slices.Sort(rest)
	for _, f := range append(slices.Clone(order), rest...) {
		if m := matrix[f]; m != nil {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f, orDash(m["runc"]), orDash(m["agentjail"]), orDash(m["agentjail-net"]))
		}
	}
	t.Flush()
	fmt.Fprintf(w, "the node was ready after %.1f s\n", cluster.started.Seconds())
	_ = os.Stdout.Sync()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
