package shim

import (
	"context"
	"sync"
	"time"

	eventsAPI "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/pkg/shim"
)

// A publisher records which ends of processes were published to containerd. The service publishes
// in the background, and may publish an end after Wait has returned it. Events that are unpublished
// when the last task was deleted and the process ends would be lost.
type publisher struct {
	shim.Publisher

	mu    sync.Mutex
	exits map[process]chan struct{} // closed once published
	once  sync.Once
	done  chan struct{} // closed behind the last event
}

// A process is a task's first one (whose id is the container's) or a further
// one.
type process struct{ container, id string }

func newPublisher(p shim.Publisher) *publisher {
	return &publisher{Publisher: p, exits: map[process]chan struct{}{}, done: make(chan struct{})}
}

// Publish publishes an event.
func (p *publisher) Publish(ctx context.Context, topic string, event events.Event) error {
	err := p.Publisher.Publish(ctx, topic, event)
	if e, ok := event.(*eventsAPI.TaskExit); ok {
		p.markPublished(process{e.ContainerID, e.ID})
	}
	return err
}

// markPublished records that the end of a process was published.
func (p *publisher) markPublished(of process) {
	c := p.exit(of)
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-c: // a process id that was used again may end twice
	default:
		close(c)
	}
}

// Close is called by the service behind its last event.
func (p *publisher) Close() error {
	defer p.once.Do(func() { close(p.done) })
	return p.Publisher.Close()
}

// exit returns a channel that is closed once the end of a process was published.
func (p *publisher) exit(of process) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.exits[of]
	if !ok {
		c = make(chan struct{})
		p.exits[of] = c
	}
	return c
}

// forget drops the record of a deleted process, and with a task's first one those of all others.
func (p *publisher) forget(of process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for q := range p.exits {
		if q == of || q.container == of.container && of.id == of.container {
			delete(p.exits, q)
		}
	}
}

// These bound the wait for a daemon that does not take events: by a deletion, for which such a
// daemon may itself wait while it starts (for 5 seconds in all), and by the end of the process.
var (
	deletePatience = 500 * time.Millisecond
	endPatience    = 5 * time.Second
)

// await waits for c, at most for patience.
func await(ctx context.Context, c <-chan struct{}, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-c:
	case <-ctx.Done():
	}
}
