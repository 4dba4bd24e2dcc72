# As VS Code's Dev Containers extension works: a container that runs nothing, a server put into the user's home by way of
# docker exec -i and tar, started as that user, whom a label of the container names, spoken to over standard streams and a port, with extensions, watched
# files, terminals and long-lived processes.
. ./lib.sh
id=$(docker run -d -l 'devcontainer.metadata=[{"remoteUser":"app"}]' -v "$PWD:/workspaces/clients" work sh -c 'trap "exit 0" 15; while sleep 1 & wait $!; do :; done')
in_it() { docker exec -i -u app -e HOME=/home/app -w /workspaces/clients "$id" "$@"; }
step "what is in the container" in_it sh -c 'id -u; uname -s; cat /etc/os-release | grep ^ID=; getent passwd app; test -w /home/app && echo a home'
step "put the server in" sh -c 'tar c -C server . | docker exec -i -u app '"$id"' sh -c "mkdir -p ~/.vscode-server/bin && tar x --no-same-owner -C ~/.vscode-server/bin && ls ~/.vscode-server/bin"'
step "put it in by docker cp" sh -c "docker cp server $id:/tmp/server && docker exec -u app $id sh -c 'cat /tmp/server/server.js | wc -l; node /tmp/server/server.js --version'"
docker exec -d -u app -e HOME=/home/app -w /workspaces/clients "$id" sh -c 'node ~/.vscode-server/bin/server.js serve > /home/app/.vscode-server/log 2>&1'
step "it listens" await in_it test -s /home/app/.vscode-server/port
step "the client's requests, over docker exec" in_it node /home/app/.vscode-server/bin/server.js client
step "over standard streams" sh -c "printf 'one\ntwo\n' | docker exec -i -u app $id node /home/app/.vscode-server/bin/server.js pipe"
step "a terminal" sh -c "docker exec -u app -w /workspaces/clients $id script -qec 'tty > /dev/null && stty size && echo on a terminal' /dev/null | tail -n 1 | tr -d '\r'"
step "a file that the host changes" await sh -c 'echo changed > watched; docker exec -u app '"$id"' grep -m1 changed /home/app/.vscode-server/log'
step "what it wrote on the host" sh -c 'stat -c "%u %n" by-server; cat by-server'
step "processes" in_it sh -c 'ps -o user= -o comm= -C node | sort -u | head -n 1'
step "the server is ended" await in_it sh -c 'pkill -f "[s]erver.js serve"; ! pgrep -f "[s]erver.js serve" >/dev/null'
step "the container goes" quiet docker rm -f -v "$id"
