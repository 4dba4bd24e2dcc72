package check

import (
	"strings"
	"testing"
)

// TestKernelFixes: what a release may have open, by the kernel's own numbers. None is stated to be
// without a flaw.
func TestKernelFixes(t *testing.T) {
	const free, bad, selinux = "CVE-2026-43074", "CVE-2026-46242", "CVE-2026-46054"
	for _, c := range []struct {
		release, version string
		selinux          bool
		open             []string
	}{
		{"6.18.44", "", false, []string{bad}},
		{"6.18.44-fc-v669", "#1 SMP PREEMPT_DYNAMIC @0", true, []string{bad, selinux}},
		{"6.18.24", "", false, []string{bad}},
		{"6.18.23", "", false, []string{free, bad}},
		{"6.6.135", "", false, []string{free, bad}},
		{"6.6.136", "", false, []string{bad}},
		{"6.7.9", "", false, []string{free, bad}},
		{"6.12.83+deb13-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.83-1 (2026-05-10)", false, []string{bad}},
		{"6.12.48+deb13-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1 (2025-09-20)", false, []string{free, bad}},
		{"6.1.0-40-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.153-1 (2025-09-20)", false, nil},
		{"6.1.0-40-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.153-1 (2025-09-20)", true, []string{selinux}},
		{"6.4.0", "", false, []string{free, bad}},
		{"6.3.13", "", false, nil},
		{"7.0.4", "", true, []string{bad, selinux}},
		{"7.0.5", "", true, []string{bad}},
		{"7.1", "", true, nil},
		{"7.1.0-rc3", "", true, []string{free, bad, selinux}},
		{"4.18.0", "", true, nil},
		// Distributions' own numbers.
		{"6.8.0-45-generic", "#45-Ubuntu SMP PREEMPT_DYNAMIC", false, []string{free, bad}},
		{"5.14.0-427.13.1.el9_4.x86_64", "#1 SMP", true, []string{free, bad, selinux}},
		{"strange", "", false, []string{free, bad}},
	} {
		a := judgeKernel(c.release, c.version, c.selinux)
		_, open, _ := strings.Cut(a.detail, "may be open: ")
		for _, cve := range []string{free, bad, selinux} {
			want := strings.Contains(strings.Join(c.open, " "), cve)
			if got := strings.Contains(open, cve); got != want {
				t.Errorf("%s %s: %s open: %v, in %q", c.release, c.version, cve, got, a.detail)
			}
		}
		if a.ok != (len(c.open) == 0) || !a.ok && a.remedy == "" || strings.Contains(a.detail, "safe") {
			t.Errorf("%s: %+v", c.release, a)
		}
	}
}
