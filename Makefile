# agentjail's tasks. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

GO ?= go
# Tests and linters are built with the programs' flags, so that everything is compiled once. Only lint and test-quick vet. No debugger's
# tables, whose linking takes a third of a test program's.
export GOFLAGS := $(strip $(filter-out -trimpath -vet=off -ldflags=-w,$(shell $(GO) env GOFLAGS 2>/dev/null)) -trimpath -vet=off -ldflags=-w)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT := mvdan.cc/gofumpt@v0.12.0
MISSPELL := github.com/golangci/misspell/cmd/misspell@v0.8.0
# Everything is pure Go but what links libseccomp.
CGO_PACKAGES := agentjail.dev/seccomp/prove
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS := -s -w -X agentjail.dev/runtime/version.Version=$(VERSION) -X agentjail.dev/runtime/version.Commit=$(COMMIT)
# Without the command line package's manual page writer, whose tables every start would fill.
TAGS := urfave_cli_no_docs
OUT := dist

# What needs root (a Docker of the tests' own, namespaces, mounts) gets it from sudo when make has it not.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo env "PATH=$(PATH)" "GOFLAGS=$(GOFLAGS)" "GOPROXY=$(shell $(GO) env GOPROXY)")

# $(call lane,NAME) is a part of make test: whatever becomes of the task NAME, the next part runs. Past the BUDGET it is left out.
lane = $(OUT)/testlane lane $(firstword $(1)) $(MAKE) $(1)
# $(call tests,PART,TASK) before go test, whose flags come last: shows what fails, runs that once more, keeps all output in dist/PART.log.
tests = $(OUT)/testlane tests -part $(1) -lane $(2) -log $(OUT)/$(1).log

# How long a fuzz target runs, how many cycles the leak test makes, how many rounds a benchmark has.
FUZZTIME ?= 30s
LEAK_CYCLES ?= 400
BENCH_ROUNDS ?= 40
# How many jails the load test keeps alive, and for how long it kills them.
LOAD_JAILS ?= 200
LOAD_TIME ?= 10m
# And how many of those with a network by name stand beside each other.
NAMES_JAILS ?= 1000

# Which delegate test-e2e runs over (hack/with-delegate.sh).
DELEGATE ?= auto
# Which tests of names test-delegates runs over gVisor; . for all, which takes some twenty minutes.
SANDBOXED_NAMES ?= ^Test(KilledHelper|NothingLeft|Credentials|HeldConnection|EngineNetwork|Publish|Quota|PodSharesNetworkAndHelper)$$
# And which of those that kill agentjail.
SANDBOXED_CRASH ?= ^Test(KilledAtEveryStep|KilledWithHelper|DeleteIsIdempotent|StartPaused)$$
# Which suites test-neighbors runs.
NEIGHBORS ?= ./tests/sandbox ./tests/crash
# Which suite make conformance runs, over which delegate, and where those are cloned that are no Go modules.
SUITE ?= all
# Docker 29 and containerd 2.4 need a newer runc than Debian 12 has; its Podman has crun.
CONFORMANCE_DELEGATE ?= $(shell $(if $(filter moby critest,$(SUITE)),hack/tools/build.sh runc,PATH=$$PATH:/usr/sbin command -v $(if $(filter podman,$(SUITE)),crun,runc)))
CONFORMANCE_DIR ?= $(OUT)/suites

# How many minutes all tests may take: what does not fit is left out, and reported. Without a budget there is no limit.
BUDGET ?= $(if $(CI),75)
BEGAN ?= $(shell date +%s)
BEGAN := $(BEGAN)
export BUDGET BEGAN

# Whether gofmt and go vet have passed already in this run, as lint's part of it.
VETTED ?=

.PHONY: help build demo test test-background test-here testlane modules vet preflight test-quick test-unit test-e2e test-neighbors test-kubernetes test-clients test-delegates test-docker test-vm conformance load table prove bench boundaries bench-smoke fuzz lint bpf activator release deps clean

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## compile agentjail into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: deps build ## install what is missing, then show a jail on a real Docker
	CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/demo ./hack/demo
	$(ROOT) hack/with-cgroups.sh $(OUT)/demo

deps: ## install what tests and demo need (Debian packages)
	hack/deps.sh

# In this order: what measures time is alone on the machine.
test: modules preflight deps testlane ## everything that must pass, here and in virtual machines
	@rm -rf $(OUT)/lanes $(OUT)/left-out && mkdir -p $(OUT)/lanes
	CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/prebuild ./hack/prebuild
	$(OUT)/testlane lane test-vm $(MAKE) test-background
	$(call lane,bench-smoke)
	[ -e $(OUT)/left-out ] || $(call lane,table)
	@git rev-list HEAD >$(OUT)/commits 2>/dev/null || true
	@$(ROOT) env BEGAN=$(BEGAN) $(OUT)/testlane report -commits $(OUT)/commits

# Beside the tests on this machine, with what they leave of the processors: what is slow to build is built before it is needed, then the
# virtual machines run, which go on alone when those tests are through (hack/background.sh).
test-background:
	hack/background.sh $(OUT)/vm '$(OUT)/prebuild >$(OUT)/prebuild.log 2>&1; $(MAKE) test-vm BACKGROUND=$(OUT)/vm.running' $(MAKE) test-here

# The most telling first: past the budget the last are left out. First one at a time: what their tests wait, the virtual machines work. These
# have ended before test-e2e has, and then two at a time.
HERE := lint 'test-quick VETTED=yes' test-unit prove test-e2e
HERE_PAIRED := test-kubernetes test-delegates test-docker test-neighbors 'fuzz FUZZTIME=2s'
test-here:
	printf '%s\n' $(HERE) | xargs -L 1 sh -c '$(OUT)/testlane lane "$$0" $(MAKE) "$$0" "$$@"'
	printf '%s\n' $(HERE_PAIRED) | xargs -P 2 -L 1 sh -c '$(OUT)/testlane lane "$$0" $(MAKE) "$$0" "$$@"'

testlane: # what runs tests (hack/testlane)
	@CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/testlane ./hack/testlane

modules: ## fetch the modules that the build, the tests and lint need, trying again where a download fails
	@for try in 1 2 3; do \
		$(GO) list -deps -test ./... >/dev/null && $(GO) mod download -C hack/tools/analyzers && CGO_ENABLED=0 $(GO) run $(STATICCHECK) -version >/dev/null && \
			CGO_ENABLED=0 $(GO) run $(GOFUMPT) -version >/dev/null && CGO_ENABLED=0 $(GO) run $(MISSPELL) -v >/dev/null && exit 0; \
		echo "modules: not all could be fetched" >&2; \
	done; exit 1

preflight: ## report a kernel on which tests would hang, left so by an earlier run; silent where all is well
	@CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/preflight ./hack/preflight
	@$(ROOT) $(OUT)/preflight

vet:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "not gofmt'ed:"; echo "$$bad"; exit 1; }
	CGO_ENABLED=0 $(GO) vet ./...

test-quick: testlane $(if $(VETTED),,vet) ## gofmt, go vet and unit tests, as an ordinary user in a minute and a half
	@$(call tests,quick,test-quick) -packages ./... $(if $(filter 0,$(shell id -u)),env GO=$(GO) hack/quick.sh,env CGO_ENABLED=0 $(GO) test) -v

test-unit: testlane ## tests without a container engine that depend on root (hack/rooted.sh); test-quick runs the others
	@status=0; \
	$(call tests,unit,test-unit) -packages "$$(GO=$(GO) hack/rooted.sh $$($(GO) list ./... | grep -v -e '^agentjail.dev/tests/' -e '^$(CGO_PACKAGES)$$'))" \
		$(ROOT) env CGO_ENABLED=0 hack/alone.sh $(GO) test -v || status=$$?; \
	$(call tests,unit-cgo,test-unit) -packages "$(CGO_PACKAGES)" $(ROOT) env CGO_ENABLED=1 $(GO) test -v || status=$$?; \
	exit $$status

test-e2e: testlane ## tests against a real Docker, and the runtime by itself
	$(call tests,e2e,test-e2e) -skipped -packages "$$($(GO) list ./tests/... | grep -v '/tests/kubernetes$$')" \
		$(ROOT) env AGENTJAIL_LEAK_CYCLES=$(LEAK_CYCLES) WORKLOADS=$(WORKLOADS) CLIENTS=$(CLIENTS) CGO_ENABLED=0 \
		hack/with-cgroups.sh hack/alone.sh hack/with-delegate.sh $(DELEGATE) $(GO) test -v -count=1 -p 1 -timeout 40m

test-clients: testlane ## other people's container clients over runc and jails; CLIENTS=all also runs those that take minutes to build
	$(call tests,clients,test-clients) -packages ./tests/clients $(ROOT) env CLIENTS=$(CLIENTS) CGO_ENABLED=0 \
		hack/with-cgroups.sh hack/alone.sh hack/with-delegate.sh $(DELEGATE) $(GO) test -v -count=1 -timeout 40m

test-neighbors: testlane ## NEIGHBORS, some suites of test-e2e, while other jails, Docker's containers and Podman's come and go
	CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/neighbors ./hack/neighbors
	$(call tests,neighbors,test-neighbors) -packages "$(NEIGHBORS)" $(ROOT) env CGO_ENABLED=0 hack/with-cgroups.sh $(OUT)/neighbors -pause 300ms \
		hack/alone.sh $(GO) test -v -count=1 -p 1 -timeout 40m

test-kubernetes: testlane ## a cluster of Kubernetes' own programs, and what pods have in it; builds them the first time, which takes minutes
	$(call tests,kubernetes,test-kubernetes) -packages ./tests/kubernetes $(ROOT) env CGO_ENABLED=0 \
		hack/with-cgroups.sh hack/alone.sh $(GO) test -v -count=1 -timeout 30m

test-delegates: testlane ## what depends on the delegate, over the newest runc and over crun; over gVisor's runsc what every jail is, tests/exhaust, SANDBOXED_NAMES and SANDBOXED_CRASH
	@status=0; for d in runc-new crun; do \
		$(call tests,delegate-$$d,test-delegates) -packages ./tests/e2e -args -per-delegate $(ROOT) env CGO_ENABLED=0 \
			hack/with-cgroups.sh hack/alone.sh hack/with-delegate.sh $$d $(GO) test -v -count=1 -timeout 20m || status=$$?; \
	done; \
	for s in contract names exhaust crash; do \
		case $$s in names) run='$(SANDBOXED_NAMES)' ;; crash) run='$(SANDBOXED_CRASH)' ;; *) run=. ;; esac; \
		$(call tests,delegate-runsc-$$s,test-delegates) -packages ./tests/$$s $(ROOT) env CGO_ENABLED=0 \
			hack/with-cgroups.sh hack/alone.sh hack/with-delegate.sh runsc $(GO) test -v -count=1 -timeout 40m -run "$$run" || status=$$?; \
	done; \
	exit $$status

test-docker: testlane ## what depends on the engine, over Docker 29, by path and by the shim; a part of moby's own tests
	@status=0; for d in 29-overlay2 29-shim; do \
		$(call tests,docker-$$d,test-docker) -packages ./tests/e2e -args -per-engine $(ROOT) env AGENTJAIL_TEST_DOCKER=$$d CGO_ENABLED=0 \
			hack/with-cgroups.sh hack/alone.sh hack/with-delegate.sh runc-new $(GO) test -v -count=1 -timeout 20m || status=$$?; \
	done; \
	$(MAKE) conformance SUITE=moby CONFORMANCE='-subjects jails -only ^integration/volume$$$$' || status=$$?; \
	$(MAKE) conformance SUITE=moby CONFORMANCE='-causes -only ^integration/container$$$$' || status=$$?; exit $$status

conformance: ## other projects' suites through agentjail: SUITE=runc, runtime-tools, shimtest, moby, critest, podman or all, CONFORMANCE_DELEGATE=PATH
	CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/conformance.bin ./hack/conformance
	$(ROOT) env CGO_ENABLED=0 hack/with-cgroups.sh hack/alone.sh hack/with-delegate.sh $(CONFORMANCE_DELEGATE) unshare --mount --propagation private \
		$(OUT)/conformance.bin -suite $(SUITE) -delegate $(CONFORMANCE_DELEGATE) -from $(CONFORMANCE_DIR) -out $(OUT)/conformance $(CONFORMANCE)

test-vm: ## the suites that need AppArmor, SELinux, cgroup v2 or newer engines, in virtual machines
	@mkdir -p $(OUT)/lanes
	$(ROOT) hack/vm/deps.sh
	CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/vm-lane ./hack/vm
	$(ROOT) $(OUT)/vm-lane -out $(OUT)/vm $(addprefix -background ,$(BACKGROUND))

load: ## many jails at once, with jails, shims and daemons killed at random
	$(ROOT) env AGENTJAIL_LOAD_JAILS=$(LOAD_JAILS) AGENTJAIL_LOAD_PARALLEL=20 AGENTJAIL_LOAD_TIME=$(LOAD_TIME) CGO_ENABLED=0 hack/with-cgroups.sh hack/alone.sh \
		$(GO) test -v -count=1 -timeout 2h ./tests/load
	$(ROOT) env AGENTJAIL_NAMES_JAILS=$(NAMES_JAILS) CGO_ENABLED=0 hack/with-cgroups.sh hack/alone.sh $(GO) test -v -count=1 -timeout 1h -run 'TestMany$$' ./tests/names

table: ## after the tests: which of them ran where; fails if one ran nowhere
	@CGO_ENABLED=0 $(GO) run ./hack/vm -table bare=$(OUT)/quick.log bare=$(OUT)/unit.log bare=$(OUT)/unit-cgo.log bare=$(OUT)/e2e.log $(addprefix bare=,$(wildcard $(OUT)/kubernetes.log $(OUT)/docker-*.log $(OUT)/delegate-*.log)) vm=$(OUT)/vm/apparmor vm=$(OUT)/vm/engines vm-selinux=$(OUT)/vm/selinux

prove: ## prove every profile from the filter that libseccomp compiles, on both architectures
	hack/deps.sh
	CGO_ENABLED=1 $(GO) run -tags $(TAGS),libseccomp ./cmd/agentjailctl seccomp prove --all

bench: deps build ## compare agentjail with what it delegates to and with others; BENCH='-docs docs' writes docs/performance.md
	CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/bench ./hack/bench
	$(ROOT) hack/with-cgroups.sh hack/without-unified.sh hack/alone.sh --disk $(OUT)/bench -rounds $(BENCH_ROUNDS) -json $(OUT)/bench.json $(BENCH)

boundaries: deps build ## compare chroot, nspawn, engines, jails and gVisor; BOUNDARIES='-docs docs' writes docs/boundaries.md
	CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/boundaries ./hack/bench/boundaries
	$(ROOT) hack/with-cgroups.sh hack/without-unified.sh hack/alone.sh $(OUT)/boundaries $(BOUNDARIES)

bench-smoke: ## fail if agentjail takes about twice the time that it usually adds
	CGO_ENABLED=0 $(GO) build -trimpath -o $(OUT)/bench ./hack/bench
	$(ROOT) hack/with-cgroups.sh hack/without-unified.sh hack/alone.sh --disk $(OUT)/bench -smoke

# As many targets at a time as there are processors, each with one. A target that fails runs once more: at its end it can fail by the time
# alone, and an input that fails is kept in testdata. The output of the first time is in dist/fuzz.failed.
fuzz: ## run every fuzz target for FUZZTIME (default 30s)
	@mkdir -p $(OUT) && rm -f $(OUT)/fuzz.failed
	@git grep -o '^func Fuzz[A-Za-z0-9]*' -- '*_test.go' | sed 's|/[^/]*:func | |' | CGO_ENABLED=0 xargs -P "$$(nproc)" -L 1 sh -c ' \
		for try in 1 2; do \
			out=$$(printf "%s %s\n" "$$0" "$$1"; $(GO) test -run "^$$" -fuzz "^$$1$$" -fuzztime $(FUZZTIME) -parallel 1 "./$$0" 2>&1) && \
				{ printf "%s\n" "$$out"; exit 0; }; \
			printf "%s\n" "$$out" >>$(OUT)/fuzz.failed; \
		done; printf "%s\n" "$$out"; exit 1'

lint: vet ## gofmt, gofumpt, go vet, go fix, errorlint, usetesting, staticcheck, misspell
	@bad=$$(CGO_ENABLED=0 $(GO) run $(GOFUMPT) -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "not gofumpt'ed (remedy: go run $(GOFUMPT) -w FILE):"; echo "$$bad"; exit 1; }
	@CGO_ENABLED=0 $(GO) run $(MISSPELL) -error -i proces $$(git ls-files | grep -v /testdata/)
	CGO_ENABLED=1 $(GO) vet -tags libseccomp $(CGO_PACKAGES) ./cmd/agentjailctl
	CGO_ENABLED=0 $(GO) build -C hack/tools/analyzers -o $(CURDIR)/$(OUT)/analyzers .
	CGO_ENABLED=0 $(GO) vet -vettool=$(CURDIR)/$(OUT)/analyzers ./...
	CGO_ENABLED=0 $(GO) fix -stringsbuilder=false -diff ./...
	CGO_ENABLED=0 $(GO) run $(STATICCHECK) ./...
	CGO_ENABLED=1 $(GO) run $(STATICCHECK) -tags libseccomp $(CGO_PACKAGES) ./cmd/agentjailctl
	hack/bpf.sh --check
	hack/activator.sh --check

bpf: ## compile the eBPF programs (Debian 12's clang-14 and llvm-14); the result is committed
	hack/bpf.sh

activator: ## compile what stands in for a network helper until it is needed (Debian 12's clang-14, lld-14, llvm-14); the result is committed
	hack/activator.sh

release: ## packages (.deb, .rpm), archives, SBOM and checksums of HEAD's tag, or of a snapshot, in dist/release; SIGN=COMMAND signs the checksums
	$(GO) run ./hack/release -out $(OUT)/release -sign '$(SIGN)'

clean: ## remove what was built
	rm -rf bin $(OUT)
