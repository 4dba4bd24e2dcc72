package plan

import (
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Domainname returns the UTS domain name that a spec requests. Docker requests it as a kernel
// setting.
func Domainname(s *specs.Spec) string {
	if s.Linux != nil {
		for k, v := range s.Linux.Sysctl {
			if IsDomainname(k) {
				return strings.TrimSuffix(v, "\n")
			}
		}
	}
	return s.Domainname
}

// IsDomainname reports whether a kernel setting, by either of its spellings, is the domain name.
func IsDomainname(key string) bool { return strings.ReplaceAll(key, "/", ".") == "kernel.domainname" }
