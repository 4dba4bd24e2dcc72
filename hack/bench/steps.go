package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// A step is a part of agentjail's way, with the median of what it took.
type step struct {
	Measure  string  `json:"measure"`
	Variant  string  `json:"variant,omitempty"`
	Delegate string  `json:"delegate"`
	Kind     kind    `json:"kind"`
	Verb     string  `json:"verb"`
	Step     string  `json:"step"`
	Median   float64 `json:"medianMs"`
}

// readTrace reads what agentjail --trace wrote, in the order in which the steps first appear.
func readTrace(path string) ([]step, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type key struct{ verb, step string }
	var order []key
	values := map[key][]float64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l struct {
			Verb, Step string
			US         float64
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		k := key{l.Verb, l.Step}
		if values[k] == nil {
			order = append(order, k)
		}
		values[k] = append(values[k], l.US/1000)
	}
	var out []step
	for _, k := range order {
		out = append(out, step{Verb: k.verb, Step: k.step, Median: median(values[k])})
	}
	return out, nil
}
