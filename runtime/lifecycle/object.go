package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// An object is a JSON object whose keys keep their order: a delegate's output is passed on
// unchanged but for the keys that are set.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(data []byte) error {
	*o = object{values: map[string]json.RawMessage{}}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not an object")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return err
		}
		o.put(key, v)
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, k := range o.keys {
		key, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%c%s:%s", "{,"[min(i, 1)], key, o.values[k])
	}
	if len(o.keys) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (o *object) put(key string, v json.RawMessage) {
	if _, has := o.values[key]; !has {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
}

// set sets a key to a text.
func (o *object) set(key, text string) {
	if v, err := json.Marshal(text); err == nil { // a string always can
		o.put(key, v)
	}
}

// text returns a key's value as printed for a reader: a string without quotes.
func (o *object) text(key string) string {
	var s string
	if json.Unmarshal(o.values[key], &s) == nil {
		return s
	}
	return string(o.values[key])
}
