// Package budget bounds bytes over time: so many at once, and so many more a second.
package budget

import "time"

// A Budget is how many bytes there may be: Burst at once, and Rate more a second.
type Budget struct{ Burst, Rate int64 }

// A Bucket is what is left of a budget. The zero value is full.
type Bucket struct {
	Left int64
	at   time.Time
}

// fill adds what has come since it was last called, up to the burst.
func (b *Bucket) fill(o Budget, now time.Time) {
	if b.at.IsZero() {
		b.Left = o.Burst
	} else {
		b.Left = min(o.Burst, b.Left+int64(now.Sub(b.at).Seconds()*float64(o.Rate)))
	}
	b.at = now
}

// Take fills the bucket and takes n bytes out of it, or none where there are fewer.
func (b *Bucket) Take(o Budget, n int64, now time.Time) bool {
	b.fill(o, now)
	if b.Left < n {
		return false
	}
	b.Left -= n
	return true
}
