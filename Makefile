# Everything here needs Go and make; race needs a C compiler, staticcheck and
# fuzz may download. `make help` lists the targets.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Long runs, outside `make test`. Each may be set on the command line.
SEEDS            ?= 100000
DEPTH            ?= 7
SERVER_KILLS     ?= 50
SUPERVISOR_KILLS ?= 20
FUZZTIME         ?= 30s
CBC_INSTANCES    ?= 1
BENCH_JOBS       ?= 100000
BENCH_ROUNDS     ?= 100

# A package of tests that is not done by then hangs. It is no measure of speed: beside others it may take five times as long as alone.
HANGS = 60m

export CGO_ENABLED = 0

# The same flags for all that is compiled, so that nothing is compiled twice.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

.PHONY: hunt build lab demo demo-kube demo-portal walk test moving test-live test-seeds test-python test-container test-kube bench-kube bench-kube-scale rig-kube image test-torch test-gpu image-torch test-pai test-lab test-oidc test-alerts web test-web bench-web shots-web vet check measure race staticcheck bench bench-core bench-sim bench-container same solvers reproduce soak soak-seeds soak-depth crash fuzz clean help

# Builds a program, and says how far it is.
BUILD = GO='$(GO)' ./internal/test/lab/run/build

build: ## builds bin/comb and bin/train
	@echo 'build 1/3: modules (the first time they are downloaded)'
	@$(GO) mod download
	@$(BUILD) 'build 2/3: bin/comb (the first time a few minutes)' -ldflags '-X main.version=$(VERSION)' -o bin/comb ./cmd/comb
	@$(BUILD) 'build 3/3: bin/train, the example job' -o bin/train ./examples/train

lab: build
	@$(BUILD) 'build: bin/lab, the program behind make demo and make walk' -o bin/lab ./internal/test/lab/run

demo: lab ## runs the five experiments on this machine, in containers where an engine answers, else as processes, live, with a report
	bin/lab demo -bin bin -evidence bin/demo-evidence

demo-portal: lab ## opens a server with a lively small cluster, and prints the address of its portal (LISTEN=127.0.0.1:8420)
	@bin/lab portal -bin bin -listen $(or $(LISTEN),127.0.0.1:8420)

walk: lab ## goes the way of users through the whole product: command line, REST, real processes (under 5 minutes)
	@bin/lab walk -bin bin

# Packages whose tests have real processes, and wait for them: make test-live.
LIVE = ./internal/test/lab ./internal/test/lab/kubescale ./internal/executor/local ./cmd/comb

# The packages that take longest begin first, so that none of them runs alone at the end.
LONGEST = ./internal/sim/script ./internal/sim/simulate ./internal/core ./internal/core/cell

# One story of a real server with real tasks; the others are those of LIVE.
STORY = ./internal/test/lab -run '^TestReadme$$'

# Of the seeds of random tests `make test` tries a fifth. `make test MOVING="$(make -s moving)"` has some that no run
# before had: that range moves with each commit.
MOVING ?= 1:40

moving: ## prints seeds that no run before had: 40 for each 200 of test-seeds
	@n=$$(git rev-list --count HEAD); echo $$((1001 + n * 40)):$$((1040 + n * 40))

test: ## runs the tests that need no real processes, and one story that has them (under 8 minutes on 2 cores)
	@echo 'random tests have the seeds $(MOVING); MOVING=FROM:TO repeats a range'
	COMB_SEEDS=$(MOVING) $(GO) test -vet=off -p 3 -timeout $(HANGS) $(LONGEST) $$($(GO) list ./... | grep -vE '/($(subst $() ,|,$(LIVE:./%=%)))$$')
	$(GO) test -vet=off -timeout $(HANGS) $(STORY)

test-live: ## runs the tests of real servers with real tasks as processes: experiments, kills, the command line
	$(GO) test -vet=off -p 3 -timeout $(HANGS) $(LIVE)

test-python: ## runs the programs of examples/, alone and as tasks (needs python3; under two minutes)
	$(GO) test -vet=off -count=1 -timeout $(HANGS) -run Python ./examples ./internal/executor/local -args -live python

# Tests of containers wait most of their time, and each run of them has an engine in namespaces of its own: so half of
# them run beside the others.
CONTAINERS = $(GO) test -vet=off -count=1 -timeout $(HANGS)
BESIDE     = Demo|Image|Walk

# A program that was built with cgo, as the detector's are: make race compiles the same packages.
WITH_CGO = CGO_ENABLED=1 $(CONTAINERS) -race -run ContainerBuiltWithLibraries ./internal/executor/local

test-container: ## runs the tests of containers: needs root, gcc, and Debian's docker.io, iptables and busybox-static (under 5 minutes)
	@failed=0; live='-args -live container'; \
	  { $(CONTAINERS) -run Container ./internal/executor/local $$live && $(CONTAINERS) -run '$(BESIDE)' ./internal/test/lab/containers $$live && \
	    $(WITH_CGO) $$live; } & beside=$$!; \
	  $(CONTAINERS) -skip '$(BESIDE)' ./internal/test/lab/containers $$live || failed=1; \
	  wait $$beside || failed=1; exit $$failed

image: build ## writes bin/comb-image.tar, an image of Comb that engines and registries take (IMAGE=comb:latest); no container engine is needed
	@$(GO) run ./internal/test/boximage bin/comb $(or $(IMAGE),comb:latest) bin/comb-image.tar
	@echo 'bin/comb-image.tar: bin/comb image push it to its registry, or docker load -i it'

# The first build of the cluster takes 15 minutes of processor time; what it makes is kept outside the tree.
rig-kube: ## builds a Kubernetes cluster from the Go module proxy, for test-kube (cold under 12 minutes; kept in $$XDG_CACHE_HOME/comb/kube)
	@nice -n 5 ./test/kube/build

# Tests of the executor that need the cluster; make test runs the others.
IN_KUBE = Conformance|ClaimedTwice|RealContainers|Strays

test-kube: rig-kube ## runs jobs as pods of a real Kubernetes cluster of this machine: needs root, and Debian's runc, containernetworking-plugins, busybox-static, iptables, openssh-server and kubernetes-client (under 10 minutes)
	$(GO) test -vet=off -c -o bin/kube.test ./internal/executor/kube
	$(GO) test -vet=off -c -o bin/comb-kube.test ./cmd/comb
	./test/kube/run sh -ec 'root=$$PWD; cd internal/executor/kube; $$root/bin/kube.test -test.timeout $(HANGS) -test.parallel 4 -test.run "$(IN_KUBE)" -live kube -kubeconfig $$KUBECONFIG; \
	  cd $$root/cmd/comb; $$root/bin/comb-kube.test -test.timeout $(HANGS) -test.run TestKube -live kube -kubeconfig $$KUBECONFIG'

# A file system with Debian's PyTorch, 1.3 GB.
TORCH = $(CURDIR)/bin/torch.tar

$(TORCH):
	sh examples/pytorch/image.sh $(TORCH)

image-torch: $(TORCH) ## makes the image local.test/torch:1 of Debian's PyTorch, without a registry (needs root, debootstrap, docker, the network; minutes)
	docker import -c 'ENV PYTHONUNBUFFERED=1' $(TORCH) local.test/torch:1

test-torch: $(TORCH) ## trains with real PyTorch in a gang of two containers that is preempted, and compares its losses (what image-torch and test-container need)
	$(GO) test -count=1 -timeout 1h -v -run TestTorch ./internal/test/lab/containers -args -live container,torch -torch $(TORCH)

test-gpu: build ## checks Comb on a machine with one NVIDIA GPU: what tasks see, what is measured, a real training that is preempted, and two that take turns (needs python3 with PyTorch, curl; under 5 minutes)
	test/gpu/check bin/comb

# OpenPAI's own client, as its committed lock file names it.
PAI_CLIENT = $(CURDIR)/bin/pai-client

test-pai: ## makes every call of OpenPAI's own client against a real server (needs nodejs and npm; under 5 minutes)
	@mkdir -p $(PAI_CLIENT)
	cp internal/api/pai/testdata/client/package.json internal/api/pai/testdata/client/package-lock.json $(PAI_CLIENT)
	npm ci --prefix $(PAI_CLIENT) --ignore-scripts --no-audit --no-fund
	$(GO) test -vet=off -count=1 -timeout $(HANGS) -run 'Client$(LAB)' ./internal/api/pai -args -live pai -client $(PAI_CLIENT)

test-lab: LAB = |Lab
test-lab: test-pai ## the same, and the lab of two machines from the first step to the last, by OpenPAI's client and the command line

test-oidc: ## signs in by a real OpenID provider, the example server of zitadel/oidc (downloads it the first time; under 3 minutes)
	$(GO) test -vet=off -count=1 -timeout $(HANGS) -run Provider ./cmd/comb -args -live provider

test-alerts: ## checks the alert rules and tries them (needs promtool)
	promtool check rules deploy/prometheus/comb.rules.yml
	cd deploy/prometheus && promtool test rules comb.test.yml

web: ## builds the portal's files of web/ into internal/api/portal/dist, which are committed (needs nodejs and npm)
	npm ci --prefix web --ignore-scripts --no-audit --no-fund
	npm run --prefix web types
	npm run --prefix web check
	npm run --prefix web build

test-web: build ## checks that the portal's files are those of web/, and tries the portal in a browser against a real server (needs nodejs, npm and chromium)
	$(MAKE) web
	@test -z "$$(git status --porcelain internal/api/portal/dist | tee -a /dev/stderr)" || { echo 'what is committed is not what web/ makes: run make web, and commit the files above' >&2; exit 1; }
	npm run --prefix web unit
	test/alone npm run --prefix web test

shots-web: ## takes pictures of the portal's pages, light and dark, on a screen and on a phone, of a server that make demo-portal opened (COMB_URL=http://127.0.0.1:8420 COMB_SHOTS=folder)
	@npm exec --prefix web -c 'playwright test --config web/shots.config.ts'

bench-web: build ## measures the portal in a browser, one figure a line (needs nodejs, npm and chromium; BENCH_WEB_JOBS=200000)
	npm ci --prefix web --ignore-scripts --no-audit --no-fund
	@npm exec --prefix web -c 'playwright test --config web/bench.config.ts'

vet: ## vets all packages, with the flags of the build, so that what it compiled is not compiled again
	$(GO) vet ./...

check: vet ## the quick loop: vet, format, tidy, short tests
	@test -z "$$(gofmt -l . | tee -a /dev/stderr)" || { echo 'not formatted: run gofmt -w on the files above' >&2; exit 1; }
	$(GO) test -count=1 ./internal/test/tidy
	$(GO) test -short -timeout 5m ./...

# Packages whose own code starts goroutines or guards what several use. The pure core does neither
# (tidy keeps that), and runs inside theirs. simulate starts some for sweeps alone, which cmd/comb runs.
UNRACED = test/lab|test/walk|test/smalldisk|test/enginetest|sim/script|sim/simulate
RACED = $$(grep -rlE '^[[:space:]]*go (func|[a-zA-Z])|\.Go\(|sync\.|atomic\.' --include='*.go' cmd examples internal | grep -v '_test\.go:*$$' | \
  xargs -n 1 dirname | grep -vE '^internal/($(UNRACED))(/|$$)' | sort -u | sed 's|^|./|')

# The programs under load and kills, with the detector in them; the experiments ran without it.
RACED_LAB = Kill|Away|GandivaLive

race: ## runs the tests of all packages with goroutines under the race detector, in their short form (needs gcc)
	CGO_ENABLED=1 $(GO) test -vet=off -race -short -timeout $(HANGS) -run '$(RACED_LAB)' ./internal/test/lab
	CGO_ENABLED=1 COMB_TURN=$$(git rev-list --count HEAD) $(GO) test -vet=off -race -short -p 4 -timeout $(HANGS) ./internal/executor/local $(RACED) # live tests wait most of their time

measure: ## prints what the structure comes to: packages, the largest types, circles of files, wide comments
	@$(GO) test -count=1 -v -run '^TestMeasure$$' ./internal/test/tidy | grep -vE '^(ok|PASS|=== |--- )'

staticcheck: ## runs staticcheck (downloads it the first time)
	$(GO) run $(STATICCHECK) ./...

bench: build bench-core bench-sim ## measures; prints one line a figure: name{labels} value unit (BENCH_JOBS=100000)
	@$(GO) run ./internal/test/lab/run bench -bin bin -jobs $(BENCH_JOBS)
	@if [ "$$(id -u)" = 0 ] && command -v dockerd > /dev/null; then $(MAKE) --no-print-directory bench-container; \
	  else echo 'no figures of containers: they need root and the packages of make test-container'; fi

bench-core: ## measures only the decision core (ONLY=load-4096 for a part, BENCH_FLAGS='-cpuprofile FILE')
	@$(GO) run ./internal/test/lab/run core -only '$(ONLY)' $(BENCH_FLAGS)

HUNT ?= -for 10m

hunt: ## looks for checks and decisions of many steps in random workloads; prints the ten heaviest with small scripts (HUNT='-known -nodes 1000')
	@$(GO) run ./internal/test/hunt/run $(HUNT)

bench-sim: build ## measures only simulations (ONLY=philly-las for a part, BENCH_FLAGS='-cpuprofile FILE')
	@$(GO) run ./internal/test/lab/run sim -bin bin -only '$(ONLY)' $(BENCH_FLAGS)

demo-kube: rig-kube ## runs the five experiments as pods of a real node, with a report (see test-kube)
	$(GO) test -vet=off -c -o bin/comb-kube.test ./cmd/comb
	./test/kube/run sh -ec 'cd cmd/comb; ../../bin/comb-kube.test -test.v -test.timeout 10m -test.run TestKubeDemo -experiments -live kube -kubeconfig $$KUBECONFIG'

bench-kube: build rig-kube ## measures jobs as pods on simulated nodes of 8 GPUs (NODES=500; needs what make test-kube needs)
	@$(GO) build -o bin/kubebench ./internal/test/lab/kubebench
	@AUDIT=yes NODE_GRACE=10m NODES=$(or $(NODES),500) ./test/kube/run bin/kubebench -bin bin -nodes $(or $(NODES),500)

# What a run holds in memory beside the server: 1 GiB for 1,000 tasks, and 20 KiB for each pod.
bench-kube-scale: build ## measures a server with many pods, on an API server in memory: what they take of its memory (NODES=1000, of 8 GPUs, GANG=8), and how it catches up with tasks that printed while it was away (TASKS=1000)
	@COMB_TEST_PROGRAMS=$(CURDIR)/bin $(GO) test -count=1 -timeout 1h -v ./internal/test/lab/kubescale -args -nodes $(or $(NODES),1000) -gang $(or $(GANG),8) -tasks $(or $(TASKS),1000) -keep 1048576 -away 30s

bench-container: ## measures only containers, beside the bare engine (needs what make test-container needs; ONLY=Prefetch for a part, BENCH_ROUNDS=100)
	@$(GO) test -count=1 -timeout 1h -run '^$$' -bench '$(or $(ONLY),.)' -benchtime 1x ./internal/test/lab/containers -args -live container -rounds $(BENCH_ROUNDS)

soak: soak-seeds soak-depth ## all random tests and the exhaustive search at full length (SEEDS=100000 or FROM:TO, DEPTH=7)

# The packages of the random tests, and these tests: who takes its seeds from -seeds.
RANDOM_FILES = $$(grep -rlE 'seeds\.(Of|Range)\(t, |modest\(t, ' --include='*_test.go' internal)
RANDOM_TESTS = $$(awk '/^func Test/ { split($$2, name, "(") } /seeds\.(Of|Range)\(t, |modest\(t, / { print name[1] }' $(RANDOM_FILES) | sort -u | paste -sd '|')
COVERED = $(CURDIR)/bin/soak.txt

test-seeds: ## all random tests on the seeds by which they say that they still meet what they are for
	$(GO) test -vet=off -timeout $(HANGS) -run "^($(RANDOM_TESTS))$$" $$(dirname $(RANDOM_FILES) | sort -u | sed 's|^|./|')

soak-seeds: ## all random tests (SEEDS=100000, or a slice of it such as 20001:30000)
	@mkdir -p bin
	@echo "# seeds $(SEEDS) at $(VERSION), $$(date -u '+%F %T')" >> $(COVERED)
	$(GO) test -count=1 -timeout 120h -run "^($(RANDOM_TESTS))$$" $$(dirname $(RANDOM_FILES) | sort -u | sed 's|^|./|') -args -seeds $(SEEDS) -covered $(COVERED); \
	  failed=$$?; cat $(COVERED); exit $$failed

soak-depth: ## the exhaustive search (DEPTH=7)
	@mkdir -p bin
	@echo "# depth $(DEPTH) at $(VERSION), $$(date -u '+%F %T')" >> $(COVERED)
	$(GO) test -count=1 -timeout 24h -v -run '^TestExhaustive$$' ./internal/core -args -depth $(DEPTH) -covered $(COVERED)

same: ## compares, byte for byte, what this tree's programs do with what those of an earlier commit did, for steps that only move or rename code (BASE=COMMIT, RUNS=1:100; minutes, twice as long the first time)
	@SEEDS=$(or $(RUNS),1:100) test/same/run $(BASE)

solvers: ## lets cbc judge lease selection, 20 s an instance (needs coinor-cbc; CBC_INSTANCES=1 of each family)
	$(GO) test -count=1 -timeout 2h -v -run TestCBC ./internal/test/judge -args -cbc $(CBC_INSTANCES)

reproduce: ## runs every published result against ours and writes docs/results.md (needs the public traces, COMB_DATA; ONLY=tiresias for a part)
	$(GO) test -count=1 -timeout 1h -v -run 'TestReproduce' ./internal/sim/simulate -args -results $(CURDIR)/docs/results.md -part '$(ONLY)'

mutants: ## plants every fault of internal/test/mutant and lists which test catches it
	$(GO) test -count=1 -timeout 4h -v -run TestFaults ./internal/test/mutant -args -mutants all

crash: ## kills servers and supervisors under load (SERVER_KILLS=50 SUPERVISOR_KILLS=20)
	$(GO) test -count=1 -timeout 1h -v -run 'Kill' ./internal/test/lab -args -server-kills $(SERVER_KILLS) -supervisor-kills $(SUPERVISOR_KILLS)

fuzz: ## fuzzes every fuzz target for a while (FUZZTIME=30s)
	@set -e; for dir in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -r -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | cut -c6-); do \
	    $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$dir; done; done

clean: ## removes what was built
	rm -rf bin .tmp

help: ## lists the targets
	@grep -hE '^[a-z][a-z-]*:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14
