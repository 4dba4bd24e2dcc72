package policy

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzProject: no project's own file widens a policy, whatever the bytes of both; nor does it change
// the policy that it is applied to, and it is the same after its way through a jail's record.
func FuzzProject(f *testing.F) {
	const policy = "network.mode = \"names\"\nnetwork.allow = [\"*.a.example:443\", \"b.example:1-9 private\"]\nnetwork.deny = [\"x.a.example\"]\n"
	for name, c := range narrowings {
		for _, v := range append(c.followed, c.refused...) {
			f.Add([]byte(name+" = "+c.policy), []byte(name+" = "+v))
			f.Add([]byte(policy), []byte(name+" = "+v+"\n["+strings.Replace(name, ".", "]\n", 1)+" = "+v))
		}
	}
	for _, text := range []string{
		"limits.cpus = nan", "limits.cpus = -inf", "limits.cpus = -0.0", "limits = {pids = 5, cpus = 1e-320}", "network.allow = [\"*.a.example:443 tls=any\"]",
		"network.allow = [\"c.a.example\", \"b.example:1\"]\nnetwork.deny = [\"x.a.example\", \"c.a.example:443\"]", "[[limits]]\npids = 1", "\ufeffroot.size = 1",
		"credentials.x.hosts = []", "[policies.x]\nlimits.pids = 1", "\"limits\".\"pids\" = 0x7fffffffffffffff", "root.size = \"9999999999999999g\"", "limits.pids = 1979-05-27",
	} {
		f.Add([]byte(policy), []byte(text))
	}
	f.Fuzz(func(t *testing.T, text, project []byte) {
		p, err := Parse(text, "p", "")
		if err != nil {
			p = Default()
		}
		was := copyOf(t, p)
		own := ReadProject(project, "f")
		now, err := p.Narrow(own)
		if !reflect.DeepEqual(copyOf(t, p), was) {
			t.Fatalf("%q changes the policy that it narrows, %q", project, text)
		}
		if err != nil {
			return
		}
		if key := wider(t, p, now); key != "" {
			t.Fatalf("%q over %q: %s is wider: %+v", project, text, key, now)
		}
		record, err := json.Marshal(own)
		if err != nil {
			t.Fatalf("%q: %v", project, err)
		}
		var back Project
		if err := json.Unmarshal(record, &back); err != nil {
			t.Fatal(err)
		}
		again, err := p.again(back)
		if err != nil || !reflect.DeepEqual(copyOf(t, again), copyOf(t, now)) {
			t.Fatalf("%q over %q, by its record: %v, %q", project, text, err, Differs(now, again))
		}
	})
}

// copyOf is a policy that shares nothing with p.
func copyOf(t *testing.T, p Policy) (out Policy) {
	t.Helper()
	data, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wider names a key by which now permits more than p; "" for none.
func wider(t *testing.T, p, now Policy) string {
	t.Helper()
	for _, k := range Keys {
		a, b := valueAt(reflect.ValueOf(p), k.Name), valueAt(reflect.ValueOf(now), k.Name)
		switch {
		case k.narrow == narrowerRules:
			if now.Network.Mode == NetworkNames && !covers(t, p.Network, now.Network) {
				return k.Name
			}
		case k.narrow == moreEntries && k.Name == "network.deny" && now.Network.Mode != NetworkNames:
		case !reflect.DeepEqual(a.Interface(), b.Interface()) && !narrower(k, a, b):
			return k.Name
		}
	}
	if p.Workspace.All != now.Workspace.All || !reflect.DeepEqual(p.Workspace.Wanted, now.Workspace.Wanted) {
		return WorkspaceAnnotation
	}
	return ""
}

// covers reports whether p has all that now's rules let through.
func covers(t *testing.T, p, now Network) bool {
	t.Helper()
	old, err := p.Rules()
	if err != nil {
		return true // it starts no jail
	}
	rules, err := now.Rules()
	if err != nil {
		t.Fatalf("%q, %q: %v", now.Allow, now.Deny, err)
	}
	if _, err := old.Narrow(now.Allow); err != nil {
		return false
	}
	for _, r := range rules.Rules() {
		for _, name := range []string{r.Name, "x." + r.Name, "y.x." + r.Name} {
			for _, port := range []uint16{1, 22, 80, 443, 65535} {
				if rules.Match(name, port).OK && !old.Match(name, port).OK {
					return false
				}
			}
		}
	}
	return true
}

// FuzzGrowth: the time for a file grows with its length, whatever is repeated in it. "@" stands for
// the number of the repetition.
func FuzzGrowth(f *testing.F) {
	for _, unit := range []string{
		"k@ = 1\n", "[policies.p@]\nlimits.pids = 1\n", "a@.b.c.d.e.f.g.h = 1\n", "[[a]]\n", "[a@]\n[a@.b]\n", "limits.pids = @\n", "credentials.c@.hosts = [\"h@\"]\n", "#",
		"'''\n", "[a@.b.c]\n[policies.p@.limits]\npids = @\n", "\"\\u00e9@\" = ",
	} {
		f.Add("", unit, "")
	}
	f.Add("a = ", "[", "")
	f.Add("a = ", "{b@ = ", "1")
	f.Add("a", ".a", " = 1")
	f.Add("[policies.x]\nnetwork.allow = [", "\"h@.example.org\", ", "]")
	f.Add("network.mode = \"names\"\nnetwork.allow = [", "\"h@.example.org:@\", ", "]")
	f.Add("binds.hide = [", "\"*@*\", ", "]")
	f.Add("workspace.review = [", "\"/**/@\", ", "]")
	f.Add("userns.pool = \"", "9", "\"")
	f.Fuzz(func(t *testing.T, before, unit, after string) {
		const least, times = 4 << 10, 4
		little, much := repeated(before, unit, after, least), repeated(before, unit, after, times*least)
		usual := taken(repeated("binds.unprotect = [", "\"/a/b@\", ", "]", times*least))
		for range 5 {
			short, long := taken(little), taken(much)
			if long <= 2*times*short+usual {
				return
			}
			usual = max(usual, short)
		}
		t.Fatalf("%q, %q repeated, %q: %d times the length takes %v, and the length %v", before, unit, after, times, taken(much), taken(little))
	})
}

// repeated is a text of at most that many bytes.
func repeated(before, unit, after string, most int) []byte {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; unit != ""; i++ {
		one := strings.ReplaceAll(unit, "@", strconv.Itoa(i))
		if b.Len()+len(one)+len(after) > most {
			break
		}
		b.WriteString(one)
	}
	b.WriteString(after)
	return []byte(b.String())[:min(b.Len(), most)]
}

// taken is how long it takes to read a text as a policy and as a project's.
func taken(text []byte) time.Duration {
	begun := time.Now()
	file := readFile(text, "p")
	for _, name := range append(file.policies[:min(3, len(file.policies))], "") {
		_, _, _ = file.policy(name)
	}
	_, _ = Default().Narrow(ReadProject(text, "f"))
	return time.Since(begun)
}
