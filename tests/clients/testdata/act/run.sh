# act, which runs GitHub's workflows in containers: the workspace is copied in by archive, environment files too.
. ./lib.sh
mkdir -p "$HOME/.config/act" && : >"$HOME/.config/act/actrc"
git config --global --add safe.directory "*"
git init -q -b main . && git add -A && git -c user.name=A -c user.email=a@example.org commit -q -m first
# Only what steps print, without the time and the name of the container. act tries to give the workspace to the user, and
# goes on where nobody can (docs/compatibility.md): that line is a jail's alone.
run() {
	act push --rm --pull=false --container-daemon-socket - --action-offline-mode -P ubuntu-latest=work --no-cache-server "$@" >log 2>&1
	code=$?
	sed -n 's/^\[[^]]*\] *\(|\|✅\|❌\|🏁\) */\1 /p' log | grep -v '^| chown: changing ownership' | sed 's/ \[[0-9.]*\(m\|µ\)\?s\]$//'
	[ $code = 0 ] || tail -n 5 log
	rm -f log
	return $code
}
step "steps, environment files, outputs, actions of the repository" run -j work
step "as uid 1000" run -j user
step "a failing step" run -j fails
step "with the workspace mounted" run -j work --bind
step "what it made there" sh -c 'stat -c "%u %n" made; cat made'
step "the volumes go" quiet sh -c 'docker volume ls -q | xargs -r docker volume rm'
