package policy

import (
	"fmt"
	"path/filepath"

	"agentjail.dev/runtime/kernel/trusted"
)

// maxFile bounds the policy file, so that a wrong path (a device, a log)
// cannot fill memory.
const maxFile = 1 << 20

// readTrusted reads a file that only root can have written.
func readTrusted(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("policy path %q must be absolute", path)
	}
	data, err := trusted.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	return data, nil
}
