// Package child is what a helper process knows of its start: the words between
// runtime/network/helper, which starts it, and its program.
package child

// Descriptors of a helper at its start. What its owner hands on besides follows.
const (
	// TellFD is the reading end of a pipe for the instructions by which the helper makes itself
	// ready. An end of file without instructions means that the helper is not wanted any more.
	TellFD  = 3
	ReadyFD = 4 // the writing end of a pipe for Ready, or for the error
	FirstFD = 5
)

// Ready is what a helper writes to ReadyFD once it is. Any other text is why it is not.
const Ready = "ready\n"
