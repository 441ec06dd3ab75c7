# `make help` lists what there is. `make run` needs Go and make, nothing else.

GO         ?= go
BIN        := bin/holdfast
VERSION    := $(shell git describe --tags --dirty 2>/dev/null || echo dev)
COMMIT     := $(shell git rev-parse --short HEAD 2>/dev/null)
LDFLAGS    := -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# Leave out of Google's client what nobody here uses: its own way into Google's
# network, and the pages of golang.org/x/net/trace. They are a third of the binary.
TAGS       := disable_grpc_modules,grpcnotrace
# All that need not be compiled otherwise is compiled like the binary: once.
LIKEBIN    = CGO_ENABLED=0 GOFLAGS="$$($(GO) env GOFLAGS) -trimpath -tags=$(TAGS)"
COMPILE    = $(LIKEBIN) $(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN) $(1) ./cmd/holdfast
LINTER     := v2.15.0
FUZZTIME   ?= 30s
# More flags for go test, such as -run TestStore.
TESTFLAGS  ?=
# Flags of the load generator; go run ./bench -help lists them.
BENCHFLAGS ?=
# The race detector needs a C compiler. It is worth one, and a minute.
RACE       := $(if $(shell command -v gcc),-race)
# Starts the servers that tests need, runs a command, and ends with a line for
# each engine.
WITHSERVERS = bin/testservers --

.PHONY: help build run dist test quick service testservers test-deps test-firefox lint linter fuzz check bench bench-rows bench-peers bench-peers-s3 compare-servers soak soak-models soak-spanner soak-tests soak-race soak-faults soak-power soak-fuzz generate docs clean

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

build: ## build bin/holdfast
	@$(call COMPILE)

# The names of the packages that are compiled are counted, everything else that the
# compiler prints is shown.
run: ## build and serve, with the data in ./holdfast-data
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

# What a release is made for, and where its files go.
ARCHS      ?= amd64 arm64 armv7
DIST       ?= dist
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

dist: ## make the files of a release in dist/: tarballs, packages, SBOMs, checksums
	@$(LIKEBIN) $(GO) run -C packaging/release . -source '$(CURDIR)' -out '$(abspath $(DIST))' -epoch '$(SOURCE_DATE_EPOCH)' \
		-version '$(VERSION)' -commit '$(COMMIT)' -ldflags '$(LDFLAGS)' -tags '$(TAGS)' $(ARCHS)

# Tests of test/ take longest, most of the time waiting: they begin first, with the two that take minutes, and then
# those of app, which take longest of the others. There is one more than processors.
LONGFIRST = sed -E "s,^holdfast/test/(e2e|fault)$$,zz &,; s,^holdfast/test/,z &,; s,^holdfast/internal/app$$,y &," | LC_ALL=C sort -r | sed -E "s/^[yz]+ //"
# The detector would wait for a second at the end of each package; the tests have waited for
# their goroutines.
# Linking is a tenth of the work, and is done sooner with more memory; tests look at
# how much they use. make lint has all of go vet.
TEST      = GOGC=400 $(GO) test -exec "env -u GOGC" -vet=off -count=1 -timeout 15m $(TESTFLAGS)

# Tests that are slow, or repeat on another engine or with another client what a test has shown, call
# testdb.SoakOnly. `make soak PART=tests` has all of them.
WITHOUTSOAK = 1
# A model takes a quarter of rapid's 100 walks, or fewer.
CHECKS    = 25

# SERVICE=NAME takes one service; test/packages has their names and packages.
PACKAGES  = test/packages $(SERVICE)
SCENARIOS = $(if $(SERVICE),FAULT_SERVICE=$(SERVICE) $(TEST) $$(test/packages scenarios $(SERVICE)) || failed=1;)

test: service test-deps build testservers ## run every test on every engine, real browsers included (SERVICE=sync: those of one service)
	$(WITHSERVERS) sh -c 'failed=0; export RAPID_CHECKS=$(CHECKS) TEST_WITHOUT_SOAK=$(WITHOUTSOAK); \
		GORACE=atexit_sleep_ms=0 $(TEST) -p 1 -trimpath $(RACE) $$($(GO) list $$($(PACKAGES)) | test/packages raced) & race=$$!; \
		export $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) HOLDFAST_TEST_PROGRAMS=$$(mktemp -d); \
		$(SCENARIOS) \
		$(TEST) -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) $$($(GO) list $$($(PACKAGES)) | test/packages unraced | $(LONGFIRST)) || failed=1; \
		rm -r $$HOLDFAST_TEST_PROGRAMS; wait $$race && exit $$failed'

# go test takes from its cache what has not changed since.
quick: service ## run unit tests and suites on SQLite; installs and starts nothing (SERVICE=sync: those of one service)
	@$(LIKEBIN) $(GO) test -short -vet=off $(TESTFLAGS) $$($(GO) list $$($(PACKAGES)) | grep -vE '^holdfast/(test|bench)')

service:
	@$(PACKAGES) >/dev/null

testservers:
	@$(LIKEBIN) $(GO) build -buildvcs=false -o bin/testservers ./internal/testdb/cmd/testservers

# What the tests start that is not ours: Debian's package, and a file that shows
# that it is there. Tests start their own: SYSTEMD_OFFLINE keeps the packages
# from starting their services at once.
DEPS := postgresql:/usr/lib/postgresql/*/bin/initdb firefox-esr:/usr/bin/firefox-esr chromium:/usr/bin/chromium systemd:/usr/bin/systemd-analyze \
	nginx:/usr/sbin/nginx caddy:/usr/bin/caddy pgbouncer:/usr/sbin/pgbouncer prometheus:/usr/bin/promtool \
	python3-venv:/usr/lib/python3*/ensurepip apache2-bin:/usr/sbin/apache2 rpm:/usr/bin/rpm npm:$(or $(shell command -v npm),/usr/bin/npm) curl:/usr/bin/curl \
	awscli:/usr/bin/aws s3cmd:/usr/bin/s3cmd rclone:/usr/bin/rclone restic:/usr/bin/restic \
	redis-server:/usr/bin/redis-server nats-server:/usr/sbin/nats-server mariadb-server:/usr/sbin/mariadbd
# A mirror may be slow, and another apt may be at work.
APT := apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300
# Debian has no emulator of Spanner, Google's package source has. It is installed
# where apt knows it, and nothing fails without.
SPANNERDEP := google-cloud-cli-spanner-emulator
# And so has that of Pub/Sub, which needs Java.
PUBSUBDEP  := google-cloud-cli-pubsub-emulator
PUBSUB     := /usr/lib/google-cloud-sdk/platform/pubsub-emulator/lib
SPANNER    := /usr/lib/google-cloud-sdk/bin/cloud_spanner_emulator/emulator_main

test-deps: ## install the servers and browsers of the tests (SKIP_DEPS=1: do not)
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

test-firefox: build ## let two real Firefox browsers sync through bin/holdfast
	HOLDFAST_BIN=$(CURDIR)/$(BIN) $(TEST) -v ./test/firefox/...

lint: bin/golangci-lint-$(LINTER) ## gofmt, go mod tidy, golangci-lint with all of go vet
	@unformatted=$$(gofmt -l .) && [ -z "$$unformatted" ] || { echo "gofmt -w these:"; echo "$$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	cd packaging/release && $(GO) mod tidy -diff && $(GO) vet .
	$(LIKEBIN) bin/golangci-lint-$(LINTER) run --allow-parallel-runners
	$(GO) run ./test/prose

linter: bin/golangci-lint-$(LINTER)

bin/golangci-lint-$(LINTER):
	$(LIKEBIN) GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINTER)
	mv bin/golangci-lint $@

# What -fuzz asks the compiler for, in all packages but a few of Go's own. Where
# time is short, FUZZBUILD=-gcflags=holdfast/...=-d=libfuzzer asks for it in ours.
FUZZBUILD  ?= -fuzz=.

# Go before 1.27 may call the end of a target's time its failure (golang/go#75804).
# Then the deadline is all that it tells: a finding names its input, and a process
# that hung or died says so.
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

check: lint test ## all that must pass before a change lands

BENCH = $(GO) run ./bench -binary $(BIN) -out docs/measurements.md

bench: build ## measure the server beside the bare limit, into docs/measurements.md (BENCHFLAGS='-out= -window 1s')
	$(BENCH) $(BENCHFLAGS)

bench-rows: build ## measure what a write costs at up to 10,000,000 rows, into docs/measurements.md
	$(BENCH) -parts rows,extrows $(BENCHFLAGS)

# PocketBase is built from its source, to be measured beside extension storage.
POCKETBASE = v0.36.8

bench-peers: build bin/pocketbase-$(POCKETBASE) bench-peers-s3 ## measure the server beside PocketBase, MinIO and versitygw, into docs/measurements.md
	$(BENCH) -pocketbase bin/pocketbase-$(POCKETBASE) -engines sqlite -connections 1,16,64 $(BENCHFLAGS)

# MinIO has no releases in Go's module proxy, only commits. Both take minutes to compile.
MINIO     = v0.0.0-20260212201848-7aac2a2c5b7c
VERSITYGW = v1.8.0

bench-peers-s3: build bin/minio-$(MINIO) bin/versitygw-$(VERSITYGW) #: buckets beside MinIO and versitygw
	$(BENCH) -minio bin/minio-$(MINIO) -versitygw bin/versitygw-$(VERSITYGW) -engines sqlite -runs 3 -window 2s $(BENCHFLAGS)

compare-servers: build bin/minio-$(MINIO) bin/versitygw-$(VERSITYGW) ## write which features MinIO and versitygw have into docs/buckets-reference.md
	env -u TEST_WITHOUT_SOAK $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) WRITE_TABLE=1 $(GO) test -count=1 -run TestServers ./test/s3clients

bin/minio-$(MINIO):
	$(LIKEBIN) GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install github.com/minio/minio@$(MINIO)
	mv bin/minio $@

bin/versitygw-$(VERSITYGW):
	$(LIKEBIN) GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW)
	mv bin/versitygw $@

bin/pocketbase-$(POCKETBASE):
	$(LIKEBIN) GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install github.com/pocketbase/pocketbase/examples/base@$(POCKETBASE)
	mv bin/base $@

# The packages whose tests draw random steps against a model.
MODELS = $(shell $(GO) list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{.Deps}}{{end}}' ./... | sed -n 's/\.test .*pgregory\.net\/rapid.*//p')
# Where the time of a part depends on what it finds, or on how many tests there
# are, it is limited: no part takes two hours.
SOAKTIME   ?= 6000
SOAKTEST   = $(GO) test -count=1 -timeout 110m

soak: ## hours of tests, in parts of less than two hours each: make soak PART=models; without PART it lists them
	@case '$(PART)' in \
	'') sed -n 's/^soak-\([a-z-]*\):.*#: \(.*\)/  make soak PART=\1\t\2/p' Makefile | expand -t 32 ;; \
	*) grep -q '^soak-$(PART):' Makefile || { echo 'PART=$(PART): unknown part; make soak lists them' >&2; exit 2; }; \
		$(MAKE) --no-print-directory soak-$(PART) ;; \
	esac

soak-models: testservers #: every model but those on Spanner, with 50 times the walks of make test
	export $(LIKEBIN) TEST_WITHOUT_SOAK=1 RAPID_CHECKS=$$((50 * $(CHECKS))); $(WITHSERVERS) $(SOAKTEST) $(filter-out %/spanner,$(MODELS))

# The emulator scans whole tables, so that a long walk takes ever longer on it:
# many walks, each in a database of its own.
soak-spanner: testservers #: the models on Spanner, with 50 times the steps or for 100 minutes
	export $(LIKEBIN); $(WITHSERVERS) sh -c '\
		end=$$(($$(date +%s) + $(SOAKTIME))); walks=0; \
		while [ $$walks -lt 50 ] && [ $$(date +%s) -lt $$end ]; do \
			$(SOAKTEST) -run "^TestStoreOnSpanner\$$/./^Random" $(filter %/spanner,$(MODELS)) || exit 1; \
			walks=$$((walks + 1)); \
		done; echo "$$walks times the steps of make test"'

soak-tests: build testservers #: every test 5 times, also those that make test leaves out
	$(MAKE) --no-print-directory test WITHOUTSOAK= CHECKS=100 TESTFLAGS='-count=5 -timeout 60m'

soak-race: testservers #: every package that lives in the server's process, under the race detector
	$(WITHSERVERS) $(SOAKTEST) -race -count=2 $$($(GO) list ./... | grep -vE '^holdfast/(test|bench)')

soak-faults: build testservers #: faults of the database, the disk, the network and the clock, hundreds of rounds each
	export $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) FAULT_ROUNDS=200 FAULT_MINUTE=10m FAULT_RECORDS=10000 FAULT_READERS=10000 FAULT_CONNECTIONS=10000; $(WITHSERVERS) sh -c '$(SOAKTEST) -p 1 ./test/fault/... && $(SOAKTEST) -run TestGuestF ./test/e2e && \
	for p in hotel shop; do FAULT_ROUNDS=20 FAULT_SERVICE=guest FAULT_PROFILE=$$p $(SOAKTEST) ./test/fault ./test/fault/guest || exit 1; done'

soak-power: build testservers #: power cuts on disks that forget what was not flushed, 100 rounds; needs root and /dev/fuse
	export $(LIKEBIN) HOLDFAST_BIN=$(CURDIR)/$(BIN) FAULT_POWER=1 FAULT_ROUNDS=$${FAULT_ROUNDS:-100}; $(WITHSERVERS) $(SOAKTEST) -v -run "^TestPower" ./test/fault

soak-fuzz: #: every fuzz target for an equal share of 100 minutes
	targets=$$(grep -rhE --include='*_test.go' '^func Fuzz' . | wc -l); $(MAKE) --no-print-directory fuzz FUZZTIME=$$(($(SOAKTIME) / targets))s

generate: ## write the operations into the API descriptions, and the types of the clients from these
	$(GO) run ./test/describe
	$(GO) generate ./client/ext ./client/guest
	cd clients/typescript && npm ci --silent && npm run --silent generate

docs: ## write docs/configuration.md from the code
	@$(GO) run ./cmd/holdfast config reference >docs/configuration.md

clean: ## remove what was built; holdfast-data stays
	rm -rf bin dist
	$(GO) clean -testcache -fuzzcache
