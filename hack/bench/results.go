package main

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/runccli"
)

// results is what a run found, as it is written to -json.
type results struct {
	Date         time.Time    `json:"date"`
	Host         host         `json:"host"`
	Rounds       int          `json:"rounds"`
	DockerRounds int          `json:"dockerRounds"`
	Crowd        int          `json:"crowd"` // containers in a crowd
	Subjects     []*measured  `json:"subjects"`
	Comparisons  []comparison `json:"comparisons"`
	Steps        []step       `json:"steps"`
	LeftOut      []string     `json:"leftOut,omitempty"` // what could not be measured here, with the reason
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

// measured is one subject with what it showed, a sample for each round.
type measured struct {
	Measure  string              `json:"measure"`           // as -only names it
	Variant  string              `json:"variant,omitempty"` // which of the measure's variants: "60 layers, cold"
	Delegate string              `json:"delegate"`          // what runs the container in the end
	Kind     kind                `json:"kind"`
	Unit     string              `json:"unit"`
	Median   Interval            `json:"median"`
	CPU      float64             `json:"cpuMs,omitempty"`    // median of user and system time of all processes waited for; 0 where not known
	Verbs    map[string]Interval `json:"verbsMs,omitempty"`  // medians
	OwnCPU   map[string]float64  `json:"ownCpuMs,omitempty"` // what of CPU agentjail itself took in each verb, without its delegate
	Samples  []float64           `json:"samples"`
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// addValues takes what was measured by other means than calls of a subject: m without its median.
// Samples of measures that are to be compared belong to the same rounds, in the same order.
func (r *results) addValues(m measured) {
	m.Median = medianInterval(m.Samples)
	r.Subjects = append(r.Subjects, &m)
}

// add takes the samples of a subject, and the steps from its trace.
func (r *results) add(measure string, s *subject, samples []sample) error {
	m := measured{Measure: measure, Variant: s.variant, Delegate: s.delegate, Kind: s.kind, Unit: "ms", Verbs: map[string]Interval{}}
	var cpu []float64
	took := map[string][]float64{}
	for _, got := range samples {
		m.Samples = append(m.Samples, ms(got.wall))
		cpu = append(cpu, ms(got.cpu))
		for v, d := range got.verbs {
			took[v] = append(took[v], ms(d))
		}
	}
	m.CPU = median(cpu)
	for v, values := range took {
		m.Verbs[v] = medianInterval(values)
	}
	if s.trace != "" {
		steps, err := readTrace(s.trace)
		if err != nil {
			return err
		}
		m.OwnCPU = map[string]float64{}
		for _, st := range steps {
			if st.Step == runccli.OwnCPU {
				m.OwnCPU[st.Verb] = st.Median
				continue // of the whole process, beside its steps
			}
			st.Measure, st.Variant, st.Delegate, st.Kind = measure, s.variant, s.delegate, s.kind
			r.Steps = append(r.Steps, st)
		}
	}
	r.addValues(m)
	return nil
}

// leftOut remembers what could not be measured, and why: the last line of an error has the cause.
func (r *results) leftOut(what string, err error) {
	why := strings.TrimSpace(err.Error())
	what += ": " + why[strings.LastIndexByte(why, '\n')+1:]
	if !slices.Contains(r.LeftOut, what) {
		r.LeftOut = append(r.LeftOut, what)
	}
}
