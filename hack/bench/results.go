package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// results is what a run found, as it is written to -json.
type results struct {
	Host         host         `json:"host"`
	Rounds       int          `json:"rounds"`
	DockerRounds int          `json:"dockerRounds"`
	Subjects     []*measured  `json:"subjects"`
	Comparisons  []comparison `json:"comparisons"`
	Stations     []station    `json:"stations"`
}

// host is the machine, as far as it bears on the numbers.
type host struct {
	Kernel string `json:"kernel"`
	CPUs   int    `json:"cpus"`
	Cgroup string `json:"cgroup"`
	Engine string `json:"engine"`
	Go     string `json:"go"`
}

func describeHost(engine string) host {
	h := host{CPUs: runtime.NumCPU(), Engine: engine, Go: runtime.Version(), Cgroup: "v1"}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var fs unix.Statfs_t
	if unix.Statfs("/sys/fs/cgroup", &fs) == nil && int64(fs.Type) == unix.CGROUP2_SUPER_MAGIC {
		h.Cgroup = "v2"
	}
	return h
}

// measured is one subject with what it took, in milliseconds.
type measured struct {
	Measure  string              `json:"measure"` // cycle, exec or docker
	Delegate string              `json:"delegate"`
	Kind     kind                `json:"kind"`
	Wall     Interval            `json:"wallMs"` // of the median
	CPU      float64             `json:"cpuMs"`  // median of user and system time of all processes waited for; 0 for docker
	Verbs    map[string]Interval `json:"verbsMs,omitempty"`
	Samples  []float64           `json:"samplesMs"`

	cpu []float64
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// add takes the samples of a subject, and the stations from its trace.
func (r *results) add(measure string, s *subject, samples []sample) error {
	m := &measured{Measure: measure, Delegate: s.delegate, Kind: s.kind, Verbs: map[string]Interval{}}
	verbs := map[string][]float64{}
	for _, got := range samples {
		m.Samples = append(m.Samples, ms(got.wall))
		m.cpu = append(m.cpu, ms(got.cpu))
		for v, d := range got.verbs {
			verbs[v] = append(verbs[v], ms(d))
		}
	}
	m.Wall, m.CPU = medianInterval(m.Samples), median(m.cpu)
	for v, values := range verbs {
		m.Verbs[v] = medianInterval(values)
	}
	r.Subjects = append(r.Subjects, m)
	if s.trace == "" {
		return nil
	}
	stations, err := readTrace(s.trace)
	if err != nil {
		return err
	}
	for _, st := range stations {
		st.Measure, st.Delegate, st.Kind = measure, s.delegate, s.kind
		r.Stations = append(r.Stations, st)
	}
	return nil
}

// A station is a part of agentjail's way, with the median of what it took.
type station struct {
	Measure  string  `json:"measure"`
	Delegate string  `json:"delegate"`
	Kind     kind    `json:"kind"`
	Verb     string  `json:"verb"`
	Station  string  `json:"station"`
	Median   float64 `json:"medianMs"`
}

// readTrace reads what agentjail --trace wrote, in the order in which the stations first appear.
func readTrace(path string) ([]station, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type key struct{ verb, station string }
	var order []key
	values := map[key][]float64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l struct {
			Verb, Station string
			US            float64
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		k := key{l.Verb, l.Station}
		if values[k] == nil {
			order = append(order, k)
		}
		values[k] = append(values[k], l.US/1000)
	}
	var out []station
	for _, k := range order {
		out = append(out, station{Verb: k.verb, Station: k.station, Median: median(values[k])})
	}
	return out, nil
}

// A comparison holds two subjects of one run against each other.
type comparison struct {
	Delegate   string   `json:"delegate"`
	What       string   `json:"what"`
	Ratio      Interval `json:"ratio"`
	Difference Interval `json:"differenceMs"`
	CPU        float64  `json:"cpuMs,omitempty"` // difference of the medians
	Target     string   `json:"target,omitempty"`
	Met        *bool    `json:"met,omitempty"`

	gross bool // a ratio that -gross applies to
}

// pairs are the comparisons: a against b in the same measure. A target is met when the value is, whatever its interval.
var pairs = []struct {
	measure, what string
	a, b          kind
	target        string
	met           func(comparison) bool
}{
	{"cycle", "start to end, bundle as Docker makes it", jailedDocker, bareDocker, "at most +10 ms", atMost10ms},
	{"cycle", "start to end, bundle without a filter", jailed, bare, "at most +10 ms", atMost10ms},
	{"cycle", "the delegate's cost of Docker's filter", bareDocker, bare, "", nil},
	{"cycle", "the delegate's cost of a jail's filter", bareOurs, bare, "less than Docker's", nil},
	{"cycle", "the delegate's cost of a jail's whole spec", bareJail, bare, "", nil},
	{"cycle", "agentjail's own cost", jailedDocker, bareJail, "", nil},
	{"exec", "exec into a running container", jailedDocker, bareDocker, "", nil},
	{"docker", "docker run", wholeDockerJailed, wholeDocker, "", nil},
}

func atMost10ms(c comparison) bool { return c.Difference.Value <= 10 }

// find returns a subject, or nil.
func (r *results) find(measure, delegate string, k kind) *measured {
	i := slices.IndexFunc(r.Subjects, func(m *measured) bool {
		return m.Measure == measure && m.Delegate == delegate && m.Kind == k
	})
	if i < 0 {
		return nil
	}
	return r.Subjects[i]
}

func (r *results) delegates() []string {
	var out []string
	for _, m := range r.Subjects {
		if !slices.Contains(out, m.Delegate) {
			out = append(out, m.Delegate)
		}
	}
	return out
}

// compare fills Comparisons.
func (r *results) compare() {
	for _, d := range r.delegates() {
		dockerFilter := 0.0
		for _, p := range pairs {
			a, b := r.find(p.measure, d, p.a), r.find(p.measure, d, p.b)
			if a == nil || b == nil {
				continue
			}
			c := comparison{
				Delegate: d, What: p.what, Target: p.target,
				Ratio: ratio(a.Samples, b.Samples), Difference: difference(a.Samples, b.Samples), CPU: a.CPU - b.CPU,
				gross: p.a == jailed || p.a == jailedDocker || p.a == wholeDockerJailed,
			}
			met := p.met
			if p.a == bareOurs {
				met = func(c comparison) bool { return c.Difference.Value < dockerFilter }
			}
			if met != nil {
				ok := met(c)
				c.Met = &ok
			}
			if p.a == bareDocker {
				dockerFilter = c.Difference.Value
			}
			r.Comparisons = append(r.Comparisons, c)
		}
	}
}

// worst is the comparison of agentjail with its delegate that has the greatest ratio.
func (r *results) worst() comparison {
	var out comparison
	for _, c := range r.Comparisons {
		if c.gross && c.Ratio.Value > out.Ratio.Value {
			out = c
		}
	}
	return out
}

// ownStations are those of which the delegate has no part.
func ownStation(name string) bool { return !strings.HasPrefix(name, "delegate ") }
