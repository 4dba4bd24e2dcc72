package install

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// registrable says whether an engine can be given these runtimes. own says which names the engine has for itself; def is the one to make its
// default, "" for none.
func registrable(engine string, own func(name string) bool, runtimes []Runtime, def string) error {
	if len(runtimes) == 0 {
		return errors.New("no runtime to register")
	}
	var names []string
	for _, r := range runtimes {
		switch {
		case !runtimeName().MatchString(r.Name):
			return fmt.Errorf("runtime name %q: at most 64 letters, digits, dots, underscores and dashes are allowed", r.Name)
		case own(r.Name):
			return fmt.Errorf("runtime name %q is %s's own (remedy: another --name)", r.Name, engine)
		case slices.Contains(names, r.Name):
			return fmt.Errorf("runtime name %q is there twice", r.Name)
		case !filepath.IsAbs(r.Path) || filepath.Clean(r.Path) != r.Path:
			return fmt.Errorf("runtime %s: %q is not a plain absolute path", r.Name, r.Path)
		}
		names = append(names, r.Name)
	}
	if def != "" && !slices.Contains(names, def) {
		return fmt.Errorf("default runtime %q is not among the names to register (%s)", def, strings.Join(names, ", "))
	}
	return nil
}
