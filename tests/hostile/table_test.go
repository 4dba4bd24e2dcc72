package hostile

// A row is one way in which a repository, or the jail that works in it, has the host run a program.
type row struct {
	mechanism string
	key       string // the path or setting, no two the same
	// host makes the row's directory, as the person: a repository "r" is there already unless bare differs.
	host string
	// jail is what the jail does there.
	jail string
	// run is what the person does afterwards. It runs the jail's program if the protection does not hold.
	run string
	// file is what a program that is not here, or not run here, would read: it has to be as it was. It stands in place of run.
	file string
	// need is the program that run needs; without it the row is judged by file, or by what the jail planted.
	need string
	// safe is what the person does in place of run where no path can be protected: `agentjail git`.
	safe string
}

// In the scripts, $M is a file that stands for what the program does on the host, and `evil FILE [COMMAND]` makes a program that makes
// it and then runs the command. In the jail that file's directory is not there.

// inRepo has a row's steps happen in its repository.
func inRepo(rows []row) []row {
	for i := range rows {
		for _, s := range []*string{&rows[i].host, &rows[i].jail, &rows[i].run} {
			if *s != "" {
				*s = "cd r; " + *s
			}
		}
		if rows[i].file != "" {
			rows[i].file = "r/" + rows[i].file
		}
	}
	return rows
}

// ofKind gives rows their mechanism.
func ofKind(mechanism string, rows []row) []row {
	for i := range rows {
		rows[i].mechanism = mechanism
	}
	return rows
}

// hook is a hook of git's.
func hook(name, run string) row {
	return row{key: ".git/hooks/" + name, jail: "evil .git/hooks/" + name, run: run}
}

// set is a setting of a repository's own config that names a program.
func set(key, value, run string) row {
	return row{key: key, jail: "evil .x/p; git config " + key + " " + value, run: run}
}

// named is a setting that names a program in the tree, which is made by the jail, or changed.
func named(key, value, path, run string) row {
	return row{key: key + " = " + value, host: "git config " + key + " '" + value + "'", jail: "evil " + path, run: run}
}

// reads is a file that a program reads which is not run here. Where it stood before, text is in it.
func reads(key, file string, exists bool) row {
	r := row{key: key, file: file, jail: "mkdir -p \"$(dirname " + file + ")\"; echo evil >" + file + " || { rm -rf " + file + "; echo evil >" + file + "; }"}
	if exists {
		r.host = "mkdir -p \"$(dirname " + file + ")\"; echo old >" + file
	}
	return r
}

// rows are the table.
func rows() []row {
	var out []row
	out = append(out, ofKind("a hook of git's", inRepo([]row{
		hook("post-commit", "git commit -q --allow-empty -m x"),
		hook("pre-commit", "git commit -q --allow-empty -m x"),
		hook("commit-msg", "git commit -q --allow-empty -m x"),
		hook("prepare-commit-msg", "git commit -q --allow-empty -m x"),
		hook("post-checkout", "git checkout -q -b t"),
		hook("post-merge", "git checkout -q -b t; git commit -q --allow-empty -m x; git checkout -q main; git merge -q t"),
		hook("post-rewrite", "git commit -q --amend -m x"),
		hook("pre-rebase", "git checkout -q -b t; git commit -q --allow-empty -m x; git checkout -q main; git commit -q --allow-empty -m y; git rebase -q t"),
		hook("pre-push", "git init -q --bare ../to; git push -q ../to main"),
		hook("reference-transaction", "git branch t"),
		hook("post-index-change", "touch -d '1 hour ago' f; git status"),
		hook("pre-applypatch", "echo y >>f; git commit -qam y; git format-patch -q -1; git reset -q --hard HEAD~1; git am -q *.patch"),
	}))...)
	out = append(out, ofKind("a setting of git's", inRepo([]row{
		set("core.fsmonitor", "./.x/p", "git status"),
		set("core.hooksPath", ".x/hooks; evil .x/hooks/post-commit", "git commit -q --allow-empty -m x"),
		set("core.sshCommand", "./.x/p", "git fetch ssh://x.invalid/y"),
		set("core.gitProxy", "$PWD/.x/p", "git fetch git://x.invalid/y"),
		set("core.editor", "./.x/p", "git commit --allow-empty"),
		set("core.askPass", "./.x/p", "echo url=https://x.invalid | setsid git credential fill"),
		set("sequence.editor", "./.x/p", "git rebase -i --root"),
		set("diff.external", "./.x/p", "echo y >>f; git diff"),
		set("diff.t.textconv", "./.x/p; echo '* diff=t' >.gitattributes", "echo y >>f; git diff"),
		set("diff.c.command", "./.x/p; echo '* diff=c' >.gitattributes", "echo y >>f; git diff"),
		set("filter.e.clean", "'./.x/p; cat'; echo '* filter=e' >.gitattributes", "echo y >>f; git add f"),
		set("filter.e.smudge", "'./.x/p; cat'; echo '* filter=e' >.gitattributes", "rm f; git checkout -q f"),
		set("filter.e.process", "./.x/p; echo '* filter=e' >.gitattributes", "echo y >>f; git add f"),
		set("merge.d.driver", "./.x/p; echo '* merge=d' >.gitattributes", "git checkout -q -b t; echo a >f; git commit -qam a; git checkout -q main; echo b >f; git commit -qam b; git merge t"),
		set("credential.helper", "$PWD/.x/p", "echo url=https://x.invalid | git credential fill"),
		set("gpg.program", "./.x/p", "git commit -q -S --allow-empty -m x"),
		set("alias.st", "'!./.x/p'", "git st"),
		set("difftool.d.cmd", "./.x/p", "echo y >>f; git difftool -y -t d"),
		set("trailer.t.command", "./.x/p", "git commit -q --allow-empty -m x --trailer t=1"),
		set("remote.o.uploadpack", "$PWD/.x/p; git config remote.o.url .", "git fetch o"),
		set("remote.o.url", "'ext::./.x/p'; git config protocol.ext.allow always", "git fetch o"),
		set("include.path", "../.x/c; printf '[core]\\nfsmonitor = ./.x/p\\n' >.x/c", "git status"),
		set("tar.t.command", "./.x/p", "git archive --format=t HEAD"),
	}))...)
	out = append(out, ofKind("what a setting names, changed", inRepo([]row{
		{key: "core.hooksPath = .hooks-here", host: "mkdir .hooks-here; git config core.hooksPath .hooks-here", jail: "evil .hooks-here/post-commit", run: "git commit -q --allow-empty -m x"},
		{key: "core.fsmonitor = ./monitor", host: "printf '#!/bin/sh\\n' >monitor; chmod +x monitor; git config core.fsmonitor ./monitor", jail: "evil monitor", run: "git status"},
		{key: "include.path = ../.team", host: "touch .team; git config include.path ../.team", jail: "evil .x/p; printf '[core]\\nfsmonitor = ./.x/p\\n' >.team", run: "git status"},
	}))...)
	out = append(out, ofKind("what a setting names, absent", inRepo([]row{
		named("core.hooksPath", ".gh", ".gh/post-commit", "git commit -q --allow-empty -m x"),
		named("core.hooksPath", "a/b/hooks", "a/b/hooks/post-commit", "git commit -q --allow-empty -m x"),
		named("core.fsmonitor", "./absent", "absent", "git status"),
		named("diff.external", "./d", "d", "echo y >>f; git diff"),
		named("alias.x", "!./a", "a", "git x"),
		{key: "include.path = ../.gitconfig.local", host: "git config include.path ../.gitconfig.local", jail: "evil .x/p; printf '[core]\\nfsmonitor = ./.x/p\\n' >.gitconfig.local", run: "git status"},
		{key: "filter.e.clean = ./tools/clean", host: "git config filter.e.clean ./tools/clean; echo '* filter=e' >.gitattributes", jail: "evil tools/clean cat", run: "echo y >>f; git add f"},
		{key: "diff.t.textconv = ./tools/text", host: "git config diff.t.textconv ./tools/text; echo '* diff=t' >.gitattributes", jail: "evil tools/text", run: "echo y >>f; git diff"},
		{key: "credential.helper = ./cred", host: "git config credential.helper '!./cred'", jail: "evil cred", run: "echo url=https://x.invalid | git credential fill"},
	}))...)
	out = append(out, ofKind("another git directory", inRepo([]row{
		{key: ".git/commondir", jail: "cp -r .git .g2; evil .x/p; git config -f .g2/config core.fsmonitor $PWD/.x/p; echo ../.g2 >.git/commondir", run: "git status"},
		{key: ".git/config.worktree", host: "git config extensions.worktreeConfig true", jail: "evil .x/p; printf '[core]\\nfsmonitor = ./.x/p\\n' >.git/config.worktree", run: "git status"},
		{key: ".git (a file without gitdir)", host: "mkdir m; : >m/.git", jail: "git init -q m/g; evil .x/p; git config -f m/g/.git/config core.fsmonitor $PWD/.x/p; echo gitdir: g/.git >m/.git", run: "git -C m status"},
		{key: ".git (a file)", host: "git init -q --separate-git-dir ../g1", jail: "cp -r ../g1 ../g2; evil .x/p; git config -f ../g2/config core.fsmonitor $PWD/.x/p; echo gitdir: ../g2 >.git", run: "git status"},
		{key: ".git (a link)", host: "mv .git ../g1; ln -s ../g1 .git", jail: "cp -r ../g1 ../g2; evil .x/p; git config -f ../g2/config core.fsmonitor $PWD/.x/p; rm .git; ln -s ../g2 .git", run: "git status"},
		{key: ".git (moved away)", jail: "mv .git .g3; cp -r .g3 .git; evil .x/p; git config core.fsmonitor ./.x/p", run: "git status"},
		{key: ".git/info/attributes", jail: "mkdir -p .git/info; echo '* filter=e' >.git/info/attributes", file: ".git/info/attributes"},
	}))...)
	out = append(out, ofKind("a submodule or a further work tree", inRepo([]row{
		{key: ".git/modules/lib/hooks", host: "sub", jail: "evil .git/modules/lib/hooks/post-commit", run: "cd lib; git commit -q --allow-empty -m x"},
		{key: ".git/modules/lib/config", host: "sub", jail: "evil lib/p; git config -f .git/modules/lib/config core.fsmonitor ./p", run: "git status"},
		{key: ".git/worktrees/tree/config.worktree", host: "git worktree add -q ../tree; git config extensions.worktreeConfig true", jail: "evil ../tree/p; printf '[core]\\nfsmonitor = ./p\\n' >.git/worktrees/tree/config.worktree", run: "cd ../tree; git status"},
		{key: ".gitmodules", host: "sub", jail: "git config -f .gitmodules submodule.lib.url ext::x", file: ".gitmodules"},
	}))...)
	out = append(out, ofKind("a repository within", inRepo([]row{
		{key: "gitlink, core.fsmonitor", jail: "nested vendor; evil vendor/p; git -C vendor config core.fsmonitor ./p; git add vendor", run: "git status", safe: "git r status"},
		{key: "gitlink, filter", jail: "nested vendor; echo '* filter=e' >vendor/.gitattributes; evil vendor/p cat; git -C vendor config filter.e.clean ./p; git add vendor; echo 2 >vendor/f", run: "git diff", safe: "git r diff"},
		{key: "gitlink, core.fsmonitor of the repository below", jail: "nested v; nested v/w; evil v/w/p; git -C v/w config core.fsmonitor ./p; git -C v add w; git -C v commit -qm w; git add v", run: "git status", safe: "git r status"},
		{key: "a directory with a repository", jail: "nested lib; evil lib/p; git -C lib config core.fsmonitor ./p", run: "cd lib; git status", safe: "git r/lib status"},
		{key: "a bare repository", jail: "git init -q --bare b; evil b/p; git -C b config core.fsmonitor $PWD/b/p; git -C b config core.worktree $PWD/b; git -C b config core.bare false", run: "cd b; git status", safe: "git r/b status"},
		{key: "a hook of the repository within", jail: "nested lib; evil lib/.git/hooks/post-commit", run: "cd lib; git commit -q --allow-empty -m x", safe: "git r/lib commit -q --allow-empty -m x"},
		{key: "an alias of the repository within", jail: "nested lib; evil lib/p; git -C lib config alias.st '!./p'", run: "cd lib; git st", safe: "git r/lib st"},
	}))...)
	out = append(out, ofKind("a link", inRepo([]row{
		{key: ".git/hooks -> ../tools", host: "rm -rf .git/hooks; mkdir tools; touch tools/x; ln -s ../tools .git/hooks", jail: "evil tools/post-commit", run: "git commit -q --allow-empty -m x"},
		{key: ".git/hooks -> missing", host: "rm -rf .git/hooks; ln -s ../missing .git/hooks", jail: "evil missing/post-commit", run: "git commit -q --allow-empty -m x"},
		{key: ".husky -> .config/husky", host: "git config core.hooksPath .husky; ln -s .config/husky .husky", jail: "evil .config/husky/pre-commit", run: "git commit -q --allow-empty -m x"},
		{key: ".claude -> .agents", host: "mkdir .agents; echo {} >.agents/x; ln -s .agents .claude", jail: "rm .claude; mkdir .claude; echo evil >.claude/settings.json", file: ".claude/settings.json"},
		{key: ".claude -> ai/claude", host: "mkdir -p ai/claude; ln -s ai/claude .claude", jail: "echo evil >ai/claude/settings.json", file: "ai/claude/settings.json"},
		{key: ".vscode -> missing", host: "ln -s missing .vscode", jail: "mkdir missing; echo evil >missing/tasks.json", file: "missing/tasks.json"},
		{key: ".mcp.json -> missing.json", host: "ln -s missing.json .mcp.json", jail: "echo evil >missing.json", file: "missing.json"},
		{key: ".claude/settings.json -> ../missing.json", host: "mkdir .claude; ln -s ../missing.json .claude/settings.json", jail: "echo evil >missing.json", file: "missing.json"},
		{key: ".envrc -> env/rc", host: "mkdir env; echo true >env/rc; ln -s env/rc .envrc", jail: "echo evil >env/rc", file: "env/rc"},
	}))...)
	out = append(out, ofKind("a manager of hooks", inRepo([]row{
		{key: ".husky/pre-commit", need: "husky", host: "if command -v husky >/dev/null; then HUSKY=1 husky; else mkdir -p .husky/_ && git config core.hooksPath .husky/_; fi", jail: "evil .husky/pre-commit", run: "git commit -q --allow-empty -m x", file: ".husky/pre-commit"},
		{key: ".githooks/pre-commit", host: "mkdir .githooks; git config core.hooksPath .githooks", jail: "evil .githooks/pre-commit", run: "git commit -q --allow-empty -m x"},
		{key: "lefthook.yml", need: "lefthook", host: "printf 'pre-commit:\\n  commands: {}\\n' >lefthook.yml", jail: "printf 'pre-commit:\\n  commands:\\n    x:\\n      run: touch %s\\n' $M >lefthook.yml", run: "lefthook run pre-commit --force", file: "lefthook.yml"},
		{key: ".lefthook.yml", need: "lefthook", host: "printf 'pre-commit:\\n  commands: {}\\n' >.lefthook.yml", jail: "printf 'pre-commit:\\n  commands:\\n    x:\\n      run: touch %s\\n' $M >.lefthook.yml", run: "lefthook run pre-commit --force", file: ".lefthook.yml"},
		reads(".pre-commit-config.yaml", ".pre-commit-config.yaml", true),
	}))...)
	out = append(out, ofKind("an environment of the directory", inRepo([]row{
		{key: ".envrc", need: "direnv", host: "echo true >.envrc; mkdir -p $HOME/.config/direnv; printf '[whitelist]\\nprefix = [\"/\"]\\n' >$HOME/.config/direnv/direnv.toml", jail: "echo touch $M >.envrc", run: "direnv exec . true", file: ".envrc"},
	}))...)
	out = append(out, ofKind("an editor", inRepo([]row{
		reads(".vscode/tasks.json", ".vscode/tasks.json", false), reads(".vscode/settings.json", ".vscode/settings.json", true),
		reads(".idea/workspace.xml", ".idea/workspace.xml", false), reads(".devcontainer/devcontainer.json", ".devcontainer/devcontainer.json", true),
		reads(".VSCode/launch.json", ".VSCode/launch.json", true),
	}))...)
	out = append(out, ofKind("an agent", inRepo([]row{
		{key: ".mcp.json", need: "claude", jail: mcp + " >.mcp.json", run: "claude mcp list", file: ".mcp.json"},
		{key: ".claude/settings.json", need: "claude", host: ownHook, jail: "mkdir -p .claude; " + claudeHook + " >.claude/settings.json", run: untilOwn + "claude -p hi", file: ".claude/settings.json"},
		{key: ".claude/settings.local.json", need: "claude", host: ownHook, jail: "mkdir -p .claude; " + claudeHook + " >.claude/settings.local.json", run: untilOwn + "claude -p hi", file: ".claude/settings.local.json"},
		{key: ".codex/config.toml", need: "codex", host: codexOwn, jail: "mkdir -p .codex; " + codexServer + " >.codex/config.toml", run: untilOwn + "codex exec --skip-git-repo-check hi", file: ".codex/config.toml"},
		reads(".claude/commands", ".claude/commands/x.md", false), reads(".claude/agents", ".claude/agents/x.md", false), reads(".claude/hooks", ".claude/hooks/x", false),
		reads(".claude/skills", ".claude/skills/x/SKILL.md", true), reads(".agents/skills", ".agents/skills/x/SKILL.md", false),
		reads(".cursor/mcp.json", ".cursor/mcp.json", true), reads(".gemini/settings.json", ".gemini/settings.json", true), reads(".coi", ".coi/config.toml", true),
	}))...)
	out = append(out, ofKind("a shell", []row{
		shell(".bashrc", "bash -ic true"), shell(".bash_profile", "bash -lic true"), shell(".bash_login", "rm -f .bash_profile; bash -lc true"), shell(".profile", "sh -lc true"),
		shell(".bash_logout", "echo exit | bash --login -i"), shell(".zshenv", "zsh -c true"), shell(".zshrc", "zsh -ic true"), shell(".zprofile", "zsh -lc true"), shell(".zlogin", "zsh -lc true"),
		{key: ".bash_aliases", host: "echo '. ~/.bash_aliases' >.bashrc", jail: "echo touch $M >.bash_aliases", run: "HOME=$PWD bash -ic true"},
		{key: ".config/fish/config.fish", need: "fish", host: "touch .profile; mkdir -p .config/fish; touch .config/fish/config.fish", jail: "echo touch $M >.config/fish/config.fish", run: "HOME=$PWD fish -c true", file: ".config/fish/config.fish"},
		{key: ".config/fish/conf.d", need: "fish", host: "touch .profile; mkdir -p .config/fish", jail: "mkdir -p .config/fish/conf.d; echo touch $M >.config/fish/conf.d/x.fish", run: "HOME=$PWD fish -c true", file: ".config/fish/conf.d/x.fish"},
	})...)
	out = append(out, ofKind("a home", []row{
		{key: "~/.gitconfig", host: "touch .profile; git init -q r", jail: "evil p; printf '[core]\\nfsmonitor = %s/p\\n' $PWD >.gitconfig", run: "HOME=$PWD git -C r status"},
		{key: "~/.config/git/config", host: "touch .profile; mkdir -p .config/git; touch .config/git/config; git init -q r", jail: "evil p; printf '[core]\\nfsmonitor = %s/p\\n' $PWD >.config/git/config", run: "HOME=$PWD git -C r status"},
		{key: "~/.ssh/config", host: "touch .profile; mkdir .ssh; touch .ssh/config", jail: "printf 'Host x\\nProxyCommand touch %s\\n' $M >.ssh/config", run: "ssh -F .ssh/config x"},
		reads("~/.config/autostart", ".config/autostart/x.desktop", true), reads("~/.config/systemd", ".config/systemd/user/x.service", true),
		reads("~/.ripgreprc", ".ripgreprc", true), reads("~/.pam_environment", ".pam_environment", true), reads("~/.xprofile", ".xprofile", true), reads("~/.xsessionrc", ".xsessionrc", true),
	})...)
	return out
}

// shell is a start-up file of a shell, absent in a home that has others.
func shell(name, run string) row {
	other := ".bashrc"
	if name == other {
		other = ".zshrc"
	}
	r := row{key: name, host: "touch " + other, jail: "echo touch $M >" + name, run: "export HOME=$PWD; " + run}
	if name[1] == 'z' {
		r.need, r.file = "zsh", name
	}
	return r
}

// What agents are set up to run. A program of the person's own settings shows that they were read: until it ran there is nothing to see.
const (
	mcp         = `printf '{"mcpServers":{"x":{"command":"touch","args":["%s"]}}}' $M`
	claudeHook  = `printf '{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch %s"}]}]}}' $M`
	codexServer = `printf '[mcp_servers.x]\ncommand = "touch"\nargs = ["%s"]\n' $M`
	ownHook     = `mkdir -p $HOME/.claude; M=$M.own; ` + claudeHook + ` >$HOME/.claude/settings.json`
	codexOwn    = `mkdir -p $HOME/.codex; P=$PWD; { printf '[mcp_servers.own]\ncommand = "touch"\nargs = ["%s.own"]\n' $M; printf '[projects."%s"]\ntrust_level = "trusted"\n' $P; } >$HOME/.codex/config.toml`
	untilOwn    = `until_own `
)

// A userPlace is a place of a person's that the host runs. A jail that gets it writable has the host run its program.
type userPlace struct {
	dir  string // below the home, and what is mounted
	jail string // what a jail does in the home
	run  string // what the person does, with that home
	need string
	file string // in place of run, below the home
}

// userPlaces are those of which the program is here.
var userPlaces = []userPlace{
	{dir: ".cargo", jail: "echo touch $M >.cargo/env", run: ". ~/.cargo/env"},
	{dir: "bin", jail: "evil bin/mytool", run: "PATH=~/bin:$PATH mytool"},
	{dir: ".nvm", jail: "echo touch $M >.nvm/nvm.sh", run: ". ~/.nvm/nvm.sh"},
	{dir: ".bashrc.d", jail: "echo touch $M >.bashrc.d/x", run: ". ~/.bashrc.d/x"},
	{dir: ".oh-my-zsh", jail: "echo touch $M >.oh-my-zsh/oh-my-zsh.sh", run: "zsh -c '. ~/.oh-my-zsh/oh-my-zsh.sh'", need: "zsh", file: ".oh-my-zsh/oh-my-zsh.sh"},
	{dir: ".vim", jail: "mkdir -p .vim/plugin; echo \"call system('touch $M')\" >.vim/plugin/x.vim", run: "vim -es -u ~/none -c 'runtime plugin/x.vim' -c 'qa!'", need: "vim", file: ".vim/plugin/x.vim"},
	{dir: ".config/nvim", jail: "echo \"call system('touch $M')\" >.config/nvim/init.vim", run: "nvim --headless -c 'qa!'", need: "nvim", file: ".config/nvim/init.vim"},
	{dir: ".config/direnv", jail: "echo touch $M >.config/direnv/direnvrc", run: "mkdir -p ~/w; echo true >~/w/.envrc; direnv allow ~/w; direnv exec ~/w true", need: "direnv", file: ".config/direnv/direnvrc"},
	{dir: ".config/gdb", jail: "echo shell touch $M >.config/gdb/gdbinit", run: "gdb -batch", need: "gdb", file: ".config/gdb/gdbinit"},
	{dir: ".config/tmux", jail: "echo \"run-shell 'touch $M'\" >.config/tmux/tmux.conf", run: "tmux -S ~/sock new-session -d true; tmux -S ~/sock kill-server", need: "tmux", file: ".config/tmux/tmux.conf"},
	{dir: ".local/lib", jail: "d=.local/lib/python$(python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])')/site-packages; mkdir -p $d; echo \"import os; os.system('touch $M')\" >$d/usercustomize.py", run: "python3 -c pass", need: "python3", file: ".local/lib/python3"},
	{dir: ".gradle/init.d", jail: "echo evil >.gradle/init.d/x.gradle", file: ".gradle/init.d/x.gradle"},
	{dir: ".config/Code", jail: "echo evil >.config/Code/settings.json", file: ".config/Code/settings.json"},
	{dir: "go/bin", jail: "evil go/bin/gopls", run: "PATH=~/go/bin:$PATH gopls"},
}
