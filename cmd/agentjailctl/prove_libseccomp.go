//go:build cgo && libseccomp

package main

import "agentjail.dev/seccomp/prove"

const delegateNote = "The delegate's\nown filter too, in every shape that delegates use, as this program's libseccomp\ncompiles it, alone and together with the second."

// proveDelegate proves the delegates' filter, compiled by libseccomp.
func proveDelegate(profile, arch string) ([]proof, error) {
	res, err := prove.Prove(profile, arch)
	if err != nil {
		return nil, err
	}
	return []proof{newProof(profile, arch, "the delegate's filter, compiled by "+prove.Library(), res)}, nil
}
