// Package child holds the protocol between a starting helper process and runtime/network/helper,
// which starts it.
package child

// Descriptors of a helper at its start. Further files of its owner follow.
const (
	// SetupFD is the reading end of a pipe for the instructions by which the helper makes itself
	// ready. An end of file without instructions means that the helper is not wanted any more.
	SetupFD = 3
	ReadyFD = 4 // the writing end of a pipe for Ready, or for the error
	FirstFD = 5
)

// Ready is written to ReadyFD by a helper that is ready. Any other text is the error.
const Ready = "ready\n"
