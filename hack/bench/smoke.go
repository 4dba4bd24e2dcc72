package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// smokeRounds are enough to see that something takes twice as long as usual.
const smokeRounds = 8

// smokeMeasures are what it is seen by.
const smokeMeasures = "cycle,exec,docker"

// smoke measures a few rounds and holds ratios against their gross bounds. What looks too slow is
// measured once more before it counts: other work on the machine may have met one side alone.
func (b *bench) smoke(ctx context.Context) error {
	var bad []string
	for range 2 {
		b.res = &results{Date: b.res.Date, Host: b.res.Host, Rounds: b.rounds, DockerRounds: b.dockerRounds, LeftOut: b.res.LeftOut}
		if err := b.take(ctx); err != nil {
			return err
		}
		b.res.compare()
		var err error
		if bad, err = b.res.tooSlow(); err != nil || len(bad) == 0 {
			return err
		}
		for _, line := range bad {
			b.logf("%s", line)
		}
	}
	return fmt.Errorf("too slow, twice: %s", bad[0])
}

// tooSlow names the comparisons that are beyond their gross bound: with the whole of the interval,
// or in processor time, which shows less of the waiting, but is the same on a machine with other
// work. It is an error if none has a bound: then no subject was compared.
func (r *results) tooSlow() (bad []string, err error) {
	looked := 0
	for _, c := range r.Comparisons {
		if c.Gross == 0 {
			continue
		}
		looked++
		text := fmt.Sprintf("%s, %s: %.2f [%.2f, %.2f], bound %.2f", c.Delegate, c.name(), c.Ratio.Value, c.Ratio.Low, c.Ratio.High, c.Gross)
		if c.CPURatio != 0 {
			text += fmt.Sprintf("; processor time: %.2f", c.CPURatio)
		}
		if c.Ratio.Low > c.Gross || c.CPURatio > c.Gross {
			bad = append(bad, text)
			continue
		}
		fmt.Fprintln(os.Stdout, "ok:", text)
	}
	if looked == 0 {
		return nil, errors.New("nothing was measured that has a bound")
	}
	return bad, nil
}
