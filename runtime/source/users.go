package source

import "strings"

// A userPlace is a place in a user's home that holds keys, or what is run for
// that user without being asked.
type userPlace struct {
	path string // below the home
	// anywhere: the name alone is enough, wherever the home is.
	anywhere bool
	// reads: not even to be read, by whoever is mapped to the owner.
	reads bool
	why   string
}

const (
	keepsKeys     = "a user's keys are kept in it"
	keepsStorage  = "a user's engine keeps its containers in it"
	keepsUnits    = "a user's service manager runs what is in it"
	keepsStartUps = "it is run when its user logs in"
	keepsJournals = "what jails did is recorded in it"
	keepsPrograms = "its user runs programs from it"
)

// userPlaces are the places of users that no jail gets to write to, nor to read
// where they tell a secret. What holds one of them, the home itself first of
// all, counts as it does. What an agent itself uses (its own settings, caches of
// package managers) is not among them.
var userPlaces = []userPlace{
	{".ssh", true, true, keepsKeys},                       // sshd(8), authorized_keys; ssh(1)
	{".gnupg", true, true, keepsKeys},                     // gpg(1)
	{".aws", true, true, keepsKeys},                       // AWS CLI: credentials; credential_process runs programs
	{".azure", true, true, keepsKeys},                     // Azure CLI
	{".config/gcloud", true, true, keepsKeys},             // Google Cloud CLI
	{".oci", false, true, keepsKeys},                      // Oracle Cloud CLI
	{".kube", true, true, keepsKeys},                      // kubectl: config; its exec plugins run programs
	{".docker", false, true, keepsKeys},                   // docker login: config.json; cli-plugins run
	{".config/containers", true, true, keepsKeys},         // containers-auth.json(5); podman-systemd.unit(5) in systemd/
	{".config/gh", true, true, keepsKeys},                 // GitHub CLI: hosts.yml
	{".config/glab-cli", true, true, keepsKeys},           // GitLab CLI
	{".config/git", true, true, keepsKeys},                // git-credential-store(1); its config names programs
	{".git-credentials", false, true, keepsKeys},          // git-credential-store(1)
	{".netrc", false, true, keepsKeys},                    // curl(1), ftp(1)
	{".pgpass", false, true, keepsKeys},                   // PostgreSQL
	{".terraform.d", false, true, keepsKeys},              // Terraform: credentials.tfrc.json; plugins run
	{".vault-token", false, true, keepsKeys},              // Vault
	{".password-store", true, true, keepsKeys},            // pass(1)
	{".local/share/keyrings", true, true, keepsKeys},      // GNOME Keyring
	{".local/share/kwalletd", true, true, keepsKeys},      // KWallet
	{".pki", true, true, keepsKeys},                       // NSS
	{".mozilla", true, true, keepsKeys},                   // Firefox: sessions and passwords
	{".thunderbird", true, true, keepsKeys},               //
	{".config/google-chrome", true, true, keepsKeys},      // sessions and passwords
	{".config/chromium", true, true, keepsKeys},           //
	{".local/share/docker", true, true, keepsStorage},     // rootless dockerd
	{".local/share/containers", true, true, keepsStorage}, // containers-storage.conf(5)
	{".local/share/containerd", true, true, keepsStorage}, // rootless containerd
	{".config/systemd", true, false, keepsUnits},          // systemd.unit(5)
	{".local/state/agentjail", true, true, keepsJournals}, // runtime/journal
	{".local/share/systemd", true, false, keepsUnits},     // systemd.unit(5)
	{".config/environment.d", true, false, keepsUnits},    // environment.d(5)
	{".config/user-tmpfiles.d", true, false, keepsUnits},  // tmpfiles.d(5)
	{".local/share/user-tmpfiles.d", true, false, keepsUnits},
	{".local/share/dbus-1", true, false, keepsUnits},          // D-Bus activation
	{".config/autostart", true, false, keepsStartUps},         // XDG autostart
	{".local/share/applications", true, false, keepsStartUps}, // XDG desktop entries
	{".config/fish", true, false, keepsStartUps},              // fish(1)
	{".pam_environment", false, false, keepsStartUps},         // pam_env(8)
	{".profile", false, false, keepsStartUps},                 // sh(1)
	{".bash_profile", false, false, keepsStartUps},            // bash(1)
	{".bash_login", false, false, keepsStartUps},
	{".bash_logout", false, false, keepsStartUps},
	{".bashrc", false, false, keepsStartUps},
	{".zshenv", false, false, keepsStartUps}, // zsh(1)
	{".zprofile", false, false, keepsStartUps},
	{".zshrc", false, false, keepsStartUps},
	{".zlogin", false, false, keepsStartUps},
	{".xprofile", false, false, keepsStartUps},
	{".xsession", false, false, keepsStartUps},
	{".xinitrc", false, false, keepsStartUps},
	{".local/bin", true, false, keepsPrograms}, // file-hierarchy(7)
	{".vscode-server", true, false, keepsPrograms},
	{".cursor-server", true, false, keepsPrograms},
}

// homes are the directories that hold users' homes.
var homes = []string{"/home", "/var/home", "/export/home", "/Users"}

// inHome splits a path into a user's home and what is below it.
func inHome(path string) (home, below string, ok bool) {
	if path == "/root" || strings.HasPrefix(path, "/root/") {
		return "/root", strings.TrimPrefix(strings.TrimPrefix(path, "/root"), "/"), true
	}
	for _, dir := range homes {
		rest, is := strings.CutPrefix(path, dir+"/")
		if !is || rest == "" {
			continue
		}
		user, below, _ := strings.Cut(rest, "/")
		return dir + "/" + user, below, true
	}
	return "", "", false
}

// forbiddenOfUsers says what a path of a user's is that no jail may have.
func forbiddenOfUsers(path string, readOnly bool) string {
	home, below, known := inHome(path)
	for _, p := range userPlaces {
		switch {
		case readOnly && !p.reads:
		case known && within(below, p.path), p.anywhere && strings.Contains(path+"/", "/"+p.path+"/"):
			return p.why
		case known && (below == "" || strings.HasPrefix(p.path, below+"/")):
			return "it holds " + home + "/" + p.path + ", and " + p.why
		}
	}
	return ""
}
