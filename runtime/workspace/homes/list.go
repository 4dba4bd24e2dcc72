package homes

import (
	"encoding/json"
	"path/filepath"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// List returns the homes below a directory, by the paths of their files. One whose description
// cannot be read is known by its path alone.
func List(dir string) (map[string]Home, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.ext4"))
	if err != nil {
		return nil, err
	}
	out := make(map[string]Home, len(files))
	for _, path := range files {
		var h Home
		if text, err := atomicfile.Read(about(path), maxAbout); err != nil || json.Unmarshal(text, &h) != nil {
			h = Home{}
		}
		out[path] = h
	}
	return out, nil
}
