package names

import (
	"testing"

	"agentjail.dev/tests/contract/promise"
)

// void are the tests of what a delegate with a sandbox does not have, with the reason.
var void = map[string]string{
	"TestPodSharesNetworkAndHelper": "a sandbox holds one container: a pod's second one is refused (tests/cri, TestSandboxedPod)",
	"TestReloadPod":                 "a sandbox holds one container: a pod's second one is refused (tests/cri, TestSandboxedPod)",
}

// skipVoid skips such a test over such a delegate.
func skipVoid(t *testing.T) {
	t.Helper()
	if why := void[t.Name()]; promise.Sandbox() != "" && why != "" {
		t.Skip("void: " + why)
	}
}
