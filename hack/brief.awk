# Shortens the output of go test -v to packages, failures with what they say, and panics. What a test says is kept until
# its verdict is known.
/^=== / { if ($2 == "RUN" && $3 !~ "/") held = ""; next }
/^ *--- (PASS|SKIP)/ { if (/^---/) held = ""; next }
/^ *--- FAIL/ { printf "%s", held; print; held = ""; bad = 1; next }
/^PASS$/ { next }
/^panic: / { printf "%s", held; print; held = ""; bad = 1; next }
/^(ok|FAIL|\?)/ { if (bad || /^FAIL\t/) printf "%s", held; held = ""; bad = 0; print; next }
{ if (bad) print; else held = held $0 "\n" }
END { printf "%s", held }
