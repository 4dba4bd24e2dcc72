package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// What the lab's servers are, for hosts in it. Nothing of it is seen outside.
const (
	serverName  = "bench.example.test"
	serverAddr  = "5.5.5.10"
	resolvConf  = "nameserver " + serverAddr + "\n"
	greetPort   = 7001 // sends a byte and waits for the end
	sendPort    = 7002 // sends as long as the client reads
	receivePort = 7003 // reads to the end, and reports how much it was
)

// A lab is a host in a network namespace of its own, with a way to servers in another, and a
// container's network behind it.
type lab struct {
	container string // the container's network namespace
}

// inLab calls f in a lab's host: what f runs from its own goroutine is there, with a resolv.conf
// that names the lab's name server.
func inLab(f func(*lab) error) error {
	servers, err := env.NewPlace()
	if err != nil {
		return err
	}
	defer servers.Close()
	container, err := env.NewPlace()
	if err != nil {
		return err
	}
	defer container.Close()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine, and the namespaces with the thread
		result <- beHost(servers, container, f)
	}()
	return <-result
}

// beHost makes the calling thread the host.
func beHost(servers, container *env.Place, f func(*lab) error) error {
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
	if err := env.IP(
		"link set lo up",
		fmt.Sprintf("link add wan type veth peer name eth0 netns %d", servers.TID), "addr add 5.5.5.2/24 dev wan", "link set wan up",
		fmt.Sprintf("link add box type veth peer name eth0 netns %d", container.TID), "addr add 5.5.6.1/24 dev box", "link set box up",
	); err != nil {
		return err
	}
	if err := servers.Do(func() error {
		if err := env.IP("addr add "+serverAddr+"/24 dev eth0", "link set eth0 up", "route add 5.5.6.0/24 via 5.5.5.2"); err != nil {
			return err
		}
		return serve()
	}); err != nil {
		return err
	}
	if err := container.Do(func() error {
		return env.IP("addr add 5.5.6.2/24 dev eth0", "link set eth0 up", "route add default via 5.5.6.1")
	}); err != nil {
		return err
	}
	// Of this thread's network.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("have the lab's host forward: %w", err)
	}
	return f(&lab{container: fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), container.TID)})
}

// serve starts the servers in the calling thread's network. They end with the program.
func serve() error {
	names, err := net.ListenPacket("udp4", serverAddr+":53")
	if err != nil {
		return err
	}
	go env.ServeNames(names, func(q dnsmessage.Question) ([]dnsmessage.Resource, bool) {
		return env.Address(q, 60, netip.MustParseAddr(serverAddr)), q.Name.String() == serverName+"."
	})
	for port, serve := range map[int]func(net.Conn){
		greetPort: func(c net.Conn) {
			_, _ = c.Write([]byte{1})
			_, _ = io.Copy(io.Discard, c)
		},
		sendPort: func(c net.Conn) {
			buf := make([]byte, 256<<10)
			for {
				if _, err := c.Write(buf); err != nil {
					return
				}
			}
		},
		receivePort: func(c net.Conn) {
			n, _ := io.CopyBuffer(io.Discard, struct{ io.Reader }{c}, make([]byte, 256<<10))
			_, _ = c.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
		},
	} {
		l, err := net.Listen("tcp4", net.JoinHostPort(serverAddr, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		go env.Serve(l, serve)
	}
	return nil
}
