# Two commands matter: `make demo` shows Rein at work, `make test` runs every
# test. `go test ./...` is the fast loop and needs only Go and git.

GO ?= go

.PHONY: build keepers demo test check fast real bench clean

build: ## bin/rein and bin/rein-keeper
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/ ./cmd/rein ./cmd/rein-keeper

KEEPERS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64

keepers: ## bin/rein-keeper-GOOS-GOARCH, which rein puts on hosts that are another system than this one
	@for k in $(KEEPERS); do \
		echo "bin/rein-keeper-$$k"; \
		CGO_ENABLED=0 GOOS=$${k%-*} GOARCH=$${k#*-} $(GO) build -trimpath -ldflags='-s -w' -o bin/rein-keeper-$$k ./cmd/rein-keeper || exit 1; \
	done

demo: ## a real agent CLI fixes a failing test under rein run, on a scripted model
	$(GO) run ./internal/demo

test: check fast real ## everything

check: ## vet, staticcheck, gofumpt, and that it builds for the other systems
	$(GO) vet ./...
	$(GO) vet -tags real ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	$(GO) tool staticcheck ./...
	@out=$$($(GO) tool gofumpt -l .); if [ -n "$$out" ]; then echo "gofumpt would change:"; echo "$$out"; exit 1; fi

fast: ## the fast loop under the race detector
	$(GO) test -race -timeout 20m ./...

real: ## real CLIs from the npm registry on the scripted model, kill tests, heavy sizes
	@command -v npm >/dev/null || { echo "make real needs npm: apt-get install npm, or https://nodejs.org"; exit 1; }
	@sh test/needs.sh bwrap:bubblewrap curl:curl /usr/sbin/sshd:openssh-server ssh:openssh-client
	$(GO) test -tags real -timeout 45m -p 1 ./...

bench: ## the numbers of docs/benchmarks.md
	$(GO) test -run '^$$' -bench . -benchtime 1x -tags real -timeout 60m ./test/bench

clean:
	rm -rf bin
