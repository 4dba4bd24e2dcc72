package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// identity reports who the process is for the kernel.
func identity([]string) (any, error) {
	status := map[string]string{}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			status[k] = strings.TrimSpace(v)
		}
	}
	groups, _ := os.Getgroups()
	links, err := linkNames()
	if err != nil {
		return nil, err
	}
	limits := map[string][2]uint64{}
	for name, which := range map[string]int{
		"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "core": unix.RLIMIT_CORE, "memlock": unix.RLIMIT_MEMLOCK,
	} {
		var r unix.Rlimit
		if unix.Getrlimit(which, &r) == nil {
			limits[name] = [2]uint64{r.Cur, r.Max}
		}
	}
	return map[string]any{
		"uid": os.Getuid(), "euid": os.Geteuid(), "gid": os.Getgid(), "egid": os.Getegid(), "groups": groups,
		"uid_map": fileText("/proc/self/uid_map"), "gid_map": fileText("/proc/self/gid_map"),
		"setgroups": fileText("/proc/self/setgroups"),
		"caps": map[string]string{
			"inheritable": status["CapInh"], "permitted": status["CapPrm"], "effective": status["CapEff"],
			"bounding": status["CapBnd"], "ambient": status["CapAmb"],
		},
		"no_new_privs": status["NoNewPrivs"], "seccomp": status["Seccomp"], "seccomp_filters": status["Seccomp_filters"],
		"lsm":   strings.TrimRight(fileText("/proc/self/attr/current"), "\x00"),
		"links": links, "up": up(links),
		"namespaces": namespaces(),
		"rlimits":    limits,
		"oom_adj":    fileText("/proc/self/oom_score_adj"),
		"hostname":   hostname(),
		"cwd":        cwdText(),
		"cgroup":     fileText("/proc/self/cgroup"),
		"exe":        linkText("/proc/self/exe"),
		"pid":        os.Getpid(),
	}, nil
}

func fileText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "error: " + err.Error()
	}
	return strings.Join(strings.Fields(strings.TrimSpace(string(text))), " ")
}

func linkText(path string) string {
	to, err := os.Readlink(path)
	if err != nil {
		return "error: " + err.Error()
	}
	return to
}

func hostname() string { h, _ := os.Hostname(); return h }

func cwdText() string {
	d, err := os.Getwd()
	if err != nil {
		return "error: " + err.Error()
	}
	return d
}

// namespaces maps each namespace's name to its identity, "time:[4026531834]" for example.
func namespaces() map[string]string {
	all := map[string]string{}
	entries, err := os.ReadDir("/proc/self/ns")
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	for _, e := range entries {
		all[e.Name()] = linkText("/proc/self/ns/" + e.Name())
	}
	return all
}

// linkNames are the names of the network interfaces.
func linkNames() (names []string, err error) {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if name, _, ok := strings.Cut(line, ":"); ok && i >= 2 {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names, nil
}

// up picks the interfaces that are up.
func up(links []string) (out []string) {
	for _, name := range links {
		if is, _ := ifUp(name); is {
			out = append(out, name)
		}
	}
	return out
}

// interfaces lists the network interfaces with their flags, addresses and the size of the route table.
func interfaces([]string) (any, error) {
	names, err := linkNames()
	if err != nil {
		return nil, err
	}
	type link struct {
		Name  string   `json:"name"`
		Up    bool     `json:"up"`
		Addrs []string `json:"addrs"`
	}
	var links []link
	for _, name := range names {
		l := link{Name: name}
		l.Up, l.Addrs = ifUp(l.Name)
		links = append(links, l)
	}
	routes := strings.Split(strings.TrimSpace(fileLines("/proc/net/route")), "\n")
	return map[string]any{"links": links, "routes": routes[1:], "tcp": fileLines("/proc/net/tcp")}, nil
}

func fileLines(path string) string { t, _ := os.ReadFile(path); return string(t) }

// ifUp uses an ioctl, which needs no netlink socket.
func ifUp(name string) (up bool, addrs []string) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, []string{err.Error()}
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return false, []string{err.Error()}
	}
	if unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr) == nil {
		up = ifr.Uint16()&unix.IFF_UP != 0
	}
	if unix.IoctlIfreq(fd, unix.SIOCGIFADDR, ifr) == nil {
		if a, err := ifr.Inet4Addr(); err == nil {
			addrs = append(addrs, net.IP(a).String())
		}
	}
	return up, addrs
}

// clocks reports how long the machine claims to be up, by each of the ways to read it.
func clocks([]string) (any, error) {
	var boot, mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return nil, err
	}
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return nil, err
	}
	return map[string]any{
		"boottime": float64(boot.Nano()) / 1e9, "monotonic": float64(mono.Nano()) / 1e9,
		"proc_uptime": fileText("/proc/uptime"),
	}, nil
}

// cwd tries to leave the root through the working directory and through descriptors inherited with it.
func cwd([]string) (any, error) {
	found := map[string]string{"cwd": cwdText(), "link": linkText("/proc/self/cwd")}
	var st, root unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		return nil, err
	}
	up := "."
	for range 40 {
		up += "/.."
	}
	if err := unix.Stat(up, &st); err != nil {
		found["above"] = "error: " + err.Error()
	} else if st.Dev != root.Dev || st.Ino != root.Ino {
		found["above"] = fmt.Sprintf("another root: device %d inode %d", st.Dev, st.Ino)
	}
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		if err := unix.Stat(l+"/"+up, &st); err == nil && (st.Dev != root.Dev || st.Ino != root.Ino) {
			found["fd "+filepath.Base(l)] = linkText(l)
		}
	}
	return found, nil
}
