#!/bin/sh
# Installs programs from npm that tests/hostile tries hostile repositories with: managers of hooks, and agents. Without them the
# tests look at the files that these programs would read.
#
#   hack/npm-tools.sh
set -eu

dir=/var/cache/agentjail-npm
mkdir -p "$dir"
cd "$dir"
npm install --no-audit --no-fund husky@9.1.7 lefthook@2.2.2 @anthropic-ai/claude-code@2.1.0 @openai/codex@0.169.0
