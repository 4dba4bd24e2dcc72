package shim

import (
	"context"
	"sync"
	"testing"
	"time"

	eventsAPI "github.com/containerd/containerd/api/events"
	taskAPI "github.com/containerd/containerd/api/runtime/task/v3"
	taskTypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/events"
)

type nowhere struct{ closed bool }

func (*nowhere) Publish(context.Context, string, events.Event) error { return nil }
func (n *nowhere) Close() error                                      { n.closed = true; return nil }

// The end of a process is published once, also if it comes twice, and forgotten with the process.
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
		t.Error("published before it was")
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
	await(ctx, p.done, endPatience)
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	await(ctx, make(chan struct{}), endPatience) // ends with its context
}

// deleting is a task service of one stopped task.
type deleting struct {
	taskAPI.TTRPCTaskService
	status taskTypes.Status
	called chan struct{}
}

func (d *deleting) State(context.Context, *taskAPI.StateRequest) (*taskAPI.StateResponse, error) {
	return &taskAPI.StateResponse{Status: d.status}, nil
}

func (d *deleting) Delete(context.Context, *taskAPI.DeleteRequest) (*taskAPI.DeleteResponse, error) {
	close(d.called)
	return &taskAPI.DeleteResponse{}, nil
}

// An ended process is deleted once its end was published; a running one at once.
func TestDeleteWaits(t *testing.T) {
	defer func(d time.Duration) { deletePatience = d }(deletePatience)
	deletePatience = time.Minute
	ctx := context.Background()
	for _, exec := range []string{"", "e"} {
		d := &deleting{status: taskTypes.Status_STOPPED, called: make(chan struct{})}
		s := &service{d, newPublisher(&nowhere{}), new(sync.Map), new(sync.Map)}
		ended := make(chan error, 1)
		go func() {
			_, err := s.Delete(ctx, &taskAPI.DeleteRequest{ID: "c", ExecID: exec})
			ended <- err
		}()
		select {
		case <-d.called:
			t.Error("deleted before its end was published")
		case <-time.After(50 * time.Millisecond): // long enough for the mistake to show, most times
		}
		id := exec
		if exec == "" {
			id = "c"
		}
		if err := s.events.Publish(ctx, "/tasks/exit", &eventsAPI.TaskExit{ContainerID: "c", ID: id}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-d.called
		if len(s.events.exits) != 0 {
			t.Error("not forgotten")
		}
		d = &deleting{status: taskTypes.Status_CREATED, called: make(chan struct{})}
		s = &service{d, newPublisher(&nowhere{}), new(sync.Map), new(sync.Map)}
		if _, err := s.Delete(ctx, &taskAPI.DeleteRequest{ID: "c", ExecID: exec}); err != nil {
			t.Error(err)
		}
	}
}
