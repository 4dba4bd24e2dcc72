package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// attack goes at every process that can be seen, and at what the kernel shows of the machine, and reports what gave way.
// An empty answer means that nothing did.
func attack([]string) (any, error) {
	broke := map[string]string{}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, p := range procs {
		pid, _ := strconv.Atoi(filepath.Base(p))
		if pid == os.Getpid() {
			continue
		}
		if f, err := os.OpenFile(p+"/mem", os.O_RDWR, 0); err == nil {
			f.Close()
			// The jail's other processes are the agent's own. One that has ended since has no namespace.
			if ns, err := os.Readlink(p + "/ns/user"); !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) && ns != linkText("/proc/self/ns/user") {
				broke[fmt.Sprintf("open %s/mem", p)] = linkText(p+"/exe") + " in " + ns
			}
		}
		// CVE-2019-5736 and -2024-21626: the runtime's binary or a directory of the host behind a link.
		if f, err := os.OpenFile(p+"/exe", os.O_WRONLY, 0); err == nil {
			f.Close()
			broke[fmt.Sprintf("write %s/exe", p)] = linkText(p + "/exe")
		}
	}
	for path, text := range hostKnobs {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		if strings.HasPrefix(path, "/dev/") {
			f.Close()
			broke["open "+path] = "for writing" // and no more: it may be the machine's disk
			continue
		}
		// What the runtime masks is the null device: it takes anything.
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
			f.Close()
			continue
		}
		// An open that works is not yet a write that does: write back what is there.
		old, rerr := os.ReadFile(path)
		if rerr == nil && len(old) > 0 && !strings.HasPrefix(path, "/proc/self/") {
			text = string(old)
		}
		if _, err := f.WriteString(text); err == nil {
			broke["write "+path] = "written"
		} else if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
			broke["write "+path] = errnoName(err)
		}
		f.Close()
	}
	return broke, nil
}

// hostKnobs are files of the whole machine that must not take a write from inside, with a harmless value for those that
// cannot be read first.
var hostKnobs = map[string]string{
	"/proc/sysrq-trigger":                         "",
	"/proc/sys/kernel/core_pattern":               "core",
	"/proc/sys/kernel/modprobe":                   "/sbin/modprobe",
	"/proc/sys/kernel/hostname":                   "probe",
	"/proc/sys/kernel/panic":                      "0",
	"/proc/sys/kernel/printk":                     "4",
	"/proc/sys/kernel/randomize_va_space":         "2",
	"/proc/sys/vm/drop_caches":                    "",
	"/proc/sys/vm/overcommit_memory":              "0",
	"/proc/sys/fs/file-max":                       "",
	"/proc/sys/fs/binfmt_misc/register":           "",
	"/proc/sys/net/ipv4/ip_forward":               "0",
	"/proc/sys/user/max_user_namespaces":          "",
	"/proc/irq/default_smp_affinity":              "",
	"/proc/acpi/wakeup":                           "",
	"/proc/scsi/scsi":                             "",
	"/proc/mtrr":                                  "",
	"/proc/bus/pci/00/00.0":                       "",
	"/sys/kernel/mm/transparent_hugepage/enabled": "",
	"/sys/kernel/uevent_helper":                   "",
	"/sys/kernel/profiling":                       "",
	"/sys/module/kernel/parameters/panic":         "",
	"/sys/block/vda/queue/scheduler":              "",
	"/sys/fs/cgroup/memory/memory.limit_in_bytes": "",
	"/sys/fs/cgroup/pids/pids.max":                "max",
	"/sys/fs/cgroup/devices/devices.allow":        "a *:* rwm",
	"/sys/fs/cgroup/cgroup.procs":                 "0",
	"/sys/fs/cgroup/pids.max":                     "max",
	"/sys/fs/cgroup/memory.max":                   "max",
	"/sys/fs/cgroup/release_agent":                "",
	"/sys/fs/cgroup/rdma/release_agent":           "",
	"/sys/fs/cgroup/memory/release_agent":         "",
	"/sys/fs/cgroup/systemd/release_agent":        "",
	"/proc/self/oom_score_adj":                    "-1000",
	"/dev/kmsg":                                   "",
	"/dev/mem":                                    "",
	"/dev/vda":                                    "",
	"/dev/sda":                                    "",
	"/dev/kvm":                                    "",
	"/dev/fuse":                                   "",
}
