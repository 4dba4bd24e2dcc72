// Command dial measures connections from inside a container to the servers of hack/bench, and
// prints lines of a number, a tab, and a name.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

func main() {
	host := flag.String("host", "", "the servers' `NAME`")
	count := flag.Int("n", 100, "how many connections are made")
	ports := flag.String("ports", "", "three ports: where a byte comes, where data comes, and where data goes, as `A:B:C`")
	group := flag.String("group", "connections", "connections or throughput")
	flag.Parse()
	var greet, send, receive string
	if _, err := fmt.Sscanf(*ports, "%4s:%4s:%4s", &greet, &send, &receive); err != nil {
		fmt.Fprintln(os.Stderr, "dial: -ports:", err)
		os.Exit(2)
	}
	var err error
	if *group == "throughput" {
		err = throughput(*host, send, receive)
	} else {
		err = connections(*host, greet, *count)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dial:", err)
		os.Exit(1)
	}
}

// connections makes connections one after the other and reports what the middle one took until its
// first byte, and the slowest of a hundred.
func connections(host, port string, n int) error {
	addrs, err := net.LookupHost(host)
	if err != nil {
		return err
	}
	for _, to := range []struct{ what, host string }{{"connection", addrs[0]}, {"look-up and connection", host}} {
		var took []float64
		for range n {
			start := time.Now()
			c, err := net.Dial("tcp4", net.JoinHostPort(to.host, port))
			if err != nil {
				return err
			}
			_, err = io.ReadFull(c, make([]byte, 1))
			took = append(took, float64(time.Since(start).Nanoseconds())/1e3)
			c.Close()
			if err != nil {
				return err
			}
		}
		slices.Sort(took)
		fmt.Printf("%.1f\t%s, median\n%.1f\t%[2]s, 99 of 100\n", took[n/2], to.what, took[n*99/100])
	}
	return nil
}

// period is for how long data flows in one direction.
const period = 500 * time.Millisecond

// throughput reports how much one connection carries, in each direction.
func throughput(host, send, receive string) error {
	c, err := net.Dial("tcp4", net.JoinHostPort(host, send))
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 256<<10)
	start, sum := time.Now(), 0
	for time.Since(start) < period {
		n, err := c.Read(buf)
		if err != nil {
			return err
		}
		sum += n
	}
	fmt.Printf("%.1f\tto the container\n", float64(sum)/1e6/time.Since(start).Seconds())
	c.Close()
	if c, err = net.Dial("tcp4", net.JoinHostPort(host, receive)); err != nil {
		return err
	}
	defer c.Close()
	for start = time.Now(); time.Since(start) < period; {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	var count [8]byte // what has arrived there
	if _, err := io.ReadFull(c, count[:]); err != nil {
		return err
	}
	fmt.Printf("%.1f\tfrom the container\n", float64(binary.BigEndian.Uint64(count[:]))/1e6/time.Since(start).Seconds())
	return nil
}
