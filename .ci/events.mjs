// Runs the examples of docs/events.md, with curl and with Python's `websockets`, against a server, and
// compares what they print with `quipu tail --events`. Run by .ci/e2e: node events.mjs QUIPU FOLDER
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { finish, pass } from "./programs.mjs";

const [quipu, work] = process.argv.slice(2);
const home = path.join(work, "events");
fs.mkdirSync(home, { recursive: true });
const env = { PATH: process.env.PATH, HOME: home, NO_COLOR: "1", QUIPU_LEDGER: path.join(home, "ledger.db") };
const ask = (...args) => execFileSync(quipu, args, { env, encoding: "utf8", timeout: 120_000 }).trim();

ask("session", "new", "--id", "example");
for (const text of ["one", "two"]) ask("session", "begin", "example", "--text", text);
env.QUIPU_TOKEN = ask("token", "new", "reader");

/** Returns the first lines that a program prints for which `wanted` is true, and ends it. */
async function lines(program, args, count, wanted = () => true) {
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const limit = setTimeout(() => child.kill("SIGKILL"), 60_000);
  const found = [];
  for await (const line of readline.createInterface({ input: child.stdout })) {
    if (wanted(line)) found.push(line);
    if (found.length === count) break;
  }
  clearTimeout(limit);
  child.kill("SIGKILL");
  assert.equal(found.length, count, `${program} printed ${found.length} lines`);
  return found;
}

const page = fs.readFileSync(path.join(import.meta.dirname, "../docs/events.md"), "utf8");
const example = (pattern) => page.match(pattern)[1].replaceAll("localhost:4774", address);
const server = spawn(quipu, ["serve", "--json", "--addr", "127.0.0.1:0", "--no-collect"], { env, stdio: ["ignore", "pipe", "inherit"] });
process.on("exit", () => server.kill());
const { value: started } = await readline.createInterface({ input: server.stdout })[Symbol.asyncIterator]().next();
const { address } = JSON.parse(started);

const all = (await lines(quipu, ["tail", "--events", "--json", "--after", "start"], 4)).map((line) => JSON.parse(line));
assert.deepEqual(all.map((frame) => frame.changes[0].type), ["session.created", "key.bound", "entry.appended", "entry.appended"]);
pass("quipu tail --events");

const curl = example(/^\$ (curl -N .*)$/m);
const isFrame = (line) => line.startsWith('data: {"cursor"');
const appended = all.filter((frame) => frame.changes.some((change) => change.type === "entry.appended"));
const told = await lines("sh", ["-c", `exec ${curl} -s`], appended.length, isFrame);
assert.deepEqual(told.map((line) => JSON.parse(line.slice("data: ".length))), appended);
pass("curl");

// A tool that is missing in CI is a failure.
const python = process.env.PYTHON ?? path.join(fs.realpathSync(path.join(work, "npm")), "../python/bin/python");
let hasClient = true;
try {
  execFileSync(python, ["-c", "import websockets"], { stdio: "ignore" });
} catch {
  hasClient = false;
}
if (hasClient || process.env.CI === "true") {
  const script = example(/```python\n([^]*?)```/).replaceAll("print(json.loads(text))", "print(text, flush=True)");
  const [hello, ...frames] = (await lines(python, ["-c", script], 1 + all.length)).map((line) => JSON.parse(line));
  assert.equal(hello.type, "hello");
  assert.deepEqual(frames, all);
  pass("Python's websockets");
} else {
  console.log("SKIPPED: Python's websockets is not here; .ci/install brings it");
}
server.kill();
finish();
