package policy

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// set stores a value of TOML in a field. A list takes the place of the one before.
func set(f reflect.Value, v any) error {
	wrong := func() error { return fmt.Errorf("%s, but it must be %s", given(v), expected(f.Type())) }
	if to, ok := f.Addr().Interface().(encoding.TextUnmarshaler); ok {
		text, ok := v.(string)
		if n, number := v.(int64); number {
			text, ok = strconv.FormatInt(n, 10), true
		}
		if !ok {
			return wrong()
		}
		return to.UnmarshalText([]byte(text))
	}
	switch to := f.Addr().Interface().(type) {
	case *string:
		text, ok := v.(string)
		if !ok {
			return wrong()
		}
		*to = text
	case *bool:
		is, ok := v.(bool)
		if !ok {
			return wrong()
		}
		*to = is
	case *float64:
		switch v := v.(type) {
		case float64:
			*to = v
		case int64:
			*to = float64(v)
		default:
			return wrong()
		}
	case *[]string:
		list, ok := v.([]any)
		if !ok {
			return wrong()
		}
		out := []string{}
		for i, item := range list {
			text, ok := item.(string)
			if !ok {
				return fmt.Errorf("entry %d is %s, but it must be a string", i+1, given(item))
			}
			out = append(out, text)
		}
		*to = out
	default:
		return setNumber(f, v, wrong)
	}
	return nil
}

func setNumber(f reflect.Value, v any, wrong func() error) error {
	n, ok := v.(int64)
	switch {
	case !ok:
		return wrong()
	case f.CanUint() && n < 0:
		return errors.New("must not be negative")
	case f.CanUint():
		f.SetUint(uint64(n))
	default:
		f.SetInt(n)
	}
	return nil
}
