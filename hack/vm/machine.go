package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/runtime/state"
)

// memory of the machine, in MiB. Images and layers are on its disk; the ephemeral layers of jails
// are in memory.
const memory = 4096

// resultsSize bounds the output and the files of steps, in bytes.
const resultsSize = 256 << 20

// kvmWait bounds how long a machine with hardware virtualisation may take to come up; emulation
// takes 5 to 20 seconds.
const kvmWait = time.Minute

// emulation has all processors in one thread. With a thread for each, kernels oopsed now and then,
// in __schedule or wherever they had just patched a static branch: int3 was seen by one processor
// while another wrote it (text_poke_bp in arch/x86/kernel/alternative.c counts on what hardware
// guarantees about code that is changed while it runs).
const emulation = "tcg,thread=single"

// emulatedLine has the kernel start one processor only. In one thread, a second takes a tenth more
// time and never runs beside the first. guest/under-all-processors starts it.
const emulatedLine = " maxcpus=1"

// emulatedCPU lacks what is slow when it is emulated. The kernel copies and clears memory with the
// string instructions of erms and fsrm, which are emulated byte by byte; smap ends a translated
// block at each access to a program's memory; la57 adds a level to page tables.
const emulatedCPU = "max,erms=off,fsrm=off,smap=off,la57=off"

// A machine is a virtual machine on its way from disks to results.
type machine struct {
	guest string // directory with the root file system and kernel
	dir   string // directory for this run's disks
	cache string
	kind  string // the name of one
	// others reports whether other tests run beside.
	others func() bool
}

// A kind is a machine of those that run side by side.
type kind struct {
	// line is the kernel's parameters: no journal of its chatter on the console; a panic ends the
	// machine.
	line string
	// processors are no more than it takes: one that waits for another that the host has taken off
	// spins. Emulated machines start with one.
	processors string
	// userData is the input of the machine's cloud-init, a file of the module's; "" for a machine
	// without cloud-init and systemd.
	userData string
}

const (
	withAppArmor = "console=ttyS0 quiet panic=-1 lsm=landlock,lockdown,yama,apparmor,bpf"
	withSELinux  = "console=ttyS0 quiet panic=-1 lsm=landlock,lockdown,yama,selinux,bpf enforcing=1"
)

// kinds are the machines by name: one for each security module, one more for what would make the
// first run longest, and one that boots by systemd and cloud-init.
var kinds = map[string]kind{
	"apparmor": {line: withAppArmor, processors: "2"},
	"engines":  {line: withAppArmor, processors: "1"},
	"selinux":  {line: withSELinux, processors: "1"},
	"cloud":    {line: withAppArmor, processors: "1", userData: "hack/cloud/user-data.yaml"},
}

// rootDisk has what the guest writes to its root, over the image.
const rootDisk = "root.qcow2"

func (m machine) path(name string) string { return filepath.Join(m.dir, name) }

// makeDisks makes the work disk from its directory, and an empty one for results.
func (m machine) makeDisks(ctx context.Context) error {
	work := m.path("work.img")
	size, err := treeSize(m.path("work"))
	if err != nil {
		return err
	}
	for name, bytes := range map[string]int64{work: size + size/4 + 64<<20, m.path("results.img"): resultsSize} {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(bytes), f.Close()); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-L", "work", "-m", "0", "-E", "root_owner=0:0", "-d", m.path("work"), work)
	cmd.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the work disk: %w\n%s", err, out)
	}
	return nil
}

func treeSize(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size() + 4096
		}
		return err
	})
	return sum, err
}

// errNoKVM reports that hardware virtualisation is there by name only.
var errNoKVM = errors.New("the machine does not come up with KVM")

// boot runs the machine until it switches itself off. With "auto" it tries KVM where /dev/kvm can
// be opened, and falls back to emulation; that verdict is kept until the host's next boot.
//
// There are hosts with a /dev/kvm and without virtualisation in the processor: their KVM (kvm_pvm)
// runs guests that were built for it, and interprets all else instruction by instruction. What was
// tried there with Debian's kernel, QEMU 10: q35, pc and microvm; -cpu host (dies setting
// IA32_ARCH_CAPABILITIES), host,-arch-capabilities and kvm64; the bzImage (its zstd decompressor
// uses BMI2, which the interpreter does not know: "KVM internal error. Suberror: 1"); the
// uncompressed vmlinux by PVH, without BMI2 and AVX (in 75 seconds it comes to "Booting
// paravirtualized kernel", where emulation is in user space after 5); kernel-irqchip=off and
// nolapic (this KVM has no userspace APIC). Emulating is faster. tb-size=1024, mitigations=off,
// init_on_alloc=0, preempt=none, transparent_hugepage=never, a larger fault_around_bytes, GOGC=400
// and -cpu without avx, xsave, pku and smep change the time of a docker run by less than what two
// runs differ by.
func (m machine) boot(ctx context.Context, accel string) error {
	if accel != "auto" {
		return m.bootWith(ctx, accel)
	}
	verdict := filepath.Join(m.cache, "no-kvm-"+state.BootID())
	if _, err := os.Stat(verdict); err == nil {
		return m.bootWith(ctx, "tcg")
	}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return m.bootWith(ctx, "tcg")
	}
	f.Close()
	err = m.bootWith(ctx, "kvm")
	if !errors.Is(err, errNoKVM) {
		return err
	}
	logf("%s: %v: emulating", m.kind, err)
	if err := errors.Join(os.WriteFile(verdict, nil, 0o644), os.RemoveAll(m.path(rootDisk))); err != nil {
		return err
	}
	return m.bootWith(ctx, "tcg")
}

// bootWith runs the machine with one accelerator.
func (m machine) bootWith(ctx context.Context, accel string) error {
	// What the guest writes to its root goes into an overlay: the cached image stays as it was
	// made.
	overlay := m.path(rootDisk)
	if _, err := os.Lstat(overlay); errors.Is(err, os.ErrNotExist) {
		if out, err := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw",
			"-b", filepath.Join(m.guest, "root.img"), overlay).CombinedOutput(); err != nil {
			return fmt.Errorf("make the overlay disk: %w\n%s", err, out)
		}
	}
	cpu, line := []string{"-accel", emulation, "-cpu", emulatedCPU}, kinds[m.kind].line+emulatedLine
	if accel == "kvm" {
		cpu, line = []string{"-accel", "kvm", "-cpu", "host"}, kinds[m.kind].line
	}
	args := append([]string{"-n", "5", "qemu-system-x86_64"}, cpu...)
	args = append(args,
		"-smp", kinds[m.kind].processors, "-m", fmt.Sprint(memory), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-serial", "stdio", "-nic", "none",
		"-kernel", filepath.Join(m.guest, "vmlinuz"), "-initrd", filepath.Join(m.guest, "initrd"), "-append", line,
		// In this order they are vda, vdb and vdc. Nothing has to survive the host's power failure.
		"-drive", "if=virtio,cache=unsafe,format=qcow2,file="+overlay,
		"-drive", "if=virtio,cache=unsafe,format=raw,readonly=on,file="+m.path("work.img"),
		"-drive", "if=virtio,cache=unsafe,format=raw,file="+m.path("results.img"),
		"-qmp", "unix:"+m.path("monitor")+",server=on,wait=off",
	)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Pdeathsig belongs to the thread that forks (prctl(2)): this goroutine must keep it until
	// QEMU's end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "nice", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.WaitDelay = 10 * time.Second
	console, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	defer console.Close()
	cmd.Stdout, cmd.Stderr = stdout, stdout
	logf("%s: booting, %s", m.kind, accel)
	if err := cmd.Start(); err != nil {
		stdout.Close()
		return fmt.Errorf("start QEMU: %w", err)
	}
	stdout.Close()
	watch := watcher{name: m.kind, accel: accel, cancel: cancel, pid: cmd.Process.Pid}
	watched := make(chan error, 1)
	go func() { watched <- watch.read(console, m.path("console")) }()
	yielded := m.yield(ctx, accel, cmd.Process.Pid, cancel)
	werr := cmd.Wait()
	cerr := <-watched
	cause := context.Cause(ctx)
	cancel(nil)
	<-yielded
	switch {
	case errors.Is(cause, errNoKVM):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("the machine took too long and was stopped; the end of its console:\n%s", watch.tail())
	case cause != nil:
		return cause
	case werr != nil:
		return fmt.Errorf("QEMU: %w; the end of the console:\n%s", werr, watch.tail())
	case cerr != nil:
		return fmt.Errorf("read the console: %w", cerr)
	case !watch.off:
		return &downError{sign: watch.sign, console: watch.tail()}
	}
	return nil
}

// A watcher reads the console, shows how things go on, and notices a KVM that does not work.
type watcher struct {
	name   string
	accel  string
	cancel context.CancelCauseFunc
	pid    int // QEMU's
	last   []string
	off    bool   // the guest reported its end
	sign   string // the first line that shows a failure of the guest's kernel
}

// A downError means that the machine went down before it was done.
type downError struct {
	sign    string // the kernel's message about its own failure; "" without one: then something in it switched it off
	console string
}

func (e *downError) Error() string {
	why := "without a word of its kernel"
	if e.sign != "" {
		why = "by its own kernel: " + e.sign
	}
	return fmt.Sprintf("the machine went down before it was done, %s; the end of its console:\n%s", why, e.console)
}

// kernelFailed is how a kernel's failure begins on the console (kernel/panic.c,
// arch/x86/kernel/dumpstack.c).
var kernelFailed = regexp.MustCompile(`^(?:\[ *[0-9.]+\] ?)?(?:Kernel panic|Oops: |BUG: |int3: |general protection fault|kernel BUG at |watchdog: BUG: )`)

// progress are the console's lines that are shown while the machine runs.
var progress = regexp.MustCompile(`^(vm: |--- (PASS|FAIL|SKIP)|panic: |.*Kernel panic)`)

func (w *watcher) read(console io.Reader, logPath string) error {
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	if w.accel == "kvm" {
		late := time.AfterFunc(kvmWait, func() { w.cancel(errNoKVM) })
		defer late.Stop()
		return w.lines(console, log, late)
	}
	return w.lines(console, log, nil)
}

func (w *watcher) lines(console io.Reader, log io.Writer, late *time.Timer) error {
	in := bufio.NewReader(console)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			line = strings.TrimRight(line, "\r\n")
			if _, err := fmt.Fprintln(log, line); err != nil {
				return err
			}
			w.last = append(w.last, line)
			if len(w.last) > 60 {
				w.last = w.last[1:]
			}
			switch {
			case strings.HasPrefix(line, "vm: up") && late != nil:
				late.Stop()
			case strings.HasPrefix(line, "vm: off"):
				w.off = true
			case w.sign == "" && kernelFailed.MatchString(line):
				w.sign = line
			case strings.HasPrefix(line, "KVM internal error"):
				w.cancel(errNoKVM)
			}
			if progress.MatchString(line) {
				// Processor time, since wall time means little on a machine that is shared.
				fmt.Printf("%-8s %5.0f s  %s\n", w.name, processorTime(w.pid).Seconds(), line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// processorTime is what a process has used, all its threads together (utime and stime in
// proc_pid_stat(5)); 0 when it is gone.
func processorTime(pid int) time.Duration {
	f, err := procstatus.Stat(pid)
	if err != nil {
		return 0
	}
	var ticks time.Duration
	for _, n := range f[11:13] {
		v, _ := strconv.ParseInt(n, 10, 64)
		ticks += time.Duration(v)
	}
	return ticks * time.Second / 100 // USER_HZ, the same on every Linux that Debian makes
}

// tail is the console's end. Only after read has returned.
func (w *watcher) tail() string { return strings.Join(w.last, "\n") }
