module agentjail.dev/hack/tools/analyzers

go 1.26.0

require (
	codeberg.org/polyfloyd/go-errorlint v1.9.1
	github.com/ldez/usetesting v0.5.0
	golang.org/x/tools v0.52.0
)

require golang.org/x/sync v0.24.0 // indirect
