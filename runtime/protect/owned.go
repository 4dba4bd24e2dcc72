package protect

import (
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// An ownDir is a directory below a home in which an agent or a tool keeps its data, beside files
// that it runs, or by which it runs others: settings, extensions, hooks, programs.
type ownDir struct {
	dir string
	by  string
	run []string // below dir; a name with an extension is a file's
}

// ownDirs may be mounted writable: their data stay writable (sessions, histories, repositories).
// bindsource has the directories that hold no data, which are refused.
var ownDirs = []ownDir{
	{".claude", "Claude Code", []string{
		"settings.json", "settings.local.json", "commands", "agents", "hooks", "skills", "plugins", "output-styles",
		"rules", "workflows", "scheduled-tasks", "local", "bin", "keybindings.json", "mcp.json",
	}},
	{".codex", "Codex", []string{
		"config.toml", "managed_config.toml", "requirements.toml", "hooks.json", "hooks", "agents", "skills",
		"prompts", "rules", "plugins", "packages", "bin", ".env",
	}},
	{".gemini", "Gemini CLI", []string{
		"settings.json", "trustedFolders.json", "extensions", "commands", "agents", "skills", "hooks", "policies",
		"keybindings.json", ".env", "tmp/bin", "antigravity/mcp_config.json", "config",
	}},
	{".qwen", "Qwen Code", []string{
		"settings.json", "trustedFolders.json", "extensions", "commands", "agents", "skills", "hooks",
		"keybindings.json", ".env", "bin", "tmp/bin",
	}},
	{".copilot", "Copilot CLI", []string{
		"settings.json", "config.json", "mcp-config.json", "lsp-config.json", "permissions-config.json", "agents",
		"hooks", "skills", "extensions", "installed-plugins", "pkg", "bin",
	}},
	{".continue", "Continue", []string{
		"config.yaml", "config.json", "config.ts", "permissions.yaml", "mcpServers", "agents", "assistants",
		"prompts", "rules", "skills", ".env",
	}},
	{".factory", "Droid", []string{
		"settings.json", "settings.local.json", "config.json", "mcp.json", "hooks.json", "hooks", "droids",
		"commands", "skills", "plugins", "bin",
	}},
	{".augment", "Auggie", []string{
		"settings.json", "mcp.json", "commands", "agents", "hooks", "skills", "plugins", "rules",
	}},
	{".cline", "Cline", []string{
		"hooks", "skills", "rules", "workflows", "plugins", "mcp.json", "data/settings", "data/secrets.json",
	}},
	{".openhands", "OpenHands", []string{
		"settings.json", "config.toml", "agent_settings.json", "mcp.json", "hooks.json", "hooks", "skills",
		"microagents", "plugins",
	}},
	{".vibe", "Mistral Vibe", []string{
		"config.toml", "mcp.toml", "hooks.toml", "agents", "prompts", "skills", "tools", ".env",
	}},
	{".kimi", "Kimi CLI", []string{
		"config.toml", "config.json", "mcp.json", "agents", "skills", "hooks", "plugins", "bin",
	}},
	{".grok", "Grok CLI", []string{
		"config.toml", "user-settings.json", "settings.json", "hooks", "agents", "skills", "plugins", "commands",
		"bin",
	}},
	{".aider", "aider", []string{
		"oauth-keys.env",
	}},
	{".local/share/opencode", "opencode", []string{
		"bin", "plugins", "plugin", "node_modules",
	}},
	{".local/share/goose", "goose", []string{
		"recipes", "bin", "extensions",
	}},
	{".local/share/crush", "Crush", []string{
		"crush.json", "bin", "skills",
	}},
	{".local/share/amp", "Amp", []string{
		"bin", "settings.json", "plugins", "skills",
	}},

	{".m2", "Maven", []string{
		"settings.xml", "settings-security.xml", "settings-security4.xml", "toolchains.xml", "extensions.xml",
		"maven.properties", "maven-user.properties", "maven-system.properties", "mvnd.properties", "maven.config",
		"jvm.config", "wrapper",
	}},
	{".ivy2", "Ivy", []string{
		"ivysettings.xml", "ivysettings.properties", "ivy.xml",
	}},
}

// ownEntries are the entries of all own directories, some of which the table has for projects. In a
// directory of an agent's own, files are kept absent by files: the agent reads them.
var ownEntries = sync.OnceValue(func() (out []Entry) {
	for _, o := range ownDirs {
		for _, name := range o.run {
			e := Entry{
				Path: o.dir + "/" + name, Scope: Home, Own: o.dir, Absent: EmptyDir,
				Why: "a setting, extension or program of " + o.by,
			}
			out = append(out, e.asFile())
		}
	}
	return out
})

// asFile makes the placeholder of a file a file.
func (e Entry) asFile() Entry {
	if ext := path.Ext(e.Path); ext != "" && e.Absent == EmptyDir {
		if e.Absent = EmptyFile; ext == ".json" {
			e.Text = "{}\n"
		}
	}
	return e
}

// hasData reports whether a path below a home is a directory of an agent's or a tool's that holds
// data beside protected paths.
func hasData(below string) bool {
	return slices.ContainsFunc(ownDirs, func(o ownDir) bool { return o.dir == below })
}

// leading finds the entries that lie in directories of the table's, by the directory.
var leading = sync.OnceValue(func() map[string][]*Entry {
	out, seen := map[string][]*Entry{}, map[string]bool{}
	own := ownEntries()
	for i := range own {
		out[own[i].Own] = append(out[own[i].Own], &own[i])
		seen[own[i].Path] = true
	}
	for _, e := range Entries() {
		for dir := path.Dir(e.Path); dir != "." && e.Scope != Repository && !seen[e.Path]; dir = path.Dir(dir) {
			out[dir] = append(out[dir], e)
		}
	}
	return out
})

// mountedOwn protects the paths of the table in whose directory's place the tree itself is, the
// absent ones, too.
func (s *search) mountedOwn() error {
	for _, name := range s.names() {
		parts := strings.Split(strings.Trim(Fold(name), "/"), "/")
		for i := range parts {
			dir := strings.Join(parts[i:], "/")
			for _, e := range leading()[dir] {
				own := e.asFile()
				if err := s.hold(".", strings.TrimPrefix(e.Path, dir+"/"), &own, s.o.Absent); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isOwn reports whether the tree is a directory of an agent's or a tool's own: no project.
func (s *search) isOwn() bool {
	return slices.ContainsFunc(s.names(), func(name string) bool {
		return slices.ContainsFunc(ownDirs, func(o ownDir) bool { return strings.HasSuffix(Fold(name), "/"+o.dir) })
	})
}

// names are the host's names of the tree: its path, others that mounts show, and the directory of
// the table in a home of one of its users that is a link to it.
func (s *search) names() []string {
	if s.ownNames != nil {
		return s.ownNames
	}
	s.ownNames = append([]string{s.o.Source}, s.o.Names...)
	for _, home := range s.o.Own {
		for dir := range leading() {
			var text [1]byte
			at := path.Join(home, dir)
			if n, err := unix.Readlink(at, text[:]); err == nil && n > 0 && openat.Resolve(at, openat.Real) == s.o.Source {
				s.ownNames = append(s.ownNames, at)
			}
		}
	}
	return s.ownNames
}
