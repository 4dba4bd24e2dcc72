package main

import (
	"math/rand/v2"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

// What slows a whole round down must not widen the interval of a ratio: both subjects are drawn
// together.
func TestRatioIsPaired(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var a, b, unpaired []float64
	for range 60 {
		load := 1 + random.Float64()
		b = append(b, 100*load)
		a = append(a, 110*load)
		unpaired = append(unpaired, 110*(1+random.Float64()))
	}
	paired, apart := ratio(a, b), ratio(unpaired, b)
	if paired.Value < 1.09 || paired.Value > 1.11 || paired.Low > paired.Value || paired.High < paired.Value {
		t.Errorf("ratio %+v, want 1.10 within its interval", paired)
	}
	if paired.High-paired.Low > (apart.High-apart.Low)/4 {
		t.Errorf("the interval %+v of paired measurements is hardly narrower than %+v", paired, apart)
	}
	if d := difference(a, b); d.Value <= 0 || d.Low > d.Value || d.High < d.Value {
		t.Errorf("difference %+v", d)
	}
}
