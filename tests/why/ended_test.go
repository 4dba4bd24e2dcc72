package why

import (
	"encoding/json"
	"strings"
	"testing"
)

// ended runs a command in a sandbox with a label of its own, and returns the id of the jail and ID@TIME.
func ended(t *testing.T, args ...string) (id, at string) {
	t.Helper()
	before := listed(t)
	_, out, errs := agentjail(t, append([]string{"sandbox"}, args...)...)
	for id, at := range listed(t) {
		if before[id] == "" && strings.HasPrefix(id, "sandbox-") {
			return id, at
		}
	}
	t.Fatalf("no jail is listed: %s%s", out, errs)
	return "", ""
}

// listed are the jails of `agentjail ls`, each with ID@TIME.
func listed(t *testing.T) map[string]string {
	t.Helper()
	_, out, errs := agentjail(t, "ls", "--json")
	var l struct {
		Jails []struct{ ID, At string }
	}
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	all := map[string]string{}
	for _, j := range l.Jails {
		all[j.ID] = j.At
	}
	return all
}

// TestWhyOfEndedJail: the journal of a jail that has ended answers, whatever names the jail.
func TestWhyOfEndedJail(t *testing.T) {
	id, at := ended(t, "--allow", "api.example.test:443", "--", "getent", "hosts", "evil.example.test")
	for _, name := range []string{id, at, id[:len(id)-1]} {
		code, out, errs := agentjail(t, "why", name, "evil.example.test:443")
		if code != 1 || !strings.Contains(out, "the jail has ended") || !strings.Contains(out, "refused 1 times so far") {
			t.Errorf("why %s: status %d: %s%s", name, code, out, errs)
		}
		if code, out, errs := agentjail(t, "why", name, "mount"); code != 1 || !strings.Contains(out, "not listed in profile default") {
			t.Errorf("why %s mount: status %d: %s%s", name, code, out, errs)
		}
		if code, out, errs := agentjail(t, "network", "log", name); code != 0 || !strings.Contains(out, "refused name    evil.example.test") {
			t.Errorf("network log %s: status %d: %s%s", name, code, out, errs)
		}
		if code, _, errs := agentjail(t, "inspect", name); code != 1 || !strings.Contains(errs, "has ended") || !strings.Contains(errs, "agentjail receipt "+at) {
			t.Errorf("inspect %s: status %d: %s", name, code, errs)
		}
	}
	if code, out, errs := agentjail(t, "denied", at); code != 0 || !strings.Contains(out, "not seen: refused system calls") || !strings.Contains(out, "not seen: refused access to files") {
		t.Errorf("denied reports not what it cannot see: status %d: %s%s", code, out, errs)
	}
	if code, _, errs := agentjail(t, "why", id+"@20200101T000000.000000", "mount"); code != 125 || !strings.Contains(errs, "no journal of it") {
		t.Errorf("another time: status %d: %s", code, errs)
	}
}

// refusedPort are programs that connect to a port of api.example.test without an entry. Each is explained by the last line that it prints.
var refusedPort = []struct{ program, do string }{
	{"curl", "curl -sS http://api.example.test:7777/"},
	{"curl", "curl -sS https://api.example.test:7777/"},
	{"ssh", "ssh -o StrictHostKeyChecking=no -o BatchMode=yes -p 7777 x@api.example.test"},
	{"node", `node -e 'require("net").connect(7777,"api.example.test").on("error",e=>console.error(String(e)))'`},
	{"python3", `python3 -c 'import socket; s=socket.create_connection(("api.example.test",7777)); s.send(b"x"); s.recv(1)'`},
	{"git", "git ls-remote http://api.example.test:7777/x"},
	{"psql", "psql -h api.example.test -p 7777 x"},
}

// TestRefusedPort: what programs print of a port without an entry is answered with the entry, in the jail that ran them and after its end.
func TestRefusedPort(t *testing.T) {
	var script strings.Builder
	script.WriteString("cd /tmp; ")
	for _, p := range refusedPort {
		script.WriteString("command -v " + p.program + " >/dev/null && { " + p.do + "; } 2>&1 </dev/null | tail -n 4; echo ----; ")
	}
	before := listed(t)
	_, out, _ := agentjail(t, "sandbox", "--allow", "api.example.test:443", "--", "sh", "-c", script.String())
	id := ""
	for known := range listed(t) {
		if before[known] == "" {
			id = known
		}
	}
	texts := strings.Split(out, "----\n")
	if len(texts) != len(refusedPort)+1 {
		t.Fatalf("%d texts: %s", len(texts), out)
	}
	tried := 0
	for i, p := range refusedPort {
		text := strings.TrimSpace(texts[i])
		if text == "" {
			continue // it is not installed
		}
		tried++
		code, out, errs := agentjail(t, "why", id, text)
		if code != 1 || !strings.Contains(out, "connect.refused api.example.test:7777") {
			t.Errorf("%s printed %q: status %d: %s%s", p.program, text, code, out, errs)
		}
	}
	if tried < 2 {
		t.Errorf("%d programs were tried", tried)
	}
	if _, out, _ := agentjail(t, "denied", id); !strings.Contains(out, `--allow "api.example.test:7777"`) {
		t.Errorf("denied has not the entry: %s", out)
	}
}
