package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A station is a part of agentjail's way, with the median of what it took.
type station struct {
	Measure  string  `json:"measure"`
	Variant  string  `json:"variant,omitempty"`
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

// ownStation tells those of which the delegate has no part.
func ownStation(name string) bool { return !strings.HasPrefix(name, "delegate ") }
