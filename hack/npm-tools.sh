#!/bin/sh
# Installs programs from npm: agents, which tests/agents runs in jails, and with managers of hooks what tests/hostile tries hostile
# repositories with. Without them tests/agents skips their tests, and tests/hostile looks at the files that these programs would read.
#
#   hack/npm-tools.sh
set -eu

dir=/var/cache/agentjail-npm
mkdir -p "$dir"
cd "$dir"
npm install --no-audit --no-fund husky@9.1.7 lefthook@2.2.2 @anthropic-ai/claude-code@2.1.0 @openai/codex@0.169.0 opencode-ai@1.18.33 \
	@modelcontextprotocol/server-filesystem@2026.8.31
# The package's own script, which npm may leave out, puts the program for this processor in its place.
(cd node_modules/opencode-ai && node postinstall.mjs)
