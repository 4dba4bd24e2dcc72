# Made by agentjail. Changes are lost: it loads its own text when that differs.
abi <abi/4.0>,
profile agentjail-service flags=(attach_disconnected,mediate_deleted) {
  # Files: the jail's root is its own; what the kernel shows in it is not.
  file,
  deny /proc/[^1-9]** wklmx, # kernel tunables, sysrq, irq, bus, fs
  deny /proc/[1-9]*/{uid_map,gid_map,projid_map,setgroups} wklmx, # ids of nested user namespaces
  deny /proc/[1-9]*/attr/** wklmx, # security labels
  deny /proc/[1-9]*/task/*/attr/** wklmx, # security labels of threads
  deny /proc/[1-9]*/{loginuid,sessionid} wklmx, # audit identity
  deny /proc/{kcore,kmem,mem,kmsg,sysrq-trigger} rwklmx, # kernel memory, log and console
  deny /proc/{kpagecount,kpageflags,kpagecgroup} rwklmx, # physical memory layout
  deny /proc/{keys,key-users,timer_list,timer_stats,latency_stats,sched_debug} rwklmx, # what others on the host do
  deny /proc/[1-9]*/timens_offsets rwklmx, # how long the host is up
  deny /proc/[1-9]*/{,task/*/}net/softnet_stat rwklmx, # packets of the host by processor
  deny /proc/{acpi,asound,scsi}/** rwklmx, # the host's hardware
  deny /sys/** wklmx, # kernel objects, control groups
  deny /sys/firmware/** rwklmx, # firmware and its variables
  deny /sys/kernel/{security,debug,tracing}/** rwklmx, # security modules, debugging, tracing
  deny /sys/fs/{bpf,pstore,selinux}/** rwklmx, # pinned programs, crash logs, policy
  deny /sys/devices/virtual/{dmi,powercap}/** rwklmx, # machine identity, power side channels
  deny /dev/{mem,kmem,port,kmsg} rwklmx, # kernel memory and log

  # Capabilities over the jail's own ids.
  capability chown dac_override fowner kill setgid setuid,

  # The mounts are those the jail was started with.
  deny mount,
  deny remount,
  deny umount,
  deny pivot_root,

  # Sockets: streams and datagrams; netlink for the list of interfaces.
  network unix,
  unix,
  network inet stream,
  network inet dgram,
  network inet6 stream,
  network inet6 dgram,
  network netlink raw, # getifaddrs(3)
  network netlink dgram,
  deny network inet raw,
  deny network inet6 raw,
  deny network packet,

  # Signals from the host, so that the jail can be stopped.
  signal (send,receive) peer=agentjail-service, # among the jail's own processes
  signal (receive) peer=crun,
  signal (receive) peer=podman,
  signal (receive) peer=runc,
  signal (receive) peer=unconfined,

  # Tracing only what is in a jail.
  ptrace (trace,read,tracedby,readby) peer=agentjail-service,

  # No nested user namespaces (Ubuntu's restriction holds inside, too), no io_uring; message queues are the jail's own.
  deny userns,
  deny io_uring,
  mqueue,
}
