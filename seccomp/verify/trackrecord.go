package verify

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"agentjail.dev/seccomp/bpf"
)

//go:embed trackrecord.json
var trackRecordData []byte

// Record is a published list of vulnerabilities with the entry points that
// their exploits need.
type Record struct {
	About   string        `json:"about"`
	Entries []RecordEntry `json:"entries"`
	CVEs    []CVE         `json:"cves"`
	// Beside are vulnerabilities that the list does not have.
	Beside []CVE `json:"beside"`
}

// RecordEntry is an entry point. One of Layer, Open and Inside reports what comes
// of it.
type RecordEntry struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Layer is what denies the entry point. Where that is the filter, Ways are the calls that would
	// provide it; else Test is what makes the attempt.
	Layer string `json:"layer"`
	Ways  []Way  `json:"ways"`
	Test  string `json:"test"`
	// Open reports why ordinary work needs the entry point.
	Open string `json:"open"`
	// Inside describes what an exploit of a program inside the jail reaches.
	Inside string `json:"inside"`
}

// CVE is one vulnerability of a record.
type CVE struct {
	Date string `json:"date"`
	// ID is empty where none was assigned.
	ID     string `json:"cve"`
	What   string `json:"what"`
	Entry  string `json:"entry"`
	GVisor string `json:"gvisor"`
}

// TrackRecord is gVisor's published list of 110 vulnerabilities. Errors: none
// unless the embedded table is broken.
func TrackRecord() (*Record, error) {
	var r Record
	if err := json.Unmarshal(trackRecordData, &r); err != nil {
		return nil, fmt.Errorf("reading the track record: %w", err)
	}
	return &r, nil
}

// OpenIn lists by name the entry points of a record that a process's filters
// leave open, and those that no filter closes; arch is a GOARCH.
func (r *Record) OpenIn(progs [][]bpf.Insn, arch string) (map[string]bool, error) {
	p, err := newStack(progs, arch)
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	for _, e := range r.Entries {
		passes, err := p.some(e.Ways)
		if err != nil {
			return nil, fmt.Errorf("entry %s: %w", e.Name, err)
		}
		open[e.Name] = passes || e.Open != ""
	}
	return open, nil
}
