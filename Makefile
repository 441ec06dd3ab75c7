# `make help` lists all targets. `make run` needs only Go and make.

GO         ?= go
# go.mod names the oldest Go without known holes that the server reaches. Some machines set GOTOOLCHAIN to local, which
# refuses to download it.
export GOTOOLCHAIN := auto
BIN        := bin/holdfast
VERSION    := $(shell git describe --tags --dirty 2>/dev/null || echo dev)
COMMIT     := $(shell git rev-parse --short HEAD 2>/dev/null)
# -s and -w leave out the symbol table and DWARF, a third of the binary. Stack traces and profiles do not need them; for a
# debugger, run go build ./cmd/holdfast.
LDFLAGS    := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# These tags exclude unused parts of Google's client, a third of the binary: DirectPath, and the pages of
# golang.org/x/net/trace.
TAGS       := disable_grpc_modules,grpcnotrace
# Compiling everything with the binary's flags shares its build cache.
LIKEBIN    = CGO_ENABLED=0 GOFLAGS="$$($(GO) env GOFLAGS) -trimpath -tags=$(TAGS)"
# GOGC lets the compiler collect garbage less often: a fifth less processor time for at most a gigabyte of memory.
COMPILE    = GOGC=400 $(LIKEBIN) $(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN) $(1) ./cmd/holdfast
LINTER     := v2.15.0
FUZZTIME   ?= 30s
# More flags for go test, such as -run=TestStore.
TESTFLAGS  ?=
# Flags of the load generator; go run ./bench -help lists them.
BENCHFLAGS ?=
# The race detector needs a C compiler.
RACE       := $(if $(shell command -v gcc),-race)
# Starts the servers that tests need, runs a command, and prints a summary line per engine.
WITHSERVERS = bin/testservers --

# Every target except help and clean needs Go. From 1.21 on, it downloads the version in go.mod. The commands are those of
# internal/testdb/install.go, whose test compares them.
ifneq ($(filter-out help clean,$(or $(MAKECMDGOALS),help)),)
GOFOUND := $(shell GOTOOLCHAIN=local $(GO) version 2>/dev/null)
ifeq ($(shell echo '$(GOFOUND)' | awk '{ split(substr($$3, 3), v, "."); print (v[1] > 1 || v[2] >= 21) }'),0)
GOHOW := $(shell [ ! -r /etc/os-release ] || . /etc/os-release; case " $$(uname) $$ID $$ID_LIKE " in \
	(*" Darwin "*) echo 'with brew install go, or ' ;; \
	(*" debian "*) echo 'with sudo apt-get install golang-go (Debian 13, Ubuntu 24.04 or later), or ' ;; \
	(*" fedora "*) echo 'with sudo dnf install golang, or ' ;; \
	(*" arch "*) echo 'with sudo pacman -S go, or ' ;; \
	esac)
$(error $(if $(GOFOUND),$(GOFOUND) is too old,Go is not installed): Holdfast needs Go 1.21 or later. Install it $(GOHOW)from https://go.dev/dl/)
endif
endif

.PHONY: help build run dist vuln test test-all service testservers test-servers test-deps test-firefox lint linter fuzz check bench bench-peers bench-peers-s3 compare-servers soak soak-models soak-spanner soak-tests soak-race soak-faults soak-power soak-fuzz generate docs clean

help: ## list all targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

build: ## build bin/holdfast
	@$(call COMPILE)

# Counts the compiler's lines with package names and prints its other lines.
run: ## build and serve, with data in ./holdfast-data
	@[ -e $(BIN) ] || echo 'Compiling Holdfast. The first time this takes a minute or more.'
	@{ $(call COMPILE,-v) 2>&1 || echo '!'; } | { n=0; failed=; \
		clear() { [ ! -t 1 ] || printf '\r\033[K'; }; \
		while IFS= read -r line; do case $$line in \
			'!') failed=1 ;; \
			*[!A-Za-z0-9._/~+-]*) clear; printf '%s\n' "$$line" ;; \
			*) n=$$((n + 1)); \
				if [ -t 1 ]; then printf '\rpackages compiled: %d' $$n; \
				elif [ $$((n % 100)) = 0 ]; then echo "packages compiled: $$n"; fi ;; \
		esac; done; clear; [ -z "$$failed" ]; }
	@$(BIN) serve

# The architectures of a release, and the folder for its files.
ARCHS      ?= amd64 arm64 armv7
DIST       ?= dist
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

# Fails on a known vulnerability that the server reaches. If the database cannot be reached, it only says so in
# dist/vulnerabilities.txt, unless REQUIRE_VULN is set, as for every published release.
REQUIRE_VULN ?=

dist: ## build a release in dist/: tarballs, packages, SBOMs, checksums (REQUIRE_VULN=1: only if checked for vulnerabilities)
	@$(MAKE) --no-print-directory vuln VULNFLAGS="$(if $(REQUIRE_VULN),,-unchecked-ok) -record '$(abspath $(DIST))/vulnerabilities.txt'"
	@$(LIKEBIN) $(GO) run -C packaging/release . -source '$(CURDIR)' -out '$(abspath $(DIST))' -epoch '$(SOURCE_DATE_EPOCH)' \
		-version '$(VERSION)' -commit '$(COMMIT)' -ldflags '$(LDFLAGS)' -tags '$(TAGS)' $(ARCHS)

# The vulnerability database: an https, http or file URL. The format is at https://go.dev/security/vuln/database.
VULNDB     ?= https://vuln.go.dev
# More flags, such as -unchecked-ok.
VULNFLAGS  ?=

vuln: ## check the server and packaging/release for known vulnerabilities (VULNDB=URL; exit status 3 of bin/vuln: not checked)
	@$(LIKEBIN) $(GO) build -C packaging/vuln -buildvcs=false -o '$(CURDIR)/bin/vuln' .
	@$(LIKEBIN) bin/vuln -db '$(VULNDB)' -tags '$(TAGS)' $(VULNFLAGS) '$(CURDIR)' '$(CURDIR)/packaging/release'

# The slowest packages start first: test/e2e and test/fault take minutes, then the rest of test/, then internal/app.
# They mostly wait, so one more package runs than there are processors.
PARALLEL  = -p=$$(($$(getconf _NPROCESSORS_ONLN) + 1))
LONGFIRST = sed -E "s,^holdfast/test/(e2e|fault)$$,zz &,; s,^holdfast/test/,z &,; s,^holdfast/internal/app$$,y &," | LC_ALL=C sort -r | sed -E "s/^[yz]+ //"
# GOGC and -w, without DWARF, speed up linking, a tenth of the work. GOGC is not for the tests: some measure memory. make
# lint runs go vet. atexit_sleep_ms saves a second per package: the tests wait for their goroutines.
GOTEST    = -vet=off -ldflags=-w
TEST      = GOGC=400 $(GO) test -exec "env -u GOGC" -timeout 20m $(GOTEST) -count=1 $(TESTFLAGS)
# Prints the same, and notes the times for the summary, for which go test forgoes its cache of results. A busy machine gets
# more time, and the tests no GOGC. The value of a flag follows "=", so that a package over its budget can be tested again.
TIMED     = GOGC=400 bin/testservers test $(GOTEST)

# fail or write; see CONTRIBUTING.md, Times.
TEST_BUDGETS ?=
export TEST_BUDGETS

# testdb.Set describes the sets: quick, check, or both. Without a set, `make soak PART=tests` runs all tests.
SET       = check
# The maximum number of walks per model; rapid's default is 100.
CHECKS    = 25

# SERVICE=NAME selects one service from test/packages.
PACKAGES  = test/packages $(SERVICE)
SCENARIOS = $(if $(SERVICE),FAULT_SERVICE=$(SERVICE) $(TIMED) -count=1 $(TESTFLAGS) $$(test/packages scenarios $(SERVICE)) || failed=1;)

test: service test-servers build testservers ## test on SQLite, PostgreSQL and Redis, in minutes (SERVICE=sync: only one service)
	@export TEST_SET=quick; $(WITHSERVERS) sh -c 'failed=0; export RAPID_CHECKS=10 $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) HOLDFAST_TEST_PROGRAMS=$$(mktemp -d); \
		$(TIMED) -p=1 -count=1 $(TESTFLAGS) $(if $(SERVICE),$$(test/packages scenarios $(SERVICE)),./test/e2e ./test/fault/...) & program=$$!; \
		$(TIMED) $(TESTFLAGS) $$($(GO) list $$($(PACKAGES)) | grep -vE "^holdfast/(test|bench|clients?)(/|$$)" | test/packages quick | $(LONGFIRST)) || failed=1; \
		wait $$program || failed=1; rm -r $$HOLDFAST_TEST_PROGRAMS; exit $$failed'
	@echo "make check runs all other tests: other engines, browsers and clients, faults, and the race detector."

test-all: service test-deps build testservers #: run all tests, but those that make soak runs, on every engine and in real browsers
	@export TEST_SET=$(SET); $(WITHSERVERS) sh -c 'failed=0; export RAPID_CHECKS=$(CHECKS); \
		GORACE=atexit_sleep_ms=0 $(TIMED) -count=1 $(TESTFLAGS) -p=1 -trimpath $(RACE) $$($(GO) list $$($(PACKAGES)) | test/packages raced) & race=$$!; \
		export $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) HOLDFAST_TEST_PROGRAMS=$$(mktemp -d); \
		$(SCENARIOS) \
		$(TIMED) -count=1 $(TESTFLAGS) $(PARALLEL) $$($(GO) list $$($(PACKAGES)) | test/packages unraced | $(LONGFIRST)) || failed=1; \
		rm -r $$HOLDFAST_TEST_PROGRAMS; wait $$race && exit $$failed'

service:
	@$(PACKAGES) >/dev/null

testservers:
	@$(LIKEBIN) $(GO) build -buildvcs=false -o bin/testservers ./internal/testdb/cmd/testservers

# Programs that the tests start: the Debian package, and a file that exists once it is installed. SYSTEMD_OFFLINE
# keeps the packages from starting their services.
DEPS := postgresql:/usr/lib/postgresql/*/bin/initdb firefox-esr:/usr/bin/firefox-esr chromium:/usr/bin/chromium systemd:/usr/bin/systemd-analyze \
	nginx:/usr/sbin/nginx caddy:/usr/bin/caddy pgbouncer:/usr/sbin/pgbouncer prometheus:/usr/bin/promtool \
	python3-venv:/usr/lib/python3*/ensurepip apache2-bin:/usr/sbin/apache2 rpm:/usr/bin/rpm npm:$(or $(shell command -v npm),/usr/bin/npm) curl:/usr/bin/curl \
	awscli:/usr/bin/aws s3cmd:/usr/bin/s3cmd rclone:/usr/bin/rclone restic:/usr/bin/restic \
	redis-server:/usr/bin/redis-server nats-server:/usr/sbin/nats-server mariadb-server:/usr/sbin/mariadbd
# A mirror may be slow, or another apt process may hold the lock.
APT := apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300
# Only Google's package source contains the emulators. They are installed if apt finds them, and are optional.
SPANNERDEP := google-cloud-cli-spanner-emulator
# The Pub/Sub emulator needs Java.
PUBSUBDEP  := google-cloud-cli-pubsub-emulator
PUBSUB     := /usr/lib/google-cloud-sdk/platform/pubsub-emulator/lib
SPANNER    := /usr/lib/google-cloud-sdk/bin/cloud_spanner_emulator/emulator_main

# The servers of make test, as in DEPS. Where they cannot be installed, the summary says what was left out.
SERVERDEPS := $(filter postgresql:% redis-server:%,$(DEPS))

test-servers:
	@$(MAKE) --no-print-directory test-deps DEPS='$(SERVERDEPS)' SPANNER=/ PUBSUB=/ SKIP_DEPS=$(SKIP_DEPS)

test-deps: ## install the servers and browsers for the tests (SKIP_DEPS=1: skip this)
	@missing=; \
	for dep in $(DEPS); do ls $${dep#*:} >/dev/null 2>&1 || missing="$$missing $${dep%%:*}"; done; \
	if ! ls $(SPANNER) >/dev/null 2>&1 && ! command -v emulator_main >/dev/null && [ -z "$$TEST_SPANNER_EMULATOR$$TEST_SPANNER_EMULATOR_BIN$(SKIP_DEPS)" ]; then \
		if [ "$$(id -u)" = 0 ] && apt-cache show $(SPANNERDEP) >/dev/null 2>&1; then \
			DEBIAN_FRONTEND=noninteractive $(APT) install -y --no-install-recommends $(SPANNERDEP) >/dev/null || true; \
		fi; \
		ls $(SPANNER) >/dev/null 2>&1 || echo "test-deps: tests on Spanner will be skipped; to run them install $(SPANNERDEP) from Google's package source"; \
	fi; \
	if ! ls $(PUBSUB) >/dev/null 2>&1 && [ -z "$$TEST_PUBSUB_EMULATOR$(SKIP_DEPS)" ]; then \
		if [ "$$(id -u)" = 0 ] && apt-cache show $(PUBSUBDEP) >/dev/null 2>&1; then \
			DEBIAN_FRONTEND=noninteractive $(APT) install -y --no-install-recommends $(PUBSUBDEP) default-jre-headless >/dev/null || true; \
		fi; \
		ls $(PUBSUB) >/dev/null 2>&1 || echo "test-deps: tests on Pub/Sub will be skipped; to run them install $(PUBSUBDEP) from Google's package source"; \
	fi; \
	if [ -z "$$missing" ] || [ -n "$(SKIP_DEPS)" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1; \
		for pause in 0 10; do \
			sleep $$pause; \
			$(APT) update && $(APT) install -y --no-install-recommends $$missing >/dev/null && exit 0; \
		done; \
	fi; \
	echo "test-deps: some tests will be skipped; to run them install$$missing"

test-firefox: build ## sync two real Firefox browsers through bin/holdfast
	HOLDFAST_BIN=$(CURDIR)/$(BIN) $(TEST) -v ./test/firefox/...

lint: bin/golangci-lint-$(LINTER) ## run gofmt, go mod tidy, golangci-lint and go vet
	@unformatted=$$(gofmt -l .) && [ -z "$$unformatted" ] || { echo "gofmt -w these:"; echo "$$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	cd packaging/release && $(GO) mod tidy -diff && $(GO) vet .
	cd packaging/vuln && $(GO) mod tidy -diff && $(GO) vet .
	$(LIKEBIN) bin/golangci-lint-$(LINTER) run --allow-parallel-runners
	$(GO) run ./test/prose

linter: bin/golangci-lint-$(LINTER)

bin/golangci-lint-$(LINTER):
	$(LIKEBIN) GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINTER)
	mv bin/golangci-lint $@

# -fuzz instruments almost all packages. To save time, FUZZBUILD=-gcflags=holdfast/...=-d=libfuzzer instruments only
# Holdfast's packages.
FUZZBUILD  ?= -fuzz=.

# Before Go 1.27, the end of a target's time may be reported as a failure (golang/go#75804). The output then contains only
# the deadline; a real failure names its input, or says that the process hung or died.
FUZZENDED   = awk '/^--- FAIL: / { failed = NR } failed && NR == failed + 1 { ended = $$0 == "    context deadline exceeded" } failed && NR == failed + 2 { ended = ended && $$0 == "FAIL" } END { exit !ended }'

fuzz: ## run every fuzz target for FUZZTIME each (30s)
	@set -e; bin=$$(mktemp -d); trap 'rm -rf "$$bin"' EXIT; export $(LIKEBIN); cache=$$($(GO) env GOCACHE)/fuzz; \
	for dir in $$(grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		$(GO) test -c -vet=off $(FUZZBUILD) -o "$$bin/fuzz.test" "$$dir"; \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$$dir"/*_test.go); do \
			echo "$$dir $$target"; \
			{ (cd "$$dir" && "$$bin/fuzz.test" -test.run '^$$' -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) -test.fuzzcachedir "$$cache/$$dir" </dev/null) 2>&1 || touch "$$bin/failed"; } | tee "$$bin/out"; \
			if [ -e "$$bin/failed" ]; then \
				if ! $(FUZZENDED) "$$bin/out"; then exit 1; fi; \
				rm "$$bin/failed"; echo "$$target: its time ended, and it found nothing"; \
			fi; \
		done; \
	done

# Three seconds for each target; make fuzz takes longer.
CHECKFUZZ  = FUZZTIME=1s FUZZBUILD=-gcflags=holdfast/...=-d=libfuzzer

check: test-all lint ## run everything that make test leaves out: all engines, browsers, clients, faults, race detector, lint, vulnerabilities, fuzzing
	$(MAKE) --no-print-directory vuln VULNFLAGS=-unchecked-ok
	$(MAKE) --no-print-directory fuzz $(CHECKFUZZ)

BENCH = $(GO) run ./bench -binary $(BIN) -out docs/measurements.md

bench: build ## compare the server with the bare limit in docs/measurements.md (BENCHFLAGS='-out= -window 1s')
	$(BENCH) $(BENCHFLAGS)

# For comparison with extension storage.
POCKETBASE = v0.36.8

bench-peers: build bin/pocketbase-$(POCKETBASE) bench-peers-s3 ## compare the server with PocketBase, MinIO and versitygw in docs/measurements.md
	$(BENCH) -pocketbase bin/pocketbase-$(POCKETBASE) -engines sqlite -connections 1,16,64 $(BENCHFLAGS)

# Go's module proxy lists only commits of MinIO, not releases. Both programs take minutes to compile.
MINIO     = v0.0.0-20260212201848-7aac2a2c5b7c
VERSITYGW = v1.8.0

bench-peers-s3: build bin/minio-$(MINIO) bin/versitygw-$(VERSITYGW) #: compare buckets with MinIO and versitygw
	$(BENCH) -minio bin/minio-$(MINIO) -versitygw bin/versitygw-$(VERSITYGW) -engines sqlite -runs 3 -window 2s $(BENCHFLAGS)

compare-servers: build bin/minio-$(MINIO) bin/versitygw-$(VERSITYGW) ## list the features of MinIO and versitygw in docs/buckets-reference.md
	env -u TEST_SET $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) WRITE_TABLE=1 $(GO) test -count=1 -run TestServers ./test/s3clients

bin/minio-$(MINIO):
	$(LIKEBIN) GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install github.com/minio/minio@$(MINIO)
	mv bin/minio $@

bin/versitygw-$(VERSITYGW):
	$(LIKEBIN) GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW)
	mv bin/versitygw $@

bin/pocketbase-$(POCKETBASE):
	$(LIKEBIN) GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install github.com/pocketbase/pocketbase/examples/base@$(POCKETBASE)
	mv bin/base $@

# The packages with tests that compare random steps with a model.
MODELS = $(shell $(GO) list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{.Deps}}{{end}}' ./... | sed -n 's/\.test .*pgregory\.net\/rapid.*//p')
# The time limit for open-ended parts, in seconds; no part takes two hours.
SOAKTIME   ?= 6000
SOAKTEST   = $(GO) test -count=1 -timeout 110m

soak: ## run a part of the long tests, each under two hours: make soak PART=models; without PART, list the parts
	@case '$(PART)' in \
	'') sed -n 's/^soak-\([a-z-]*\):.*#: \(.*\)/  make soak PART=\1\t\2/p' Makefile | expand -t 32 ;; \
	*) grep -q '^soak-$(PART):' Makefile || { echo 'PART=$(PART): unknown part; make soak lists them' >&2; exit 2; }; \
		$(MAKE) --no-print-directory soak-$(PART) ;; \
	esac

soak-models: testservers #: all models except on Spanner, with 50 times the walks of make check
	export $(LIKEBIN) TEST_SET=check RAPID_CHECKS=$$((50 * $(CHECKS))); $(WITHSERVERS) $(SOAKTEST) $(filter-out %/spanner,$(MODELS))

# The emulator scans whole tables, so a long walk gets slower and slower: run many walks, each in a new database.
soak-spanner: testservers #: the models on Spanner, with 50 times the steps or for 100 minutes
	export $(LIKEBIN); $(WITHSERVERS) sh -c '\
		end=$$(($$(date +%s) + $(SOAKTIME))); walks=0; \
		while [ $$walks -lt 50 ] && [ $$(date +%s) -lt $$end ]; do \
			$(SOAKTEST) -run "^TestStoreOnSpanner\$$/./^Random" $(filter %/spanner,$(MODELS)) || exit 1; \
			walks=$$((walks + 1)); \
		done; echo "$$walks times the steps of make check"'

soak-tests: build testservers #: every test 5 times, including those that make check skips
	$(MAKE) --no-print-directory test-all SET= CHECKS=100 TESTFLAGS='-count=5 -timeout=60m'

soak-race: testservers #: every package of the server, with the race detector
	$(WITHSERVERS) $(SOAKTEST) -race -count=2 $$($(GO) list ./... | grep -vE '^holdfast/(test|bench)')

soak-faults: build testservers #: database, disk, network and clock faults, hundreds of rounds each
	export $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) FAULT_ROUNDS=200 FAULT_MINUTE=10m FAULT_RECORDS=10000 FAULT_READERS=10000 FAULT_CONNECTIONS=10000; $(WITHSERVERS) sh -c '$(SOAKTEST) -p 1 ./test/fault/... && $(SOAKTEST) -run TestGuestHandoff ./test/e2e && \
	for p in hotel shop; do FAULT_ROUNDS=20 FAULT_SERVICE=guest FAULT_PROFILE=$$p $(SOAKTEST) ./test/fault ./test/fault/guest || exit 1; done'

soak-power: build testservers #: power cuts on disks that lose unflushed writes, 100 rounds; needs root and /dev/fuse
	export $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) FAULT_POWER=1 FAULT_ROUNDS=$${FAULT_ROUNDS:-100}; $(WITHSERVERS) $(SOAKTEST) -v -run "^TestPower" ./test/fault

soak-fuzz: #: every fuzz target for an equal share of 100 minutes
	targets=$$(grep -rhE --include='*_test.go' '^func Fuzz' . | wc -l); $(MAKE) --no-print-directory fuzz FUZZTIME=$$(($(SOAKTIME) / targets))s

generate: ## write the operations into the API descriptions, and generate the client types from them
	$(GO) run ./test/describe
	$(GO) generate ./client/ext ./client/guest
	cd clients/typescript && npm ci --silent && npm run --silent generate

docs: ## generate docs/configuration.md from the code
	@$(GO) run ./cmd/holdfast config reference >docs/configuration.md

clean: ## remove built files; keeps holdfast-data
	rm -rf bin dist
	$(GO) clean -testcache -fuzzcache
