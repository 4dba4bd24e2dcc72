package lifecycle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/runtime/state"
)

// TestMissingIsLoggedOnce: a protection that the host lacks is logged at the first start after a
// boot, what a bundle lost at every one.
func TestMissingIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&log)
	rt := &Runtime{Store: state.Store{Root: t.TempDir()}, Log: logger}
	r := new(report.Report)
	r.Add(report.Change{Ring: rings.Access, Kind: report.Missing, Field: "process.apparmorProfile", Why: "no AppArmor in this kernel"})
	r.Add(report.Change{Ring: rings.Access, Kind: report.Denied, Field: "process.capabilities", Was: "CAP_SYS_ADMIN", Why: "none is needed"})
	for range 3 {
		rt.logUnmet(r)
	}
	if n := strings.Count(log.String(), "cannot hold"); n != 1 {
		t.Errorf("the missing protection is logged %d times:\n%s", n, &log)
	}
	if n := strings.Count(log.String(), "agentjail: denied: "); n != 3 {
		t.Errorf("the lost grant is logged %d times:\n%s", n, &log)
	}
}
