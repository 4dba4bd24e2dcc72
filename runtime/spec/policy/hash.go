package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Hash names a policy by its content: "sha256:" and the digits of its JSON's hash. The policy's
// file does not count, so that two jails with the same hash were held to the same policy. Hash
// reads no credential: a policy has the places of the values, and not the values.
func (p Policy) Hash() string {
	p.Origin = nil
	data, err := json.Marshal(p)
	if err != nil {
		return "" // no type of a policy fails
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
