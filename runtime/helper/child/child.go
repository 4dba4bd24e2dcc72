// Package child is what a helper process knows of its start: the words between runtime/helper, which starts it, and its program.
package child

import "strings"

// Descriptors of a helper at its start. What its owner hands on besides follows.
const (
	WorkFD  = 3 // the reading end of a pipe with its work; an end of file without any means that there is none
	ReadyFD = 4 // the writing end of a pipe for Serves, or for the error
	FirstFD = 5
)

// serves begins what a helper writes to ReadyFD once it serves.
const serves = "ready"

// Serves is what a helper writes to ReadyFD once it serves, with an answer of one line for its starter, or "". Any other text is why it
// does not.
func Serves(answer string) string {
	if answer != "" {
		answer = " " + answer
	}
	return serves + answer + "\n"
}

// Answer is the answer of a helper that serves; false for any other text.
func Answer(text string) (answer string, ok bool) {
	line, ok := strings.CutSuffix(text, "\n")
	if !ok || strings.Contains(line, "\n") {
		return "", false
	}
	if line == serves {
		return "", true
	}
	return strings.CutPrefix(line, serves+" ")
}
