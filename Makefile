# cepd. Start with `make demo` and `make test`; `make help` says the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
GOLANGCI_VERSION := v2.15.0
GOFUMPT_VERSION := v0.12.0
YAMLLS_VERSION := 1.19.2
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)
FUZZTIME ?= 20s
FUZZ ?= .*
# Packages are tested in this order: what takes longest first, or it would be alone with the processors at the end.
LONGEST := ./cmd/cepd ./test/sim ./checkpoint/boltstore ./cep/job ./internal/kafkawire ./sinks/kafkasink
# Further Redis and Valkey servers that the tests run on: those that make deps could get.
export CEPD_REDIS_SERVERS ?= $(shell sh test/redis/servers.sh --list $(BIN)/redis)

# What is installed and released is one static binary, the same bytes from the same commit wherever it is built.
PREFIX ?= /usr/local
DESTDIR ?=
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
STATIC := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w $(LDFLAGS)'

.PHONY: install release help demo test check lint race bench fuzz golden exhaustive sim kill soak kafka kafka-stop deps build clean

help: ## what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | column -t -s $$'\t'

build: ## the binary, bin/cepd
	@mkdir -p $(BIN)
	@go build -ldflags '$(LDFLAGS)' -o $(BIN)/cepd ./cmd/cepd

install: ## the binary, manual pages, completions, service and examples below PREFIX (/usr/local), in DESTDIR for packages
	@$(STATIC) -o $(BIN)/static/cepd ./cmd/cepd
	@BINARY=$(BIN)/static/cepd PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh deploy/install.sh

release: ## archives for PLATFORMS and their checksums, in build/release
	@STATIC="$(STATIC)" VERSION='$(VERSION)' PLATFORMS='$(PLATFORMS)' sh deploy/release.sh build/release

demo: ## 200,000 generated events through the shipped rules; needs nothing but Go
	@[ -x $(BIN)/cepd ] || echo "building cepd: the first time fetches its modules and takes a minute or two"
	@$(MAKE) --no-print-directory build
	@$(BIN)/cepd demo

test: ## all tests (under 5 minutes on two processors); uses what is there, names what it lacks
	@# make check vets, with more analyzers and all tags; here it would take half a minute of processor time more. A collector
	@# that comes later saves an eighth.
	@GOGC=$${GOGC:-300} go run ./test/kafka lend go test -timeout 30m -vet=off -json $(LONGEST) ./test/kill ./... | go run ./test/report

check: lint race ## what a change must pass: format, vet, linters, race tests with invariants

lint:
	@[ -x $(BIN)/golangci-lint ] && [ -x $(BIN)/gofumpt ] || { echo "the linters are missing: run 'make deps' first"; exit 1; }
	@files="$$($(BIN)/gofumpt -l .)"; [ -z "$$files" ] || { echo "not formatted (run $(BIN)/gofumpt -w .):"; echo "$$files"; exit 1; }
	@go vet -tags invariants,brokers ./...
	@$(BIN)/golangci-lint run --allow-parallel-runners ./...

race:
	@# test/kill watches other processes, which are not built for the race detector; test/bench measures, for minutes with it.
	@go run ./test/kafka lend go test -timeout 30m -json -race -tags invariants $(LONGEST) $$(go list ./... | grep -v -e /test/kill -e /test/bench) | go run ./test/report

bench: ## the benchmarks of docs/benchmarks.md, each beside its yardstick
	@go run ./test/bench

exhaustive: ## machine against oracle on all patterns of up to 5 operators (a quarter of an hour)
	@CEPD_EXHAUSTIVE=5 go test ./patterns/spectest -run Exhaustive -v -timeout 0

SEEDS ?= 2000
sim: ## whole-engine simulation with crashes, lost replies and failovers: SEEDS (2000) seeds from FROM on
	@go test ./test/sim -run '^(TestSeeds|TestTopics)$$' -count 1 -timeout 0 -v -seeds $(SEEDS) -topics $(SEEDS) -from $${FROM:-1} | grep -v '^=== '

N ?= 50
SOAK ?= 3m
kill: ## kill -9 of the real process against real servers: at every failpoint, N (50) times at random, and for SOAK (3m) while rules change; and of Kafka brokers
	@CEPD_KILLS=$(N) go test -tags brokers ./test/kill -count 1 -timeout 0 -v -soak $(SOAK) | grep -v '^=== '
	@go test -tags brokers ./internal/kafkawire/kafkatest -run ThreeNodes -count 1 -timeout 0 -v | grep -v '^=== '
	@go test ./internal/kafkawire -run BrokerOfItsOwn -kills $$(( ($(N) + 9) / 10 )) -count 1 -timeout 0 -v | grep -v '^=== '
	@go test -tags brokers ./sinks/kafkasink -run Killed -kills $$(( ($(N) + 4) / 5 )) -count 1 -timeout 0 -v | grep -v '^=== '

soak: ## 50 million events with keys that never come back: memory stays flat; and rules that change under load for FOR (30m), with kills
	@go run ./test/bench -soak
	@go test ./test/kill -run '^TestChanges$$' -count 1 -timeout 0 -v -soak $${FOR:-30m} | grep -v '^=== '

kafka: ## a Kafka broker on 127.0.0.1:9092, ready when this returns; kafka-stop ends it (Java 17 and, the first time, Maven)
	@go run ./test/kafka start

kafka-stop:
	@go run ./test/kafka stop

fuzz: ## every fuzz target for FUZZTIME (20s) each, or those whose names behind Fuzz match FUZZ: 'Load|Decode'
	@sh test/fuzz/fuzz.sh '$(FUZZ)' '$(FUZZTIME)'

golden: ## write the golden files anew; review the diff as code
	@for p in $$(grep -rlE 'flag\.Bool\("update"' --include='*_test.go' . | xargs -n1 dirname | sort -u); do go test $$p -update; done

deps: ## what the full suite and the linters need
	@command -v cc >/dev/null || { echo "installing a C compiler (the race detector needs it)"; apt-get update -qq && apt-get install -y -qq gcc libc6-dev; }
	@command -v redis-server >/dev/null || { echo "installing redis-server (the tests of the Redis sink start their own)"; apt-get update -qq && apt-get install -y -qq redis-server >/dev/null; }
	@command -v java >/dev/null || { echo "installing a Java runtime (the tests start a Kafka broker)"; apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; }
	@command -v mvn >/dev/null || { echo "installing Maven (it fetches the Kafka broker's jars)"; apt-get update -qq && apt-get install -y -qq maven >/dev/null; }
	@mkdir -p $(BIN)
	@go run ./test/kafka fetch
	@sh test/redis/servers.sh $(BIN)/redis
	@sh test/deploy/promtool.sh $(BIN)
	@# curl and jq run the examples of the HTTP interface, npm fetches the language server that editors speak with.
	@for tool in curl jq npm; do command -v $$tool >/dev/null || { echo "installing $$tool"; apt-get update -qq && apt-get install -y -qq $$tool >/dev/null; }; done
	@[ -x $(BIN)/node/node_modules/yaml-language-server/bin/yaml-language-server ] || npm install --silent --no-audit --no-fund --prefix $(BIN)/node yaml-language-server@$(YAMLLS_VERSION)
	@go mod download
	@[ "$$($(BIN)/gofumpt -version 2>/dev/null | cut -d' ' -f1)" = $(GOFUMPT_VERSION) ] || { echo "building gofumpt $(GOFUMPT_VERSION)"; GOBIN=$(BIN) go install mvdan.cc/gofumpt@$(GOFUMPT_VERSION); }
	@$(BIN)/golangci-lint version 2>/dev/null | grep -q '$(GOLANGCI_VERSION:v%=%)' || { echo "building golangci-lint $(GOLANGCI_VERSION) (some minutes)"; GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION); }

clean: ## remove what was built
	@rm -rf $(BIN) build
