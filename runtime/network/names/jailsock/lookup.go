package jailsock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/bpfmap"
)

// A program of type sk_lookup (Linux 5.9, Documentation/bpf/prog_sk_lookup.rst) picks the socket
// for each new connection that a network namespace receives. This program sends all TCP connections
// to 127.64.0.0/10, for every port, to one listener, and refuses all other traffic to that range.
// It also sends connections to a new helper's services whose ports are taken. It leaves all other
// traffic alone. It runs before bound sockets are searched, so that no program in the jail can come
// first.

// insn is struct bpf_insn (linux/bpf.h).
type insn struct {
	op  uint8
	reg uint8 // destination in the low half, source in the high one
	off int16
	imm int32
}

// Opcodes (Documentation/bpf/standardization/instruction-set.rst), helpers and fields
// (linux/bpf.h).
const (
	opLoadW   = 0x61 // dst = *(u32 *)(src + off)
	opLoadImm = 0x18 // dst = imm64, of two instructions
	opStoreW  = 0x62 // *(u32 *)(dst + off) = imm
	opMovReg  = 0xbf
	opMovImm  = 0xb7
	opAddImm  = 0x07
	opShrImm  = 0x77
	opToBE    = 0xdc
	opJneImm  = 0x55
	opJeqImm  = 0x15
	opJgtImm  = 0x25
	opJltImm  = 0xa5
	opJa      = 0x05
	opCall    = 0x85
	opExit    = 0x95

	pseudoMapFD = 1 // BPF_PSEUDO_MAP_FD

	fnMapLookup = 1
	fnSkRelease = 86
	fnSkAssign  = 124

	// Fields of struct bpf_sk_lookup.
	lookupFamily   = 8
	lookupProtocol = 12
	lookupLocalIP4 = 40
	lookupPort     = 60
)

// skDrop and skPass are the program's results.
const (
	skDrop = 0
	skPass = 1
)

// rangeBits are the first ten bits of 127.64.0.0/10.
const rangeBits = 127<<2 | 1

func regs(dst, src uint8) uint8 { return dst | src<<4 }

// oneAddress is 127.0.0.1.
const oneAddress = 127<<24 | 1

// program returns the program's instructions. Jumps are to labels, which assemble resolves. The
// listener is the first of the sockets, and those that have moved follow.
func program(sockets int, moved []movedSocket) []insn {
	const pass, drop, services, assign = "pass", "drop", "services", "assign"
	a := &assembler{labels: map[string]int{}, jumps: map[int]string{}}
	a.add(opMovReg, regs(6, 1), 0, 0)
	a.add(opLoadW, regs(2, 6), lookupFamily, 0)
	a.jump(opJneImm, 2, unix.AF_INET, pass)
	a.add(opLoadW, regs(2, 6), lookupLocalIP4, 0)
	a.add(opToBE, regs(2, 0), 0, 32)
	a.add(opLoadW, regs(3, 6), lookupProtocol, 0)
	if len(moved) > 0 {
		a.jump(opJeqImm, 2, oneAddress, services)
	}
	a.add(opShrImm, regs(2, 0), 0, 22)
	a.jump(opJneImm, 2, rangeBits, pass)
	a.jump(opJneImm, 3, unix.IPPROTO_TCP, drop)
	a.add(opStoreW, regs(10, 0), -4, 0)
	a.label(assign)
	a.steerTo(sockets, drop)
	a.label(pass)
	a.add(opMovImm, 0, 0, skPass)
	a.add(opExit, 0, 0, 0)
	a.label(drop)
	a.add(opMovImm, 0, 0, skDrop)
	a.add(opExit, 0, 0, 0)
	if len(moved) > 0 {
		a.label(services)
		a.add(opLoadW, regs(4, 6), lookupPort, 0)
	}
	for i, m := range moved {
		next := fmt.Sprintf("service %d", i+1)
		a.jump(opJneImm, 3, int32(m.Protocol), next)
		a.jump(opJneImm, 4, int32(m.Port), next)
		a.add(opStoreW, regs(10, 0), -4, int32(i+1))
		a.jump(opJa, 0, 0, assign)
		a.label(next)
	}
	if len(moved) > 0 {
		a.jump(opJa, 0, 0, pass)
	}
	return a.assemble()
}

// steerTo assigns a connection to the socket whose number is at the stack's top, or drops the
// connection.
func (a *assembler) steerTo(sockets int, drop string) {
	a.add(opLoadImm, regs(1, pseudoMapFD), 0, int32(sockets))
	a.add(0, 0, 0, 0)
	a.add(opMovReg, regs(2, 10), 0, 0)
	a.add(opAddImm, regs(2, 0), 0, -4)
	a.add(opCall, 0, 0, fnMapLookup)
	a.jump(opJeqImm, 0, 0, drop)
	a.add(opMovReg, regs(7, 0), 0, 0)
	a.add(opMovReg, regs(1, 6), 0, 0)
	a.add(opMovReg, regs(2, 0), 0, 0)
	a.add(opMovImm, regs(3, 0), 0, 0)
	a.add(opCall, 0, 0, fnSkAssign)
	a.add(opMovReg, regs(8, 0), 0, 0)
	a.add(opMovReg, regs(1, 7), 0, 0)
	a.add(opCall, 0, 0, fnSkRelease)
	a.jump(opJneImm, 8, 0, drop)
}

type assembler struct {
	out    []insn
	labels map[string]int
	jumps  map[int]string
}

func (a *assembler) add(op, reg uint8, off int16, imm int32) {
	a.out = append(a.out, insn{op, reg, off, imm})
}

func (a *assembler) jump(op, reg uint8, imm int32, to string) {
	a.jumps[len(a.out)] = to
	a.add(op, reg, 0, imm)
}

func (a *assembler) label(name string) { a.labels[name] = len(a.out) }

func (a *assembler) assemble() []insn {
	for at, to := range a.jumps {
		a.out[at].off = int16(a.labels[to] - at - 1)
	}
	return a.out
}

// Commands and attributes of bpf(2) (linux/bpf.h, union bpf_attr).
type (
	mapCreate struct {
		typ, keySize, valueSize, maxEntries, flags uint32
	}
	mapElem struct {
		fd    uint32
		_     uint32
		key   uint64
		value uint64
		flags uint64
	}
	progLoad struct {
		typ, insnCount             uint32
		insns, license             uint64
		logLevel, logSize          uint32
		log                        uint64
		kernVersion, flags         uint32
		name                       [16]byte
		ifindex, expectedAttachTyp uint32
	}
	linkCreate struct {
		prog, target, attachType, flags uint32
	}
)

// divert sends a network namespace's connections to the range to a listener in it, and connections
// to moved services to those services. It lasts as long as the returned descriptor and the
// namespace. It needs CAP_BPF (or CAP_SYS_ADMIN) and CAP_NET_ADMIN over the namespace.
func divert(netns *os.File, listener syscall.Conn, moved []movedSocket) (link int, err error) {
	listeners := []syscall.Conn{listener}
	for _, m := range moved {
		listeners = append(listeners, m.socket)
	}
	return steer(netns, listeners, func(sockets int) []insn { return program(sockets, moved) })
}

// steer attaches a program to a network namespace, with a map of the sockets that get the
// connections.
func steer(netns *os.File, listeners []syscall.Conn, text func(sockets int) []insn) (link int, err error) {
	m := mapCreate{typ: unix.BPF_MAP_TYPE_SOCKMAP, keySize: 4, valueSize: 8, maxEntries: uint32(len(listeners))}
	sockets, err := bpfmap.Call(unix.BPF_MAP_CREATE, unsafe.Pointer(&m), unsafe.Sizeof(m))
	if err != nil {
		return -1, fmt.Errorf("making a map of sockets: %w", err)
	}
	defer unix.Close(sockets)
	for i, l := range listeners {
		if err := put(sockets, i, l); err != nil {
			return -1, err
		}
	}
	prog, err := load(text(sockets))
	if err != nil {
		return -1, err
	}
	defer unix.Close(prog)
	l := linkCreate{prog: uint32(prog), target: uint32(netns.Fd()), attachType: unix.BPF_SK_LOOKUP}
	link, err = bpfmap.Call(unix.BPF_LINK_CREATE, unsafe.Pointer(&l), unsafe.Sizeof(l))
	if err != nil {
		return -1, fmt.Errorf("attaching the look-up of sockets to the network namespace: %w", err)
	}
	return link, nil
}

// put adds a socket to a map of sockets.
func put(sockets, at int, c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	key, value := new(uint32), new(uint64)
	*key = uint32(at)
	cerr := raw.Control(func(fd uintptr) {
		*value = uint64(fd)
		e := mapElem{fd: uint32(sockets), key: uint64(uintptr(unsafe.Pointer(key))), value: uint64(uintptr(unsafe.Pointer(value)))}
		_, err = bpfmap.Call(unix.BPF_MAP_UPDATE_ELEM, unsafe.Pointer(&e), unsafe.Sizeof(e))
		runtime.KeepAlive(key)
		runtime.KeepAlive(value)
	})
	if err = errors.Join(cerr, err); err != nil {
		return fmt.Errorf("adding a listener to a map of sockets: %w", err)
	}
	return nil
}

// load loads a program into the kernel, which verifies it.
func load(text []insn) (int, error) {
	raw := make([]byte, 0, len(text)*8)
	for _, i := range text {
		raw = append(raw, i.op, i.reg)
		raw = binary.NativeEndian.AppendUint16(raw, uint16(i.off))
		raw = binary.NativeEndian.AppendUint32(raw, uint32(i.imm))
	}
	license := []byte("Apache-2.0\x00")
	p := progLoad{
		typ: unix.BPF_PROG_TYPE_SK_LOOKUP, insnCount: uint32(len(text)), expectedAttachTyp: unix.BPF_SK_LOOKUP,
		insns: uint64(uintptr(unsafe.Pointer(&raw[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	copy(p.name[:], "agentjail_names")
	fd, err := bpfmap.Call(unix.BPF_PROG_LOAD, unsafe.Pointer(&p), unsafe.Sizeof(p))
	runtime.KeepAlive(raw)
	runtime.KeepAlive(license)
	if err != nil {
		return -1, fmt.Errorf("loading the look-up of sockets: %w", err)
	}
	return fd, nil
}
