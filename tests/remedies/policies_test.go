package remedies

// ofPolicies are the refusals of a policy's text.
var ofPolicies = []remedy{
	{
		name: "a policy that is not there", sites: []string{"runtime/spec/policy/load.go: add that table"},
		fails: `policy 'limits.pids = 100'; aj sandbox --policy zzqq -- true`, says: "add that table",
		works: []string{`policy '[policies.zzqq]
limits.pids = 100'; aj sandbox --policy zzqq -- true`},
	},
	{
		name: "a policy twice", sites: []string{"runtime/spec/policy/load.go: remove one"},
		fails: `mkdir $D/policies.d; policy '[policies.f]
limits.pids = 100'; : >$D/policies.d/f.toml; aj policy validate $D/policy.toml`, says: "remove one",
		works: []string{`policy ''; aj policy validate $D/policy.toml; aj sandbox --policy f -- true`, `rm $D/policies.d/f.toml; policy '[policies.f]
limits.pids = 100'; aj policy validate $D/policy.toml; aj sandbox --policy f -- true`},
	},
	{
		name: "another file among policies", sites: []string{"runtime/spec/policy/load.go: rename or remove it"},
		fails: `mkdir $D/policies.d; echo 'limits.pids = 100' >$D/policies.d/note; aj policy validate $D/policy.toml`, says: "rename or remove it",
		works: []string{`mv $D/policies.d/note $D/policies.d/note.toml; aj policy validate $D/policy.toml; aj sandbox --policy note -- true`, `rm $D/policies.d/note.toml; aj policy validate $D/policy.toml`},
	},
	{
		name: "a project's named policy", sites: []string{"runtime/spec/policy/narrow.go: %s at the top"},
		fails: `printf '[policies.x]\nlimits.pids = 100\n' >$W/.agentjail.toml; aj sandbox --workspace $W -- true`, says: "limits.pids at the top",
		works: []string{`printf 'limits.pids = 100\n' >$W/.agentjail.toml; aj sandbox --workspace $W -- true`},
	},
	{
		name: "a project's key", sites: []string{"runtime/spec/policy/narrow.go: set it in the policy of the host, or remove it"},
		fails: `echo 'journal.enabled = false' >$W/.agentjail.toml; aj sandbox --workspace $W -- true`, says: "set it in the policy of the host, or remove it",
		works: []string{`: >$W/.agentjail.toml; aj sandbox --workspace $W -- true`, `policy 'journal.enabled = false'; aj sandbox --workspace $W -- true`},
	},
	{
		name: "a project's names", sites: []string{"runtime/spec/policy/narrow.go: network.mode"},
		fails: `echo 'network.allow = ["example.org"]' >$W/.agentjail.toml; policy 'network.mode = "engine"'; run "mount(W,'/x'); s['annotations']={'dev.agentjail.project':'/x'}"`, says: `network.mode = "names" in the policy of the host`,
		works: []string{`policy 'network.mode = "names"
network.allow = ["example.org", "example.com"]'; run "mount(W,'/x'); s['annotations']={'dev.agentjail.project':'/x'}"`},
	},
	{
		name: "profiles", sites: []string{"runtime/spec/policy/settings.go: rename the table"},
		fails: `policy '[profiles.x]
limits.pids = 100'; aj sandbox --policy x -- true`, says: "rename the table",
		works: []string{`policy '[policies.x]
limits.pids = 100'; aj sandbox --policy x -- true`},
	},
	{
		name: "a named policy that is no table", sites: []string{"runtime/spec/policy/settings.go: [policies."},
		fails: `policy 'policies.x = 3'; aj policy validate $D/policy.toml`, says: "[policies.x]",
		works: []string{`policy '[policies.x]'; aj policy validate $D/policy.toml; aj sandbox --policy x -- true`},
	},
	{
		name: "too many named policies", sites: []string{"runtime/spec/policy/settings.go: leave out those without use"},
		fails: `for i in $(seq 1001); do echo "[policies.p$i]"; done >$D/policy.toml; aj policy validate $D/policy.toml`, says: "leave out those without use",
		works: []string{`sed -i 1d $D/policy.toml; aj policy validate $D/policy.toml; aj sandbox --policy p2 -- true`},
	},
	{
		name: "a key that is none", sites: []string{"runtime/spec/policy/settings.go: `agentjail policy schema` has all keys"},
		fails: `policy 'quux = 100'; aj sandbox -- true`, says: "`agentjail policy schema` has all keys",
		works: []string{`aj policy schema | grep -q '"pids"'; policy 'limits.pids = 100'; aj sandbox -- true`},
	},
	{
		name: "a credential that others read", sites: []string{"runtime/spec/credential/fetch.go: install -m 600 %s /root/KEY, and that file"},
		fails: `printf 0123456789 >$D/key; policy "network.mode = \"names\"
network.allow = [\"api.example.test\"]
[credentials.house]
hosts = [\"api.example.test\"]
header = \"Authorization: Bearer\"
from = \"file:$D/key\"
env = \"TOKEN\""; aj sandbox -- true`, says: "install -m 600 ",
		works: []string{`k=/root/KEY-$(basename $D); trap "rm $k" EXIT; install -m 600 $D/key $k; sed -i "s|file:$D/key|file:$k|" $D/policy.toml; aj policy validate $D/policy.toml; aj sandbox -- sh -c 'test -n "$TOKEN"'`},
	},
	{
		name: "a credential without a policy", sites: []string{"runtime/spec/policy/examine.go: network.mode"},
		fails: `printf 0123456789 >$D/key; chmod 600 $D/key; credential="[credentials.house]
hosts = [\"api.example.test\"]
header = \"Authorization: Bearer\"
from = \"file:$D/key\"
env = \"TOKEN\""; policy "$credential"; aj policy validate $D/policy.toml; aj sandbox -- sh -c 'test -n "$TOKEN"'`, says: `network.mode = "names" and network.allow with ["api.example.test"], or agentjail sandbox --allow`,
		works: []string{
			`aj sandbox --allow api.example.test -- sh -c 'test -n "$TOKEN"'`,
			`printf '%s\n' 'network.mode = "names"' 'network.allow = ["api.example.test"]' "$(cat $D/policy.toml)" >$D/policy.toml.new; mv $D/policy.toml.new $D/policy.toml; aj policy validate $D/policy.toml; aj sandbox -- sh -c 'test -n "$TOKEN"'`,
		},
	},
	{
		name: "a key's server", sites: []string{"runtime/spec/credential/ssh.go: ssh = ", "runtime/spec/credential/ssh.go: add the one that"},
		fails: `ssh-keygen -qt ed25519 -N '' -f $D/key; ssh-keygen -qt ed25519 -N '' -f $D/server; : >$D/known; printf '%s\n' 'network.mode = "names"' 'network.allow = ["git.example.test:22"]' '[credentials.deploy]' 'hosts = ["git.example.test"]' "from = \"file:$D/key\"" "known_hosts = \"$D/known\"" 'repositories = ["team/project.git"]' >$D/policy.toml; ! aj policy validate $D/policy.toml || exit 0; echo 'ssh = "git"' >>$D/policy.toml; aj sandbox -- true`, says: "add the one that the server's owner publishes",
		works: []string{`echo "git.example.test $(cut -d' ' -f1,2 $D/server.pub)" >$D/known; aj policy validate $D/policy.toml; aj sandbox -- true`},
	},
	{
		name: "no name of a profile", sites: []string{`runtime/spec/policy/validate.go: "agentjail-default"`},
		fails: `policy 'apparmor.profile = "unconfined"'; aj sandbox -- true`, says: `"agentjail-default"`,
		works: []string{`policy 'apparmor.profile = "agentjail-default"'; aj sandbox -- true`},
	},
	{
		name: "capabilities of the overflow user", sites: []string{"runtime/spec/policy/capabilities.go: userns.map"},
		fails: `printf '%s\n' 'process.capabilities = ["SETGID"]' 'apparmor.profile = "agentjail-service"' 'userns.map = "nobody"' >$D/policy.toml; run ""`, says: `userns.map = "range"`,
		works: []string{`sed -i 's/"nobody"/"range"/' $D/policy.toml; run "sh('grep -i capprm:.*40 /proc/self/status')"`},
	},
	{
		name: "capabilities under another profile", sites: []string{"runtime/spec/policy/capabilities.go: apparmor.profile"},
		fails: `printf '%s\n' 'process.capabilities = ["SETGID"]' 'apparmor.profile = "mine"' >$D/policy.toml; run ""`, says: `apparmor.profile = "agentjail-service"`,
		works: []string{`sed -i s/mine/agentjail-service/ $D/policy.toml; run "sh('grep -i capprm:.*40 /proc/self/status')"`},
	},
	{
		name: "a port", sites: []string{"runtime/spec/publish/publish.go: network.publish = [%q]"},
		fails: `policy 'network.mode = "names"'; run "s['annotations']={'dev.agentjail.network.publish':'127.0.0.1:28080:80'}"`, says: `network.publish = ["127.0.0.1:28080"]`,
		works: []string{`echo 'network.publish = ["127.0.0.1:28080"]' >>$D/policy.toml; run "s['annotations']={'dev.agentjail.network.publish':'127.0.0.1:28080:80'}"`},
	},
	{
		name: "a preset of names", sites: []string{"runtime/spec/netrules/presets/presets.go: one of %s, or a file"},
		fails: `aj sandbox --allow @r-$(basename $D | tr -cd 0-9) -- true`, says: "in the directory of presets",
		works: []string{
			`mkdir -p /etc/agentjail/presets; echo example.org >/etc/agentjail/presets/r-$(basename $D | tr -cd 0-9).txt; aj sandbox --allow @r-$(basename $D | tr -cd 0-9) -- true; rm /etc/agentjail/presets/r-$(basename $D | tr -cd 0-9).txt`,
		},
	},
}
