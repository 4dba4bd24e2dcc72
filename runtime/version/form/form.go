// Package form numbers the form of what programs of two releases read: orders of the init step,
// records of jails and of views.
//
// Releases meet where one takes another's place under living jails. A reader takes each form from
// the oldest to its own. A field that a form lacks has its zero value, as before that field was
// known. A newer form may hold what the reader would overlook, so the reader refuses it.
package form

import (
	"errors"
	"strconv"
)

// number and oldest are Number and Oldest as text, so that a test can build another release
// (go build -ldflags "-X agentjail.dev/runtime/version/form.number=11").
var number, oldest = "10", "8"

// Number is the form that this build writes. It rises with each change that an older reader must
// not overlook: in the orders with each field.
var Number = parse(number)

// Oldest is the oldest form that this build reads.
var Oldest = parse(oldest)

// Unnumbered is the form of records without a number.
const Unnumbered = 8

func parse(text string) int {
	n, _ := strconv.Atoi(text) // 0 reads nothing
	return n
}

// Reads reports whether this build reads a form; 0 is Unnumbered.
func Reads(n int) bool {
	if n == 0 {
		n = Unnumbered
	}
	return n >= Oldest && n <= Number
}

// Check returns nil for a form that this build reads. The error names the build's forms. Its remedy
// is the release that wrote the record, or other, unless that is "".
func Check(n int, other string) error {
	if Reads(n) {
		return nil
	}
	if n == 0 {
		n = Unnumbered
	}
	if other != "" {
		other = ", or " + other
	}
	return errors.New("its record has form " + strconv.Itoa(n) + ", of another release of agentjail: this one reads forms " +
		strconv.Itoa(Oldest) + " to " + strconv.Itoa(Number) + " (remedy: the release that made it" + other + ")")
}
