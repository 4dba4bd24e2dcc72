package plan

import "slices"

// Files of a jail with a certificate authority of its own.
const (
	// AuthorityFile is the authority's certificate alone.
	AuthorityFile = "/etc/agentjail/authority.pem"
	// BundleFile is the authority's certificate together with those that the image trusts, or
	// else those of the host.
	BundleFile = "/etc/agentjail/bundle.pem"
	// KnownHostsFile has the servers that ssh knows besides a user's own.
	KnownHostsFile = "/etc/ssh/ssh_known_hosts"
)

// bundles are the files of trusted certificates of distributions: Debian's and Alpine's, Red
// Hat's, SUSE's, and links to these.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Bundles lists the files of trusted certificates of distributions.
func Bundles() []string { return slices.Clone(bundles) }

// trustVariables name the files to programs that have others of their own.
var trustVariables = [][2]string{
	{"SSL_CERT_FILE", BundleFile},
	{"CURL_CA_BUNDLE", BundleFile},
	{"GIT_SSL_CAINFO", BundleFile},
	{"REQUESTS_CA_BUNDLE", BundleFile},
	{"PIP_CERT", BundleFile},
	{"AWS_CA_BUNDLE", BundleFile},
	{"CARGO_HTTP_CAINFO", BundleFile},
	{"NODE_EXTRA_CA_CERTS", AuthorityFile},
	{"DENO_CERT", AuthorityFile},
}

// TrustVariables name the files to programs that have others of their own, each with its value.
func TrustVariables() [][2]string { return slices.Clone(trustVariables) }
