# testcontainers-go: hack/tools/testcontainers. Its reaper wants Docker's socket, which no jail is given.
TESTCONTAINERS_RYUK_DISABLED=true testcontainers 2>&1
