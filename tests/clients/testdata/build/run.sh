# Builds of the classic builder with Docker's default runtime as it was, and what is built run with $RUNTIME.
. ./lib.sh
export DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0
step "docker build" quiet docker build -q -t built .
step "run it" docker run --rm --runtime="$RUNTIME" built
step "as another user" docker run --rm --runtime="$RUNTIME" -u 1000 built
step "docker-compose build" quiet docker-compose -p clients build
step "docker-compose up" quiet docker-compose -p clients up -d
step "what it printed" await sh -c 'docker-compose -p clients logs --no-color app | grep -o "made in a step"'
step "docker-compose down" quiet docker-compose -p clients down --rmi local -t 0
step "the Python SDK" /usr/bin/python3 -c 'import os, docker
c = docker.from_env()
image, log = c.images.build(path=".", tag="built-by-sdk", rm=True)
print(c.containers.run(image, runtime=os.environ["RUNTIME"], remove=True).decode().strip())'
step "the images go" quiet docker rmi -f built built-by-sdk
