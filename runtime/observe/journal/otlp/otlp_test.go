package otlp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"agentjail.dev/runtime/observe/journal"
)

// a server is a collector: it decodes by OpenTelemetry's own definitions.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	records []*logs.LogRecord
	service string
	path    string
	status  int // where set, what is answered
}

func serve(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.path = r.URL.Path
		if s.status != 0 {
			w.WriteHeader(s.status)
			return
		}
		var got collector.ExportLogsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil {
			t.Error(err)
		}
		for _, l := range got.ResourceLogs {
			for _, a := range l.Resource.Attributes {
				if a.Key == "service.name" {
					s.service = a.Value.GetStringValue()
				}
			}
			for _, of := range l.ScopeLogs {
				s.records = append(s.records, of.LogRecords...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s
}

func event(t *testing.T, e journal.Event) *journal.Event {
	t.Helper()
	e.Time = journal.At(time.Now())
	if err := e.Complete(); err != nil {
		t.Fatal(err)
	}
	return &e
}

// TestSink: a collector gets each event once, with its time, kind, severity and fields.
func TestSink(t *testing.T) {
	s := serve(t)
	sink, err := New(t.Context(), s.URL, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	e := event(t, journal.Event{Kind: journal.NameRefused, Source: journal.SourceNetwork, Jail: "box", Name: "refused.example", Argv: []string{"a", "b"}})
	const many = 3 * batch
	for range many {
		if err := sink.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if len(s.records) != many || s.service != "agentjail" || s.path != "/v1/logs" {
		t.Fatalf("%d records of %q at %s", len(s.records), s.service, s.path)
	}
	r := s.records[0]
	if r.EventName != "agentjail.name.refused" || r.TimeUnixNano != uint64(e.When().UnixNano()) || r.SeverityNumber != logs.SeverityNumber_SEVERITY_NUMBER_WARN ||
		!strings.Contains(r.Body.GetStringValue(), "refused.example") {
		t.Errorf("%v", r)
	}
	fields := map[string]*common.AnyValue{}
	for _, a := range r.Attributes {
		fields[a.Key] = a.Value
	}
	if fields["agentjail.name"].GetStringValue() != "refused.example" || fields["agentjail.jail"].GetStringValue() != "box" ||
		fields["agentjail.ring"].GetIntValue() != 2 || len(fields["agentjail.argv"].GetArrayValue().GetValues()) != 2 {
		t.Errorf("%v", fields)
	}
}

// TestRefusedEventsAreCounted: events that a collector refuses are counted, and reported to it once it takes some again; an outage is reported once.
func TestRefusedEventsAreCounted(t *testing.T) {
	s := serve(t)
	s.status = http.StatusBadRequest // which is not tried again
	told := make(chan error, 100)
	sink, err := New(t.Context(), s.URL, func(err error) { told <- err })
	if err != nil {
		t.Fatal(err)
	}
	e := event(t, journal.Event{Kind: journal.JailStart, Source: journal.SourceOwn, Jail: "box"})
	if err := sink.Write(e); err != nil {
		t.Fatal(err)
	}
	<-told
	s.mu.Lock()
	s.status = 0
	s.mu.Unlock()
	if err := sink.Write(e); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if len(s.records) != 2 || s.records[0].EventName != "agentjail.journal.lost" || len(told) != 0 {
		t.Errorf("%d more were reported: %v", len(told), s.records)
	}
	s.status = http.StatusBadRequest
	if sink, err = New(t.Context(), s.URL, func(error) {}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(e); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err == nil || !strings.Contains(err.Error(), "1 events were not taken") {
		t.Errorf("closing states %v", err)
	}
}

// TestEndpoint: what is no address of a collector is refused at once.
func TestEndpoint(t *testing.T) {
	for _, bad := range []string{"localhost:4318", "ftp://host", "http://", "http://a b", "\x00"} {
		if _, err := New(t.Context(), bad, nil); err == nil || !strings.Contains(err.Error(), "remedy") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestDetailAttributes: a payload's fields are attributes of their own.
func TestDetailAttributes(t *testing.T) {
	e := event(t, journal.Event{Kind: journal.JailUsed, ArgvOmitted: true, Detail: journal.Used{
		Amounts: journal.Amounts{Memory: 1024, CPU: 2.5}, Layer: &journal.LayerUse{Bytes: 5, More: true},
	}})
	torn := event(t, journal.Event{Kind: journal.JailTeardown, Detail: journal.Teardown{Gone: []journal.Part{{Kind: "mount", What: "/x"}}}})
	got := map[string]string{}
	for _, e := range []*journal.Event{e, torn} {
		all, err := attributes(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			got[string(a.Key)] = a.Value.String()
		}
	}
	for name, want := range map[string]string{
		"agentjail.argv_omitted": "true", "agentjail.detail.memoryPeakBytes": "1024", "agentjail.detail.cpuSeconds": "2.5",
		"agentjail.detail.layer.bytes": "5", "agentjail.detail.layer.more": "true", "agentjail.detail.gone": `["{\"kind\":\"mount\",\"what\":\"/x\"}"]`,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
