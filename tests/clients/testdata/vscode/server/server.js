// What an editor's server does in a container, in a few lines.
const fs = require("fs"), net = require("net"), http = require("http"), cp = require("child_process"), path = require("path"), os = require("os");
const home = path.join(os.homedir(), ".vscode-server");

const requests = {
  // An extension is unpacked beside its place and renamed.
  install: () => {
    const dir = path.join(home, "extensions"), tmp = path.join(dir, ".tmp-" + process.pid);
    fs.mkdirSync(path.join(tmp, "out"), { recursive: true });
    fs.writeFileSync(path.join(tmp, "package.json"), '{"name":"e"}');
    fs.writeFileSync(path.join(tmp, "out", "tool"), "#!/bin/sh\necho the extension runs\n", { mode: 0o755 });
    fs.renameSync(tmp, path.join(dir, "publisher.e-1.0.0"));
    return cp.execFileSync(path.join(dir, "publisher.e-1.0.0/out/tool")).toString().trim();
  },
  write: () => { fs.writeFileSync("by-server", "by the server\n"); fs.chmodSync("by-server", 0o640); return fs.readFileSync("by-server", "utf8").trim(); },
  search: () => cp.execSync("grep -rn first . --include=watched").toString().trim(),
  fork: () => new Promise((done) => {
    const host = cp.fork(__filename, ["exthost"]);
    host.on("message", (m) => { done(m); host.kill(); });
  }),
  git: () => cp.execSync("git init -q r && cd r && git status --porcelain=v2 --branch | head -n 2; cd .. && rm -r r").toString().trim(),
  socket: () => new Promise((done) => {
    const at = path.join(os.tmpdir(), "vscode-ipc.sock"), s = net.createServer((c) => c.end("over a socket")).listen(at, () =>
      net.connect(at).on("data", (d) => { done(d.toString()); s.close(); }));
  }),
  sizes: () => [os.cpus().length > 0, os.totalmem() > 0, fs.readdirSync("/proc/self/task").length > 1].join(" "),
};

switch (process.argv[2]) {
  case "--version":
    console.log("1.0");
    break;
  case "exthost":
    process.send("the extension host's pid is its own: " + (process.pid !== process.ppid));
    break;
  case "pipe":
    process.stdin.on("data", (d) => process.stdout.write(d.toString().toUpperCase())).on("end", () => console.log("end"));
    break;
  case "serve": {
    fs.watch("watched", () => { try { console.log(fs.readFileSync("watched", "utf8").trim()); } catch {} });
    const s = http.createServer(async (q, a) => {
      try { a.end(String(await requests[q.url.slice(1)]())); } catch (e) { a.statusCode = 500; a.end(String(e)); }
    }).listen(0, "127.0.0.1", () => fs.writeFileSync(path.join(home, "port"), String(s.address().port)));
    break;
  }
  case "client":
    (async () => {
      const port = fs.readFileSync(path.join(home, "port"), "utf8");
      for (const name of Object.keys(requests)) {
        const r = await fetch(`http://127.0.0.1:${port}/${name}`);
        console.log(name, r.status, await r.text());
      }
    })();
}
