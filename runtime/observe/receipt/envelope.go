package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
)

// A signed receipt is an in-toto statement in a DSSE envelope, which others' tools verify:
// https://github.com/secure-systems-lab/dsse (protocol.md, envelope.md),
// https://github.com/in-toto/attestation (spec/v1/statement.md).
const (
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://agentjail.dev/receipt/v1"
)

// An Envelope holds a statement and its signatures.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"` // base64
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid,omitempty"` // fingerprint; a hint, which is not signed
	Sig   []byte `json:"sig"`             // base64
}

// A statement is what is signed: a receipt, and what it is about.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     *Receipt  `json:"predicate"`
}

// A subject is something with a hash.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"` // 64 digits, by "sha256"
}

// subjects are what of the receipt has a hash: what was applied of views, the hardened
// configuration, and the journal up to its last line.
func (r *Receipt) subjects() (out []subject) {
	add := func(name, hash string) {
		if hash = strings.TrimPrefix(hash, "sha256:"); hash != "" {
			out = append(out, subject{name, map[string]string{"sha256": hash}})
		}
	}
	for _, a := range r.Touched.Applied {
		add("applied/"+a.View, a.Sums)
	}
	add("config.json", r.Identity.Config)
	add("journal", r.Journal.Last)
	return out
}

// authenticated are the bytes that a signature is of: DSSE's pre-authentication encoding.
func (e *Envelope) authenticated() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}

// Sign returns the receipt, and the last hash of the journal's chain with it, signed by the key.
func (r *Receipt) Sign(key ed25519.PrivateKey) (*Envelope, error) {
	payload, err := json.Marshal(&statement{statementType, r.subjects(), predicateType, r})
	if err != nil {
		return nil, err
	}
	e := &Envelope{PayloadType: payloadType, Payload: payload}
	e.Signatures = []signature{{fingerprint(key.Public().(ed25519.PublicKey)), ed25519.Sign(key, e.authenticated())}}
	return e, nil
}

// errSignature is wrapped where a receipt is not what a key has signed.
var errSignature = errors.New("the signature does not hold")

// Open returns the receipt in an envelope that the key has signed, and the key's fingerprint. Of
// several signatures one has to be the key's. The statement has one reading: it is as Sign writes
// it.
func Open(data []byte, key ed25519.PublicKey) (r *Receipt, by string, err error) {
	var e Envelope
	if err := decode(data, &e); err != nil {
		return nil, "", fmt.Errorf("%w: it is no envelope: %w (remedy: agentjail receipt --sign)", errSignature, err)
	}
	own, ids := fingerprint(key), []string{}
	for _, s := range e.Signatures {
		ids = append(ids, s.KeyID)
		if ed25519.Verify(key, e.authenticated(), s.Sig) {
			by = own
		}
	}
	if by == "" {
		return nil, "", fmt.Errorf("%w: it is by the keys %q, and this one is %q, or the receipt was changed", errSignature, ids, own)
	}
	s := statement{Predicate: new(Receipt)}
	if err := decode(e.Payload, &s); err != nil {
		return nil, "", fmt.Errorf("its statement: %w", err)
	}
	if e.PayloadType != payloadType || s.Type != statementType || s.PredicateType != predicateType ||
		s.Predicate == nil || s.Predicate.Schema != schema {
		return nil, "", fmt.Errorf("it is no receipt: %q, %q, %q", e.PayloadType, s.Type, s.PredicateType)
	}
	return s.Predicate, by, nil
}

// Decode reads a receipt that was printed by --json without --sign, in its one form.
func Decode(data []byte) (*Receipt, error) {
	r := new(Receipt)
	return r, decode(data, r)
}

// decode reads JSON that has one reading for every reader: encoding it again yields the same text,
// spaces between its parts aside. A key that is unknown, is given twice or is spelled in another
// way is an error. A field that a later version adds is left out where it is empty.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind it")
	}
	var text, printed bytes.Buffer
	if err := json.Compact(&text, data); err != nil {
		return err
	}
	again, err := json.Marshal(into)
	if err != nil || bytes.Equal(text.Bytes(), again) {
		return err
	}
	enc := json.NewEncoder(&printed)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(into); err != nil {
		return err
	}
	if !bytes.Equal(text.Bytes(), printable.JSON(bytes.TrimSpace(printed.Bytes()))) {
		return errors.New("a key is given twice, or it is not as agentjail writes it")
	}
	return nil
}
