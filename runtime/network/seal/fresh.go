package seal

// SealFresh makes a temporary network namespace and seals it, to find out whether this host can
// seal a jail's namespace. The caller needs the privileges of Seal.
func SealFresh() (Report, error) {
	ns, err := Make()
	if err != nil {
		return Report{}, err
	}
	defer ns.Close()
	return Seal(ns)
}
