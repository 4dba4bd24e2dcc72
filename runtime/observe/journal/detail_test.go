package journal

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// fill sets every field that a payload has.
func fill(v reflect.Value, text string, entries int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint32:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(2.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, entries)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), text, entries)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), entries, entries))
		for i := range entries {
			fill(v.Index(i), text, entries)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, text, entries)
		}
	default:
		panic("a payload has a field of another sort: " + v.Type().String())
	}
}

// filled is a payload of the kind with text in every field.
func filled(t *testing.T, k Kind, text string, entries int) Detail {
	t.Helper()
	d, err := details[k]([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.New(reflect.TypeOf(d)).Elem()
	fill(v, text, entries)
	return v.Interface().(Detail)
}

// TestDetails: every payload is read as it was written, by the kind that it is of.
func TestDetails(t *testing.T) {
	for k := range details {
		want := filled(t, k, `a "b" \\ <c>`, 2)
		if want.kind() != k {
			t.Errorf("%s has the payload of %s", k, want.kind())
		}
		for _, d := range []Detail{want, filled(t, k, "", 0)} {
			var b bytes.Buffer
			out := json.NewEncoder(&b)
			out.SetEscapeHTML(false)
			if err := out.Encode(d); err != nil || string(appendJSON(nil, reflect.ValueOf(d))) != strings.TrimSpace(b.String()) {
				t.Errorf("%s: %s, want %s", k, appendJSON(nil, reflect.ValueOf(d)), b.String())
			}
		}
		l := newLog(t, 0)
		if err := l.Begin(Event{Kind: k, Detail: want}); err != nil {
			t.Fatal(err)
		}
		if events, err := Read(l.Path); err != nil || len(events) != 1 || !reflect.DeepEqual(events[0].Detail, want) {
			t.Errorf("%s: %+v, want %+v; %v", k, events, want, err)
		}
		other := JailStart
		if err := l.Append(Event{Kind: other, Detail: want}); err == nil {
			t.Errorf("%s is written with the payload of %s", other, k)
		}
	}
}

// TestDetailIsBounded: whatever text and however many entries a payload has, its line is one that is read again, clean, and counts what it lacks;
// the caller's payload stays as it was.
func TestDetailIsBounded(t *testing.T) {
	for k := range details {
		for _, text := range []string{strings.Repeat("\"", 5000), "x\n\x1b[2J\u202e", strings.Repeat("y", 100)} {
			given, same := filled(t, k, text, 300), filled(t, k, text, 300)
			l := newLog(t, 0)
			if err := l.Begin(Event{Kind: k, Detail: given}); err != nil {
				t.Fatalf("%s: %v", k, err)
			}
			if !reflect.DeepEqual(given, same) {
				t.Errorf("%s: the caller's payload was changed", k)
			}
			events, err := Read(l.Path)
			if err != nil || len(events) != 1 || events[0].Kind != k {
				t.Fatalf("%s: %+v, %v", k, events, err)
			}
			data, err := json.Marshal(events[0].Detail)
			if err != nil || strings.ContainsAny(string(data), "\n\x1b\u202e") || len(data) > maxLine {
				t.Errorf("%s: %d bytes, %v", k, len(data), err)
			}
			if lists := strings.Count(string(data), `":[`); lists > 0 && k != JailInspected && events[0].Cut == 0 {
				t.Errorf("%s: nothing is counted as left out: %s", k, data)
			}
			whole(t, l)
		}
	}
}

// TestDetailOfAnotherForm: a line whose payload is of another form is shown as unknown.
func TestDetailOfAnotherForm(t *testing.T) {
	for _, line := range []string{
		`{"v":1,"seq":1,"jail":"box","kind":"jail.used","detail":{"memoryPeakBytes":"many"},"prev":""}`,
		`{"v":1,"seq":1,"jail":"box","kind":"jail.used","detail":[1],"prev":""}`,
		`{"v":1,"seq":1,"jail":"box","kind":"jail.inspected","detail":{"rings":7},"prev":""}`,
		`{"v":1,"seq":1,"jail":"box","kind":"jail.start","detail":{"a":1},"prev":""}`,
	} {
		e, ok := decode([]byte(line))
		if !ok || e.Kind != JournalUnknown || e.Detail != nil || e.Seq != 1 || e.Jail != "box" || e.Reason == "" {
			t.Errorf("%s: %+v, %v", line, e, ok)
		}
	}
	for _, line := range []string{
		`{"v":1,"seq":1,"kind":"jail.used","detail":null,"prev":""}`,
		`{"v":1,"seq":1,"kind":"jail.used","detail":{"later":[{"x":1}],"pidsPeak":3},"prev":""}`,
	} {
		if e, ok := decode([]byte(line)); !ok || e.Kind != JailUsed {
			t.Errorf("%s: %+v, %v", line, e, ok)
		}
	}
}

// BenchmarkDetail is what the payload of a create costs.
func BenchmarkDetail(b *testing.B) {
	d := Created{Engine: "docker", Root: "/var/lib/docker/overlay2/x/merged", Bundle: "/run/x", Version: "1", User: "0:0", Writable: []string{"/work"}}
	for b.Loop() {
		e := Event{Kind: JailCreate, Detail: d}
		e.Clean()
		_ = e.encode(nil)
	}
}
