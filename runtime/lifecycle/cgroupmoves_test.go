package lifecycle

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExpediteMovesNothing: the move that moves nothing is made, and leaves this process where it
// is.
func TestExpediteMovesNothing(t *testing.T) {
	groups := func() string {
		text, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := groups()
	fd := ownGroup()
	if fd < 0 {
		t.Skip("no control group of this process's can be written to here")
	}
	defer unix.Close(fd)
	if n, err := unix.Write(fd, []byte("0")); n != 1 || err != nil {
		t.Errorf("moving this process to where it is: %d, %v", n, err)
	}
	stop := expediteMoves()
	stop()
	if after := groups(); after != before {
		t.Errorf("the control groups were\n%sand are\n%s", before, after)
	}
}
