package egress

import (
	"sync"
	"time"
)

// bucket is a token bucket: burst at once, then perSecond.
type bucket struct {
	mu        sync.Mutex
	burst     float64
	perSecond float64
	have      float64
	last      time.Time
	now       func() time.Time
}

func newBucket(burst, perSecond int) *bucket {
	return &bucket{burst: float64(burst), perSecond: float64(perSecond), have: float64(burst), last: time.Now(), now: time.Now}
}

// take takes a token and reports how long to wait before it counts; 0 for at once.
func (b *bucket) take() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	b.have--
	if b.have >= 0 {
		return 0
	}
	return time.Duration(-b.have / b.perSecond * float64(time.Second))
}

// try takes a token if there is one.
func (b *bucket) try() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	if b.have < 1 {
		return false
	}
	b.have--
	return true
}

func (b *bucket) fill() {
	now := b.now()
	b.have = min(b.burst, b.have+now.Sub(b.last).Seconds()*b.perSecond)
	b.last = now
}
