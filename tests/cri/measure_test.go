package cri

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"agentjail.dev/tests/env"
)

// rounds is how many samples TestPodCosts takes of each thing: AGENTJAIL_CRI_ROUNDS, or one, with which it only shows that it works.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("AGENTJAIL_CRI_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return 1
}

// crowd is how many pods are started at once: fewer where nothing is measured.
func crowd() int {
	if rounds() == 1 {
		return 3
	}
	return 8
}

// compared are the handlers that are compared: runc, and a jail.
var compared = [2]string{"plain", "shim"}

// costs are samples, by what was measured and by handler.
type costs map[string]map[string][]float64

func (c costs) add(what, handler string, sample float64) {
	if c[what] == nil {
		c[what] = map[string][]float64{}
	}
	c[what][handler] = append(c[what][handler], sample)
}

// quantile is the sample below which that part of all lies.
func quantile(samples []float64, part float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return s[int(part*float64(len(s)-1)+0.5)]
}

// String is a table: the jail's median and 90th percentile divided by runc's.
func (c costs) String() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\trunc: median, p90\tjail: median, p90\tratio of medians, of p90\tsamples")
	for _, what := range slices.Sorted(maps.Keys(c)) {
		by := c[what]
		r, j := by[compared[0]], by[compared[1]]
		fmt.Fprintf(w, "%s\t%.3g, %.3g\t%.3g, %.3g\t%.2f, %.2f\t%d\n", what, quantile(r, 0.5), quantile(r, 0.9), quantile(j, 0.5), quantile(j, 0.9),
			quantile(j, 0.5)/quantile(r, 0.5), quantile(j, 0.9)/quantile(r, 0.9), len(j))
	}
	w.Flush()
	return b.String()
}

// TestPodCosts measures the part that the node has of a sandbox in Kubernetes, which the kubelet's own waiting hides there: a pod of one
// container with an emptyDir is started, as one that is made or resumed; requested something, as one that was waiting and is claimed; and
// removed, as one that is suspended. docs/performance.md has what it found. It fails only when a pod does not do that.
func TestPodCosts(t *testing.T) {
	onEach(t, func(t *testing.T, n *node) {
		c := costs{}
		for i := range rounds() {
			for k := range compared {
				n.lifeCosts(t, c, compared[(i+k)%2])
			}
		}
		for i := range (rounds() + 4) / 5 {
			for k := range compared {
				n.crowdCosts(t, c, compared[(i+k)%2])
			}
		}
		t.Logf("%d rounds:\n%s", rounds(), c)
	})
}

// lifeCosts measures the life of a pod.
func (n *node) lifeCosts(t *testing.T, c costs, handler string) {
	p := n.plan(t)
	data := p.volume("empty-dir", "data", 0o777)
	begin := time.Now()
	lap := func(what string) {
		c.add(what, handler, time.Since(begin).Seconds()*1000)
		begin = time.Now()
	}
	env.Check(t, p.run(handler))
	main := p.container("main", idle, mount(data, "/data", false))
	lap("start, ms")
	main.must("echo x >/data/file")
	lap("first exec, ms")
	p.remove(p.id)
	lap("removal, ms")
}

// crowdCosts starts many pods at once, and looks at the memory of their shims.
func (n *node) crowdCosts(t *testing.T, c costs, handler string) {
	pods := make([]*pod, crowd())
	for i := range pods {
		pods[i] = n.plan(t, func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name += strconv.Itoa(i) })
	}
	errs := make([]error, len(pods))
	var wg sync.WaitGroup
	begin := time.Now()
	for i, p := range pods {
		wg.Go(func() {
			if errs[i] = p.run(handler); errs[i] == nil {
				_, errs[i] = p.start("main", idle)
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	env.Check(t, errors.Join(errs...))
	c.add("pods a second", handler, float64(len(pods))/took.Seconds())
	own, shared := n.shims(t)
	c.add("a shim's own memory, KiB", handler, own)
	c.add("the same with its part of what shims share, KiB", handler, shared)
	for _, p := range pods {
		p.remove(p.id)
	}
}

// shims is the memory of this node's shims in KiB, on average: what each has for itself, and that with its part of what it shares.
func (n *node) shims(t *testing.T) (own, shared float64) {
	count := 0.0
	for _, pid := range env.Processes(func(pid int) bool {
		line := env.CommandLine(pid)
		return strings.Contains(line, "containerd-shim") && strings.Contains(line, n.Dir)
	}) {
		m, err := env.Memory(pid)
		if err != nil {
			continue // it has just ended
		}
		count++
		own += float64(env.Private(m))
		shared += float64(m["Pss"])
	}
	if count == 0 {
		t.Fatal("no shim was found")
	}
	return own / count, shared / count
}
