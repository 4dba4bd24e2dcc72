package receipt

import (
	"bytes"
	"testing"
)

// TestPageHasItsStyle: the policy of the page names the style by its hash, so that not a byte of it may be changed by the renderer.
func TestPageHasItsStyle(t *testing.T) {
	var b bytes.Buffer
	if err := new(Receipt).HTML(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b.Bytes(), []byte("<style>"+style+"</style>")) {
		t.Error("the style on the page is not the one that was hashed")
	}
}
