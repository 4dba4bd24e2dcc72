package decisions

// LogFiles are the log of decisions, lines of Event, in the jail's directory. They are written in
// turns.
var LogFiles = [2]string{"network.log", "network.log.1"}

// The subjects of an Event.
const (
	Name    = "name"    // a question for a name
	Connect = "connect" // a connection
	End     = "end"     // the end of one
	Publish = "publish" // a connection from outside to a port of the jail's
)

// Event is one line of the log, as JSON: a decision about a name or a connection.
type Event struct {
	Seq     uint64 `json:"seq,omitempty"` // each has the next one
	Time    string `json:"time"`          // RFC 3339, UTC
	What    string `json:"what"`          // Name, Connect or End
	Verdict string `json:"verdict"`       // "allowed" or "refused"
	Name    string `json:"name,omitempty"`
	Port    uint16 `json:"port,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	Address string `json:"address,omitempty"` // upstream, or of the client of a published port
	Sent    int64  `json:"sent,omitempty"`    // bytes from the jail
	Got     int64  `json:"got,omitempty"`     // bytes to the jail
	Millis  int64  `json:"ms,omitempty"`
	// Credential has the names of the credentials that were set in a connection's requests, or
	// whose placeholder was in the wrong place.
	Credential string `json:"credential,omitempty"`
	// Dropped is how many events before this one were dropped by the log's rate limit.
	Dropped int `json:"dropped,omitempty"`
}
