# Compose, of version 1 or 2: $COMPOSE is the program. Both read the same file.
. ./lib.sh
compose() { "$COMPOSE" -p clients "$@"; }
exec_in() { compose exec -T "$@"; }

step "the file" quiet compose config -q
step "up" quiet compose up -d
step "what runs" sh -c "docker ps --format '{{.Names}}' | sort | tr _ -"
step "exec" exec_in app sh -c 'id -u; pwd; hostname; cat /proc/sys/kernel/domainname; echo $GREETING'
step "exec as another user" exec_in -u 1000 app id -u
step "exec that fails" exec_in app sh -c 'echo on standard error >&2; exit 3'
step "a secret" exec_in app cat /run/secrets/token
step "the directory" await sh -c '[ -s work/made ] && cat work/made && stat -c "%u owns %n" work/made'
step "the volume, from the other service" await exec_in other sh -c '[ -s /data/kept ] && cat /data/kept'
step "read-only in the other service" exec_in other sh -c 'echo x > /data/x'
step "the temporary directory" exec_in app sh -c 'echo x > /scratch/x && cat /scratch/x'
step "the health check" await sh -c 'docker inspect -f "{{.State.Health.Status}}" $(docker ps -q --filter label=com.docker.compose.service=app) | grep -x healthy'
step "logs" sh -c '"$COMPOSE" -p clients logs --no-color app | grep -o "app is up"'
step "run" sh -c '"$COMPOSE" -p clients run --rm -T other sh -c "echo one off; exit 4" 2>/dev/null'
step "run with another user and variable" sh -c '"$COMPOSE" -p clients run --rm -T -u 1000 -e A=b other sh -c "id -u; echo \$A" 2>/dev/null'
step "restart" quiet compose restart -t 0 other
step "exec after it" exec_in other echo here
step "scale" quiet compose up -d --scale other=2
step "two of them" sh -c 'docker ps -q --filter label=com.docker.compose.service=other | wc -l'
step "pause" quiet compose pause app
step "unpause" quiet compose unpause app
step "stop" quiet compose stop -t 0
step "start" quiet compose start
step "kill" quiet compose kill app
step "down" quiet compose down -v -t 0
step "what is left" sh -c 'docker ps -aq; docker volume ls -q; docker network ls -q --filter label=com.docker.compose.project=clients'
