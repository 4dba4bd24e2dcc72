package main

import (
	"math/rand/v2"
	"slices"
)

// resamples is how often a bootstrap draws; 2000 gives the ends of a 95 % interval to about a
// hundredth of its width.
const resamples = 2000

// An Interval is an estimate with the ends of its 95 % confidence interval.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// median of values, which are not changed; 0 when there are none.
func median(values []float64) float64 {
	return medianOf(slices.Clone(values))
}

// medianOf is median, and sorts its argument.
func medianOf(v []float64) float64 {
	n := len(v)
	if n == 0 {
		return 0
	}
	slices.Sort(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// bootstrap estimates a statistic of rounds 0 to n-1. It draws rounds with replacement, so that two
// subjects measured in the same round stay together and what slowed both of them down cancels out
// (percentile bootstrap; Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13). The
// draws are the same for the same n.
func bootstrap(n int, statistic func(rounds []int) float64) Interval {
	rounds := make([]int, n)
	for i := range rounds {
		rounds[i] = i
	}
	out := Interval{Value: statistic(rounds)}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	values := make([]float64, resamples)
	for i := range values {
		for k := range rounds {
			rounds[k] = random.IntN(n)
		}
		values[i] = statistic(rounds)
	}
	slices.Sort(values)
	out.Low, out.High = values[resamples*25/1000], values[resamples*975/1000]
	return out
}

// at picks the values of some rounds.
func at(values []float64, rounds []int) []float64 {
	out := make([]float64, len(rounds))
	for i, r := range rounds {
		out[i] = values[r]
	}
	return out
}

// medianInterval is the median of values.
func medianInterval(values []float64) Interval {
	return bootstrap(len(values), func(rounds []int) float64 { return medianOf(at(values, rounds)) })
}

// ratio is the median of a over the median of b, measured in the same rounds.
func ratio(a, b []float64) Interval {
	return bootstrap(min(len(a), len(b)), func(rounds []int) float64 { return medianOf(at(a, rounds)) / medianOf(at(b, rounds)) })
}

// difference is the median of a less the median of b.
func difference(a, b []float64) Interval {
	return bootstrap(min(len(a), len(b)), func(rounds []int) float64 { return medianOf(at(a, rounds)) - medianOf(at(b, rounds)) })
}
