// Command bench measures what agentjail costs: every subject in turn, round after round, in one run
// on one machine, so that only ratios and differences within a run are printed. It needs root and a
// place to run Docker (see tests/engine).
//
//	go run ./hack/bench -rounds 40 -json out.json
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/tests/engine"
)

func main() {
	engine.IfJanitor()
	o, err := parse(flag.CommandLine, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := o.measure(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parse reads a command line.
func parse(flag *flag.FlagSet, args []string) (o options, err error) {
	flag.IntVar(&o.rounds, "rounds", 40, "how often each subject is measured")
	flag.IntVar(&o.dockerRounds, "docker-rounds", 0, "the same for whole docker runs (default: half of -rounds)")
	flag.IntVar(&o.crowdSize, "crowd", 500, "how many containers are started beside each other, at least 20")
	flag.StringVar(&o.json, "json", "", "write everything that was measured to `FILE`")
	var names []string
	for _, m := range measures {
		names = append(names, m.name)
	}
	flag.StringVar(&o.only, "only", strings.Join(names, ","), "which measures to take")
	flag.StringVar(&o.delegates, "delegates", "", "measure only delegates whose name has this in it, such as 1.1")
	flag.StringVar(&o.docs, "docs", "", "put the numbers into performance.md in `DIR`, and draw performance.svg there")
	flag.StringVar(&o.from, "from", "", "measure nothing, and take what -json wrote to `FILE`")
	flag.BoolVar(&o.brief, "smoke", false, "measure a few rounds, and fail if agentjail takes about twice what it usually does")
	if err := flag.Parse(args); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(o.only, ",") {
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("-only %s: there is no such measure (remedy: one of %s)", name, strings.Join(names, ", "))
		}
	}
	if o.brief {
		o.rounds, o.only = smokeRounds, smokeMeasures
	}
	o.crowdSize = max(o.crowdSize, 2*edge)
	if o.dockerRounds == 0 {
		o.dockerRounds = max(o.rounds/2, 3)
	}
	return o, nil
}

type options struct {
	rounds, dockerRounds  int
	crowdSize             int
	json, only, delegates string
	docs, from            string
	brief                 bool
}

func (o options) has(measure string) bool {
	return slices.Contains(strings.Split(o.only, ","), measure)
}

// measure measures, or reads what an earlier run measured, and prints the results. Those from
// before an error are printed too.
func (o options) measure() error {
	if o.from != "" {
		data, err := os.ReadFile(o.from)
		if err != nil {
			return err
		}
		var res results
		if err := json.Unmarshal(data, &res); err != nil {
			return fmt.Errorf("%s: %w", o.from, err)
		}
		return o.printAll(&res)
	}
	b := &bench{options: o, res: &results{Date: time.Now().UTC(), Rounds: o.rounds, DockerRounds: o.dockerRounds, Crowd: o.crowdSize}}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := b.all(ctx) // an interrupt stops it at the next subject
	if cerr := b.close(); err == nil {
		err = cerr
	}
	if o.brief {
		return err // it is complete
	}
	if err != nil {
		o.docs = "" // only whole runs go there
	}
	if terr := o.printAll(b.res); err == nil {
		err = terr
	}
	return err
}

// printAll prints results and writes what was requested.
func (o options) printAll(r *results) error {
	if len(r.Subjects) == 0 {
		return nil
	}
	r.compare()
	r.print(os.Stdout)
	if o.json != "" {
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.docs != "" {
		return r.writeDocs(o.docs)
	}
	return nil
}
