package plan

import "slices"

// StandardDevice is a character device that every jail has.
type StandardDevice struct {
	Path         string
	Major, Minor int64 // Minor -1: all
}

// standardDevices are the devices that every delegate creates in a container (OCI runtime-spec,
// config-linux.md, Default Devices); major and minor numbers as in the kernel's
// Documentation/admin-guide/devices.txt.
var standardDevices = []StandardDevice{
	{"/dev/null", 1, 3},
	{"/dev/zero", 1, 5},
	{"/dev/full", 1, 7},
	{"/dev/random", 1, 8},
	{"/dev/urandom", 1, 9},
	{"/dev/tty", 5, 0},
	{"/dev/console", 5, 1},
	{"/dev/ptmx", 5, 2},
	{"/dev/pts", 136, -1},
}

// StandardDevices are the character devices of every jail.
func StandardDevices() []StandardDevice { return slices.Clone(standardDevices) }

// OwnNode returns the path of the standard device with these numbers, where its node has no state
// of the host's; else "". The console and the terminals have such state.
func OwnNode(major, minor uint32) string {
	for _, d := range standardDevices {
		if d.Major == int64(major) && d.Minor == int64(minor) && (d.Major == 1 || d.Path == "/dev/tty") {
			return d.Path
		}
	}
	return ""
}

// IsStandardDevice reports whether every jail may have the character device; a minor
// number of -1 means all of the major's.
func IsStandardDevice(major, minor int64) bool {
	return slices.ContainsFunc(standardDevices, func(d StandardDevice) bool {
		return d.Major == major && (d.Minor == minor || d.Minor < 0)
	})
}
