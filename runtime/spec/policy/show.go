package policy

import (
	"fmt"
	"reflect"
	"strings"
)

// A Value is a key's value in force, and the place that it is from.
type Value struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"`
	// Text is the value as the file has it.
	Text string `json:"-"`
}

// An Effective policy knows where its values are from.
type Effective struct {
	Policy
	from map[string]string
}

// Explain is Load with the place of each value.
func Explain(path, name string) (*Effective, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	f.join(namedFile(path, name))
	p, set, err := f.policy(name)
	if err != nil {
		return nil, err
	}
	e := &Effective{Default(), map[string]string{}}
	e.Change("the built-in policy "+name, p)
	for key, s := range set {
		e.from[key] = s.where()
		if strings.HasPrefix(key, "credentials.") {
			e.from["credentials"] = s.where()
		}
	}
	return e, e.Seccomp.load()
}

// where is the place of a setting.
func (s setting) where() string {
	out := fmt.Sprintf("%s:%d", s.file, s.line)
	if s.policy != "" {
		out += ", policy " + s.policy
	}
	return out
}

// Change puts a policy in the place of this one. Values that differ are from source.
func (e *Effective) Change(source string, p Policy) {
	old, now := reflect.ValueOf(e.Policy), reflect.ValueOf(p)
	for _, k := range Keys {
		if literal(valueAt(old, k.Name)) != literal(valueAt(now, k.Name)) {
			e.from[k.Name] = source
		}
	}
	e.Policy = p
}

// Values lists all keys.
func (e *Effective) Values() (out []Value) {
	v := reflect.ValueOf(e.Policy)
	for _, k := range Keys {
		from := e.from[k.Name]
		if from == "" {
			from = "default"
		}
		f := valueAt(v, k.Name)
		value := f.Interface()
		if f.Kind() == reflect.Slice && f.Len() == 0 {
			value = []string{}
		}
		out = append(out, Value{k.Name, value, from, literal(f)})
	}
	return out
}
