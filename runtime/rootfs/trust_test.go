package rootfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// TestTrust: the jail's authority is in each file of trusted certificates of an image, and where the image's tools take it from. No mount
// keeps these from renaming a new file to the place.
func TestTrust(t *testing.T) {
	const own, hosts = "own authority", "own host"
	for _, c := range []struct {
		name    string
		files   []string
		links   map[string]string
		mounted string // by the bundle
		have    map[string]string
		mounts  []string // of agentjail's, for what is not in the layer
	}{
		{
			"Alpine",
			[]string{"etc/ssl/certs/ca-certificates.crt:0:444", "usr/local/share/x"},
			map[string]string{"etc/ssl/cert.pem": "certs/ca-certificates.crt"},
			"",
			map[string]string{
				"etc/ssl/certs/ca-certificates.crt": "etc/ssl/certs/ca-certificates.crt\n" + own, "etc/agentjail/bundle.pem": "etc/ssl/certs/ca-certificates.crt\n" + own,
				"usr/local/share/ca-certificates/agentjail.crt": own, "etc/agentjail/authority.pem": own,
			},
			nil,
		},
		{
			"Red Hat",
			[]string{"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/pki/ca-trust/source/anchors/x", "etc/pki/tls/certs/x", "etc/ssh/ssh_known_hosts"},
			map[string]string{"etc/pki/tls/certs/ca-bundle.crt": "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
			"",
			map[string]string{
				"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem\n" + own,
				"etc/pki/ca-trust/source/anchors/agentjail.pem":    own, "etc/ssh/ssh_known_hosts": "etc/ssh/ssh_known_hosts\n" + hosts,
			},
			nil,
		},
		{"a directory that is mounted", []string{"etc/ssl/certs/ca-certificates.crt"}, nil, "/etc/ssl", map[string]string{"etc/ssl/certs/ca-certificates.crt": "etc/ssl/certs/ca-certificates.crt", "etc/agentjail/authority.pem": own}, nil},
		{"no /etc", []string{"bin/x"}, nil, "", nil, []string{"/etc/agentjail/bundle.pem", "/etc/agentjail/authority.pem", "/etc/ssh/ssh_known_hosts"}},
		{"a link in place of agentjail's", []string{"etc/x", "tmp/x"}, map[string]string{"etc/agentjail": "/tmp"}, "", map[string]string{"etc/ssh/ssh_known_hosts": hosts}, []string{"/etc/agentjail/bundle.pem", "/etc/agentjail/authority.pem"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				image := t.TempDir()
				put(t, image, c.files...)
				for at, to := range c.links {
					must(t, os.Symlink(to, filepath.Join(image, at)))
				}
				r := request(t, image)
				r.Plan.Authority, r.Plan.KnownHosts = own, hosts
				if c.mounted != "" {
					r.Spec.Mounts = append(r.Spec.Mounts, specs.Mount{Destination: c.mounted, Type: "tmpfs", Source: "tmpfs"})
				}
				staged(t, r)
				for name, text := range c.have {
					at, err := filepath.EvalSymlinks(filepath.Join(r.Spec.Root.Path, name))
					if link, _ := os.Readlink(filepath.Join(r.Spec.Root.Path, name)); link != "" {
						at, err = filepath.Join(r.Spec.Root.Path, link), nil
					}
					must(t, err)
					want(t, name, content(t, at), text)
					want(t, name+"'s owner", owner(at), jailed(0))
				}
				var mounts []string
				for _, m := range r.Spec.Mounts {
					if m.Type == "bind" {
						mounts = append(mounts, m.Destination)
					}
				}
				want(t, "mounts", mounts, c.mounts)
			})
		})
	}
}
