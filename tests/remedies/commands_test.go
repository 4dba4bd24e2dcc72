package remedies

// ofCommands are the refusals of options of a sandbox, and of commands about what jails left: views, homes, records.
var ofCommands = []remedy{
	{
		name: "no such home", sites: []string{"runtime/workspace/homes/kept.go: `agentjail home list`"},
		fails: `aj home remove zzqq`, says: "`agentjail home list` shows those that exist",
		works: []string{`aj home list`},
	},
	{
		name: "a name that is taken", sites: []string{"cmd/agentjailctl/sandbox_files.go: another name, or wait for its end"},
		fails: `n=$(basename $D); running --name $n; aj sandbox --name $n-2 -- true || exit 0; aj sandbox --name $n -- true`, says: "another name, or wait for its end",
		works: []string{`aj sandbox --name $(basename $D) -- true`},
	},
	{
		name: "a program that the jail has not", sites: []string{"cmd/agentjailctl/sandbox_path.go: --volume %[2]s:%[2]s:ro"},
		fails: `p=/tmp/$(basename $D); mkdir -m 755 $p; printf '#!/bin/sh\n' >$p/program; chmod 755 $p/program; aj sandbox -- $p/program`, says: ":ro",
		works: []string{`p=/tmp/$(basename $D); trap "rm -r $p" EXIT; aj sandbox --volume $p/program:$p/program:ro -- $p/program`},
	},
	{
		name: "direct", sites: []string{"cmd/agentjailctl/sandbox_review.go: --agent NAME", "cmd/agentjailctl/sandbox_agent.go: --agent NAME"},
		fails: `! aj sandbox --home empty -- true || exit 0; aj sandbox --workspace $W --direct -- true`, says: "--agent NAME",
		works: []string{
			agent + `aj sandbox --workspace $W --agent $N --direct; aj sandbox --workspace $W --agent $N --home empty; aj home remove $W`,
		},
	},
	{
		name: "direct and review", sites: []string{"cmd/agentjailctl/sandbox_review.go: leave out one"},
		fails: agent + `aj sandbox --workspace $W --agent $N --home empty --direct --review`, says: "leave out one",
		works: []string{agent + `aj sandbox --workspace $W --agent $N --home empty --direct`, agent + `aj sandbox --workspace $W --agent $N --home empty --review`},
	},
	{
		name: "an agent without a preset", sites: []string{"runtime/spec/sandbox/agents/agents.go: one of %s, or a file NAME.toml in %s", "runtime/spec/sandbox/agents/agents.go: one of %s, or a file %s.toml in %s"},
		fails: `! aj sandbox --agent A -- true || exit 0; aj sandbox --agent zzqq`, says: "or a file zzqq.toml in /etc/agentjail/agents",
		works: []string{agent + `aj sandbox --workspace $W --agent $N --home empty`},
	},
	{
		name: "an agent's program", sites: []string{"cmd/agentjailctl/sandbox_agent.go: %s; for one that only your shell finds"},
		fails: agent + `mkdir -p /opt/$N; mv $D/bin/$N /opt/$N/; aj sandbox --workspace $W --agent $N --home empty`, says: `cp it; for one that only your shell finds, with sudo: sudo env "PATH=$PATH" agentjail sandbox ...`,
		works: []string{
			agent + `rm $D/bin/$N; env "PATH=$PATH:/opt/$N" "$AGENTJAIL" --config $D/policy.toml sandbox --workspace $W --agent $N --home empty; rm -r /opt/$N`,
			agent + `aj sandbox --workspace $W --agent $N --home empty`,
		},
	},
	{
		name: "an agent's program of old", sites: []string{"runtime/spec/sandbox/agents/program.go: %s"},
		fails: agent + `echo 'minimum = "2.0.0"' >>/etc/agentjail/agents/$N.toml; aj sandbox --workspace $W --agent $N --home empty`, says: "the preset needs 2.0.0 (remedy: cp it)",
		works: []string{agent + `echo 'minimum = "2.0.0"' >>/etc/agentjail/agents/$N.toml; sed -i s/1.2.3/2.0.1/ $D/bin/$N; aj sandbox --workspace $W --agent $N --home empty`},
	},
	{
		name: "an agent of root's directory", sites: []string{"cmd/agentjailctl/sandbox_review.go: chown it to a user and a group that are not root"},
		fails: agent + `chgrp 0 $W; aj sandbox --workspace $W --agent $N --home empty; false`, says: "chown it to a user and a group that are not root",
		works: []string{agent + `chown 1000:1000 $W; aj sandbox --workspace $W --agent $N --home empty 2>&1 | tee $D/out; ! grep 'no layer' $D/out`},
	},
	{
		name: "why: another owner's file in a view", sites: []string{"runtime/observe/why/messages.toml: cp FILE NEW && rm FILE"},
		fails: `echo 1 >$W/other; chown 2:2 $W/other; chmod 666 $W/other; aj sandbox --workspace $W --review -- mv $W/other $W/new`, says: "Value too large for defined data type",
		works: []string{`aj sandbox --workspace $W --review -- sh -c 'cp other new && rm other && test ! -e other && cat new'`},
	},
	{
		name: "no such view", sites: []string{"runtime/workspace/record.go: `agentjail workspace list`"},
		fails: `aj workspace diff zzqq`, says: "`agentjail workspace list` shows those that exist",
		works: []string{view + `aj workspace list | grep $V`},
	},
	{
		name: "a view's name twice", sites: []string{"runtime/workspace/view.go: agentjail workspace discard %s, or another name", "runtime/workspace/view.go: another name"},
		fails: view + `mkdir $W/2; chown 1000:1000 $W/2; aj sandbox --workspace $W/2 --review --view $V -- true`, says: "another name",
		works: []string{view + `aj sandbox --workspace $W/2 --review --view $V-2 -- true`, view + `aj workspace discard $V; aj sandbox --workspace $W/2 --review --view $V -- true`},
	},
	{
		name: "a view of a directory that is gone", sites: []string{"runtime/workspace/layers.go: bring it back, or agentjail workspace discard", "runtime/workspace/layers.go: move that one back"},
		fails: view + `mkdir $W/2; chown 1000:1000 $W/2; aj sandbox --workspace $W/2 --review --view $V-2 -- touch new; mv $W/2 $W/3; mkdir $W/2; chown 1000:1000 $W/2; ! aj workspace diff $V-2 || exit 0; rmdir $W/2; aj workspace diff $V-2`, says: "move that one back",
		works: []string{view + `mv $W/3 $W/2; aj workspace diff $V-2 | grep new; rm -r $W/2; aj workspace discard $V-2; ! aj workspace list | grep $V-2`},
	},
	{
		name: "a directory that was removed as a whole", sites: []string{"runtime/workspace/review/print.go: name that one"},
		fails: view + `mkdir $W/d; echo 1 >$W/d/f; chown -R 1000:1000 $W/d; aj sandbox --workspace $W --review --view $V-2 -- rm -r d; aj workspace apply $V-2 d/f`, says: "name that one",
		works: []string{view + `aj workspace apply $V-2 d; test ! -e $W/d`},
	},
	{
		name: "conflicts", sites: []string{"runtime/workspace/apply/apply.go: --each leaves them out, or name other paths"},
		fails: view + `aj sandbox --workspace $W --review --view $V-2 -- sh -c 'echo 2 >f; echo 2 >g; echo 2 >h'; echo 3 >$W/f; aj workspace apply $V-2`, says: "--each leaves them out, or name other paths",
		works: []string{view + `aj workspace apply $V-2 g; grep 2 $W/g`, view + `aj workspace apply $V-2 --each || test -e $W/h; grep 2 $W/h; grep 3 $W/f`},
	},
	{
		name: "a diff of before", sites: []string{"cmd/agentjailctl/workspace.go: agentjail workspace diff %s, with the same PATHs"},
		fails: view + `aj workspace apply $V --if 0000`, says: "with the same PATHs, and the token of its last line",
		works: []string{view + `aj workspace apply $V --if $(aj workspace diff $V | tail -n1 | sed 's/.* //')`},
	},
	{
		name: "a view that a jail has", sites: []string{"runtime/workspace/lock.go: end that jail, or start without --view", "runtime/workspace/apply/settle.go: end the jail first", "cmd/agentjailctl/workspace.go: agentjail workspace apply %s --if TOKEN"},
		fails: view + `running --workspace $W --review --view $V; aj sandbox --workspace $W --review --view $V -- true; ! aj workspace discard $V new || exit 0; aj workspace apply $V`, says: "end that jail, or start without --view",
		works: []string{
			view + `running --workspace $W --review --view $V; aj sandbox --workspace $W --review -- true; aj workspace apply $V --live; test -e $W/new`,
			view + `aj sandbox --workspace $W --review --view $V -- touch new2; aj workspace discard $V new2`,
		},
	},
	{
		name: "an export to a terminal", sites: []string{"cmd/agentjailctl/workspace.go: `agentjail workspace export ID > FILE`"},
		fails: view + `script -qec "$AGENTJAIL workspace export $V" /dev/null`, says: "`agentjail workspace export ID > FILE`, or `agentjail workspace diff -p ID`",
		works: []string{
			view + `aj workspace export $V > $D/file; grep new $D/file; aj workspace diff -p $V | grep new`,
			// An archive of a sandbox cannot be made in another place either: that remedy is not named.
			`n=$(basename $D); running --name $n; script -qec "$AGENTJAIL export $n" /dev/null | grep 'no engine sees its root'`,
		},
	},
	{
		name: "exec's file of a process", sites: []string{"runtime/lifecycle/exec.go: --detach, or a regular file"},
		fails: `n=$(basename $D); run ""; sed -i 's/"args": \["true"\]/"args": ["sleep", "1000"]/' $B/config.json; aj --root $D/state create --bundle $B $n </dev/null >/dev/null 2>&1; aj --root $D/state start $n; aj --root $D/state exec --pid-file /dev/stdout $n true </dev/null`, says: "--detach, or a regular file",
		works: []string{
			`n=$(basename $D); aj --root $D/state exec --pid-file $D/pid $n true </dev/null; grep . $D/pid`,
			`n=$(basename $D); aj --root $D/state exec --detach --pid-file /dev/stdout $n true </dev/null; aj --root $D/state delete --force $n`,
		},
	},
	{
		name: "a name of several", sites: []string{"runtime/state/reference/reference.go: one of these"},
		fails: `aj sandbox --id-file $D/1 -- true; aj sandbox --id-file $D/2 -- true; aj receipt sandbox-`, says: "(remedy: one of these)",
		works: []string{`aj receipt $(cat $D/1)`, `aj receipt $(cat $D/2)`},
	},
	{
		name: "a journal of another time", sites: []string{"runtime/observe/journal/place.go: agentjail journal lists each ID@TIME"},
		fails: `aj sandbox --id-file $D/id -- true; aj journal $(cat $D/id)@20200101T000000.000000`, says: "agentjail journal lists each ID@TIME",
		works: []string{`aj journal $(aj journal | grep -o "$(cat $D/id)@[^ ]*")`},
	},
	{
		name: "a place for events", sites: []string{"runtime/observe/journal/otlp/otlp.go: otlp:http://HOST:4318"},
		fails: `timeout 20 "$AGENTJAIL" watch --to otlp:x`, says: "otlp:http://HOST:4318",
		works: []string{`status=0; timeout 3 "$AGENTJAIL" watch --to otlp:http://127.0.0.1:4318 || status=$?; test $status = 124`},
	},
	{
		name: "a preset of a tool without configuration", sites: []string{"runtime/spec/netrules/presets/presets.go: %s, or a file %s.txt"},
		fails: `aj sandbox --allow @cargo -- true`, says: "or a file cargo.txt in the directory of presets",
		works: []string{`mkdir -p /etc/agentjail/presets; echo example.org >/etc/agentjail/presets/cargo.txt; aj sandbox --allow @cargo -- true; rm /etc/agentjail/presets/cargo.txt`},
	},
	{
		name: "names that policy has not", sites: []string{"runtime/spec/netrules/set.go: policy: network.allow"},
		fails: `policy 'network.mode = "names"
network.allow = ["example.com"]'; aj sandbox --tighten network.allow=example.org -- true`, says: "policy: network.allow",
		works: []string{`policy 'network.mode = "names"
network.allow = ["example.com", "example.org"]'; aj sandbox --tighten network.allow=example.org -- true`},
	},
	{
		name: "a network that lives", sites: []string{"runtime/network/names/control.go: --force, which ends it"},
		fails: `n=$(basename $D); running --name $n --allow example.org; aj network restart $n`, says: "--force, which ends it, and with it the jail's connections",
		works: []string{`n=$(basename $D); running --name $n --allow example.org; aj network restart --force $n`},
	},
	{
		name: "a layer on a disk", sites: []string{"runtime/workspace/throwaway.go: mount a disk there"},
		fails: `policy 'root.backing = "disk"'; aj sandbox -- true`, says: `mount a disk there, or policy: root.backing = "memory"`,
		works: []string{`policy 'root.backing = "memory"'; aj sandbox -- true`},
	},
	{
		name: "settings of git's that are too long", sites: []string{"runtime/protect/git.go: shorten it, or policy: binds.unprotect"},
		fails: `aj sandbox --workspace $W -- git init -q .; cp $W/.git/config $D/config; head -c 3000000 /dev/zero | tr '\0' '#' >>$W/.git/config; aj sandbox --workspace $W -- true`, says: "shorten it, or policy: binds.unprotect = [\"",
		works: []string{`policy "binds.unprotect = [\"$W/.git/config\"]"; aj sandbox --workspace $W -- true`, `policy ''; cp $D/config $W/.git/config; aj sandbox --workspace $W -- true`},
	},
	{
		name: "hooks in the directory itself", sites: []string{"runtime/protect/links.go: remove it on the host, or policy: binds.unprotect"},
		fails: `aj sandbox --workspace $W -- git init -q .; rm -r $W/.git/hooks; ln -s ../ $W/.git/hooks; chown -h 1000:1000 $W/.git/hooks; aj sandbox --workspace $W -- true`, says: "remove it on the host, or policy: binds.unprotect = [\"",
		works: []string{`policy "binds.unprotect = [\"$W/.git/hooks\"]"; aj sandbox --workspace $W -- true`, `policy ''; rm $W/.git/hooks; aj sandbox --workspace $W -- true`},
	},
	{
		name: "hooks in another mounted directory", sites: []string{"runtime/rootfs/protect.go: mount %s read-only, or policy: binds.unprotect"},
		fails: `aj sandbox --workspace $W -- git init -q .; mkdir $W-hooks; chown 1000:1000 $W-hooks; for p in $W-hooks/ $(dirname $W)//$(basename $W-hooks) $W/../$(basename $W-hooks); do git config -f $W/.git/config core.hooksPath $p; ! aj sandbox --workspace $W --workspace $W-hooks -- true 2>$D/errors || exit 0; cat $D/errors; grep -o 'binds.unprotect = .*"\]' $D/errors >>$D/wanted; done; false`, says: " read-only, or policy: binds.unprotect = [\"",
		works: []string{
			`aj sandbox --workspace $W --volume $W-hooks:$W-hooks:ro -- true`,
			// Each text as it was printed.
			`for p in $W-hooks/ $(dirname $W)//$(basename $W-hooks) $W/../$(basename $W-hooks); do git config -f $W/.git/config core.hooksPath $p; head -n1 $D/wanted >$D/policy.toml; sed -i 1d $D/wanted; aj sandbox --workspace $W --workspace $W-hooks -- true; done; rm -r $W-hooks`,
		},
	},
	{
		name: "a name to check", sites: []string{"cmd/agentjailctl/network.go: in the policy, %s"},
		fails: `n=$(basename $D); running --name $n --allow example.org; aj network check $n example.com:443`, says: "(remedy: in the policy, network.allow = [\"example.com:443\"]",
		works: []string{`n=$(basename $D); policy 'network.mode = "names"
network.allow = ["example.com:443"]'; running --name $n; aj network check $n example.com:443`},
	},
	{
		name: "changes of a container that has ended", sites: []string{"runtime/rootfs/changes/jail.go: a volume or a mounted directory"},
		fails: `n=$(basename $D); run "sh('echo 1 >/new')"; aj --root $D/state create --bundle $B $n </dev/null >/dev/null 2>&1; aj --root $D/state start $n; until aj --root $D/state state $n | grep stopped; do :; done; status=0; aj --root $D/state diff $n || status=$?; aj --root $D/state delete --force $n; exit $status`, says: "a volume or a mounted directory for what is to stay",
		works: []string{`run "mount(W,'/x'); sh('echo 1 >/x/new')"; test -e $W/new`},
	},
	{
		name: "a file that leads git to no directory", sites: []string{"runtime/spec/sandbox/git/place.go: look at the file"},
		fails: `mkdir $W/r; chown 1000:1000 $W/r; aj sandbox --workspace $W/r -- git init -q .; mv $W/r/.git $W/r/store; echo store >$W/r/.git; chown 1000:1000 $W/r/.git; aj git $W/r status`, says: "look at the file: it should read",
		works: []string{`echo "gitdir: store" >$W/r/.git; aj git $W/r status`},
	},
	{
		name: "no terms of tighten", sites: []string{"cmd/agentjailctl/policy.go: `agentjail policy show`"},
		fails: `aj sandbox --tighten limits.pids=100000 -- true`, says: "`agentjail policy show` prints the policy's values",
		works: []string{`aj sandbox --tighten limits.pids=$(aj policy show | sed -n 's/^limits.pids *= *\([0-9]*\).*/\1/p') -- true`},
	},
	{
		name: "a time without a unit", sites: []string{"cmd/agentjailctl/status.go: a time with its unit"},
		fails: `aj sandbox --timeout 90 -- true`, says: "a time with its unit, such as 90s, 10m or 2h",
		works: []string{`for t in 90s 10m 2h; do aj sandbox --timeout $t -- true; done`},
	},
	{
		name: "a place without a listener", sites: []string{"cmd/agentjailctl/watch.go: listen at it before"},
		fails: `timeout 20 "$AGENTJAIL" --config $D/policy.toml watch --to unix:$D/listen`, says: "listen at it before",
		works: []string{`python3 -c 'import socket,sys,os; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); os.fork() and sys.exit(); s.settimeout(60); s.accept()' $D/listen >/dev/null 2>&1; status=0; timeout 5 "$AGENTJAIL" --config $D/policy.toml watch --to unix:$D/listen || status=$?; test $status != 125`},
	},
	{
		name: "a jail that has ended", sites: []string{"cmd/agentjailctl/find.go: agentjail receipt %s; agentjail why %s QUESTION", "runtime/observe/journal/place.go: agentjail ls lists all"},
		fails: `n=$(basename $D); ! aj receipt $n || exit 0; aj sandbox --name $n -- true; aj inspect $n`, says: "agentjail receipt sandbox-",
		works: []string{`n=$(basename $D); aj receipt $n; aj why $n mount | grep 'not listed'; aj ls | grep $n`},
	},
	{
		name: "a receipt with a signature", sites: []string{"cmd/agentjailctl/receipt.go: --verify", "runtime/observe/receipt/envelope.go: agentjail receipt --sign"},
		fails: `n=$(basename $D); aj sandbox --name $n -- true; aj receipt $n --json >$D/plain; ! aj receipt --against $D/plain --verify || exit 0; aj receipt $n --sign >$D/signed; aj receipt --against $D/signed $n`, says: "--verify, where it is a signed one",
		works: []string{`aj receipt --against $D/signed --verify`},
	},
	{
		name: "a key that others read", sites: []string{"runtime/observe/receipt/sign.go: remove it, and a new one is made"},
		fails: `n=$(basename $D); aj sandbox --name $n -- true; aj receipt $n --sign >/dev/null; ls -A $D; chmod 644 $D/*.key; aj receipt $n --sign`, says: "remove it, and a new one is made",
		works: []string{`rm $D/*.key; aj receipt $(basename $D) --sign`},
	},
	{
		name: "sudo's users", sites: []string{"runtime/kernel/invoker/invoker.go: unset the variable that is not true", "runtime/facts/gather.go: invoker.Remedy", "runtime/kernel/invoker/invoker.go: %s", "runtime/kernel/invoker/invoker.go: (2) %s"},
		fails: `export SUDO_UID=1000 SUDO_GID=1000; ! DOAS_USER=daemon "$AGENTJAIL" --config $D/policy.toml sandbox -- true || exit 0; ! aj --root $D/state inspect x || exit 0; chown 1001:1001 $W; ! aj sandbox --volume $W:/x -- true || exit 0; aj sandbox --workspace $W -- true`, says: "call as root itself: `sudo -i`, and there `unset SUDO_UID`",
		works: []string{`export SUDO_UID=1000 SUDO_GID=1000; aj sandbox -- true; unset SUDO_UID; aj --root $D/state ls; aj sandbox --volume $W:/x -- true; aj sandbox --workspace $W -- true`},
	},
	{
		name: "a home that a jail has", sites: []string{"runtime/workspace/homes/homes.go: wait for its end, or --home empty"},
		fails: agent + `printf '#!/bin/sh\nif [ "$1" = wait ]; then echo began; cat; fi\necho 1.2.3\n' >$D/bin/$N; mkfifo $D/never $D/began; exec 8<>$D/never 9<>$D/began; "$AGENTJAIL" --config $D/policy.toml sandbox --workspace $W --agent $N --direct wait <$D/never >$D/began 2>&1 8>&- 9>&- & trap 'exec 8>&- 9>&-; wait' EXIT; while read -r line <&9; do [ "$line" != began ] || break; done; aj sandbox --workspace $W --agent $N --home empty --direct || exit 0; aj sandbox --workspace $W --agent $N --direct`, says: "wait for its end, or --home empty",
		works: []string{"N=r-$(basename $D | tr -cd 0-9); " + `aj sandbox --workspace $W --agent $N --direct`},
	},
	{
		name: "git's network", sites: []string{"runtime/spec/sandbox/git/git.go: clean", "runtime/spec/sandbox/git/git.go: later", "runtime/spec/sandbox/git/git.go: agentjail git DIR, with the directory that is meant", "runtime/spec/sandbox/git/git.go: (2) agentjail git DIR, with the directory that is meant", "runtime/spec/sandbox/git/place.go: name a directory in a repository"},
		fails: `aj git $W status && exit 0; aj sandbox --workspace $W -- git init -q .; for c in fetch 'commit -S -m x' '--git-dir=/x status' '-C /x status'; do ! aj git $W $c || exit 0; done; false`, says: "agentjail git DIR, with the directory that is meant",
		works: []string{`aj git $W status`, `aj git $W -c user.name=x add f || aj git $W add f; aj git $W status | grep 'new file'`},
	},
}

// agent makes an agent $N of a program in $D/bin.
const agent = "N=r-$(basename $D | tr -cd 0-9); mkdir -p -m 755 $D/bin /etc/agentjail/agents; chmod 755 $D; printf '#!/bin/sh\\necho 1.2.3\\n' >$D/bin/$N; chmod 755 $D/bin/$N\n" +
	"printf 'program = \"%s\"\\nplaces = [\"%s\"]\\ninstall = \"cp it\"\\n' $N $D/bin >/etc/agentjail/agents/$N.toml\n"

// view makes the view $V of $W, with the file new.
const view = `V=v-$(basename $D | tr -cd 0-9); test -e $D/view || { : >$D/view; aj sandbox --workspace $W --review --view $V -- touch new; }
`
