# testcontainers-go with containers that reach each other: hack/tools/testcontainers.
TESTCONTAINERS_RYUK_DISABLED=true testcontainers net 2>&1
