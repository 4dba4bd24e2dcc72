package why

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"agentjail.dev/runtime/spec/rings"
)

// A message is an error that programs print in jails, or engines about them, with its causes: an
// entry of messages.toml, which reports what each field is.
type message struct {
	ID       string   `toml:"id"`
	Like     string   `toml:"like"`
	Samples  []string `toml:"samples"`
	Path     bool     `toml:"path"`
	Target   bool     `toml:"target"`
	Own      bool     `toml:"own"`
	CausesOf string   `toml:"causes_of"`
	Causes   []cause  `toml:"cause"`

	pattern *regexp.Regexp
}

// A cause is one reason for a message.
type cause struct {
	What     string   `toml:"what"`
	By       string   `toml:"by"`
	Ring     string   `toml:"ring"`
	Sign     string   `toml:"sign"`
	Purpose  bool     `toml:"purpose"`
	Instead  string   `toml:"instead"`
	Remedies []change `toml:"remedy"`
}

// A change is what lets something through, as the table has it.
type change struct {
	Write string   `toml:"write"`
	Where string   `toml:"where"`
	Keys  []string `toml:"keys"`
	Opens string   `toml:"opens"`
}

// ThePolicy, where a remedy goes, stands for the place where a jail's policy is written.
const ThePolicy = "the policy, for jails that are made from then on"

// TheCall is where a remedy goes that is an option of the call.
const TheCall = "the call that starts the next jail, beside its other names (agentjail sandbox)"

// places are the words of the table for where a remedy goes. Others stand for themselves.
var places = map[string]string{"policy": ThePolicy, "command line": "the container's command line", "jail": "the jail"}

//go:embed messages.toml
var messagesTOML []byte

// messages is the table, read at the first question about an error. Its test holds that it can be
// read.
var messages = sync.OnceValue(func() []message {
	all, err := readMessages(messagesTOML)
	if err != nil {
		panic(err)
	}
	return all
})

// readMessages reads a table.
func readMessages(data []byte) ([]message, error) {
	var in struct {
		Messages []message `toml:"message"`
	}
	if err := decode("messages.toml", data, &in); err != nil {
		return nil, err
	}
	for i := range in.Messages {
		m := &in.Messages[i]
		var err error
		if m.pattern, err = regexp.Compile("(?is)" + m.Like); err != nil {
			return nil, fmt.Errorf("messages.toml: %s: %w", m.ID, err)
		}
		if m.CausesOf == "" {
			continue
		}
		of := slices.IndexFunc(in.Messages, func(o message) bool { return o.ID == m.CausesOf })
		if of < 0 || in.Messages[of].CausesOf != "" {
			return nil, fmt.Errorf("messages.toml: %s: causes_of %q is no entry with causes of its own", m.ID, m.CausesOf)
		}
		m.Causes = slices.Concat(in.Messages[of].Causes, m.Causes)
	}
	return in.Messages, nil
}

// decode reads a table, which must have nothing else.
func decode(name string, data []byte, to any) error {
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ring is the cause's ring; nil where none decides.
func (c *cause) ring() *rings.Ring {
	if r, ok := rings.Named(c.Ring); ok {
		return &r
	}
	return nil
}

// remedies are what to write for a cause.
func (c *cause) remedies() []Remedy {
	var out []Remedy
	for _, r := range c.Remedies {
		out = append(out, Remedy{Write: r.Write, Where: cmp.Or(places[r.Where], r.Where), Opens: r.Opens})
	}
	return out
}
