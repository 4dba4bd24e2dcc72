package protect

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/protect/gitconfig"
)

// subject is the kind of object that a setting of git's names.
type subject int

// Kinds of objects that settings name.
const (
	command    subject = iota // a line that a shell runs, or a program
	shellAlias                // a command where it begins with "!"
	external                  // a command where it begins with "ext::" (git-remote-ext(1))
	hooks                     // a directory of programs
	included                  // a file of further settings
	attributes                // a file that picks filters
)

// A gitSetting is a setting of git's that has it run something.
type gitSetting struct {
	// name is the setting's, in lower case: "*" stands for each subsection or key of the section,
	// and a last "*text" for each key that ends so.
	name string
	what subject
}

// gitSettings are the settings of git-config(1) that name a program, or a file by which git finds
// one (git 2.52), and those of programs that read the same file (gitattributes(5), git-lfs,
// git-annex, git-send-email(1), git-gui). Unknown settings are recognised by the ends of their
// names. A setting that only a protected file may set (uploadpack.packObjectsHook) counts too:
// versions differ in that.
var gitSettings = []gitSetting{
	{"include.path", included},
	{"includeif.*.path", included},
	{"core.hookspath", hooks},
	{"init.templatedir", hooks},
	{"core.attributesfile", attributes},
	{"core.fsmonitor", command},
	{"core.sshcommand", command},
	{"core.editor", command},
	{"core.pager", command},
	{"core.askpass", command},
	{"core.gitproxy", command},
	{"core.alternaterefscommand", command},
	{"alias.*", shellAlias},
	{"alias.*.command", command},
	{"diff.external", command},
	{"diff.*.command", command},
	{"diff.*.textconv", command},
	{"merge.*.driver", command},
	{"filter.*.clean", command},
	{"filter.*.smudge", command},
	{"filter.*.process", command},
	{"credential.helper", command},
	{"credential.*.helper", command},
	{"gpg.program", command},
	{"gpg.*.program", command},
	{"gpg.ssh.defaultkeycommand", command},
	{"sequence.editor", command},
	{"interactive.difffilter", command},
	{"pager.*", command},
	{"man.*.cmd", command},
	{"man.*.path", command},
	{"browser.*.cmd", command},
	{"browser.*.path", command},
	{"mergetool.*.cmd", command},
	{"mergetool.*.path", command},
	{"difftool.*.cmd", command},
	{"difftool.*.path", command},
	{"guitool.*.cmd", command},
	{"remote.*.uploadpack", command},
	{"remote.*.receivepack", command},
	{"remote.*.vcs", command},
	{"remote.*.url", external},
	{"remote.*.pushurl", external},
	{"submodule.*.url", external},
	{"submodule.*.update", shellAlias},
	{"uploadpack.packobjectshook", command},
	{"hook.*.command", command},
	{"trailer.*.command", command},
	{"trailer.*.cmd", command},
	{"tar.*.command", command},
	{"imap.tunnel", command},
	{"instaweb.httpd", command},
	{"sendemail.smtpserver", command},
	{"sendemail.*.smtpserver", command},
	{"sendemail.sendmailcmd", command},
	{"sendemail.tocmd", command},
	{"sendemail.cccmd", command},
	{"sendemail.headercmd", command},
	{"sendemail.*.sendmailcmd", command},
	{"sendemail.*.tocmd", command},
	{"sendemail.*.cccmd", command},
	{"sendemail.*.headercmd", command},
	{"lfs.customtransfer.*.path", command},
	{"lfs.extension.*.clean", command},
	{"lfs.extension.*.smudge", command},
	{"*command", command},
	{"*cmd", command},
	{"*program", command},
	{"*hook", command},
	{"*editor", command},
	{"*pager", command},
	{"*helper", command},
	{"*askpass", command},
}

// A naming describes the objects that a setting names.
type naming struct {
	name   string
	what   subject
	absent Absent // the handling of a missing file
}

// byKey finds settings by their names' first and last parts.
var byKey = sync.OnceValue(func() map[string]subject {
	out := map[string]subject{}
	for _, g := range gitSettings {
		out[g.name] = g.what
	}
	return out
})

// namedBy returns the objects that a setting names; ok is false for a setting that has git run no
// program.
func namedBy(set gitconfig.Setting) (n naming, ok bool) {
	if set.Key == "" {
		// url.BASE.insteadOf rewrites to the subsection.
		return naming{set.Section, external, EmptyDir}, set.Section == "url" && strings.HasPrefix(set.Sub, ext)
	}
	sub := ""
	if set.HasSub {
		sub = strings.ToLower(set.Sub) + "."
	}
	n.name = set.Section + "." + sub + set.Key
	for _, name := range []string{n.name, set.Section + ".*." + set.Key, set.Section + ".*"} {
		if set.HasSub == (strings.Count(name, ".") < 2) {
			continue // the first two of one kind, the last of the other
		}
		if n.what, ok = byKey()[name]; ok {
			break
		}
	}
	if first, rest, _ := strings.Cut(sub, "."); !ok && set.Section == "lfs" && rest != "" {
		n.what, ok = byKey()["lfs."+first+".*."+set.Key]
	}
	if !ok {
		i := slices.IndexFunc(gitSettings, func(g gitSetting) bool {
			return g.name[0] == '*' && strings.HasSuffix(set.Key, g.name[1:])
		})
		if ok = i >= 0; ok {
			n.what = gitSettings[i].what
		}
	}
	// A directory in place of a file of settings is an error to git, one in place of a program is
	// one that does not run.
	n.absent = EmptyDir
	if n.what == included || n.what == attributes {
		n.absent = EmptyFile
	}
	return n, ok
}

// ext begins a URL that is a command (git-remote-ext(1)).
const ext = "ext::"

// A word is a path that a setting may name.
type word struct {
	path string
	// sure reports that the file is run or read if it exists, and make that it would be once it was
	// created; runs that it stands where a command or an interpreter has its program.
	sure, make, runs bool
}

// wordsOf lists the objects that a value names.
func (r *reading) wordsOf(n naming, value string) []word {
	switch n.what {
	case shellAlias:
		line, ok := strings.CutPrefix(strings.TrimSpace(value), "!")
		if !ok {
			return nil
		}
		value = line
	case external:
		line, ok := strings.CutPrefix(value, ext)
		if !ok {
			return nil
		}
		value = line
	case command:
		value = strings.TrimPrefix(value, "!") // credential.helper
	default:
		var out []word
		for _, p := range r.expand(value) {
			out = append(out, word{path: p, sure: true, make: true})
		}
		return out
	}
	var out []word
	for _, w := range commandWords(value) {
		for _, p := range r.expand(w.path) {
			out = append(out, word{path: p, sure: w.sure, make: w.make})
		}
	}
	return out
}

// expand replaces "~" or "~user" in a path by a home directory. The user depends on who runs git:
// each home of such a user counts, and those in the directory.
func (s *search) expand(p string) []string {
	user, rest, _ := strings.Cut(p, "/")
	if !strings.HasPrefix(user, "~") {
		if p == "" {
			return nil
		}
		return []string{p}
	}
	var out []string
	for name, home := range s.o.Homes {
		if _, in := s.inTree(home); user == "~" && in || user[1:] == name {
			out = append(out, path.Join(home, rest))
		}
	}
	if user == "~" {
		for _, home := range s.o.Own {
			out = append(out, path.Join(home, rest))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// interpreters run the file that is named after them.
var interpreters = []string{
	"sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python2", "python3", "node", "nodejs", "deno", "bun",
	"perl", "ruby", "php", "lua", "awk", "gawk", "source", ".", "exec", "env", "sudo", "time", "nohup", "xargs",
	"tsx", "ts-node", "run", "Rscript", "pwsh", "if", "then", "else", "elif", "do", "while", "until", "!", "command", "eval",
}

// scripts are the ends of names of files that are run.
var scripts = []string{".sh", ".bash", ".zsh", ".py", ".pl", ".rb", ".js", ".mjs", ".cjs", ".ts", ".php", ".lua", ".awk", ".exe"}

// maxWords bounds the words of one command that are looked at.
const maxWords = 2000

// commandWords lists the words of a shell's command that may be paths: whole ones in quotes, and
// each run of characters that paths are made of, whatever quotes are around it. A word in the place
// of a program, or after an interpreter or an option, is taken for a path; any other word only if
// it is the path of an executable file.
func commandWords(line string) []word {
	var out []word
	var w strings.Builder
	first, assigned, prev := true, false, ""
	end := func(c byte) {
		if p := w.String(); p != "" {
			option := strings.HasPrefix(prev, "-")
			dotted := strings.HasPrefix(p, "./") || strings.HasPrefix(p, "../")
			runs := first && !assigned && c != '=' || slices.Contains(interpreters, path.Base(prev))
			script := slices.Contains(scripts, path.Ext(p))
			out = append(out, word{
				path: p, sure: runs || option || dotted || script,
				make: strings.Contains(p, "/") && (runs || dotted) || runs && !first && script, runs: runs,
			})
			prev, first, assigned = p, first && (assigned || c == '='), first && c == '=' // X=1 comes before the program
			w.Reset()
		}
		if strings.IndexByte(";&|({\n`", c) >= 0 {
			first = true
		}
	}
	for i := 0; i < len(line) && len(out) < maxWords; i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			i++
			w.WriteByte(line[i])
		case strings.IndexByte(" \t\r\n;&|(){}<>`$'\"=,", c) >= 0:
			end(c)
		default:
			w.WriteByte(c)
		}
	}
	end(0)
	return append(out, quotedWords(line)...)
}

// quotedWords lists the words in quotes that have a blank in them.
func quotedWords(line string) []word {
	var out []word
	for _, q := range []string{"'", "\""} {
		parts := strings.Split(line, q)
		for i := 1; i < len(parts) && len(out) < maxWords; i += 2 {
			if p := parts[i]; strings.Contains(p, " ") && len(p) < unix.PathMax {
				out = append(out, word{path: p, sure: true})
			}
		}
	}
	return out
}

// holdNamed protects the file that a setting names, relative to a directory.
func (r *reading) holdNamed(from string, w word, n naming, e *Entry) error {
	t, err := r.follow(from, w.path)
	if err != nil {
		return err
	}
	run := n.what == command || n.what == shellAlias || n.what == external
	switch {
	case t.outside == "" && t.end == "": // links in a circle
		if !w.make {
			return nil
		}
	case t.outside != "":
		if !w.sure {
			return nil
		}
		if n.what == hooks {
			if err := r.linksAbroad(t.outside, e); err != nil {
				return err
			}
		}
	case t.there && t.typ == unix.DT_DIR:
		if run {
			return nil // an argument: no directory is run
		}
	case t.there:
		if run && !w.sure {
			if st, err := r.stat(t.end); err != nil || st.Mode&0o111 == 0 {
				return nil
			}
		}
	case !w.make:
		return nil
	}
	if n.what == hooks {
		r.hookDirs = append(r.hookDirs, hookDir{cmp.Or(t.outside, t.end), r.from(command, ""), e})
	}
	return r.hold(from, w.path, e, true)
}
