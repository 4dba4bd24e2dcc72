package jailsock

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/publish"
)

// engineDNS is 127.0.0.11, the address of Docker's DNS server in a container's network namespace.
const engineDNS = 127<<24 | 11

// portsProgram sends all TCP connections over IPv4 to some ports of a network namespace to a
// listener there. It leaves all other traffic alone.
func portsProgram(sockets int, ranges []publish.Range) []insn {
	const pass, drop, assign = "pass", "drop", "assign"
	a := &assembler{labels: map[string]int{}, jumps: map[int]string{}}
	a.add(opMovReg, regs(6, 1), 0, 0)
	a.add(opLoadW, regs(2, 6), lookupFamily, 0)
	a.jump(opJneImm, 2, unix.AF_INET, pass)
	a.add(opLoadW, regs(2, 6), lookupProtocol, 0)
	a.jump(opJneImm, 2, unix.IPPROTO_TCP, pass)
	a.add(opLoadW, regs(2, 6), lookupLocalIP4, 0)
	a.add(opToBE, regs(2, 0), 0, 32)
	a.jump(opJeqImm, 2, engineDNS, pass)
	a.add(opStoreW, regs(10, 0), -4, 0)
	a.add(opLoadW, regs(4, 6), lookupPort, 0)
	for i, r := range ranges {
		next := fmt.Sprintf("range %d", i+1)
		a.jump(opJltImm, 4, int32(r.First), next)
		a.jump(opJgtImm, 4, int32(r.Last), next)
		a.jump(opJa, 0, 0, assign)
		a.label(next)
	}
	a.label(pass)
	a.add(opMovImm, 0, 0, skPass)
	a.add(opExit, 0, 0, 0)
	a.label(assign)
	a.steerTo(sockets, drop)
	a.jump(opJa, 0, 0, pass)
	a.label(drop)
	a.add(opMovImm, 0, 0, skDrop)
	a.add(opExit, 0, 0, 0)
	return a.assemble()
}

// DivertPorts sends TCP connections to some ports of the calling thread's network namespace to a
// listener, as long as this process lives.
func DivertPorts(l *net.TCPListener, ranges []publish.Range) error {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	_, err = steer(own, []syscall.Conn{l}, func(sockets int) []insn { return portsProgram(sockets, ranges) })
	return err
}
