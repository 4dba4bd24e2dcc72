package remedies

import "slices"

// remedies are the refusals whose remedies are followed.
var remedies = slices.Concat(refusals, ofPolicies, ofCommands, ofAnswers)

// refusals are those of a container or a sandbox.
var refusals = []remedy{
	{
		name: "a device", sites: []string{"runtime/spec/bindsource/refusal.go: ofDevice"},
		fails: `mknod $W/fuse c 10 229; run "mount(W+'/fuse','/x')"`, says: "to hide a file, /dev/null or an empty file as the source; for the device itself the engine's --device instead, and policy: devices.allow",
		works: []string{
			`run "mount('/dev/null','/x'); sh('test -c /x && cat /x')"`,
			`: >$W/empty; run "mount(W+'/empty','/x','ro'); sh('test -f /x && cat /x')"`,
			`set -- $(stat -c '%Hr %Lr' /dev/loop-control); policy 'devices.allow = ["/dev/loop-control"]'; run "s['linux']['devices']=[{'path':'/dev/loop-control','type':'c','major':$1,'minor':$2,'fileMode':0o666}]; s['linux']['resources']={'devices':[{'allow':True,'type':'c','major':$1,'minor':$2,'access':'rw'}]}; sh('test -c /dev/loop-control && exec 3</dev/loop-control')"`,
		},
	},
	{
		name: "a socket", sites: []string{"runtime/spec/bindsource/refusal.go: allows(socketOpens"},
		fails: `python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])' $W/s; chown 1000:1000 $W/s; aj sandbox --volume $W/s:/x -- true`, says: "policy: binds.allow, which opens every action that its listener performs",
		works: []string{`policy "binds.allow = [\"$W/s\"]"; rm $W/s; python3 -c 'import socket,sys,os; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chown(sys.argv[1],1000,1000); s.listen(); os.fork() and sys.exit(); s.settimeout(60); s.accept()[0].send(b"hello")' $W/s >/dev/null 2>&1
aj sandbox --workspace $W --volume $W/s:/x -- python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect("/x"); print(s.recv(9))' | grep hello`},
	},
	{
		name: "a pipe", sites: []string{"runtime/spec/bindsource/refusal.go: allows(all that is done"},
		fails: `mkfifo $W/p; chown 1000:1000 $W/p; aj sandbox --workspace $W --volume $W/p:/x -- true`, says: "policy: binds.allow, which opens all that is done at its other end",
		works: []string{`policy "binds.allow = [\"$W/p\"]"; cat $W/p >$D/out & aj sandbox --workspace $W --volume $W/p:/x -- sh -c 'echo hello >/x'; wait; grep hello $D/out`},
	},
	{
		name: "a link", sites: []string{"runtime/spec/bindsource/refusal.go: name the real path"},
		fails: `ln -s $W/f $D/l; mkdir $W/d; ln -s $D $W/d/l; mkdir /tmp/remedy-$$; trap "rm -r /tmp/remedy-$$" EXIT; chown 1000:1000 /tmp/remedy-$$; ln -s $W /tmp/remedy-$$/l; aj sandbox --volume /tmp/remedy-$$/l:/x -- true`, says: "name the real path",
		works: []string{`aj sandbox --volume $W:/x -- cat /x/f`},
	},
	{
		name: "root's directory", sites: []string{"runtime/spec/bindsource/owner.go: rootRemedy"},
		fails: `chown -R 0:0 $W; chmod 666 $W/f; aj sandbox --volume $W:/x -- true`, says: "chown it to the user who works in it, or mount it read-only; or policy: binds.allow",
		works: []string{
			`aj sandbox --volume $W:/x:ro -- cat /x/f`,
			`policy "binds.allow = [\"$W\"]"; aj sandbox --volume $W:/x -- sh -c 'echo 1 >/x/new'`,
			`policy 'binds.root = "nobody"'; aj sandbox --volume $W:/x -- sh -c 'echo 1 >/x/f'`,
			`policy 'binds.root = "allow"'; aj sandbox --volume $W:/x -- sh -c 'echo 1 >/x/new2'`,
			`policy ''; chown -R 1000:1000 $W; aj sandbox --volume $W:/x -- sh -c 'echo 1 >/x/new3'`,
		},
	},
	{
		name: "a mistyped path", sites: []string{"runtime/spec/bindsource/owner.go: the right path"},
		fails: `mkdir ${W}e; trap "rmdir ${W}e" EXIT; aj sandbox --volume ${W}e:/x -- true`, says: "the right path, if this one was mistyped",
		works: []string{`aj sandbox --volume $W:/x -- cat /x/f`},
	},
	{
		name: "a place of the host's", sites: []string{"runtime/spec/bindsource/refusal.go: remedy", "runtime/spec/bindsource/refusal.go: (2) remedy", "runtime/spec/bindsource/refusal.go: (3) remedy"},
		fails: `mkdir $D/s; echo 1 >$D/s/f; aj sandbox --volume $D/s:/x -- true`, says: "policy: binds.allow, which opens this part of the host to the jail",
		works: []string{`policy "binds.allow = [\"$D/s\"]"; aj sandbox --volume $D/s:/x -- sh -c 'cat /x/f && echo 2 >/x/f'`},
	},
	{
		name:  "below /root",
		fails: `mkdir -p /root/remedy-$(basename $D)/d; echo 1 >/root/remedy-$(basename $D)/d/f; chmod 666 /root/remedy-$(basename $D)/d/f; aj sandbox --volume /root/remedy-$(basename $D)/d:/x -- true`, says: `binds.root = "nobody"`,
		works: []string{
			`policy 'binds.root = "nobody"'; aj sandbox --volume /root/remedy-$(basename $D)/d:/x -- sh -c 'echo 1 >/x/f'`,
			`policy 'binds.root = "allow"'; aj sandbox --volume /root/remedy-$(basename $D)/d:/x -- sh -c 'echo 1 >/x/new'`,
			`policy "binds.allow = [\"/root/remedy-$(basename $D)/d\"]"; aj sandbox --volume /root/remedy-$(basename $D)/d:/x -- sh -c 'echo 1 >/x/new2'`,
			`rm -r /root/remedy-$(basename $D)`,
		},
	},
	{
		name:  "a user's keys",
		fails: `mkdir -p $W/.ssh $W/project; echo 1 >$W/.ssh/f; chown -R 1000:1000 $W; aj sandbox --volume $W/.ssh:/x -- true`, says: "mount the project instead; or policy: binds.allow",
		works: []string{`aj sandbox --volume $W/project:/x -- sh -c 'echo 1 >/x/f'`, `policy "binds.allow = [\"$W/.ssh\"]"; aj sandbox --volume $W/.ssh:/x -- cat /x/f`},
	},
	{
		name:  "a place of the host's, mounted elsewhere",
		fails: `mkdir $D/s $W/m; echo 1 >$D/s/f; mount --bind $D/s $W/m; trap "umount $W/m" EXIT; aj sandbox --volume $W/m:/x -- true`, says: "policy: binds.allow, which opens this part of the host to the jail",
		works: []string{`policy "binds.allow = [\"$W/m\"]"; mount --bind $D/s $W/m; trap "umount $W/m" EXIT; aj sandbox --volume $W/m:/x -- sh -c 'cat /x/f && echo 2 >/x/f'`},
	},
	{
		name: "set-id programs", sites: []string{`runtime/harden/binds.go: chmod ug-s, or policy`},
		fails: `policy 'binds.setid = "refuse"'; mkdir $W/d; cp /bin/true $W/d/p; chown -R 2:2 $W/d; chmod u+s $W/d/p; aj sandbox --volume $W/d:/x -- true`, says: `chmod ug-s, or policy: binds.setid = "report"`,
		works: []string{`policy 'binds.setid = "report"'; aj sandbox --volume $W/d:/x -- sh -c 'echo 1 >/x/f'`, `policy 'binds.setid = "refuse"'; chmod ug-s $W/d/p; aj sandbox --volume $W/d:/x -- sh -c 'echo 1 >/x/f'`},
	},
	{
		name: "an annotation", sites: []string{"runtime/harden/harden.go: correct the annotation"},
		fails: `run "s['annotations']={'dev.agentjail.limits.pids':'many'}"`, says: "correct the annotation, or start the jail without it",
		works: []string{`run "s['annotations']={'dev.agentjail.limits.pids':'20'}"`, `run ""`},
	},
	{
		name: "on_loosen", sites: []string{"runtime/harden/harden.go: policy: on_loosen"},
		fails: `policy 'on_loosen = "refuse"'; run "p['capabilities']['bounding']+=['CAP_SYS_ADMIN']"`, says: `policy: on_loosen = "strip" starts it without`,
		works: []string{`policy 'on_loosen = "strip"'; run "p['capabilities']['bounding']+=['CAP_SYS_ADMIN']"`},
	},
	{
		name: "above a limit", sites: []string{"runtime/harden/above.go: remedy"},
		fails: `policy 'on_loosen = "refuse"
limits.pids = 100'; run "s['linux']['resources']={'pids':{'limit':500}}; s['linux']['seccomp']={'defaultAction':'SCMP_ACT_ALLOW'}; p['capabilities']={}"`, says: "request at most 100, or raise the limit in policy",
		works: []string{
			`run "s['linux']['resources']={'pids':{'limit':100}}; s['linux']['seccomp']={'defaultAction':'SCMP_ACT_ALLOW'}; p['capabilities']={}"`,
			`policy 'on_loosen = "refuse"
limits.pids = 500'; run "s['linux']['resources']={'pids':{'limit':500}}; s['linux']['seccomp']={'defaultAction':'SCMP_ACT_ALLOW'}; p['capabilities']={}"`,
		},
	},
	{
		name: "many mounts", sites: []string{"runtime/harden/mounts.go: policy: limits.mounts"},
		fails: `policy 'limits.mounts = 8'; run "[mount(W,'/m%d'%i) for i in range(6)]"`, says: "policy: limits.mounts",
		works: []string{`policy 'limits.mounts = 10'; run "[mount(W,'/m%d'%i) for i in range(6)]"`},
	},
	{
		name: "a tmpfs over /sys", sites: []string{"runtime/harden/mounts.go: leave it out"},
		fails: `run "s['mounts']+=[{'destination':'/sys/fs/cgroup','type':'cgroup','source':'cgroup','options':['ro']},{'destination':'/sys','type':'tmpfs','source':'tmpfs'}]"`, says: "leave it out",
		works: []string{`run "s['mounts']+=[{'destination':'/sys/fs/cgroup','type':'cgroup','source':'cgroup','options':['ro']}]"`},
	},
	{
		name: "an overlay of the caller's", sites: []string{"runtime/harden/mounts.go: mount the directory itself"},
		fails: `mkdir $W/u $W/k; run "s['mounts'].append({'destination':'/x','type':'overlay','source':'overlay','options':['lowerdir='+W,'upperdir='+W+'/u','workdir='+W+'/k']})"`, says: "mount the directory itself or a volume",
		works: []string{`run "mount(W,'/x'); sh('cat /x/f')"`},
	},
	{
		name: "a file system of memory", sites: []string{"runtime/harden/mounts.go: type=tmpfs, which is in memory too"},
		fails: `run "s['mounts'].append({'destination':'/x','type':'ramfs','source':'ramfs'})"`, says: "type=tmpfs, which is in memory too",
		works: []string{`run "s['mounts'].append({'destination':'/x','type':'tmpfs','source':'tmpfs'}); sh('echo 1 >/x/f')"`},
	},
	{
		name: "a file system of the caller's", sites: []string{"runtime/harden/mounts.go: mount it on the host, and that directory into the container"},
		fails: `truncate -s 4M $D/image; mkfs.ext4 -q -E root_owner=1000:1000 $D/image; run "s['mounts'].append({'destination':'/x','type':'ext4','source':D+'/image'})"`, says: "mount it on the host, and that directory into the container",
		works: []string{`mkdir $W/m; mount -o loop $D/image $W/m; trap "umount $W/m" EXIT; run "mount(W+'/m','/x'); sh('echo 1 >/x/f')"`},
	},
	{
		name: "a server that becomes other users", sites: []string{"runtime/lifecycle/firstproc/program.go: %s"},
		fails: `printf '#!/bin/sh\nid -u\n' >$W/p; chmod 755 $W/p; run "mount(W+'/p','/usr/sbin/php-fpm','ro'); p['args']=['/usr/sbin/php-fpm']"`, says: "-u www-data, or --runtime=agentjail-service",
		works: []string{
			`run "mount(W+'/p','/usr/sbin/php-fpm','ro'); p['args']=['/usr/sbin/php-fpm']; p['user']={'uid':33,'gid':33}"`,
			`ln -s "$AGENTJAIL" $D/agentjail-service; AGENTJAIL=$D/agentjail-service; run "mount(W+'/p','/usr/sbin/php-fpm','ro'); p['args']=['/usr/sbin/php-fpm']"`,
		},
	},
	{
		name: "a range of host ids", sites: []string{"runtime/kernel/idmap/idmap.go: %s", "runtime/kernel/idmap/idmap.go: (2) %s", "runtime/kernel/idmap/idmap.go: (3) %s"},
		fails: `for first in 1000 ${AGENTJAIL_POOL%:*} 2147418112; do ! run "s['linux']['namespaces'].append({'type':'user'}); s['linux']['uidMappings']=s['linux']['gidMappings']=[{'containerID':0,'hostID':$first,'size':65536}]" || exit 0; done; false`, says: "no map of your own",
		works: []string{`run ""`, `run "s['linux']['namespaces'].append({'type':'user'}); s['linux']['uidMappings']=s['linux']['gidMappings']=[{'containerID':0,'hostID':100000,'size':65536}]"`},
	},
	{
		name: "a view of a file", sites: []string{"runtime/harden/review.go: remedy"},
		fails: `chown 1000:1000 $W/f; run "mount(W+'/f','/x'); s['annotations']={'dev.agentjail.workspace':'/x'}"`, says: "mount the directory that it is in, or mount it read-only",
		works: []string{`run "mount(W,'/x'); s['annotations']={'dev.agentjail.workspace':'/x'}; sh('cat /x/f')"`, `run "mount(W+'/f','/x','ro'); s['annotations']={'dev.agentjail.workspace':'/x'}; sh('cat /x')"`},
	},
	{
		name:  "a view of root's",
		fails: `chown 0:0 $W; policy 'binds.root = "allow"'; run "mount(W,'/x'); s['annotations']={'dev.agentjail.workspace':'/x'}"`, says: "chown it to the user who works in it",
		works: []string{`chown 1000:1000 $W; run "mount(W,'/x'); s['annotations']={'dev.agentjail.workspace':'/x'}; sh('echo 1 >/x/new')"`},
	},
	{
		name:  "a view of root's group",
		fails: `chown 1000:0 $W; run "mount(W,'/x'); s['annotations']={'dev.agentjail.workspace':'/x'}"`, says: "chgrp it to the group of the user who works in it",
		works: []string{`chgrp 1000 $W; run "mount(W,'/x'); s['annotations']={'dev.agentjail.workspace':'/x'}; sh('echo 1 >/x/new')"`},
	},
	{
		name: "a view of nothing", sites: []string{"runtime/harden/review.go: the destination of a mount"},
		fails: `run "mount(W,'/x'); s['annotations']={'dev.agentjail.workspace':'/y'}"`, says: "the destination of a mount in dev.agentjail.workspace",
		works: []string{`run "mount(W,'/x'); s['annotations']={'dev.agentjail.workspace':'/x'}"`},
	},
	{
		name: "a limit too low", sites: []string{"runtime/lifecycle/least.go: %s of %v or more"},
		fails: `run "s['linux']['resources']={'memory':{'limit':1<<20}}"`, says: "limits.memory of 3MiB or more",
		works: []string{`run "s['linux']['resources']={'memory':{'limit':3<<20}}"`},
	},
	{
		name:  "processes too few",
		fails: `aj sandbox --tighten limits.pids=2 -- true`, says: "limits.pids of 16 or more",
		works: []string{`aj sandbox --tighten limits.pids=16 -- true`, `policy 'limits.pids = 16'; aj sandbox -- true`},
	},
	{
		name: "a directory over a file", sites: []string{"runtime/rootfs/points.go: a %s as the source"},
		fails: `run "mount(W,'/etc/passwd')"`, says: "a file as the source, or another place",
		works: []string{`run "mount(W+'/f','/etc/passwd'); sh('grep text /etc/passwd')"`, `run "mount(W,'/else'); sh('cat /else/f')"`},
	},
	{
		name: "a place in a file", sites: []string{"runtime/rootfs/points.go: another place"},
		fails: `run "mount(W,'/etc/passwd/x')"`, says: "another place",
		works: []string{`run "mount(W,'/x'); sh('cat /x/f')"`},
	},
	{
		name: "a mount in a read-only directory", sites: []string{"runtime/rootfs/nested.go: make it in the mounted directory"},
		fails: `run "mount(W,'/x','ro'); mount(W,'/x/sub')"`, says: "make it in the mounted directory",
		works: []string{`mkdir $W/sub; run "mount(W,'/x','ro'); mount(W,'/x/sub'); sh('cat /x/sub/f')"`},
	},
	{
		name: "a group's number as a name", sites: []string{"runtime/jailinit/guest/check.go: the number of a group"},
		fails: `echo '4000:x:6:' >$W/group; run "mount(W+'/group','/etc/group','ro'); p['user']={'uid':1000,'gid':1000,'additionalGids':[4000]}; sh('id -G | grep 4000')" && { echo 'this delegate takes no names: any is the number of a group without such a name'; false; }`, says: "the number of a group without such a name",
		works: []string{`run "mount(W+'/group','/etc/group','ro'); p['user']={'uid':1000,'gid':1000,'additionalGids':[4001]}; sh('id -G | grep 4001')"`},
	},
	{
		name: "no such workspace", sites: []string{"cmd/agentjailctl/sandbox.go: make it first"},
		fails: `aj sandbox --workspace $W/none -- true`, says: "make it first",
		works: []string{`mkdir $W/none; chown 1000 $W/none; aj sandbox --workspace $W/none -- true`},
	},
	{
		name: "a tilde", sites: []string{"cmd/agentjailctl/sandbox.go: $HOME in place of ~"},
		fails: `HOME=$W aj sandbox --workspace '~/.' -- true`, says: "$HOME in place of ~",
		works: []string{`HOME=$W; aj sandbox --workspace "$HOME/." -- true`},
	},
	{
		name: "no directory", sites: []string{"cmd/agentjailctl/sandbox.go: cd to one that exists", "cmd/agentjailctl/sandbox.go: (2) cd to one that exists"},
		fails: `mkdir $W/gone; cd $W/gone; rmdir $W/gone; aj sandbox --workspace . -- true`, says: "cd to one that exists",
		works: []string{`cd $W; aj sandbox --workspace . -- true`},
	},
	{
		name: "the whole machine", sites: []string{"cmd/agentjailctl/sandbox.go: name the directory of one project", "cmd/agentjailctl/sandbox.go: (2) name the directory of one project"},
		fails: `aj sandbox --workspace / -- true`, says: "name the directory of one project",
		works: []string{`aj sandbox --workspace $W -- true`},
	},
	{
		name:  "the kernel's directories",
		fails: `aj sandbox --workspace /proc -- true`, says: "name the directory of one project",
		works: []string{`aj sandbox --workspace $W -- true`},
	},
	{
		name: "a file as workspace", sites: []string{"cmd/agentjailctl/sandbox.go: name the directory that it is in"},
		fails: `aj sandbox --workspace $W/f -- true`, says: "name the directory that it is in, or mount it by --volume",
		works: []string{`aj sandbox --workspace $W -- cat $W/f`, `aj sandbox --volume $W/f:$W/f -- cat $W/f`},
	},
	{
		name: "a variable without name", sites: []string{"cmd/agentjailctl/sandbox.go: --env NAME=VALUE"},
		fails: `aj sandbox --env =x -- true`, says: "--env NAME=VALUE, or --env NAME",
		works: []string{`aj sandbox --env NAME=x -- sh -c 'test $NAME = x'`, `NAME=y aj sandbox --env NAME -- sh -c 'test $NAME = y'`},
	},
	{
		name: "tighten", sites: []string{"cmd/agentjailctl/sandbox.go: such as --tighten"},
		fails: `aj sandbox --tighten limits.memory -- true`, says: "such as --tighten limits.memory=512m",
		works: []string{`aj sandbox --tighten limits.memory=512m -- true`},
	},
	{
		name: "tighten twice", sites: []string{"cmd/agentjailctl/sandbox.go: leave one out"},
		fails: `aj sandbox --tighten limits.pids=20 --tighten limits.pids=30 -- true`, says: "leave one out",
		works: []string{`aj sandbox --tighten limits.pids=30 -- true`},
	},
	{
		name: "view without review", sites: []string{"cmd/agentjailctl/sandbox_review.go: --review --view NAME"},
		fails: `aj sandbox --workspace $W --view remedy-view -- true`, says: "--review --view NAME",
		works: []string{`aj sandbox --workspace $W --review --view remedy-view -- touch new`, `aj workspace discard remedy-view`},
	},
	{
		name: "review without workspace", sites: []string{"cmd/agentjailctl/sandbox_review.go: --workspace DIR, without --read-only"},
		fails: `aj sandbox --review -- true`, says: "--workspace DIR, without --read-only",
		works: []string{`aj sandbox --workspace $W --review -- true`},
	},
	{
		name: "an empty argument", sites: []string{"cmd/agentjailctl/status.go: name one, or leave it out"},
		fails: `aj policy show ''`, says: "name one, or leave it out",
		works: []string{`aj policy show`},
	},
	{
		name: "an empty option", sites: []string{"cmd/agentjailctl/status.go: name one, or leave the option out"},
		fails: `aj sandbox --workspace '' -- true`, says: "name one, or leave the option out",
		works: []string{`aj sandbox --workspace $W -- true`, `aj sandbox -- true`},
	},
	{
		name: "a command", sites: []string{"cmd/agentjailctl/status.go: one of %s"},
		fails: `aj policy shaw`, says: "(remedy: one of ",
		works: []string{`aj policy show`, `aj policy validate $D/policy.toml`, `aj policy schema`},
	},
	{
		name: "a shell", sites: []string{"cmd/agentjailctl/completion.go: one of %s"},
		fails: `aj completion csh`, says: "one of bash",
		works: []string{`aj completion bash`},
	},
	{
		name: "sudo's variables", sites: []string{"runtime/kernel/invoker/invoker.go: unset %s, or call by sudo", "runtime/kernel/invoker/invoker.go: (2) unset %s, or call by sudo", "runtime/kernel/invoker/invoker.go: unset both", "runtime/kernel/invoker/invoker.go: unset DOAS_USER"},
		fails: `for v in SUDO_UID=x 'SUDO_UID=1000 SUDO_GID=x' DOAS_USER=no-such-user; do ! env $v "$AGENTJAIL" --config $D/policy.toml sandbox --workspace $W -- true || exit 0; done; false`, says: "unset SUDO_UID, or call by sudo",
		works: []string{`aj sandbox --workspace $W -- true`},
	},
	{
		name: "a byte order mark", sites: []string{"runtime/spec/policy/settings.go: save it as UTF-8"},
		fails: `printf '\357\273\277limits.pids = 20\n' >$D/policy.toml; aj sandbox -- true`, says: "save it as UTF-8 without one",
		works: []string{`policy 'limits.pids = 20'; aj sandbox -- true`},
	},
	{
		name: "a journal that is required and off", sites: []string{"runtime/spec/policy/journal.go: change one"},
		fails: `policy 'journal.required = true
journal.enabled = false'; aj sandbox -- true`, says: "change one",
		works: []string{`policy 'journal.required = true'; aj sandbox -- true`, `policy 'journal.enabled = false'; aj sandbox -- true`},
	},
	{
		name: "names in another mode", sites: []string{"runtime/spec/netrules/rule.go: the name alone"},
		fails: `policy 'network.mode = "names"
network.allow = ["https://example.org/"]'; aj sandbox -- true`, says: "the name alone, as in example.org or example.org:443",
		works: []string{`policy 'network.mode = "names"
network.allow = ["example.org"]'; aj sandbox -- true`, `policy 'network.mode = "names"
network.allow = ["example.org:443"]'; aj sandbox -- true`},
	},
	{
		name: "an address without a port", sites: []string{"runtime/spec/netrules/rule.go: ADDRESS:PORT"},
		fails: `policy 'network.mode = "names"
network.allow = ["192.0.2.7"]'; aj sandbox -- true`, says: "ADDRESS:PORT, [ADDRESS]:PORT for IPv6",
		works: []string{`policy 'network.mode = "names"
network.allow = ["192.0.2.7:80"]'; aj sandbox -- true`, `policy 'network.mode = "names"
network.allow = ["[2001:db8::1]:80"]'; aj sandbox -- true`},
	},
	{
		name: "an option of a name", sites: []string{"runtime/spec/netrules/rule.go: private, tls=any or ech"},
		fails: `policy 'network.mode = "names"
network.allow = ["example.org:443 fast"]'; aj sandbox -- true`, says: "private, tls=any or ech",
		works: []string{`for o in private tls=any ech; do policy "network.mode = \"names\"
network.allow = [\"example.org:443 $o\"]"; aj sandbox -- true; done`},
	},
	// What agentjail why has to be written.
	{
		name: "why: a mounted socket", sites: []string{"runtime/observe/why/messages.toml: binds.allow = [\"/path/of/the.sock\"]"},
		fails: `mkfifo $W/x; python3 -c 'import socket,sys,os; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])' $W/the.sock; chown 1000:1000 $W/the.sock; aj sandbox --volume $W/the.sock:/s -- true`, says: "a Unix socket lets the container act",
		works: []string{`policy "binds.allow = [\"$W/the.sock\"]"; aj sandbox --workspace $W --volume $W/the.sock:/s -- test -S /s`},
	},
	{
		name: "why: a socket in a directory", sites: []string{"runtime/observe/why/messages.toml: binds.sockets = "},
		fails: `python3 -c 'import socket,sys,os; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chown(sys.argv[1],1000,1000); s.listen(); os.fork() and sys.exit(); s.settimeout(120); s.accept()[0].send(b"hello")' $W/s >/dev/null 2>&1
aj sandbox --workspace $W -- python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(9))' $W/s`, says: "Error",
		works: []string{`policy "binds.sockets = [\"$W/s\"]"; aj sandbox --workspace $W -- python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(9))' $W/s | grep hello`},
	},
	{
		name: "why: git's person", sites: []string{"runtime/observe/why/messages.toml: --env GIT_AUTHOR_NAME=NAME"},
		fails: `aj sandbox --workspace $W -- sh -c 'git init -q . && git add f && git -c user.useConfigOnly=true commit -qm x'`, says: "Author identity unknown",
		works: []string{`aj sandbox --workspace $W --env GIT_AUTHOR_NAME=NAME --env GIT_AUTHOR_EMAIL=MAIL --env GIT_COMMITTER_NAME=NAME --env GIT_COMMITTER_EMAIL=MAIL -- git -c user.useConfigOnly=true commit -qm x`},
	},
	{
		name: "why: a directory of the host's", sites: []string{"runtime/observe/why/messages.toml: binds.allow = [\"DIR\"]", "runtime/observe/why/messages.toml: -v DIR:/place:ro"},
		fails: `aj sandbox --volume /usr/share:/place -- true`, says: "it can be mounted read-only",
		works: []string{`aj sandbox --volume /usr/share:/place:ro -- ls /place`, `policy 'binds.allow = ["/usr/share"]'; aj sandbox --volume /usr/share:/place -- ls /place`},
	},
	{
		name: "why: the layer is full", sites: []string{"runtime/observe/why/messages.toml: root.size = "},
		fails: `policy 'root.size = "4MiB"'; run "sh('dd if=/dev/zero of=/zeros bs=1M count=8')"`, says: "No space left on device",
		works: []string{`policy 'root.size = "64MiB"'; run "sh('dd if=/dev/zero of=/zeros bs=1M count=8')"`},
	},
	{
		name: "why: too many files in the layer", sites: []string{"runtime/observe/why/messages.toml: root.inodes = "},
		fails: `policy 'root.inodes = 200'; run "sh('for i in \$(seq 400); do : >/f\$i || exit 1; done')"`, says: "No space left on device",
		works: []string{`policy 'root.inodes = 2000'; run "sh('for i in \$(seq 400); do : >/f\$i || exit 1; done')"`},
	},
	{
		name: "why: a sysctl of the network", sites: []string{"runtime/observe/why/messages.toml: docker run --sysctl net.KEY=VALUE"},
		fails: `run "sh('echo 5 >/proc/sys/net/ipv4/tcp_retries2')"`, says: "Read-only file system",
		works: []string{`run "s['linux']['sysctl']={'net.ipv4.tcp_retries2':'5'}; sh('grep -x 5 /proc/sys/net/ipv4/tcp_retries2')"`},
	},
	{
		name: "why: a low port", sites: []string{"runtime/observe/why/messages.toml: a port of 1024 or more", "runtime/observe/why/messages.toml: docker run --sysctl net.ipv4.ip_unprivileged_port_start=0"},
		fails: `run "p['user']={'uid':1000,'gid':1000}; sh('nc -lp 80 </dev/null & sleep 0; wait \$!')"`, says: "ermission denied",
		works: []string{`run "p['user']={'uid':1000,'gid':1000}; sh('timeout 1 nc -lp 8080 </dev/null 2>&1 | grep denied && exit 1; exit 0')"`, `run "s['linux']['sysctl']={'net.ipv4.ip_unprivileged_port_start':'0'}; p['user']={'uid':1000,'gid':1000}; sh('timeout 1 nc -lp 80 </dev/null 2>&1 | grep denied && exit 1; exit 0')"`},
	},
	{
		name: "why: larger tmpfs of the caller's", sites: []string{"runtime/observe/why/messages.toml: docker run --shm-size 1g; --tmpfs /tmp:size=1g"},
		fails: `policy 'tmpfs.size = "1MiB"'; run "s['mounts'].append({'destination':'/tmp','type':'tmpfs','source':'tmpfs'}); sh('dd if=/dev/zero of=/tmp/f bs=1M count=3')"`, says: "No space left on device",
		works: []string{`run "s['mounts'].append({'destination':'/tmp','type':'tmpfs','source':'tmpfs','options':['size=1g']}); sh('dd if=/dev/zero of=/tmp/f bs=1M count=3')"`},
	},
	{
		name: "why: git's owner of a directory", sites: []string{"runtime/observe/why/messages.toml: git config --global --add safe.directory DIR"},
		fails: `aj sandbox --workspace $W -- git init -q .; run "mount(W,'/w','ro')" ; aj sandbox --volume $W:/w:ro --env HOME=/tmp -- env GIT_TEST_ASSUME_DIFFERENT_OWNER=1 git -C /w status`, says: "safe.directory",
		works: []string{`aj sandbox --volume $W:/w:ro --env HOME=/tmp -- sh -c 'git config --global --add safe.directory /w; GIT_TEST_ASSUME_DIFFERENT_OWNER=1 git -C /w status'`},
	},
}
