# Builds of the classic builder with jails as Docker's default: their steps are refused, and say what to do.
. ./lib.sh
export DOCKER_BUILDKIT=0
# Ids differ from run to run. The other side's layers are no step.
said() { "$@" 2>&1 | grep -o -e 'Successfully built' -e "refused: a step of an image's build.*throws that away"; }
step "docker build" said docker build --no-cache -t built .
step "the Python SDK" said /usr/bin/python3 -c 'import docker
docker.from_env().images.build(path=".", tag="built", rm=True, forcerm=True, nocache=True)
print("Successfully built")'
step "the containers and images go" quiet sh -c 'docker ps -aq | xargs -r docker rm -f; docker rmi -f built || true'
