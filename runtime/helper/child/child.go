// Package child is what a helper process knows of its start: the words between runtime/helper, which starts it, and its program.
package child

// Descriptors of a helper at its start. What its owner hands on besides follows.
const (
	WorkFD  = 3 // the reading end of a pipe with its work; an end of file without any means that there is none
	ReadyFD = 4 // the writing end of a pipe for Ready, or for the error
	FirstFD = 5
)

// Ready is what a helper writes to ReadyFD once it serves. Any other text is why it does not.
const Ready = "ready\n"
