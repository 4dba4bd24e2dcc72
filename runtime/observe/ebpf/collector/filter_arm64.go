package collector

// olderCalls are those that Go makes on this machine in place of later ones.
var olderCalls []uint32
