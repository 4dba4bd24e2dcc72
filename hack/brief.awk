# Shortens the output of go test -v to packages, failures with what they say, and panics. What a test says is kept until
# its verdict is known. The names of what failed come last, as a run may be too long to read.
/^=== / { if ($2 == "RUN" && $3 !~ "/") held = ""; next }
/^ *--- (PASS|SKIP)/ { if (/^---/) held = ""; next }
/^( *--- FAIL|panic: |FAIL\t)/ { failed = failed $0 "\n" }
/^ *--- FAIL/ { printf "%s", held; print; held = ""; bad = 1; next }
/^PASS$/ { next }
/^panic: / { printf "%s", held; print; held = ""; bad = 1; next }
/^(ok|FAIL|\?)/ { if (bad || /^FAIL\t/) printf "%s", held; held = ""; bad = 0; print; next }
{ if (bad) print; else held = held $0 "\n" }
END { printf "%s", held; if (failed) printf "\nfailed:\n%s", failed }
