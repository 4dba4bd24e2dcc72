// Package firstproc looks from outside at the first process of a jail, which waits for its start or
// has just become the jail's program, and completes what the delegate has left undone: mounts, the
// domain name, the out-of-memory score.
//
// Nothing of the image has run when the checks run. A later change by another process is caught by
// the init step, which checks from inside.
package firstproc
