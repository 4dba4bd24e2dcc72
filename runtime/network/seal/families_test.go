package seal

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFamilies: lo of a network by name has an address of each family that glibc counts, and to none of them leads
// anything that was not there before.
func TestFamilies(t *testing.T) {
	s := newSpace(t)
	for range 2 { // start can be called again
		r, err := SealByName(s.file)
		if err != nil {
			t.Fatal(err)
		}
		if m := r.Missing(); len(m) > 0 || r.Addresses > 0 {
			t.Fatalf("missing %+v, %d addresses removed", m, r.Addresses)
		}
	}
	found, err := Verify(s.file)
	if m := missing(found); err != nil || len(m) > 0 {
		t.Errorf("verified: %v, %+v", err, m)
	}
	s.do(func() {
		lo, err := net.InterfaceByIndex(loopback)
		if err != nil {
			t.Error(err)
			return
		}
		addrs, err := lo.Addrs()
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{"127.0.0.1/8", "127.0.0.2/8", "::1/128", "100::1/128"} {
			if !slices.ContainsFunc(addrs, func(a net.Addr) bool { return a.String() == want }) {
				t.Errorf("lo is without %s: %v", want, addrs)
			}
		}
		for _, a := range []string{"[100::1]:9", "[100::2]:9", "192.0.2.1:9"} {
			if _, err := net.Dial("tcp", a); !errors.Is(err, unix.ENETUNREACH) {
				t.Errorf("%s: %v, want network unreachable", a, err)
			}
		}
		if err := echo("tcp", "[::]:0", "100::1"); err == nil {
			t.Error("the address of the second family can be connected to")
		}
		if err := echo("tcp", "[::]:0", "::1"); err != nil {
			t.Errorf("::1: %v", err)
		}
	})
	// What another jail that joins does takes them from no one, and one more address is still found.
	mustSeal(t, s)
	if err := s.ip("address", "add", "10.9.8.7/32", "dev", "lo"); err != nil {
		t.Fatal(err)
	}
	if found, _ := Verify(s.file); len(missing(found)) != 1 {
		t.Errorf("with a further address: %+v", found)
	}
	if r, err := SealByName(s.file); err != nil || r.Addresses != 1 {
		t.Errorf("%v, %d addresses removed", err, r.Addresses)
	}
}

// TestNoFamilies: an empty network has lo's own addresses alone, and its seal adds none.
func TestNoFamilies(t *testing.T) {
	s := newSpace(t)
	mustSeal(t, s)
	s.do(func() {
		lo, err := net.InterfaceByIndex(loopback)
		if err != nil {
			t.Error(err)
			return
		}
		if addrs, err := lo.Addrs(); err != nil || len(addrs) != 2 {
			t.Errorf("%v: %v", addrs, err)
		}
	})
}

// TestFamiliesWithoutIPv6: lo without IPv6 stays so.
func TestFamiliesWithoutIPv6(t *testing.T) {
	s := newSpace(t)
	var err error
	s.do(func() { err = os.WriteFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6", []byte("1"), 0) })
	if err != nil {
		t.Fatal(err)
	}
	if r, err := SealByName(s.file); err != nil || len(r.Missing()) > 0 {
		t.Errorf("%v: %+v", err, r.Missing())
	}
}

// resolve calls getaddrinfo(3) for each family, without AI_ADDRCONFIG and with it, and prints what is known.
const resolve = `
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
int main(void) {
	const struct { int family; const char *host; } of[] = {{AF_INET, "127.0.0.1"}, {AF_INET6, "::1"}, {AF_UNSPEC, "127.0.0.1"}, {AF_UNSPEC, "::1"}};
	for (int i = 0; i < 8; i++) {
		struct addrinfo hints = {.ai_family = of[i/2].family, .ai_socktype = SOCK_STREAM, .ai_flags = i%2 ? AI_ADDRCONFIG : 0}, *a;
		char text[64] = "";
		int err = getaddrinfo(of[i/2].host, "80", &hints, &a);
		if (!err) err = getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, 0, 0, NI_NUMERICHOST);
		puts(err ? gai_strerror(err) : text);
	}
}`

// TestAddrConfig: getaddrinfo(3) with AI_ADDRCONFIG knows what it knows without, in each family and with each C library.
func TestAddrConfig(t *testing.T) {
	for _, compiler := range []string{"gcc", "musl-gcc"} {
		t.Run(compiler, func(t *testing.T) {
			s := newSpace(t)
			if _, err := exec.LookPath(compiler); err != nil {
				t.Skip("needs " + compiler)
			}
			if _, err := SealByName(s.file); err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(t.TempDir(), "resolve")
			compile := exec.Command(compiler, "-x", "c", "-o", program, "-")
			compile.Stdin = strings.NewReader(resolve)
			if out, err := compile.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var out []byte
			var err error
			s.do(func() { out, err = exec.Command(program).CombinedOutput() })
			const v4, v6 = "127.0.0.1\n127.0.0.1\n", "::1\n::1\n"
			if want := v4 + v6 + v4 + v6; err != nil || string(out) != want {
				t.Errorf("%v: got\n%s\nwant\n%s", err, out, want)
			}
		})
	}
}
