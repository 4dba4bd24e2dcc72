package state

import "agentjail.dev/runtime/kernel/namespace"

// InNamespace returns the live jails of a delegate's root whose namespace of that kind, by its name
// in /proc/PID/ns, has this inode.
func (s Store) InNamespace(root, kind string, ino uint64) ([]*Brief, error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	var out []*Brief
	for _, k := range keys {
		j, err := s.Brief(k)
		if err != nil || j.DelegateRoot != root || !j.InitAlive() {
			continue
		}
		if has, err := namespace.Inode(j.InitPid, kind); err == nil && has == ino {
			out = append(out, j)
		}
	}
	return out, nil
}
