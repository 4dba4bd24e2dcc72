package helperproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"agentjail.dev/runtime/spec/credential/secret"
)

// A Credential is set by the helper in requests to its hosts.
type Credential struct {
	Name   string   `json:"name"`
	Hosts  []string `json:"hosts"`
	Header string   `json:"header"`
	// Scheme stands before the value; "" is nothing.
	Scheme string `json:"scheme,omitempty"`
	// Placeholder stands for the value in the jail. In any other place than the header it is
	// refused.
	Placeholder string `json:"placeholder"`
	// End requests that the helper terminates TLS to the hosts.
	End bool `json:"end,omitempty"`
	// SSH is set for a key for git over ssh, which has no header and no placeholder; nil for
	// others.
	SSH *SSH `json:"ssh,omitempty"`

	Value secret.Value `json:"-"`
}

// SSH describes the use of a key for git over ssh.
type SSH struct {
	User         string   `json:"user"`
	Repositories []string `json:"repositories,omitempty"`
	// HostKeys are the servers' own, by NAME:PORT.
	HostKeys map[string][][]byte `json:"hostKeys"`
}

// wire is Work with the secrets, which Work's own JSON leaves out.
type wire struct {
	*Work
	Values    [][]byte `json:"values,omitempty"` // of the credentials, in their order
	Authority []byte   `json:"authority,omitempty"`
	HostKey   []byte   `json:"hostKey,omitempty"`
}

// Encode encodes the work with the credentials' values, for the helper's socket only. The caller
// overwrites the result after use.
func (w *Work) Encode() ([]byte, error) {
	out := wire{Work: w, Authority: w.Authority.Reveal(), HostKey: w.HostKey.Reveal()}
	for _, c := range w.Credentials {
		out.Values = append(out.Values, c.Value.Reveal())
	}
	return json.Marshal(out)
}

// Wipe overwrites all secrets.
func (w *Work) Wipe() {
	for _, c := range w.Credentials {
		c.Value.Wipe()
	}
	w.Authority.Wipe()
	w.HostKey.Wipe()
}

// Strict decodes JSON of a starter's. A key of a newer release is an error: the receiver would
// overlook what it stands for.
func Strict(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one message")
	}
	return nil
}

// Decode is the inverse of Encode.
func Decode(data []byte) (*Work, error) {
	in := wire{Work: new(Work)}
	if err := Strict(data, &in); err != nil {
		return nil, fmt.Errorf("reading the work: %w", err)
	}
	if len(in.Values) != len(in.Credentials) {
		return nil, fmt.Errorf("reading the work: %d values for %d credentials", len(in.Values), len(in.Credentials))
	}
	for i, v := range in.Values {
		in.Credentials[i].Value = secret.New(v)
	}
	in.Work.Authority, in.Work.HostKey = secret.New(in.Authority), secret.New(in.HostKey)
	return in.Work, nil
}
