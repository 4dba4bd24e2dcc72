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
	TestJail, TestProbeAttemptsFail, TestKernelFiles, TestLooseningOptionsStartPlainJail, TestExecLoosensNothing, TestMemoryBomb, TestWorkingDirectory,
	TestRun, TestRunStderr, TestRunTerminal, TestExec, TestExecAtOnce, TestExecTerminal, TestExitCodes,
	TestExitCodeOfSignals, TestExitStatusIsRuncs, TestPathsFromCallersDirectory, TestInspectHolds, TestLoadedFilters,
	TestLimitsByDefault, TestMountedDir, TestMountTable, TestNothingOfTheHost, TestJoinJail, TestNetworks,
	TestRestart, TestPause, TestCopyIn, TestPassthrough, TestStandardFilesKeepTheirOwners, TestAttachToEntering, TestVariables, TestDeviceSources, TestWrongKinds, TestNumberedGroups,
}

// perEngine are the tests that show what a Docker does by itself, with its own way to call agentjail and to keep images.
var perEngine = []func(*testing.T){
	TestJail, TestLimitsByDefault, TestLimitsBelowPolicy, TestRun, TestRunTerminal, TestExec, TestExitCodes, TestLogsFollow, TestAttach, TestStats, TestTop, TestPause, TestStop, TestKillSignal,
	TestRestart, TestWait, TestRename, TestInspect, TestHealthcheck, TestRestartPolicy, TestLiveRestore, TestCopyIn, TestCopyRunsNothing,
	TestCompose, TestSwarm, TestDefaultRuntimeBuild, TestNetworks, TestNamedVolume, TestVolumeFromImage, TestVolumeAsUser, TestManyLayers,
	TestNestedInReadOnly, TestVolumeSubpath, TestImageMount, TestEngineNetwork, TestNamesOverDocker, TestNamesWritable, TestEngineLinks, TestDockerPublishHelperKilled, TestPassthrough, TestExitStatusKept,
}

// choices are the flags by which make chooses tests, with those that each of them runs.
var choices = map[*bool][]func(*testing.T){
	flag.Bool("per-delegate", false, "run the tests that depend on the delegate, and no others"): perDelegate,
	flag.Bool("per-engine", false, "run the tests that depend on the engine, and no others"):     perEngine,
}

// chooseTests makes the flags' choice the tests to run.
func chooseTests() error {
	flag.Parse()
	var chosen []string
	for on, tests := range choices {
		if *on {
			chosen = append(chosen, names(tests)...)
		}
	}
	if chosen == nil {
		return nil
	}
	return flag.Set("test.run", "^("+strings.Join(chosen, "|")+")$")
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
