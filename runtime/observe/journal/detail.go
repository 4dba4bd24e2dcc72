package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"agentjail.dev/runtime/kernel/printable"
)

// A Detail is the payload of a kind of event, beside the fields that several kinds share: a struct
// of this file. Code here and in the tests of the docs covers a new field of such a struct; the
// receipt shows the fields that it reads.
type Detail interface {
	// kind is the kind that has this payload.
	kind() Kind
}

// Created is the identity of a jail.
type Created struct {
	Name       string `json:"name,omitempty"`       // the engine's
	Image      string `json:"image,omitempty"`      // the engine's name of it
	Engine     string `json:"engine,omitempty"`     // by the bundle's place
	Root       string `json:"root,omitempty"`       // the image's root file system
	Bundle     string `json:"bundle,omitempty"`     // the engine's
	Record     string `json:"record,omitempty"`     // Docker's directory of the container
	PolicyName string `json:"policyName,omitempty"` // of a named policy
	Seccomp    string `json:"seccomp,omitempty"`    // the profile
	Network    string `json:"network,omitempty"`    // the mode
	Delegate   string `json:"delegate,omitempty"`   // its path
	Version    string `json:"version,omitempty"`    // agentjail's
	User       string `json:"user,omitempty"`       // UID:GID in the jail
	Invoker    uint32 `json:"invoker,omitempty"`    // on whose behalf root made it; 0 is root itself
	// Allow are the names that the call listed in place of the policy's (sandbox --allow, --agent).
	Allow []string `json:"allow,omitempty"`
	// Set is how many fields of the bundle hardening set or lowered, by ring.
	Set [3]int `json:"set"`
	// Writable are the places in the jail of the host's directories that it can write to.
	Writable []string `json:"writable,omitempty"`
	// Capabilities are what the jail's root keeps.
	Capabilities []string `json:"capabilities,omitempty"`
}

// Amounts are the most that a jail used of what control groups count; 0 is not known. The receipt
// shows each field that is not 0 by its label, in its unit (bytes, seconds or a number): a further
// one is a field here and its counter in package lifecycle.
type Amounts struct {
	Memory int64   `json:"memoryPeakBytes,omitempty" label:"memory at most" unit:"bytes"`
	Pids   int64   `json:"pidsPeak,omitempty" label:"processes at most"`
	CPU    float64 `json:"cpuSeconds,omitempty" label:"processor time" unit:"seconds"`
}

// Used is what a jail had used when it was deleted.
type Used struct {
	Amounts
	// Layer is nil for a jail whose layer could not be read.
	Layer *LayerUse `json:"layer,omitempty"`
}

// LayerUse is how full the jail's layer was.
type LayerUse struct {
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes"`
	// More reports that the layer has more files than the events jail.files list.
	More bool `json:"more,omitempty"`
}

// Files are some of the files in a jail's layer when it was deleted.
type Files struct {
	Files []File `json:"files"`
}

// A File is a path of the layer, with the letter of `agentjail diff`.
type File struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
}

// Mounted is what was changed in the mounted directory of the event's Path: numbers in one event,
// names in those behind it.
type Mounted struct {
	// Unseen is why the directory was not looked at, in place of all else.
	Unseen string `json:"unseen,omitempty"`
	// View is the id of the view into which the jail wrote: the other fields are about its layer,
	// and the directory was not written to. "" is the directory itself.
	View string `json:"view,omitempty"`
	// Entries is how many files were looked at, and Changed how many of these were changed.
	Entries int `json:"entries,omitempty"`
	Changed int `json:"changed,omitempty"`
	// Short is why not all files were looked at.
	Short string `json:"short,omitempty"`
	// Names are below Path and begin with a slash.
	Names []string `json:"names,omitempty"`
}

// ViewOpened is a view that the jail has of the directory at the event's Path.
type ViewOpened struct {
	View      string `json:"view"`      // its id
	Directory string `json:"directory"` // on the host
	// Size is the size of its layer, in bytes.
	Size int64 `json:"size"`
}

// ViewApplied is what was applied of a view.
type ViewApplied struct {
	View      string `json:"view"`
	Directory string `json:"directory"`
	// Applied, Left and Conflicts are numbers of paths.
	Applied   int `json:"applied"`
	Left      int `json:"left,omitempty"`
	Conflicts int `json:"conflicts,omitempty"`
	// Sums is the hash of the list of the applied regular files' hashes, in their order, as
	// sha256sum(1) prints them in the directory: "sha256:" and 64 digits; "" without such a file.
	Sums string `json:"sums,omitempty"`
}

// ViewDiscarded is a view that was removed.
type ViewDiscarded struct {
	View      string `json:"view"`
	Directory string `json:"directory"`
}

// Arrived is what the host runs, or is led by, of a mounted directory: numbers in one event, one
// thing in each of those behind it.
type Arrived struct {
	Total int `json:"total,omitempty"`
	// Short is why not all files were looked at.
	Short string `json:"short,omitempty"`
	// What is the sort of the one thing, at the event's Target: "gitlink", "repository", "hook" or
	// "setting".
	What string `json:"what,omitempty"`
}

// Teardown is what was looked for after a jail's removal.
type Teardown struct {
	Gone    []Part `json:"gone,omitempty"`
	Remains []Part `json:"remains,omitempty"`
}

// A Part is one thing that was made for a jail.
type Part struct {
	Kind string `json:"kind"`
	What string `json:"what"`
}

// Inspected is what `agentjail inspect` found, by ring.
type Inspected struct {
	Rings [3]RingState `json:"rings"`
}

// RingState is how many protections of a ring hold, and which are missing on this host.
type RingState struct {
	Holds   int      `json:"holds"`
	Missing []string `json:"missing,omitempty"`
}

// Stale is what git could not replace in the repository of the event's Path.
type Stale struct {
	// Files are the first tracked protected files of which the index has another version, below
	// Path, and Total is their number.
	Files []string `json:"files,omitempty"`
	Total int      `json:"total"`
	// Committed reports that commits were made after a switch to another branch.
	Committed bool `json:"committed,omitempty"`
}

func (Created) kind() Kind { return JailCreate }
func (Used) kind() Kind    { return JailUsed }
func (Files) kind() Kind   { return JailFiles }
func (Mounted) kind() Kind { return JailMounted }
func (Arrived) kind() Kind { return JailArrived }

func (ViewOpened) kind() Kind    { return WorkspaceOpen }
func (ViewApplied) kind() Kind   { return WorkspaceApply }
func (ViewDiscarded) kind() Kind { return WorkspaceDiscard }

func (Teardown) kind() Kind  { return JailTeardown }
func (Inspected) kind() Kind { return JailInspected }
func (Stale) kind() Kind     { return GitStale }

// details decode the payload of each kind that has one.
var details = map[Kind]func([]byte) (Detail, error){
	JailCreate: decodeDetail[Created], JailUsed: decodeDetail[Used], JailFiles: decodeDetail[Files],
	JailMounted:   decodeDetail[Mounted],
	WorkspaceOpen: decodeDetail[ViewOpened], WorkspaceApply: decodeDetail[ViewApplied],
	WorkspaceDiscard: decodeDetail[ViewDiscarded],
	JailArrived:      decodeDetail[Arrived], JailTeardown: decodeDetail[Teardown], JailInspected: decodeDetail[Inspected],
	GitStale: decodeDetail[Stale],
}

func decodeDetail[T Detail](data []byte) (Detail, error) {
	var d T
	err := json.Unmarshal(data, &d)
	return d, err
}

// UnmarshalJSON decodes an event with the payload of its kind. An unknown kind, and a payload of a
// kind that has none, are errors.
func (e *Event) UnmarshalJSON(data []byte) error {
	type Fields Event
	in := struct {
		*Fields
		Detail json.RawMessage `json:"detail"`
	}{Fields: (*Fields)(e)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	e.Detail = nil
	if len(in.Detail) == 0 || bytes.Equal(in.Detail, []byte("null")) {
		return nil
	}
	decode := details[e.Kind]
	if decode == nil {
		return fmt.Errorf("%s has no detail", e.Kind)
	}
	d, err := decode(in.Detail)
	if err != nil {
		return fmt.Errorf("the detail of %s: %w", e.Kind, err)
	}
	e.Detail = d
	return nil
}

// A cleaner copies a payload: its text printable, its lists and all of its text together bounded.
type cleaner struct {
	left int // bytes of text that may follow
	cut  int // entries of lists that were left out
}

// cleaned returns a copy of a payload with at most max bytes of text, and how many entries of its
// lists are not in it.
func cleaned(d Detail, max int) (Detail, int) {
	c := cleaner{left: max}
	out := reflect.New(reflect.TypeOf(d)).Elem()
	c.copy(out, reflect.ValueOf(d))
	return out.Interface().(Detail), c.cut
}

func (c *cleaner) copy(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.String:
		s := printable.Line(from.String(), max(1, min(maxText, c.left)))
		c.left -= len(s)
		to.SetString(s)
	case reflect.Struct:
		for i := range from.NumField() {
			c.copy(to.Field(i), from.Field(i))
		}
	case reflect.Array:
		for i := range from.Len() {
			c.copy(to.Index(i), from.Index(i))
		}
	case reflect.Slice:
		for i := range from.Len() {
			if i == maxList || c.left <= 0 {
				c.cut += from.Len() - i
				break
			}
			entry := reflect.New(from.Type().Elem()).Elem()
			c.copy(entry, from.Index(i))
			to.Set(reflect.Append(to, entry))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			c.copy(to.Elem(), from.Elem())
		}
	default: // numbers and flags
		to.Set(from)
	}
}
