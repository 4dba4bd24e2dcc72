# The Dev Containers CLI: a container that is started as root and worked in as remoteUser.
. ./lib.sh
sed -i "s/RUNTIME/$RUNTIME/" .devcontainer/devcontainer.json
devc() { devcontainer "$@" --workspace-folder . --docker-path /usr/bin/docker; }
# What it says of itself has ids and times; the outcome is its last line.
up() { devc up "$@" >up.json 2>up.log; code=$?; grep -o -e '"outcome":"[a-z]*"' -e '"remoteUser":"[a-z]*"' -e '"remoteWorkspaceFolder":"[^"]*"' up.json; [ $code = 0 ] || tail -n 20 up.log; return $code; }
run() { devc exec "$@" 2>/dev/null; }
step "up" up
step "who works there" run sh -c 'id -u; pwd; echo $HOME $FROM_CONTAINER $FROM_REMOTE'
step "the commands of its life cycle" run sh -c 'ls /tmp/*-ran; cat /home/app/.profile-made'
step "a new file in the workspace" run sh -c 'echo made > made && stat -c "%u %g" made && rm made'
step "git" run sh -c 'git init -q repo && cd repo && echo x > f && git add f && git -c user.name=A -c user.email=a@example.org commit -q -m first && git log --format=%s && git status --porcelain; cd .. && rm -r repo'
step "python" run python3 -c 'import venv; venv.create("/tmp/venv"); print("made")'
step "node" run node -e 'require("fs").writeFileSync("n", "1"); require("fs").unlinkSync("n"); console.log("written")'
step "an exit code" run sh -c 'exit 5'
step "as root" docker exec -u 0 "$(docker ps -q)" sh -c 'id -u; echo root > /workspaces/by-root && echo written'
step "up again" up
step "run the user's commands" sh -c 'devcontainer run-user-commands --workspace-folder . --docker-path /usr/bin/docker 2>/dev/null | grep -o "\"outcome\":\"[a-z]*\""'
step "the configuration" sh -c 'devcontainer read-configuration --workspace-folder . --docker-path /usr/bin/docker 2>/dev/null | grep -o "\"remoteUser\":\"[a-z]*\"" | head -n 1'
step "the container goes" quiet sh -c 'docker ps -aq | xargs -r docker rm -f -v'
