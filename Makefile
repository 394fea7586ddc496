# Two commands matter: make run, make test.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 10s
BENCH    ?= .
AGENTS   ?= claude codex pi
TAPE     ?= .

.PHONY: run build test vet bench fuzz e2e e2e-vscode record generate fmt tidy-check

run: build
	./bin/polyhost serve --table

build:
	go build -ldflags "-X main.version=$(VERSION)" -o bin/polyhost ./cmd/polyhost

# The tests of memory again without the race detector, which is too slow for some.
test: vet
	go test -race -timeout 20m ./...
	go test ./cmd/polyhost/internal/bench

vet:
	go vet ./...
	go vet -tags e2e ./cmd/polyhost/internal/e2e/...
	go tool staticcheck ./...

# The real agent CLIs, installed from the npm registry into a cache folder,
# against a model that does what the prompt says.
e2e:
	go test -tags e2e -count=1 -timeout 40m -v ./cmd/polyhost/internal/e2e

# The real VS Code in a headless browser as a client of the gateway: see
# docs/testing.md. Screenshots are kept in artifacts/e2e-vscode.
e2e-vscode:
	go test -tags e2e -count=1 -timeout 90m -v ./cmd/polyhost/internal/e2e/editor

# What the real CLIs say, recorded anew: see docs/testing.md.
record:
	go test $(AGENTS:%=./backends/%) -run 'TestTapes/$(TAPE)' -record -count=1 -timeout 40m

# Figures for docs/performance.md. BENCH picks benchmarks by a pattern.
bench:
	go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m ./...

# Every fuzz target, FUZZTIME each.
fuzz:
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | cut -d' ' -f2); do \
			echo "fuzz $$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir || exit 1; \
		done; \
	done

generate:
	go generate ./...

fmt:
	gofmt -w .

tidy-check:
	go mod tidy -diff
