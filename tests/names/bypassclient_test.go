package names

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
)

// A verdict is what became of an attempt.
type verdict struct {
	What   string `json:"what"`
	Passed bool   `json:"passed"`
	Got    string `json:"got"`
}

// The parts of the table, which the test has tried one after the other.
const (
	partControls = "controls" // allowed: each works
	partClosed   = "closed"   // nothing may arrive outside
	partOpen     = "open"     // what stands before the fault is allowed, and arrives
)

// attemptTime bounds an attempt. What is refused is refused at once; this is for a busy machine.
const attemptTime = 60 * time.Second

// part are the rows of a part of the table.
func part(name string) []attempt {
	if name == partControls {
		return allowances
	}
	var out []attempt
	for _, a := range refusals() {
		if a.most == 0 && name == partClosed || a.most > 0 && name == partOpen {
			out = append(out, a)
		}
	}
	return out
}

// allowances are what works, before and after: without them a dead helper would pass the test.
var allowances = []attempt{
	{what: "TLS", do: "talk", at: "api.example.test:443", say: hello(sni("api.example.test"))},
	{what: "TLS by a wildcard", do: "talk", at: "a.wild.example.test:443", say: hello(sni("a.wild.example.test"))},
	{what: "HTTP", do: "talk", at: "api.example.test:80", say: "GET / HTTP/1.1\r\nHost: api.example.test\r\n\r\n"},
	{what: "a server that speaks first", do: "talk", at: "api.example.test:22", say: "sent"},
	{what: "a name with an IPv6 address alone", do: "talk", at: "six.trap.example.test:22", say: "sent"},
	{what: "CONNECT", do: "connect", say: connectTo("api.example.test:443")},
	{what: "SOCKS5", do: "socks", say: socksName("api.example.test", 443)},
	{what: "SOCKS5 to an address that is granted", do: "socks", say: "\x05\x01\x00\x01\x05\x05\x05\x0a\x00\x16"},
	{what: "a look-up", do: "look", at: "API.Example.Test."},
	{what: "a question", do: "query and wait", say: question("api.example.test.", 1, 1)},
	{what: "a question over TCP", do: "query over TCP", say: framed(question("api.example.test.", 1, 1))},
}

// beAttacker is a program in a jail. Each line of its input names a part of the table, and the process id of the helper on the host;
// it writes a line for each row, and an empty one when all are done.
func beAttacker() int {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		name, pid, _ := strings.Cut(lines.Text(), " ")
		helperPID, _ = strconv.Atoi(pid)
		out := json.NewEncoder(os.Stdout)
		if flood := floods[name]; flood != nil {
			got, err := flood()
			if err != nil {
				got += ": " + err.Error()
			}
			_ = out.Encode(verdict{What: name, Passed: err == nil, Got: got})
		} else {
			tryAll(part(name), out)
		}
		fmt.Println()
	}
	return 0
}

// helperPID is the helper's on the host.
var helperPID int

// tryAll tries rows, many at a time, and those that change something one after the other.
func tryAll(rows []attempt, out *json.Encoder) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	try := func(a attempt) {
		got, err := kinds[a.do](a)
		v := verdict{What: a.what, Passed: err == nil, Got: got}
		if err != nil {
			v.Got = err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(v)
	}
	var later []attempt
	for _, a := range rows {
		if a.do == "call" {
			later = append(later, a)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() { try(a); <-slots })
	}
	wg.Wait()
	for _, a := range later {
		try(a)
	}
}

// errRefused is of an attempt that got an answer, and not the one it was for.
var errRefused = errors.New("refused")

func refusedBy(out []byte) error { return fmt.Errorf("%w: %.80q", errRefused, out) }

// kinds are the kinds of clients. An error is a refusal.
var kinds map[string]func(attempt) (string, error)

func init() {
	kinds = map[string]func(attempt) (string, error){
		"look": look, "query": query1, "query and wait": queryAndWait, "query over TCP": queryTCP, "udp": sendUDP, "call": func(a attempt) (string, error) { return "", systemCalls[a.at]() },
		"socks":     func(a attempt) (string, error) { return socksRaw("\x05\x01\x00" + a.say) },
		"socks raw": func(a attempt) (string, error) { return socksRaw(a.say) },
		"connect": func(a attempt) (string, error) {
			out, err := exchangeAt("127.0.0.1:3128", a.say, nil)
			if !strings.HasPrefix(string(out), "HTTP/1.1 200 ") {
				return "", errors.Join(err, refusedBy(out))
			}
			return string(out), nil
		},
		"talk":            func(a attempt) (string, error) { return talkTo(a.at, a, nil) },
		"talk behind":     talkBehind,
		"talk by CONNECT": func(a attempt) (string, error) { return talkBy("CONNECT", a) },
		"talk by SOCKS5":  func(a attempt) (string, error) { return talkBy("SOCKS5", a) },
	}
}

func look(a attempt) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, a.at)
	if err != nil {
		return "", err
	}
	for _, at := range addrs {
		if ip, err := netip.ParseAddr(at); err == nil && netip.MustParsePrefix("127.64.0.0/10").Contains(ip) {
			return at, nil
		}
	}
	return "", fmt.Errorf("%w: %v", errRefused, addrs)
}

// answered reports whether a name server's answer gives anything.
func answered(out []byte) (string, error) {
	var m dnsmessage.Message
	if err := m.Unpack(out); err != nil {
		return "", err
	}
	if len(m.Answers) == 0 || m.RCode != dnsmessage.RCodeSuccess {
		return "", fmt.Errorf("%w: %v, %d answers", errRefused, m.RCode, len(m.Answers))
	}
	return fmt.Sprint(m.Answers), nil
}

// query1 sends a query over UDP. A query without an answer is known by a second one that has an answer.
func query1(a attempt) (string, error) {
	c, err := net.Dial("udp4", "127.0.0.1:53")
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(attemptTime))
	after := "\xab\xcd" + question("none.example.test.", 1, 1)[2:]
	buf := make([]byte, 4096)
	for _, say := range []string{a.say, after} {
		if _, err := c.Write([]byte(say)); err != nil {
			return "", err
		}
	}
	var first []byte
	for range 2 {
		n, err := c.Read(buf)
		if err != nil {
			return "", err
		}
		if n > 1 && buf[0] == 0xab {
			if first == nil {
				// There are two that answer: the first answer may still come.
				_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
				continue
			}
			break
		}
		first = append([]byte{}, buf[:n]...)
	}
	return answered(first)
}

// queryAndWait sends a query over UDP that must be answered.
func queryAndWait(a attempt) (string, error) {
	out, err := exchangeUDP("127.0.0.1:53", a.say, attemptTime)
	if err != nil {
		return "", err
	}
	return answered(out)
}

// queryTCP sends queries over TCP. It is the last answer that counts.
func queryTCP(a attempt) (string, error) {
	out, err := exchangeAt("127.0.0.1:53", a.say, nil)
	last := out
	for len(out) > 2 {
		n := int(binary.BigEndian.Uint16(out))
		if n+2 > len(out) {
			break
		}
		last, out = out[2:n+2], out[n+2:]
	}
	got, aerr := answered(last)
	if aerr != nil {
		return "", errors.Join(err, aerr)
	}
	return got, nil
}

func sendUDP(a attempt) (string, error) {
	// There is no answer, or the answer that no process is there: what arrives outside is what counts.
	out, err := exchangeUDP(a.at, a.say, 200*time.Millisecond)
	return string(out), err
}

// exchangeUDP states something over UDP and returns what is answered within a time.
func exchangeUDP(at, say string, patience time.Duration) ([]byte, error) {
	c, err := net.Dial("udp", at)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Write([]byte(say)); err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	return buf[:n], err
}

func socksRaw(say string) (string, error) {
	out, err := exchangeAt("127.0.0.1:1080", say, nil)
	if len(out) < 4 || string(out[2:4]) != "\x05\x00" {
		return "", errors.Join(err, refusedBy(out))
	}
	return string(out), nil
}

// exchangeAt sends something and returns all that is answered until the other side, or a time, ends it.
func exchangeAt(at, say string, first func(net.Conn) error) ([]byte, error) {
	c, err := net.DialTimeout("tcp", at, attemptTime)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(attemptTime))
	if first != nil {
		if err := first(c); err != nil {
			return nil, err
		}
	}
	if _, err := io.WriteString(c, say); err != nil {
		return nil, err
	}
	_ = c.(*net.TCPConn).CloseWrite()
	return io.ReadAll(c)
}

// reached counts the answers of servers outside.
func reached(out []byte) int {
	n := strings.Count(string(out), "served ") + strings.Count(string(out), "hello\n")
	if strings.HasPrefix(string(out), "\x16\x03") {
		n++
	}
	return n
}

func talkTo(at string, a attempt, first func(net.Conn) error) (string, error) {
	out, err := exchangeAt(at, a.say, first)
	if reached(out) <= a.most {
		return "", errors.Join(err, refusedBy(out))
	}
	return fmt.Sprintf("%.200q", out), nil
}

func talkBy(by string, a attempt) (string, error) {
	host, _, _ := net.SplitHostPort(a.at)
	return talkTo(proxies[by].at, a, func(c net.Conn) error { return proxies[by].ask(c, host, a.at) })
}

// talkBehind talks to the address behind the one of a name.
func talkBehind(a attempt) (string, error) {
	host, port, _ := net.SplitHostPort(a.at)
	at, err := look(attempt{at: host})
	if err != nil {
		return "", err
	}
	return talkTo(net.JoinHostPort(netip.MustParseAddr(at).Next().String(), port), a, nil)
}

// systemCalls are attempts by system calls. An error is a refusal.
var systemCalls = map[string]func() error{
	"killing the helper":         func() error { return unix.Kill(theHelper(), unix.SIGKILL) },
	"stopping the helper":        func() error { return unix.Kill(theHelper(), unix.SIGSTOP) },
	"a signal to a thread of it": func() error { return unix.Tgkill(theHelper(), theHelper(), unix.SIGKILL) },
	"ptrace of the helper":       func() error { return unix.PtraceAttach(theHelper()) },
	"a pidfd of the helper":      func() error { _, err := unix.PidfdOpen(theHelper(), 0); return err },
	"the helper's memory":        func() error { return opens(fmt.Sprintf("/proc/%d/mem", theHelper())) },
	"the helper's priority":      func() error { return unix.Setpriority(unix.PRIO_PROCESS, theHelper(), 19) },
	"the helper's limits":        func() error { return unix.Prlimit(theHelper(), unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil) },
	"the helper's descriptors":   func() error { return opens(fmt.Sprintf("/proc/%d/fd", theHelper())) },
	"the helper's namespace":     func() error { return opens(fmt.Sprintf("/proc/%d/ns/net", theHelper())) },
	"the helper among processes": listed,
	"the host's first namespace": func() error { return joins("/proc/1/ns/net") },
	"a new network namespace":    unshared,
	"abstract sockets":           abstract,
	"taking port 53":             func() error { return takes(unix.SOCK_STREAM, "127.0.0.1:53", false) },
	"taking port 53 of UDP":      func() error { return takes(unix.SOCK_DGRAM, "127.0.0.1:53", false) },
	"sharing port 53":            func() error { return takes(unix.SOCK_STREAM, "127.0.0.1:53", true) },
	"sharing port 53 of UDP":     func() error { return takes(unix.SOCK_DGRAM, "127.0.0.1:53", true) },
	"port 53 of every address":   func() error { return takes(unix.SOCK_DGRAM, "0.0.0.0:53", true) },
	"taking the CONNECT port":    func() error { return takes(unix.SOCK_STREAM, "127.0.0.1:3128", false) },
	"sharing the CONNECT port":   func() error { return takes(unix.SOCK_STREAM, "127.0.0.1:3128", true) },
	"taking the SOCKS port":      func() error { return takes(unix.SOCK_STREAM, "127.0.0.1:1080", false) },
	"sharing the SOCKS port":     func() error { return takes(unix.SOCK_STREAM, "127.0.0.1:1080", true) },
	"a listener on a name":       func() error { return instead("0.0.0.0:8443") },
	"a listener on its address":  func() error { return instead("api.example.test:8443") },
	"UDP on a name":              insteadUDP,
	"SO_BINDTODEVICE":            func() error { return dialWith(unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "wan") },
	"SO_BINDTODEVICE lo":         func() error { return dialWith(unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo") },
	"IP_TRANSPARENT":             func() error { return dialFrom(unix.IPPROTO_IP, unix.IP_TRANSPARENT) },
	"IP_FREEBIND":                func() error { return dialFrom(unix.IPPROTO_IP, unix.IP_FREEBIND) },
	"SO_MARK":                    func() error { return dialWith(unix.SOL_SOCKET, unix.SO_MARK, "\x01\x00\x00\x00") },
	"SO_DONTROUTE":               func() error { return dialWith(unix.SOL_SOCKET, unix.SO_DONTROUTE, "\x01\x00\x00\x00") },
	"a source route":             func() error { return dialWith(unix.IPPROTO_IP, unix.IP_OPTIONS, "\x83\x07\x04\x05\x05\x05\x02\x00") },
	"TCP Fast Open":              func() error { return sends(unix.AF_INET, unix.SOCK_STREAM, 0, unix.MSG_FASTOPEN) },
	"a route":                    func() error { return netlink(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, defaultRoute()) },
	"an address": func() error {
		return netlink(unix.NETLINK_ROUTE, unix.RTM_NEWADDR, "\x02\x18\x00\x00\x01\x00\x00\x00\x08\x00\x02\x00\x05\x05\x05\x09")
	},
	"a rule": func() error {
		return netlink(unix.NETLINK_ROUTE, unix.RTM_NEWRULE, "\x02\x00\x00\x00\xfe\x00\x00\x01\x00\x00\x00\x00")
	},
	"a dummy interface":                func() error { return netlink(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, link("dummy")) },
	"a veth pair":                      func() error { return netlink(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, link("veth")) },
	"a bridge":                         func() error { return netlink(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, link("bridge")) },
	"a tunnel":                         func() error { return netlink(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, link("ipip")) },
	"a packet filter":                  func() error { return netlink(unix.NETLINK_NETFILTER, 10<<8, "\x00\x00\x00\x00") },
	"a TUN device":                     func() error { return opens("/dev/net/tun") },
	"forwarding":                       func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) },
	"routes of localhost":              func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/route_localnet", []byte("1"), 0) },
	"a program of BPF":                 bpfProgram,
	"io_uring":                         ioUring,
	"a packet socket":                  packets,
	"a socket of virtual machines":     func() error { return sendsTo(unix.AF_VSOCK, unix.SOCK_STREAM, 0, &unix.SockaddrVM{CID: 2, Port: 443}) },
	"Bluetooth":                        func() error { return opened(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1) },
	"CAN":                              func() error { return opened(unix.AF_CAN, unix.SOCK_RAW, 1) },
	"a socket of the kernel's ciphers": func() error { return opened(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },
	"XDP":                              func() error { return opened(unix.AF_XDP, unix.SOCK_RAW, 0) },
}

func init() {
	for _, f := range families {
		systemCalls[f.what] = func() error { return sends(f.domain, f.typ, f.prot, 0) }
	}
}

// theHelper is the helper's number, which in the jail is the overflow user's: one that the jail has itself is not tried.
func theHelper() int {
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", helperPID)); err == nil && !strings.HasPrefix(string(text), "agentjail-egres") || helperPID <= 1 {
		return 1 << 22
	}
	return helperPID
}

// listed looks for the helper among what /proc shows.
func listed() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if text, err := os.ReadFile("/proc/" + e.Name() + "/comm"); err == nil && strings.HasPrefix(string(text), "agentjail-egres") {
			return nil
		}
	}
	return errors.New("it is not there")
}

func opens(path string) error {
	f, err := os.Open(path)
	if err == nil {
		f.Close()
	}
	return err
}

// joins connects from the network namespace of another. The jail's own first process has the jail's.
func joins(path string) error {
	return thread.Own(func() error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return err
		}
		return sends(unix.AF_INET, unix.SOCK_STREAM, 0, 0)
	})
}

// unshared connects from a namespace of its own, which has no way out either.
func unshared() error {
	return thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return sends(unix.AF_INET, unix.SOCK_STREAM, 0, 0)
	})
}

// abstract connects to every abstract socket of the jail's network namespace.
func abstract() error {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if _, name, ok := strings.Cut(line, " @"); ok {
			if c, err := net.Dial("unix", "@"+strings.TrimSpace(name)); err == nil {
				c.Close()
				return nil
			}
		}
	}
	return errors.New("there is none")
}

func addr4(at string) *unix.SockaddrInet4 {
	host, port, _ := net.SplitHostPort(at)
	if _, err := netip.ParseAddr(host); err != nil {
		host, _ = look(attempt{at: host})
	}
	n, _ := strconv.Atoi(port)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return &unix.SockaddrInet4{}
	}
	return &unix.SockaddrInet4{Addr: ip.As4(), Port: n}
}

// takes binds to what is the helper's.
func takes(typ int, at string, share bool) error {
	fd, err := unix.Socket(unix.AF_INET, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if share {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err := unix.Bind(fd, addr4(at)); err != nil {
		return err
	}
	if typ == unix.SOCK_STREAM {
		return unix.Listen(fd, 1)
	}
	return nil
}

// instead listens where connections to a name would arrive, and looks whether one does.
func instead(at string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, addr4(at)); err != nil {
		return err
	}
	if err := unix.Listen(fd, 8); err != nil {
		return err
	}
	if c, err := net.DialTimeout("tcp", "api.example.test:8443", attemptTime); err == nil {
		defer c.Close()
	}
	_, _, err = unix.Accept(fd)
	return err
}

// insteadUDP is instead for UDP.
func insteadUDP() error {
	c, err := net.ListenPacket("udp4", "0.0.0.0:4433")
	if err != nil {
		return err
	}
	defer c.Close()
	_, _ = sendUDP(attempt{at: "api.example.test:4433", say: "bypass"})
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, _, err = c.ReadFrom(make([]byte, 16))
	return err
}

// opened makes a socket.
func opened(domain, typ, prot int) error {
	fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, prot)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// sends connects or sends to a server outside.
func sends(domain, typ, prot, flags int) error {
	return sendsTo2(domain, typ, prot, flags, &unix.SockaddrInet4{Addr: netip.MustParseAddr(serverAddr).As4(), Port: 443}, nil)
}

func sendsTo(domain, typ, prot int, to unix.Sockaddr) error {
	return sendsTo2(domain, typ, prot, 0, to, nil)
}

func sendsTo2(domain, typ, prot, flags int, to unix.Sockaddr, set func(fd int) error) error {
	fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, prot)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if set != nil {
		if err := set(fd); err != nil {
			return err
		}
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 5})
	if flags == 0 {
		if err := unix.Connect(fd, to); err != nil {
			return err
		}
		_, err := unix.Write(fd, []byte("bypass"))
		return err
	}
	return unix.Sendto(fd, []byte("bypass"), flags, to)
}

// dialWith connects outside with a socket option.
func dialWith(level, option int, value string) error {
	return sendsTo2(unix.AF_INET, unix.SOCK_STREAM, 0, 0, addr4(serverAddr+":443"), func(fd int) error { return unix.SetsockoptString(fd, level, option, value) })
}

// dialFrom connects outside from the host's address, with an option that lets a program have any.
func dialFrom(level, option int) error {
	return sendsTo2(unix.AF_INET, unix.SOCK_STREAM, 0, 0, addr4(serverAddr+":443"), func(fd int) error {
		if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
			return err
		}
		return unix.Bind(fd, addr4(hostAddr+":0"))
	})
}

// packets sends a frame with a packet socket, on lo, which is all there is: to itself at most.
func packets() error {
	return sendsTo(unix.AF_PACKET, unix.SOCK_DGRAM, 0x0008, &unix.SockaddrLinklayer{Protocol: 0x0008, Ifindex: 2})
}

// netlink has the kernel change something.
func netlink(protocol int, typ uint16, body string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b = append(append(b, 0, 0, 0, 0, 0, 0, 0, 0), body...)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil || n < 20 {
		return errors.Join(err, errRefused)
	}
	if code := int32(binary.NativeEndian.Uint32(buf[16:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// defaultRoute is a route to everything by lo.
func defaultRoute() string {
	return "\x02\x00\x00\x00\xfe\x03\x00\x01\x00\x00\x00\x00\x08\x00\x04\x00\x01\x00\x00\x00"
}

// link is a new interface of a kind.
func link(kind string) string {
	pad := func(s string) string { return s + strings.Repeat("\x00", (4-len(s)%4)%4) }
	attr := func(typ uint16, body string) string {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(body)))
		return pad(string(binary.NativeEndian.AppendUint16(b, typ)) + body)
	}
	return strings.Repeat("\x00", 16) + attr(unix.IFLA_LINKINFO, attr(1, kind))
}

func bpfProgram() error {
	var attr [128]byte
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), uintptr(len(attr)))
	if errno == unix.EINVAL { // it was let through, and looked at
		return nil
	}
	return errno
}

func ioUring() error {
	var params [120]byte
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno == 0 {
		unix.Close(int(fd))
		return nil
	}
	return errno
}
