#!/bin/sh
# Lists those of the packages whose tests depend on root: hack/rooted.sh PACKAGE...
#
# Their files ask for the user, use what only root has, or skip tests. All tests of the others run as an ordinary user (make test-quick),
# and root would run the same once more.
set -eu

"${GO:-go}" list -f '{{.ImportPath}} {{.Dir}}' "$@" | while read -r package dir; do
	! grep -qE 'Geteuid|Getuid|[nN]eeds?Root|Skip|rootless\.|AsOwner|testprograms|CAP_' "$dir"/*.go || echo "$package"
done
