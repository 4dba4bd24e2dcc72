# What a program can do with the files of a directory: each line is an operation and what became of it.
#
#   semantics.py make DIR COUNT    what the host has there before
#   semantics.py work COUNT       in the jail, in the directory; waits for a line on standard input while the host edits
#   semantics.py list DIR         all that is below a directory
import ctypes, errno, fcntl, os, shutil, socket, stat, sys

libc = ctypes.CDLL(None, use_errno=True)
CONTROL = [b"e\x1b[31mvil", b"new\nline", b"tab\there", "bidi\u202e".encode(), b"not\xff\xfeutf8", b" space ", b"-n"]


def put(path, text="x\n", mode="w"):
    with open(path, mode) as f:
        f.write(text)


def get(path):
    with open(path) as f:
        return f.read().strip()


def rename2(a, b, flags):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


NOREPLACE, EXCHANGE = 1, 2


def tree(top):
    out = []
    for at, dirs, files in os.walk(top):
        dirs.sort()
        out += [os.path.relpath(os.path.join(at, n), top) for n in files + [d + "/" for d in dirs]]
    return " ".join(sorted(out))


def make(top, count):
    os.chdir(top)
    for d in ("opaque/sub", "moved/sub", "xdir", "modes", "gone/deep", "empty", "host"):
        os.makedirs(d)
    for f in ("a", "b", "x", "y", "opaque/old", "opaque/sub/old", "moved/f", "moved/sub/f", "xdir/f", "gone/deep/f", "turn", "modes/600", "modes/755", "modes/000", "host/edited", "host/gone", "opened", "target", "mapped"):
        put(f, f + "\n")
    for m in ("600", "755", "000"):
        os.chmod("modes/" + m, int(m, 8))
    put("hard1", "hard\n"); os.link("hard1", "hard2"); os.link("hard1", "hard3")
    with open("sparse", "w") as f:
        f.truncate(64 << 20); f.seek(32 << 20); f.write("middle")
    os.symlink("target", "link"); os.symlink("nowhere", "dangling")
    for name in CONTROL:
        put(b"lower " + name)
    for i in range(count):
        if i % 1000 == 0:
            os.mkdir("many%03d" % (i // 1000))
        put("many%03d/%d" % (i // 1000, i % 1000), "")


def ops(count):
    inode = {}

    def whiteout():
        os.remove("a"); assert not os.path.lexists("a"); assert "a" not in os.listdir(".")
        put("a", "again\n"); os.remove("a"); os.mkdir("a"); put("a/f"); return tree("a")
    yield "a file removed, made again, a directory in its place", whiteout

    def opaque():
        shutil.rmtree("opaque"); os.mkdir("opaque"); put("opaque/new"); return tree("opaque")
    yield "a directory removed and made again is empty", opaque

    def turned():
        os.remove("turn"); os.mkdir("turn"); os.rmdir("turn"); os.symlink("b", "turn"); return get("turn")
    yield "a file that becomes a directory, then a link", turned

    def moved():
        os.rename("moved", "moved2"); os.rename("moved2/sub", "moved2/sub2"); os.rename("moved2", "moved3"); put("moved3/sub2/new"); return tree("moved3")
    yield "a directory renamed, twice, and one within", moved
    yield "a directory renamed over an empty one", lambda: (os.rename("moved3", "empty"), tree("empty"))[1]

    def over():
        os.mkdir("full"); put("full/f"); os.rename("empty", "full")
    yield "a directory renamed over one that is not empty", over
    yield "a directory renamed into itself", lambda: os.rename("empty", "empty/in")

    def exchange(a, b):
        rename2(a, b, EXCHANGE); return os.path.isdir(a), os.path.isdir(b)
    yield "EXCHANGE of two files", lambda: (exchange("x", "y"), get("x"), get("y"))
    yield "EXCHANGE of a file and a directory", lambda: (exchange("x", "xdir"), get("xdir"), tree("x"))
    yield "EXCHANGE of two directories", lambda: (exchange("x", "full"), tree("x"), tree("full"))
    yield "NOREPLACE over a file", lambda: rename2("b", "xdir", NOREPLACE)

    def hard():
        put("hard1", "more\n", "a"); return get("hard2"), os.stat("hard2").st_nlink
    yield "a hard link of before, written by one name", hard

    def hard_new():
        put("hnew", "1\n"); os.link("hnew", "hnew2"); put("hnew2", "2\n", "a"); return get("hnew"), os.stat("hnew").st_nlink
    yield "a hard link made now", hard_new

    def sparse():
        with open("sparse", "r+") as f:
            f.seek(48 << 20); f.write("late")
        with open("snew", "w") as f:
            f.truncate(1 << 30)
        return os.stat("sparse").st_size, os.stat("sparse").st_blocks < 16384, os.stat("snew").st_blocks < 100
    yield "sparse files stay sparse", sparse

    def modes():
        os.chmod("modes/600", 0o640); os.chmod("modes/755", 0o444); os.chmod("modes/000", 0o200); put("modes/000", "blind\n"); os.chmod("modes/000", 0)
        return ["%o" % stat.S_IMODE(os.stat("modes/" + m).st_mode) for m in ("600", "755", "000")]
    yield "modes", modes

    def special_modes():
        put("suid"); os.chmod("suid", 0o4755); os.mkdir("sgid"); os.chmod("sgid", 0o2775); os.mkdir("sticky"); os.chmod("sticky", 0o1777)
        return ["%o" % stat.S_IMODE(os.stat(n).st_mode) for n in ("suid", "sgid", "sticky")]
    yield "set-id and sticky bits", special_modes
    yield "another owner", lambda: os.chown("b", 12345, 12345)

    def swap():
        for i in range(20):
            os.symlink("x" if i % 2 else "target", "tmp"); os.rename("tmp", "link")
        os.remove("dangling"); os.mkdir("dangling"); os.rmdir("dangling"); os.symlink("gone", "dangling"); return os.readlink("link"), os.readlink("dangling")
    yield "links swapped", swap

    def swap_dir():
        os.rename("gone", "gone2"); os.symlink("gone2", "gone"); return get("gone/deep/f")
    yield "a directory and a link to it in its place", swap_dir

    def fifo():
        os.mkfifo("fifo"); r = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK); w = os.open("fifo", os.O_WRONLY); os.write(w, b"through"); return os.read(r, 99)
    yield "a pipe", fifo

    def sock():
        s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect("sock"); return stat.S_ISSOCK(os.stat("sock").st_mode)
    yield "a socket", sock
    yield "a device", lambda: os.mknod("dev", stat.S_IFCHR | 0o600, os.makedev(1, 3))

    def control():
        for name in CONTROL:
            put(b"new " + name); os.rename(b"lower " + name, b"renamed " + name)
        return sorted(n for n in os.listdir(b".") if n.startswith((b"new ", b"lower ", b"renamed ")))
    yield "names with control characters", control
    yield "a name of 255 bytes", lambda: put("n" * 255)
    yield "a name of 256 bytes", lambda: put("n" * 256)

    def extended():
        os.setxattr("b", "user.note", b"1"); return os.getxattr("b", "user.note")
    yield "an extended attribute", extended

    def opened():
        with open("opened") as f:
            put("opened", "new text\n"); return f.read().strip()
    yield "a descriptor from before the first write reads what is written", opened

    def unlinked():
        with open("target", "r+") as f:
            os.remove("target"); f.write("T"); f.seek(0); return f.read().strip(), os.path.lexists("target")
    yield "an open file is removed", unlinked

    def same():
        before = os.stat("mapped").st_ino; put("mapped", "more\n", "a"); return before == os.stat("mapped").st_ino
    yield "a file's number stays at the first write", same

    def times():
        os.utime("mapped", (5, 5)); return os.stat("mapped").st_mtime
    yield "a time that is set", times

    def tmpfile():
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR); os.write(fd, b"t\n"); path = b"/proc/self/fd/%d" % fd
        if libc.linkat(-100, path, -100, b"named", 0x400) != 0:
            raise OSError(ctypes.get_errno(), "linkat")
        return get("named")
    yield "a file without a name gets one", tmpfile

    def lock():
        with open("b") as f, open("b") as g:
            fcntl.flock(f, fcntl.LOCK_EX)
            try:
                fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                return errno.errorcode[e.errno]
    yield "a lock", lock

    def many():
        for i in range(count):
            if i % 1000 == 0:
                os.mkdir("made%03d" % (i // 1000))
            put("made%03d/%d" % (i // 1000, i % 1000), "")
            if i % 2:
                os.remove("many%03d/%d" % (i // 1000, i % 1000))
        os.rename("many000", "many-renamed"); return sum(len(os.listdir(d)) for d in os.listdir(".") if d.startswith(("many", "made")))
    yield "many files", many

    def host():
        print("READY", flush=True); sys.stdin.readline()
        return get("host/edited"), get("host/new")
    yield "what the host edits meanwhile shows", host


def work(count):
    for name, op in ops(count):
        try:
            result = op()
        except OSError as e:
            result = errno.errorcode.get(e.errno, e.errno)
        print("%s\t%s" % (name, result), flush=True)


def listed(top):
    for at, dirs, files in os.walk(os.fsencode(top)):
        for n in sorted(dirs + files):
            path = os.path.join(at, n); st = os.lstat(path); rel = os.path.relpath(path, os.fsencode(top))
            if rel.startswith((b"many", b"made")) and stat.S_ISREG(st.st_mode):
                text = ""
            elif stat.S_ISLNK(st.st_mode):
                text = "-> " + os.readlink(path).decode()
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    text = "%d %r" % (st.st_size, f.read(200)) if st.st_size < 1000 else "%d, sparse: %s" % (st.st_size, st.st_blocks < 16384)
            else:
                text = ""
            for x in os.listxattr(path, follow_symlinks=False):
                text += " " + x if x.startswith("user.") else ""
            if rel == b"mapped":
                text += " at %d" % st.st_mtime
            print("%s\t%o %d:%d %s%s" % (ascii(os.fsdecode(rel)), st.st_mode, st.st_uid, st.st_gid, text, " %d names" % st.st_nlink if stat.S_ISREG(st.st_mode) and st.st_nlink > 1 else ""))


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "work":
    work(int(sys.argv[2]))
else:
    listed(sys.argv[2])
