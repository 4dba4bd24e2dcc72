package guest

import (
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// TestScope: the domain keeps signals and abstract sockets inside where no namespace was seen to do so.
func TestScope(t *testing.T) {
	const signals, sockets = unix.LANDLOCK_SCOPE_SIGNAL, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	pid, net := jailinit.Namespace{Name: "pid"}, jailinit.Namespace{Name: "net"}
	for _, c := range []struct {
		name string
		o    jailinit.Orders
		want uint64
	}{
		{"both namespaces", jailinit.Orders{Namespaces: []jailinit.Namespace{pid, net, net}}, 0},
		{"its processes alone", jailinit.Orders{Namespaces: []jailinit.Namespace{pid}}, sockets},
		{"its network alone", jailinit.Orders{Namespaces: []jailinit.Namespace{net}}, signals},
		{"none", jailinit.Orders{}, signals | sockets},
		{"not looked at", jailinit.Orders{Namespaces: []jailinit.Namespace{pid, net}, Without: []string{"namespaces"}}, signals | sockets},
	} {
		if got := scope(&c.o); got != c.want {
			t.Errorf("%s: %x, not %x", c.name, got, c.want)
		}
	}
}
