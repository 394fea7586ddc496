#!/bin/sh
# Generates the Go code of agent.proto into the folder $1 with the generators
# that go.mod pins. Needs protoc.
set -eu
out=${1:-.}
protoc -I . \
	--plugin=protoc-gen-go="$(go tool -n protoc-gen-go)" --go_out="$out" --go_opt=paths=source_relative \
	--plugin=protoc-gen-go-grpc="$(go tool -n protoc-gen-go-grpc)" --go-grpc_out="$out" --go-grpc_opt=paths=source_relative \
	agent.proto
