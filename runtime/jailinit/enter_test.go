package jailinit

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"agentjail.dev/runtime/version/form"
)

// sample has something in every field; the test below sees to that.
func sample() *Orders {
	return &Orders{
		UIDMap: "0 2013265920 65536\n", GIDMap: "0 2013265920 65536\n",
		Namespaces: []Namespace{{"pid", 1}, {"mnt", 1 << 40}},
		UID:        1, GID: 2, Groups: []uint32{3, 4}, Capabilities: 1 << 40,
		LabelFile: "/proc/self/attr/current", Label: "agentjail-default (enforce)",
		Loopback: true, Masked: []string{"/proc/kcore"}, ReadOnly: []string{"/proc/sys", ""},
		Limits:  []Limit{{[]string{"a", "b"}, 5}},
		Rlimits: []Rlimit{{6, 7, 8}, {9, 10, 11}}, OOMScore: 900,
		Umask: 0o77, CPUs: 12, Seed: 13,
		Landlock:         Landlock{Want: true, Required: true, Scoped: true, NoTCP: true, NoSockets: true, Devices: []string{"/dev/null"}},
		DenyWriteExecute: true, Filter: []byte{0, 1, 2, 255}, LeaveFilters: 14, Init: Init{Stays: true, Leads: true}, OwnEnv: []string{"A=1"}, Without: []string{"status"},
		Guest: true, Places: []string{"/tmp"}, Form: form.Number, Standard: []uint32{0, 2},
	}
}

func TestEveryFieldTravels(t *testing.T) {
	o := sample()
	for _, v := range []reflect.Value{reflect.ValueOf(*o), reflect.ValueOf(o.Landlock)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("the sample states nothing of %s.%s", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	o.OwnEnv = nil // of earlier forms
	got, err := Decode(o.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, o) {
		t.Errorf("decoded\n%+v\nencoded\n%+v", got, o)
	}
}

// TestDamagedOrders: every other text is refused, and none makes the decoder
// take much memory or panic.
func TestDamagedOrders(t *testing.T) {
	whole := sample().Encode()
	for n := range whole {
		if _, err := Decode(whole[:n]); !errors.Is(err, ErrForm) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(whole), err)
		}
	}
	if _, err := Decode(append(whole, 0)); !errors.Is(err, ErrForm) {
		t.Errorf("with a byte more: %v", err)
	}
}

// TestFormsOfBefore: orders as each earlier release writes them are read, with nothing in the fields that
// the release lacks, and their form never changes.
func TestFormsOfBefore(t *testing.T) {
	for n := form.Oldest; n <= form.Number; n++ {
		path := filepath.Join("testdata", "orders-"+strconv.Itoa(n))
		written := sample().encode(n)
		if *update && n == form.Number {
			if err := os.WriteFile(path, written, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v (after a change of form.Number: go test ./runtime/jailinit -update)", err)
		}
		if !bytes.Equal(text, written) {
			t.Errorf("form %d has changed: a field needs a form of its own (form.Number, and fields)", n)
		}
		o, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if again := o.encode(n); !bytes.Equal(again, text) {
			t.Errorf("form %d is read as %+v", n, o)
		}
	}
	for _, n := range []int{0, form.Oldest - 1, form.Number + 1} {
		if _, err := Decode(sample().encode(n)); !errors.Is(err, ErrForm) {
			t.Errorf("form %d: %v", n, err)
		}
	}
}

var update = flag.Bool("update", false, "write the file of the newest form")

func FuzzDecode(f *testing.F) {
	f.Add(sample().Encode())
	f.Add([]byte(magic + "8\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(o.Encode())
		if err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%+v does not survive: %+v, %v", o, again, err)
		}
	})
}
