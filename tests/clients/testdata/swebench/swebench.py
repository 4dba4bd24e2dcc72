# What SWE-bench's harness does with Docker's Python SDK for each instance: create a container of an image, put a patch
# and a script in, run the tests with a time limit, take the output out, remove the container by force.
import io, os, re, signal, tarfile, threading, time
import docker

client = docker.from_env(timeout=120)


def step(name, f):
    print("==", name)
    try:
        result = f()
        if result is not None:
            print(result)
    except Exception as e:
        # Runtimes word it each in their own way, and ids differ.
        print("error:", type(e).__name__, re.sub(r".*(exec: .*): unknown.*", r"\1", str(e).splitlines()[-1]))


def put(container, path, text, mode=0o644):
    """copy_to_container: a tar archive of one file."""
    data, b = text.encode(), io.BytesIO()
    with tarfile.open(fileobj=b, mode="w") as t:
        info = tarfile.TarInfo(os.path.basename(path))
        info.size, info.mode = len(data), mode
        t.addfile(info, io.BytesIO(data))
    container.exec_run("mkdir -p " + os.path.dirname(path))
    return container.put_archive(os.path.dirname(path), b.getvalue())


def get(container, path):
    """The archive of a file: its owner, mode and content."""
    stream, stat = container.get_archive(path)
    with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as t:
        m = t.getmembers()[0]
        owner = "%d:%d" % (m.uid, m.gid) if max(m.uid, m.gid) < 65536 else "ids of the host's"
        return "%s %s %o %s" % (stat["name"], owner, m.mode, t.extractfile(m).read().decode().strip())


def exec_with_timeout(container, command, timeout):
    """exec_run_with_timeout: the output as it comes, and the process ended when it takes too long."""
    out, error, exec_id = [], [], [None]

    def run():
        try:
            exec_id[0] = container.client.api.exec_create(container.id, command)["Id"]
            for chunk in container.client.api.exec_start(exec_id[0], stream=True):
                out.append(chunk)
        except Exception as e:
            error.append(e)

    t = threading.Thread(target=run, daemon=True)
    t.start()
    while not out and t.is_alive():  # the limit is the command's, not the engine's
        time.sleep(0.01)
    t.join(timeout)
    timed_out = t.is_alive()
    if timed_out:
        # The harness asks for the process's id, which is the host's.
        pid = container.client.api.exec_inspect(exec_id[0])["Pid"]
        if pid != 0:  # which would be this script's own group
            os.kill(pid, signal.SIGTERM)
        t.join(60)
    code = container.client.api.exec_inspect(exec_id[0])["ExitCode"]
    if error:
        raise error[0]
    return b"".join(out).decode().strip(), "timed out" if timed_out else "in time", code


PATCH = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
SETUP = """set -e
mkdir -p /testbed && cd /testbed
git init -q && git config user.email a@example.org && git config user.name A
printf 'def add(a, b):\\n    return a - b\\n' > calc.py
printf 'from calc import add\\n\\ndef test_add():\\n    assert add(1, 2) == 3\\n' > test_calc.py
git add -A && git commit -qm base
"""
EVAL = """#!/bin/bash
exec 2>&1 # one stream, in one order
set -uxo pipefail
cd /testbed
git status --porcelain
git -c core.fileMode=false diff
{ set +x; } 2>/dev/null
said=$(python3 -m pytest -q -p no:cacheprovider test_calc.py 2>&1)
echo "${said% in *}"
"""

container = client.containers.create(image="work", name="sweb.eval.instance", user="root", detach=True, command="tail -f /dev/null", labels={"a": "b"})
step("start", container.start)
container.reload()
step("status", lambda: container.status)
step("the repository", lambda: container.exec_run(["bash", "-c", SETUP]))
step("the tests fail before", lambda: container.exec_run("python3 -m pytest -q -p no:cacheprovider test_calc.py", workdir="/testbed").exit_code)
step("put the patch", lambda: put(container, "/tmp/patch.diff", PATCH))
step("put a private file", lambda: put(container, "/tmp/private", "private\n", 0o600))
step("read it", lambda: container.exec_run("cat /tmp/private"))
step("write to what was put", lambda: container.exec_run(["sh", "-c", "echo >> /tmp/patch.diff && stat -c %u:%g /tmp/patch.diff"]))
step("git apply", lambda: container.exec_run("git apply -v /tmp/patch.diff", workdir="/testbed", user="root"))
step("patch, which is refused twice", lambda: container.exec_run("patch --batch --fuzz=5 -p1 -i /tmp/patch.diff", workdir="/testbed").exit_code)
step("git diff", lambda: container.exec_run("git diff --stat", workdir="/testbed").output.decode().strip())
step("undo", lambda: container.exec_run("git checkout -q calc.py", workdir="/testbed"))
step("apply again", lambda: container.exec_run("git apply /tmp/patch.diff", workdir="/testbed"))
step("put the script", lambda: put(container, "/eval.sh", EVAL, 0o755))
step("run it", lambda: exec_with_timeout(container, "/bin/bash /eval.sh", 60))
step("a command that takes too long", lambda: exec_with_timeout(container, "sh -c 'echo started; exec sleep 1000'", 2))
step("streams apart", lambda: container.exec_run(["sh", "-c", "echo out; echo err >&2; exit 5"], demux=True))
step("as uid 1000", lambda: container.exec_run("id -u", user="1000", environment={"A": "b"}))
step("a log written inside", lambda: container.exec_run(["sh", "-c", "umask 022; echo log > /tmp/log.txt"]))
step("get it", lambda: get(container, "/tmp/log.txt"))
step("get a file of the image", lambda: get(container, "/etc/issue").splitlines()[0])
step("get what was put", lambda: get(container, "/tmp/private"))
step("top", lambda: [p[-1] for p in container.top()["Processes"]])
step("stats", lambda: container.stats(stream=False)["memory_stats"]["usage"] > 0)
step("changes", lambda: sorted(c["Path"] for c in container.diff() or [] if c["Path"].startswith(("/testbed", "/eval")))[:4])
step("logs", lambda: container.logs().decode())
step("stop", lambda: container.stop(timeout=1))
step("remove", lambda: container.remove(force=True))


def killed_by_pid():
    c = client.containers.run("busybox", "sleep 1000", detach=True)
    try:
        pid = client.api.inspect_container(c.id)["State"]["Pid"]
        os.kill(pid, signal.SIGKILL)
        return c.wait()["StatusCode"]
    finally:
        c.remove(force=True)


def limits():
    # Soft and hard limit alike: runc's own exec now and then leaves the soft one raised to the hard one, as Go programs have it.
    c = client.containers.create("busybox", "sleep 1000", mem_limit="64m", pids_limit=50, nano_cpus=10**9, shm_size="16m", init=True, ulimits=[docker.types.Ulimit(name="nofile", soft=1024, hard=1024)], tmpfs={"/t": "size=1m"}, tty=True, stdin_open=True)
    try:
        c.start()
        return c.exec_run(["sh", "-c", "ulimit -n; df -m /dev/shm /t | awk 'NR > 1 { print $2 }'; tty -s <&0 || echo no terminal"])
    finally:
        c.remove(force=True)


step("killed by pid", killed_by_pid)
step("limits", lambda: limits().output.decode())
step("run and remove", lambda: client.containers.run("busybox", "echo said", remove=True))
step("run that fails", lambda: client.containers.run("busybox", "false", remove=True))


def unknown():
    for _ in range(2):  # runc, on a busy machine, now and then ends without the reason in its log
        try:
            client.containers.run("busybox", "no-such-program", name="none", remove=True)
        except docker.errors.APIError as e:
            if "executable file not found" in str(e):
                raise
            client.containers.get("none").remove()
    client.containers.run("busybox", "no-such-program", name="none", remove=True)


step("run a program that is not there", unknown)
step("which leaves the container", lambda: client.containers.get("none").remove())
