// Package prove compiles an OCI seccomp section to BPF with libseccomp, as
// runc and crun do, and shows by running the compiled filter what can and
// what cannot pass. It needs cgo and libseccomp; nothing on the way of a
// bundle imports it.
//
// Without cgo the package is empty.
package prove
