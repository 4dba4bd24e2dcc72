package names

import (
	"fmt"
	"hash/fnv"
	"os"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/network"
)

// localPorts is the file with the range of ports that programs connect from (ip(7)), in the network
// namespace of the reading thread.
const localPorts = "/proc/sys/net/ipv4/ip_local_port_range"

// minShare is the minimum size of a jail's share: as many ports as there can be connections at
// once.
const minShare = 2048

// ports returns a jail's share of the ports that its helper connects from.
func ports(j network.Jail) (p helperproto.Ports, err error) {
	from, err := outside(j)
	if err != nil {
		return p, err
	}
	var text []byte
	read := func() (err error) {
		text, err = os.ReadFile(localPorts)
		return err
	}
	if from == nil {
		err = read()
	} else {
		defer from.Close()
		err = seal.Join(from, read)
	}
	if err == nil {
		_, err = fmt.Sscan(string(text), &p.First, &p.Last)
	}
	if err != nil {
		return p, fmt.Errorf("the ports that the helper connects from: %s: %w", localPorts, err)
	}
	return share(p, number(j)), nil
}

// number returns a jail's number among others: jails with consecutive ids have consecutive numbers.
func number(j network.Jail) uint32 {
	const ids = 16 // bits of a jail's range of ids
	if j.HelperID != 0 {
		return j.HelperID >> ids
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(j.Key))
	return h.Sum32()
}

// share returns the share of the jail with a number. An ended connection keeps its port for a
// minute (TIME_WAIT, RFC 9293 3.6.1), for its server alone. All jails' shares together are the
// upper half of the ports, so that jails cannot exhaust the host's own half. The number of shares
// is limited so that each is large enough.
func share(all helperproto.Ports, number uint32) helperproto.Ports {
	half := (int(all.Last) - int(all.First) + 1) / 2
	if half < 1 {
		return all
	}
	shares := max(1, half/minShare)
	size := half / shares
	first := int(all.Last) + 1 - half + int(number)%shares*size
	return helperproto.Ports{First: uint16(first), Last: uint16(first + size - 1)}
}
