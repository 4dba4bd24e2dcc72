package e2e

import (
	"flag"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// perDelegate are the tests that show what a delegate does by itself. The others are about engines, or about agentjail alone, and go over one
// delegate only. They are named as functions: what is renamed or removed does not compile here.
var perDelegate = []func(*testing.T){
	TestJail, TestAttempts, TestKernelFiles, TestGrants, TestExecLoosens, TestMemoryBomb, TestWorkingDirectory,
	TestRun, TestRunStderr, TestRunTerminal, TestExec, TestExecAtOnce, TestExecTerminal, TestExitCodes,
	TestExitCodeOfSignals, TestStatus, TestCallersDir, TestInspectHolds, TestLoadedFilters,
	TestLimitsByDefault, TestMountedDir, TestMountTable, TestNothingOfTheHost, TestJoinJail, TestNetworks,
	TestRestart, TestPause, TestCopyIn, TestPassthrough, TestStandardFilesKeepTheirOwners, TestAttachToEntering,
}

// onlyPerDelegate is how make test-delegates chooses them.
var onlyPerDelegate = flag.Bool("per-delegate", false, "run the tests that depend on the delegate, and no others")

// choosePerDelegate makes the flag's choice the tests to run.
func choosePerDelegate() error {
	flag.Parse()
	if !*onlyPerDelegate {
		return nil
	}
	return flag.Set("test.run", "^("+strings.Join(names(perDelegate), "|")+")$")
}

// names are those of test functions.
func names(tests []func(*testing.T)) []string {
	out := make([]string, len(tests))
	for i, f := range tests {
		full := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
		out[i] = full[strings.LastIndexByte(full, '.')+1:]
	}
	return out
}
