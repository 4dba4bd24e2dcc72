// Command analyzers is for `go vet -vettool`: it checks what neither vet nor staticcheck does. A
// module of its own: agentjail itself must not depend on the analyzers.
package main

import (
	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/ldez/usetesting"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	tests := usetesting.NewAnalyzer()
	// Many directories lie below /var/tmp, or are for users who may not pass through testing.T's.
	if err := tests.Flags.Set("osmkdirtemp", "false"); err != nil {
		panic(err)
	}
	unitchecker.Main(errorlint.NewAnalyzer(), tests)
}
