package names

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/env"
)

// TestCertificatesRebuilt: the distribution's own tool rebuilds the file of trusted certificates with a company's, by a rename. Afterwards programs
// trust the company's servers and those for which the helper ends TLS, whether or not they read a variable.
func TestCertificatesRebuilt(t *testing.T) {
	for _, name := range []string{"update-ca-certificates", "openssl", "run-parts"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s on this machine", name)
		}
	}
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	trust(t, n)
	j := newJail(t, n)
	env.Check(t, os.WriteFile(j.conf, []byte(policyText+fmt.Sprintf(lender, j.writeKey(t, value), "end")), 0o600))
	env.Check(t, skeleton(j.b.Rootfs))
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64"} {
		env.Check(t, os.MkdirAll(j.b.Rootfs+dir, 0o755))
		j.b.Spec.Mounts = append(j.b.Spec.Mounts, specs.Mount{Destination: dir, Type: "bind", Source: dir, Options: []string{"rbind", "ro"}})
	}
	_, image := env.Certificate(t, "image.test")
	for name, text := range map[string]string{
		"etc/ssl/certs/ca-certificates.crt": string(image), "etc/ssl/openssl.cnf": "", "etc/ca-certificates.conf": "image.crt\n", "usr/share/ca-certificates/image.crt": string(image),
		"etc/ca-certificates/update.d/none": "", "usr/local/share/ca-certificates/company.crt": string(n.ca),
	} {
		at := filepath.Join(j.b.Rootfs, name)
		env.Check(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)))
	}
	j.b.Spec.Process.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	j.start(t)
	const own, company = "api.example.test", "a.wild.example.test"
	look := func(when, host, want string) {
		t.Helper()
		for _, unset := range [][]string{nil, {"/usr/bin/env", "-u", "SSL_CERT_FILE"}} {
			args := append([]string{"exec", j.id}, append(unset, client, "rawtls", host, "443", request(host, "/", "", ""))...)
			out, errs, _ := j.b.Call(t, j.c, args...)
			if !strings.Contains(out+errs, want) {
				t.Errorf("%s, %v %s: %q %q, want %q", when, unset, host, out, errs, want)
			}
		}
	}
	look("before", own, "200 OK")
	look("before", company, "unknown authority")
	if got, _ := j.output(t, "update-ca-certificates 2>&1"); !strings.Contains(got, "done.") || strings.Contains(got, "busy") {
		t.Errorf("the tool: %s", got)
	}
	for _, at := range []string{debianBundle, "/etc/agentjail/bundle.pem"} { // Go looks at directories, too, and other programs do not
		if got, _ := j.in(t, "trusted", at); got != "3 false" {
			t.Errorf("%s: %s certificates, not the image's, the company's and the jail's own", at, got)
		}
	}
	look("after", own, "200 OK")
	look("after", company, "200 OK")
}
