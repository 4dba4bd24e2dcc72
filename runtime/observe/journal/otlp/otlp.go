// Package otlp sends events to an OpenTelemetry collector: each is a log record (OpenTelemetry logs
// data model), by OTLP over HTTP. The library's variables apply: OTEL_EXPORTER_OTLP_ENDPOINT,
// _HEADERS, _CERTIFICATE, _TIMEOUT and their like for logs.
package otlp

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/version"
)

// Bounds: how many records wait for a collector that is slow or away, how many are sent at once,
// how long the first of them waits for others, and how long Close may take.
const (
	queue    = 8192
	batch    = 512
	pause    = time.Second
	patience = 10 * time.Second
)

// A Sink sends events in the background. Events that a collector does not take are counted and
// reported, never waited for.
type Sink struct {
	logger log.Logger
	queue  *sender
}

// New makes a sink for a collector. Of endpoint, http://HOST:PORT, the path is /v1/logs if it has
// none; "" is the environment's, or http://localhost:4318. onError gets the first error of each
// outage.
func New(ctx context.Context, endpoint string, onError func(error)) (*Sink, error) {
	var options []otlploghttp.Option
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%q is not the address of a collector (remedy: otlp:http://HOST:4318)", endpoint)
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/v1/logs"
		}
		options = append(options, otlploghttp.WithEndpointURL(u.String()))
	}
	options = append(options, otlploghttp.WithRetry(otlploghttp.RetryConfig{
		Enabled: true, InitialInterval: 200 * time.Millisecond, MaxInterval: 5 * time.Second, MaxElapsedTime: 30 * time.Second,
	}))
	to, err := otlploghttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("sending to a collector: %w", err)
	}
	host, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "agentjail"), attribute.String("service.version", version.Version)))
	if err != nil {
		return nil, fmt.Errorf("the host's name: %w", err)
	}
	q := newSender(to, onError)
	p := sdk.NewLoggerProvider(sdk.WithProcessor(q), sdk.WithResource(host), sdk.WithAttributeValueLengthLimit(16<<10))
	return &Sink{logger: p.Logger("agentjail.dev/runtime/observe/journal"), queue: q}, nil
}

// Write sends an event, later.
func (s *Sink) Write(e *journal.Event) error {
	if lost := s.queue.lost.Swap(0); lost > 0 {
		missing := journal.Event{
			Kind: journal.JournalLost, Source: journal.SourceJournal, Time: journal.At(time.Now()), Dropped: lost,
			Reason: "the OTLP collector accepted no more events",
		}
		if err := missing.Complete(); err != nil {
			return err
		}
		if err := s.write(&missing); err != nil {
			return err
		}
	}
	return s.write(e)
}

func (s *Sink) write(e *journal.Event) error {
	fields, err := attributes(e)
	if err != nil {
		return err
	}
	var r log.Record
	r.SetEventName("agentjail." + e.Kind.String())
	r.SetTimestamp(e.When())
	r.SetObservedTimestamp(time.Now())
	r.SetSeverity(severity(e))
	r.SetSeverityText(e.Verdict)
	r.SetBody(attribute.StringValue(e.String()))
	r.AddAttributes(fields...)
	s.logger.Emit(context.Background(), r)
	return nil
}

// Close sends what waits, for ten seconds at most, and reports how many events were not taken.
func (s *Sink) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.queue.Shutdown(ctx)
	if lost := s.queue.lost.Load(); lost > 0 {
		return fmt.Errorf("%d events were not taken by the collector: %w", lost, s.queue.why())
	}
	return err
}

// severity is OCSF's as OpenTelemetry has it: informational, low, medium, high, critical.
func severity(e *journal.Event) log.Severity {
	all := [...]log.Severity{log.SeverityInfo, log.SeverityInfo3, log.SeverityWarn, log.SeverityError, log.SeverityFatal}
	return all[min(max(e.Severity, 1), len(all))-1]
}

// attributes are an event's fields by their names of docs/journal.md, behind "agentjail.".
func attributes(e *journal.Event) ([]attribute.KeyValue, error) {
	line, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, err
	}
	return flat("agentjail.", fields)
}

// flat are the fields behind a prefix: those of an object behind its own name as well, and the
// objects in a list each as JSON.
func flat(prefix string, fields map[string]any) ([]attribute.KeyValue, error) {
	var out []attribute.KeyValue
	for name, v := range fields {
		name = prefix + name
		switch v := v.(type) {
		case map[string]any:
			below, err := flat(name+".", v)
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
		case bool:
			out = append(out, attribute.Bool(name, v))
		case string:
			out = append(out, attribute.String(name, v))
		case float64: // whole numbers of events are far below 2^53
			if v != math.Trunc(v) {
				out = append(out, attribute.Float64(name, v))
				continue
			}
			out = append(out, attribute.Int64(name, int64(v)))
		case []any:
			var texts []string
			for _, entry := range v {
				text, isText := entry.(string)
				if !isText {
					data, err := json.Marshal(entry)
					if err != nil {
						return nil, err
					}
					text = string(data)
				}
				texts = append(texts, text)
			}
			out = append(out, attribute.StringSlice(name, texts))
		}
	}
	return out, nil
}

// A sender is a processor (go.opentelemetry.io/otel/sdk/log) that never waits for the collector,
// and counts what is lost: the library's own drops records in silence.
type sender struct {
	to      sdk.Exporter
	onError func(error)
	lost    atomic.Uint64

	records chan sdk.Record
	closing chan struct{}
	done    chan struct{}
	once    sync.Once
	cancel  context.CancelFunc

	mu   sync.Mutex
	last error
}

func newSender(to sdk.Exporter, onError func(error)) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{
		to: to, onError: onError, records: make(chan sdk.Record, queue), closing: make(chan struct{}),
		done: make(chan struct{}), cancel: cancel,
	}
	go s.run(ctx)
	return s
}

// OnEmit takes a record.
func (s *sender) OnEmit(_ context.Context, r *sdk.Record) error {
	select {
	case s.records <- r.Clone():
	default:
		s.lost.Add(1)
	}
	return nil
}

// Enabled reports that every record is wanted.
func (s *sender) Enabled(context.Context, sdk.EnabledParameters) bool { return true }

// ForceFlush does nothing: records are sent within a second.
func (s *sender) ForceFlush(context.Context) error { return nil }

// Shutdown sends what waits. When ctx is done the rest counts as lost.
func (s *sender) Shutdown(ctx context.Context) error {
	s.once.Do(func() { close(s.closing) })
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel()
		<-s.done
	}
	return s.to.Shutdown(context.WithoutCancel(ctx))
}

func (s *sender) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// run sends batches until it is closed.
func (s *sender) run(ctx context.Context) {
	defer close(s.done)
	for open := true; open; {
		select {
		case r := <-s.records:
			s.send(ctx, s.gather([]sdk.Record{r}))
		case <-s.closing:
			open = false
		}
	}
	for len(s.records) > 0 {
		s.send(ctx, s.gather(nil))
	}
}

// gather adds to a batch what comes within a second, or is there when the sender is closed.
func (s *sender) gather(batched []sdk.Record) []sdk.Record {
	late := time.NewTimer(pause)
	defer late.Stop()
	for len(batched) < batch {
		select {
		case r := <-s.records:
			batched = append(batched, r)
			continue
		default:
		}
		select {
		case r := <-s.records:
			batched = append(batched, r)
		case <-late.C:
			return batched
		case <-s.closing:
			return batched
		}
	}
	return batched
}

func (s *sender) send(ctx context.Context, records []sdk.Record) {
	err := s.to.Export(ctx, records)
	s.mu.Lock()
	first := err != nil && s.last == nil
	s.last = err
	s.mu.Unlock()
	if err != nil {
		s.lost.Add(uint64(len(records)))
	}
	if first {
		s.onError(err)
	}
}
