package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A line is what a comparison comes to over all variants of a measure: a system call loop has a
// dozen.
type line struct {
	what, delegate, target string
	of                     quantity
	value                  Interval // of one comparison; the geometric mean of several, without an interval
	most                   float64
	met, all               int
	worst                  comparison
}

// lines sums up the comparisons that have a target, in the order of the comparisons.
func (r *results) lines() []*line {
	var out []*line
	logs := map[*line][]float64{}
	for _, c := range r.Comparisons {
		if c.Met == nil {
			continue
		}
		i := slices.IndexFunc(out, func(l *line) bool { return l.what == c.What && l.delegate == c.Delegate })
		if i < 0 {
			i = len(out)
			out = append(out, &line{what: c.What, delegate: c.Delegate, target: c.Target, of: c.Of, most: c.Most, worst: c})
		}
		l := out[i]
		l.all++
		if *c.Met {
			l.met++
		}
		if cmp.Compare(c.Value, l.worst.Value) > 0 {
			l.worst = c
		}
		l.value = Interval{c.Value, c.Value, c.Value}
		switch c.Of {
		case ofRatio:
			l.value = c.Ratio
			logs[l] = append(logs[l], math.Log(c.Value))
		case ofDifference:
			l.value = c.Difference
		}
	}
	for l, values := range logs {
		if len(values) > 1 {
			sum := 0.0
			for _, v := range values {
				sum += v
			}
			mean := math.Exp(sum / float64(len(values)))
			l.value = Interval{mean, mean, mean}
		}
	}
	return out
}

// measured describes the value in a few words.
func (l *line) measured() string {
	unit := ""
	if l.of != ofRatio {
		unit = " " + l.worst.Unit
	}
	text := fmt.Sprintf("%.2f%s", l.value.Value, unit)
	if l.all > 1 {
		return fmt.Sprintf("%s in the mean of %d; worst %.2f (%s)", text, l.all, l.worst.Value, l.worst.Variant)
	}
	if l.value.Low != l.value.High {
		text += fmt.Sprintf(" [%.2f, %.2f]", l.value.Low, l.value.High)
	}
	return text
}
