package shim

import (
	"context"
	"testing"
	"time"

	eventsAPI "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
)

type nowhere struct{ closed bool }

func (*nowhere) Publish(context.Context, string, events.Event) error { return nil }
func (n *nowhere) Close() error                                      { n.closed = true; return nil }

// The end of a process is told once it was told, also twice, and forgotten with the process.
func TestPublisher(t *testing.T) {
	n := &nowhere{}
	p := newPublisher(n)
	ctx := context.Background()
	first, further := process{"c", "c"}, process{"c", "e"}
	told := func(q process) bool {
		select {
		case <-p.exit(q):
			return true
		default:
			return false
		}
	}
	if told(first) || told(further) {
		t.Error("told before it was")
	}
	for range 2 {
		if err := p.Publish(ctx, "/tasks/exit", &eventsAPI.TaskExit{ContainerID: "c", ID: "e"}); err != nil {
			t.Fatal(err)
		}
	}
	if told(first) || !told(further) {
		t.Error("one process is taken for another")
	}
	p.forget(further)
	if told(further) {
		t.Error("not forgotten")
	}
	p.exit(process{"d", "d"})
	p.forget(first)
	if len(p.exits) != 1 {
		t.Errorf("%v are left", p.exits)
	}
	for range 2 {
		if err := p.Close(); err != nil || !n.closed {
			t.Error(err)
		}
	}
	await(ctx, p.done)
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	await(ctx, make(chan struct{})) // ends with its context
}
