# The Python SDK with the calls that SWE-bench's harness makes.
/usr/bin/python3 swebench.py 2>&1
