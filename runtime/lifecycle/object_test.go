package lifecycle

import (
	"encoding/json"
	"testing"
)

// TestObject: what is not set stays as it was, in its order.
func TestObject(t *testing.T) {
	const in = `{"ociVersion":"1.0.2","id":"x","pid":12345678901234567890,"annotations":{"z":"1","a":"2"},"none":null,"a\"b":[1]}`
	var o object
	if err := json.Unmarshal([]byte(in), &o); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(o); err != nil || string(out) != in {
		t.Errorf("%s, %v", out, err)
	}
	o.set("id", "y\"")
	o.set("bundle", "/b")
	const want = `{"ociVersion":"1.0.2","id":"y\"","pid":12345678901234567890,"annotations":{"z":"1","a":"2"},"none":null,"a\"b":[1],"bundle":"/b"}`
	if out, err := json.Marshal(o); err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
	for key, want := range map[string]string{"id": `y"`, "pid": "12345678901234567890", "absent": ""} {
		if got := o.text(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if out, err := json.Marshal(object{}); err != nil || string(out) != "{}" {
		t.Errorf("nothing: %s, %v", out, err)
	}
	for _, bad := range []string{`[]`, `"x"`, `1`} {
		if json.Unmarshal([]byte(bad), &o) == nil {
			t.Errorf("%s is taken for an object", bad)
		}
	}
}
