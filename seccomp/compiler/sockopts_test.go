package compiler

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// A sockopt is an option that a language's runtime sets on an ordinary socket by itself, or by a
// call of its library that names no option.
type sockopt struct {
	name          string
	level, option uint64
	// source names the runtimes, each with the file that sets the option.
	source string
	// answer is "" for an option that the kernel sets. Otherwise it is what a program sees, and
	// why is the reason, with what the runtime does then.
	answer, why string
}

const (
	jdk     = "JDK 17, 21, 25: libnio/ch/Net.c"
	jdkMore = "JDK 17, 21, 25: libextnet/LinuxSocketOptions.c"
	libuv   = "node, uvloop: libuv src/unix/udp.c, tcp.c"
	golang  = "Go: net/sockopt_linux.go, sockopt_posix.go, sockoptip4_linux.go, sockoptip6_posix.go, tcpsockopt_posix.go"
	quicGo  = "Go: quic-go sys_conn_oob.go, sys_conn_df_linux.go, sys_conn_buffers.go"
	rust    = "Rust: std sys/net/connection/socket, mio src/sys/unix/tcp.rs, socket2"
	quinn   = "Rust: quinn-udp/src/unix.rs"
	python  = "Python: asyncio/base_events.py, socket.py, socketserver.py, http/client.py"
	dotnet  = ".NET: System.Native/pal_networking.c, SocketPal.Unix.cs"
	erlang  = "Erlang: erts/emulator/drivers/common/inet_drv.c"
	mdns    = "multicast-dns (npm), python3-zeroconf"
)

const (
	noJoin    = "a join takes memory that nothing counts, under the lock of all network namespaces; Java, node's multicast-dns and Go report it as not supported"
	noBuffer  = "buffers are memory that version 1 of control groups does not count; programs end where it fails"
	noOffload = "offload of UDP has code of its own; quinn and quic-go send and receive single datagrams"
)

var sockopts = []sockopt{
	{"SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, join(jdk, libuv, golang, rust, python, dotnet, erlang, mdns), "", ""},
	{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, join(jdk, libuv, python, dotnet, mdns), "", ""},
	{"SO_BROADCAST", unix.SOL_SOCKET, unix.SO_BROADCAST, join(jdk, libuv, golang, python, erlang), "", ""},
	{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, join(jdk, libuv, golang, python, erlang), "", ""},
	{"SO_LINGER", unix.SOL_SOCKET, unix.SO_LINGER, join(jdk, libuv, golang, erlang), "", ""},
	{"SO_OOBINLINE", unix.SOL_SOCKET, unix.SO_OOBINLINE, jdk, "", ""},
	{"SO_PRIORITY", unix.SOL_SOCKET, unix.SO_PRIORITY, erlang, "", ""},
	{"SO_RCVTIMEO", unix.SOL_SOCKET, unix.SO_RCVTIMEO, join(rust, dotnet), "", ""},
	{"SO_SNDTIMEO", unix.SOL_SOCKET, unix.SO_SNDTIMEO, join(rust, dotnet), "", ""},
	{"SO_PASSCRED", unix.SOL_SOCKET, unix.SO_PASSCRED, "Rust, Python, Go: D-Bus over Unix sockets", "", ""},
	{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, join(jdk, libuv, golang, erlang, quicGo), seccomp.Done, noBuffer},
	{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, join(jdk, libuv, golang, erlang, quicGo), seccomp.Done, noBuffer},
	{"SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, quicGo, "ENOPROTOOPT", "it takes CAP_NET_ADMIN; quic-go logs it"},
	{"SO_SNDBUFFORCE", unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, quicGo, "ENOPROTOOPT", "it takes CAP_NET_ADMIN; quic-go logs it"},

	{"TCP_NODELAY", unix.SOL_TCP, unix.TCP_NODELAY, join(jdk, libuv, golang, rust, python, dotnet, erlang), "", ""},
	{"TCP_KEEPIDLE", unix.SOL_TCP, unix.TCP_KEEPIDLE, join(jdkMore, libuv, golang, rust, dotnet), "", ""},
	{"TCP_KEEPINTVL", unix.SOL_TCP, unix.TCP_KEEPINTVL, join(jdkMore, libuv, golang, rust, dotnet), "", ""},
	{"TCP_KEEPCNT", unix.SOL_TCP, unix.TCP_KEEPCNT, join(jdkMore, libuv, golang, rust, dotnet), "", ""},
	{"TCP_QUICKACK", unix.SOL_TCP, unix.TCP_QUICKACK, jdkMore, "", ""},
	{"TCP_USER_TIMEOUT", unix.SOL_TCP, unix.TCP_USER_TIMEOUT, "Go, Java, Rust: gRPC, hyper-util", "", ""},
	{"TCP_FASTOPEN", unix.SOL_TCP, unix.TCP_FASTOPEN, dotnet, "", ""},
	{"TCP_ULP", unix.SOL_TCP, unix.TCP_ULP, "node, Python: OpenSSL with kernel TLS", "ENOPROTOOPT", "kernel TLS; OpenSSL goes on in the program"},

	{"IP_TOS", unix.SOL_IP, unix.IP_TOS, join(jdk, erlang, dotnet), "", ""},
	{"IP_TTL", unix.SOL_IP, unix.IP_TTL, join(libuv, dotnet), "", ""},
	{"IP_PKTINFO", unix.SOL_IP, unix.IP_PKTINFO, join(quicGo, quinn, dotnet), "", ""},
	{"IP_RECVTOS", unix.SOL_IP, unix.IP_RECVTOS, join(quicGo, quinn, erlang), "", ""},
	{"IP_RECVTTL", unix.SOL_IP, unix.IP_RECVTTL, erlang, "", ""},
	{"IP_RECVERR", unix.SOL_IP, unix.IP_RECVERR, join(libuv, quinn), "", ""},
	{"IP_MTU_DISCOVER", unix.SOL_IP, unix.IP_MTU_DISCOVER, join(jdkMore, quicGo, quinn, dotnet), "", ""},
	{"IP_MULTICAST_IF", unix.SOL_IP, unix.IP_MULTICAST_IF, join(jdk, libuv, golang, dotnet, erlang, mdns), "", ""},
	{"IP_MULTICAST_TTL", unix.SOL_IP, unix.IP_MULTICAST_TTL, join(jdk, libuv, dotnet, erlang, mdns), "", ""},
	{"IP_MULTICAST_LOOP", unix.SOL_IP, unix.IP_MULTICAST_LOOP, join(jdk, libuv, golang, dotnet, erlang, mdns), "", ""},
	{"IP_MULTICAST_ALL", unix.SOL_IP, unix.IP_MULTICAST_ALL, jdk, "", ""},
	{"IP_UNICAST_IF", unix.SOL_IP, unix.IP_UNICAST_IF, "the same choice for datagrams to one receiver", "", ""},
	{"IP_ADD_MEMBERSHIP", unix.SOL_IP, unix.IP_ADD_MEMBERSHIP, join(jdk, libuv, golang, mdns), "ENOPROTOOPT", noJoin},
	{"IP_DROP_MEMBERSHIP", unix.SOL_IP, unix.IP_DROP_MEMBERSHIP, join(jdk, libuv), "ENOPROTOOPT", noJoin},
	{"IP_ADD_SOURCE_MEMBERSHIP", unix.SOL_IP, unix.IP_ADD_SOURCE_MEMBERSHIP, join(jdk, libuv), "ENOPROTOOPT", noJoin},

	{"IPV6_V6ONLY", unix.SOL_IPV6, unix.IPV6_V6ONLY, join(jdk, libuv, golang, python, dotnet, erlang), "", ""},
	{"IPV6_UNICAST_HOPS", unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS, join(libuv, dotnet), "", ""},
	{"IPV6_TCLASS", unix.SOL_IPV6, unix.IPV6_TCLASS, join(jdk, erlang), "", ""},
	{"IPV6_RECVTCLASS", unix.SOL_IPV6, unix.IPV6_RECVTCLASS, join(quicGo, quinn, erlang), "", ""},
	{"IPV6_RECVHOPLIMIT", unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, erlang, "", ""},
	{"IPV6_RECVPKTINFO", unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, join(jdk, quicGo, quinn, dotnet), "", ""},
	{"IPV6_RECVERR", unix.SOL_IPV6, unix.IPV6_RECVERR, join(libuv, quinn), "", ""},
	{"IPV6_MTU_DISCOVER", unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, join(jdkMore, quicGo, quinn), "", ""},
	{"IPV6_DONTFRAG", unix.SOL_IPV6, unix.IPV6_DONTFRAG, quinn, "", ""},
	{"IPV6_MULTICAST_IF", unix.SOL_IPV6, unix.IPV6_MULTICAST_IF, join(jdk, libuv, golang, dotnet, mdns), "", ""},
	{"IPV6_MULTICAST_HOPS", unix.SOL_IPV6, unix.IPV6_MULTICAST_HOPS, join(jdk, libuv, dotnet, mdns), "", ""},
	{"IPV6_MULTICAST_LOOP", unix.SOL_IPV6, unix.IPV6_MULTICAST_LOOP, join(jdk, libuv, golang, dotnet, mdns), "", ""},
	{"IPV6_MULTICAST_ALL", unix.SOL_IPV6, unix.IPV6_MULTICAST_ALL, jdk, "", ""},
	{"IPV6_UNICAST_IF", unix.SOL_IPV6, unix.IPV6_UNICAST_IF, "the same choice for datagrams to one receiver", "", ""},
	{"IPV6_JOIN_GROUP", unix.SOL_IPV6, unix.IPV6_JOIN_GROUP, join(jdk, libuv, golang), "ENOPROTOOPT", noJoin},
	{"IPV6_LEAVE_GROUP", unix.SOL_IPV6, unix.IPV6_LEAVE_GROUP, join(jdk, libuv), "ENOPROTOOPT", noJoin},
	{"MCAST_JOIN_SOURCE_GROUP", unix.SOL_IPV6, unix.MCAST_JOIN_SOURCE_GROUP, join(jdk, libuv), "ENOPROTOOPT", noJoin},

	{"UDP_GRO", unix.SOL_UDP, unix.UDP_GRO, quinn, "ENOPROTOOPT", noOffload},
	{"UDP_SEGMENT", unix.SOL_UDP, unix.UDP_SEGMENT, quinn, "ENOPROTOOPT", noOffload},
	{
		"SO_BINDTODEVICE", unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "Erlang (bind_to_device), Rust (hyper-util), on request", "ENOPROTOOPT",
		"TCP would reach addresses to which no route leads; before Linux 5.7 it takes CAP_NET_RAW, so that programs report it",
	},
}

func join(sources ...string) (out string) {
	for i, s := range sources {
		if i > 0 {
			out += "; "
		}
		out += s
	}
	return out
}

// TestSocketOptions: what runtimes set by themselves passes both filters in each profile that has
// sockets, and what does not pass has a reason. Each option can be read. In profile tools, whose
// sockets are pairs, setting an option is refused as a call.
func TestSocketOptions(t *testing.T) {
	for _, profile := range seccomp.Profiles() {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, kill := range []bool{false, true} {
				s, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: arch, Kill: kill})
				if err != nil {
					t.Fatal(err)
				}
				entries, err := seccomp.Entries(profile, arch)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(entries, func(e seccomp.Entry) bool { return e.Name == "socket" && e.Errno == "" }) {
					continue
				}
				wide, _ := seccomp.WithEntry(s)
				filters := [][]bpf.Insn{compile(t, wide), compile(t, s)}
				answer := func(call string, o sockopt) string {
					nr, _ := abi.Number(call, arch)
					got, err := bpf.Stacked(filters, &bpf.Data{NR: nr, Arch: arches[s.Architectures[0]].audit, Args: [6]uint64{3, o.level, o.option}})
					switch {
					case err != nil:
						t.Fatal(err)
					case got == bpf.RetAllow:
						return ""
					case got == bpf.RetErrno:
						return seccomp.Done
					case got&bpf.RetActionFull == bpf.RetErrno:
						return seccomp.ErrnoName(got & bpf.RetData)
					}
					return "ends the process"
				}
				for _, o := range sockopts {
					if got := answer("setsockopt", o); got != o.answer {
						t.Errorf("%s on %s, kill %v: setting %s: %q, want %q (%s)", profile, arch, kill, o.name, got, o.answer, o.source)
					}
					if got := answer("getsockopt", o); got != "" {
						t.Errorf("%s on %s, kill %v: reading %s: %q", profile, arch, kill, o.name, got)
					}
				}
			}
		}
	}
	for _, o := range sockopts {
		if o.source == "" || (o.answer == "") != (o.why == "") {
			t.Errorf("%s: no source, or no reason of a refusal: %+v", o.name, o)
		}
	}
}
