package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// What the lab's servers are, for hosts in it. Nothing of it is seen outside.
const (
	serverName = "bench.example.test"
	serverAddr = "5.5.5.10"
	resolvConf = "nameserver " + serverAddr + "\n"
	greetsPort = 7001 // sends a byte and waits for the end
	givesPort  = 7002 // sends as long as the client reads
	takesPort  = 7003 // reads to the end, and reports how much it was
)

// A lab is a host in a network namespace of its own, with a way to servers in another, and a
// container's network behind it.
type lab struct {
	container string // the container's network namespace
}

// inLab calls f in a lab's host: what f runs from its own goroutine is there, with a resolv.conf
// that names the lab's name server.
func inLab(f func(*lab) error) error {
	servers, err := newPlace()
	if err != nil {
		return err
	}
	defer close(servers.work)
	container, err := newPlace()
	if err != nil {
		return err
	}
	defer close(container.work)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine, and the namespaces with the thread
		result <- beHost(servers, container, f)
	}()
	return <-result
}

// beHost makes the calling thread the host.
func beHost(servers, container *place, f func(*lab) error) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a host: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	conf, err := os.CreateTemp("", "resolv")
	if err != nil {
		return err
	}
	defer os.Remove(conf.Name())
	if _, err := conf.WriteString(resolvConf); err != nil {
		return err
	}
	conf.Close()
	if err := unix.Mount(conf.Name(), "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("the lab's resolv.conf: %w", err)
	}
	if err := ip([][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "wan", "type", "veth", "peer", "name", "eth0", "netns", servers.id}, {"addr", "add", "5.5.5.2/24", "dev", "wan"}, {"link", "set", "wan", "up"},
		{"link", "add", "box", "type", "veth", "peer", "name", "eth0", "netns", container.id}, {"addr", "add", "5.5.6.1/24", "dev", "box"}, {"link", "set", "box", "up"},
	}); err != nil {
		return err
	}
	if err := servers.do(func() error {
		if err := ip([][]string{
			{"link", "set", "lo", "up"}, {"addr", "add", serverAddr + "/24", "dev", "eth0"}, {"link", "set", "eth0", "up"}, {"route", "add", "5.5.6.0/24", "via", "5.5.5.2"},
		}); err != nil {
			return err
		}
		return serve()
	}); err != nil {
		return err
	}
	if err := container.do(func() error {
		return ip([][]string{
			{"link", "set", "lo", "up"}, {"addr", "add", "5.5.6.2/24", "dev", "eth0"}, {"link", "set", "eth0", "up"}, {"route", "add", "default", "via", "5.5.6.1"},
		})
	}); err != nil {
		return err
	}
	// Of this thread's network.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("have the lab's host forward: %w", err)
	}
	return f(&lab{container: fmt.Sprintf("/proc/%d/task/%s/ns/net", os.Getpid(), container.id)})
}

// A place is a thread in a network namespace of its own.
type place struct {
	id   string
	work chan func() error
	done chan error
}

func newPlace() (*place, error) {
	p := &place{work: make(chan func() error), done: make(chan error)}
	id := make(chan int, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the namespace ends with the thread
		id <- unix.Gettid()
		for f := range p.work {
			p.done <- f()
		}
	}()
	p.id = strconv.Itoa(<-id)
	if err := p.do(func() error { return unix.Unshare(unix.CLONE_NEWNET) }); err != nil {
		close(p.work)
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return p, nil
}

func (p *place) do(f func() error) error {
	p.work <- f
	return <-p.done
}

// ip calls ip(8) in the calling thread's network.
func ip(calls [][]string) error {
	for _, args := range calls {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// serve starts the servers in the calling thread's network. They end with the program.
func serve() error {
	names, err := net.ListenPacket("udp4", serverAddr+":53")
	if err != nil {
		return err
	}
	go answer(names)
	for port, serve := range map[int]func(net.Conn){
		greetsPort: func(c net.Conn) {
			_, _ = c.Write([]byte{1})
			_, _ = io.Copy(io.Discard, c)
		},
		givesPort: func(c net.Conn) {
			buf := make([]byte, 256<<10)
			for {
				if _, err := c.Write(buf); err != nil {
					return
				}
			}
		},
		takesPort: func(c net.Conn) {
			n, _ := io.CopyBuffer(io.Discard, struct{ io.Reader }{c}, make([]byte, 256<<10))
			_, _ = c.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
		},
	} {
		l, err := net.Listen("tcp4", net.JoinHostPort(serverAddr, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					serve(c)
				}()
			}
		}()
	}
	return nil
}

// answer is the name server: it knows one name.
func answer(c net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		r := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
		if q.Name.String() != serverName+"." {
			r.RCode = dnsmessage.RCodeNameError
		} else if q.Type == dnsmessage.TypeA {
			r.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: &dnsmessage.AResource{A: [4]byte{5, 5, 5, 10}}}}
		}
		if out, err := r.Pack(); err == nil {
			_, _ = c.WriteTo(out, from)
		}
	}
}
