#!/bin/sh
# Lists those of the packages whose tests depend on root: hack/rooted.sh PACKAGE...
#
# Their files ask for the user, use what only root has, or skip tests for want of a right. All tests of the others run as an ordinary user
# (make test-quick), and root would run the same once more. Where a test ran nowhere, make table fails.
set -eu

"${GO:-go}" list -f '{{.ImportPath}} {{.Dir}}' "$@" | while read -r package dir; do
	! grep -qE 'Geteuid|Getuid\(\) != 0|[nN]eeds?Root|rootless\.|AsOwner|testprograms|\.Skipf?\(.*(root|user|err|CAP_|Go tool)' "$dir"/*.go || echo "$package"
done
