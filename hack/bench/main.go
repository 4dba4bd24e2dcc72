// Command bench measures what agentjail costs: every subject in turn, round after round, in one run on one machine, so
// that only ratios and differences within a run are told. It needs root and a place to run Docker (see tests/engine).
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
	"strings"
	"syscall"

	"agentjail.dev/tests/engine"
)

func main() {
	engine.IfJanitor()
	var o options
	flag.IntVar(&o.rounds, "rounds", 40, "how often each subject is measured")
	flag.IntVar(&o.dockerRounds, "docker-rounds", 0, "the same for whole docker runs (default: half of -rounds)")
	flag.StringVar(&o.json, "json", "", "write everything that was measured to `FILE`")
	var names []string
	for _, m := range measures {
		names = append(names, m.name)
	}
	flag.StringVar(&o.only, "only", strings.Join(names, ","), "which measures to take")
	flag.StringVar(&o.delegates, "delegates", "", "measure only delegates whose name has this in it, such as 1.1")
	flag.Parse()
	if o.dockerRounds == 0 {
		o.dockerRounds = max(o.rounds/2, 3)
	}
	os.Exit(run(o))
}

type options struct {
	rounds, dockerRounds  int
	json, only, delegates string
}

func (o options) has(measure string) bool {
	for _, m := range strings.Split(o.only, ",") {
		if m == measure {
			return true
		}
	}
	return false
}

func run(o options) int {
	b := &bench{options: o, res: &results{Rounds: o.rounds, DockerRounds: o.dockerRounds}}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-interrupted
		cancel() // the measuring stops at the next subject
	}()
	err := b.all(ctx)
	if cerr := b.close(); err == nil {
		err = cerr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	b.res.compare()
	b.res.print(os.Stdout)
	if o.json != "" {
		data, err := json.MarshalIndent(b.res, "", "  ")
		if err == nil {
			err = os.WriteFile(o.json, append(data, '\n'), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
	}
	return 0
}
