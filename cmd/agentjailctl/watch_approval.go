package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentjail.dev/runtime/lifecycle/jailnet"
	"agentjail.dev/runtime/network/names/approver"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

const (
	// attachEvery is how often it is looked for jails to attach to.
	attachEvery = time.Second
	// settled is how long a question stands before an answer without its number counts: one that
	// was being typed was for another.
	settled = time.Second
	// maxBurst bounds the questions of a jail within burstTime: its helper, which sends no more, is
	// exposed to the jail.
	maxBurst  = 48
	burstTime = 10 * time.Second
)

// A question is a connection that waits for an answer.
type question struct {
	number int
	jail   *state.Brief
	network.Waiting
	shown time.Time
}

// deadline is when the connection waits no more.
func (q *question) deadline() time.Time { return q.shown.Add(time.Duration(q.Left) * time.Second) }

// questions attach a process to jails, print what waits there, and read answers.
type questions struct {
	networks jailnet.Networks
	wanted   func(*state.Brief) bool
	by       jailnet.Decider
	// print prints one question, and report prints a line about answers.
	print  func(*question) error
	report func(string)
	now    func() time.Time
	// command returns the command that answers for a jail, nil for none; the field is nil where
	// people answer. ctx ends commands.
	command func(key string) []string
	ctx     context.Context

	mu       sync.Mutex
	attached map[string]network.Attached
	last     int
	open     []*question
}

// run attaches to each jail as it comes, until ctx ends.
func (q *questions) run(ctx context.Context) {
	tick := time.NewTicker(attachEvery)
	defer tick.Stop()
	for {
		q.attachAll()
		select {
		case <-ctx.Done():
			q.mu.Lock()
			defer q.mu.Unlock()
			for _, a := range q.attached {
				a.Close()
			}
			return
		case <-tick.C:
		}
	}
}

// attachAll attaches to the jails to which this process is not attached.
func (q *questions) attachAll() {
	keys, err := q.networks.Store.Keys()
	if err != nil {
		return // before the first jail there is none
	}
	for _, key := range keys {
		q.mu.Lock()
		_, known := q.attached[key]
		q.mu.Unlock()
		if known {
			continue
		}
		j, err := q.networks.Store.Brief(key)
		if err != nil || !q.wanted(j) {
			continue
		}
		if q.command != nil && q.command(key) == nil {
			continue
		}
		a, err := q.networks.Attach(key)
		if err != nil {
			continue // not started yet, ended, or without approval
		}
		q.mu.Lock()
		q.attached[key] = a
		q.mu.Unlock()
		go q.follow(key, j, a)
	}
}

// follow prints what waits in a jail until its helper ends.
func (q *questions) follow(key string, j *state.Brief, a network.Attached) {
	defer func() {
		a.Close()
		q.mu.Lock()
		delete(q.attached, key)
		q.mu.Unlock()
	}()
	var times []time.Time
	for {
		w, err := a.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				q.report(fmt.Sprintf("%s: %v", j.ID, err))
			}
			return
		}
		now := q.now()
		times = slices.DeleteFunc(append(times, now), func(t time.Time) bool { return now.Sub(t) > burstTime })
		if len(times) > maxBurst {
			q.report(j.ID + ": its helper sends more than it may, and is left (remedy: agentjail inspect " + j.ID + ")")
			return
		}
		if q.command != nil {
			go q.answerBy(j, w)
			continue
		}
		if q.add(j, w) != nil {
			return
		}
	}
}

// commandOf returns the command of a jail's policy; nil for none.
func (q *questions) commandOf(key string) []string {
	n, err := q.networks.Store.Network(key)
	if err != nil || n.Policy.Network.Approval != policy.ApprovalPrompt || len(n.Policy.Network.ApprovalCommand) == 0 {
		return nil
	}
	return n.Policy.Network.ApprovalCommand
}

// answerBy has the jail's command answer.
func (q *questions) answerBy(j *state.Brief, w network.Waiting) {
	command := q.command(j.Key)
	if command == nil {
		return
	}
	v, err := approver.Decide(q.ctx, command, approver.Question{Jail: j.ID, Name: w.Name, Port: w.Port})
	if err != nil {
		q.report(fmt.Sprintf("%s: %v", j.ID, err))
	}
	ended, err := q.networks.Approve(j.Key, v, jailnet.Decider{Text: "the command " + command[0]})
	if err != nil {
		q.report(fmt.Sprintf("%s: %v", j.ID, err))
		return
	}
	q.report(decided(j.ID, v, ended))
}

// add prints a question.
func (q *questions) add(j *state.Brief, w network.Waiting) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	n := &question{number: q.last, jail: j, Waiting: w, shown: q.now()}
	q.sweep()
	q.open = append(q.open, n)
	return q.print(n)
}

// sweep removes questions whose time is over.
func (q *questions) sweep() {
	now := q.now()
	q.open = slices.DeleteFunc(q.open, func(n *question) bool { return !now.Before(n.deadline()) })
}

// answers reads lines until the end of the input.
func (q *questions) answers(from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			q.report(q.answer(text))
		}
	}
}

// answer takes an answer, "y", "n" or "once", with the question's number where there are several,
// and returns what came of it.
func (q *questions) answer(text string) string {
	n, v, why := q.chosen(strings.Fields(strings.ToLower(text)))
	if why != "" {
		return why
	}
	v.Name, v.Port = n.Name, n.Port
	ended, err := q.networks.Approve(n.jail.Key, v, q.by)
	if err != nil {
		return fmt.Sprintf("%s: %v", n.jail.ID, err)
	}
	return decided(n.jail.ID, v, ended)
}

// chosen takes the question that an answer is for from those that are open.
func (q *questions) chosen(words []string) (n *question, v network.Approval, why string) {
	const form = "answer y, n or once, and the question's number: y 3"
	switch words[0] {
	case "y", "yes":
		v.Allow = true
	case "once", "o":
		v.Allow, v.Once = true, true
	case "n", "no":
	default:
		return nil, v, form
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sweep()
	at := -1
	switch {
	case len(words) == 2:
		number, err := strconv.Atoi(words[1])
		if err != nil {
			return nil, v, form
		}
		at = slices.IndexFunc(q.open, func(n *question) bool { return n.number == number })
	case len(words) > 2:
		return nil, v, form
	case len(q.open) == 1 && q.now().Sub(q.open[0].shown) >= settled:
		at = 0
	case len(q.open) > 0:
		return nil, v, fmt.Sprintf("which one? %s %d", words[0], q.open[0].number)
	}
	if at < 0 {
		return nil, v, "it does not wait any more (remedy: agentjail network allow, before the jail tries again)"
	}
	n = q.open[at]
	q.open = slices.Delete(q.open, at, at+1)
	return n, v, ""
}

// line is a question for people.
func (n *question) line(interactive bool) string {
	how := fmt.Sprintf("agentjail network allow %s %s:%d, or deny; --once, --for TIME", n.jail.ID, n.Name, n.Port)
	if interactive {
		how = fmt.Sprintf("y %d, n %d or once %d; or %s", n.number, n.number, n.number, how)
	}
	return fmt.Sprintf("%d? %s wants %s:%d, and waits for %d s: %s", n.number, n.jail.ID, n.Name, n.Port, n.Left, how)
}

// questionJSON is a question for programs.
type questionJSON struct {
	Jail string `json:"jail"`
	network.Waiting
}
