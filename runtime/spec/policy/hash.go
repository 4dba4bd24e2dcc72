package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Hash names a policy by its content: "sha256:" and the digits of its JSON's hash. Where it came from does not count, so that two jails
// with the same hash were held to the same policy. It reads no credential: a policy reports where values are, and has none.
func (p Policy) Hash() string {
	p.Origin = nil
	data, err := json.Marshal(p)
	if err != nil {
		return "" // no type of a policy fails
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
