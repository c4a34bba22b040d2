// Runs the runtimes of docs/examples against a server, and compares what the ledger has of them. Run by
// .ci/e2e: node runtimes.mjs QUIPU FOLDER
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";

const [quipu, work] = process.argv.slice(2);
const examples = path.join(import.meta.dirname, "../docs/examples");
const home = path.join(work, "runtimes");
fs.mkdirSync(home, { recursive: true });
const environment = { PATH: process.env.PATH, HOME: home, NO_COLOR: "1", QUIPU_LEDGER: path.join(home, "ledger.db") };
const run = (program, ...args) => execFileSync(program, args, { env: environment, encoding: "utf8", timeout: 120_000 });

// The ledger is created by the first session.
run(quipu, "session", "new");
environment.QUIPU_TOKEN = run(quipu, "token", "new", "runtime", "--scope", "write", "--agent", "main").trim();
const server = spawn(quipu, ["serve", "--json", "--addr", "127.0.0.1:0", "--no-collect"], { env: environment, stdio: ["ignore", "pipe", "inherit"] });
try {
  const lines = readline.createInterface({ input: server.stdout });
  const { value: first } = await lines[Symbol.asyncIterator]().next();
  const url = `http://${JSON.parse(first).address}`;
  for (const [program, file] of [["python3", "runtime.py"], [process.execPath, "runtime.mjs"]]) {
    const key = `agent:main:${file.split(".")[1]}`;
    for (const [text, told] of [["one", 1], ["two", 3]]) {
      const printed = run(program, path.join(examples, file), url, key, text).trim();
      assert.equal(printed, `${text}, says the parrot, who was told ${told} things`);
    }
    const { messages } = JSON.parse(run(quipu, "session", "context", key, "--json"));
    assert.deepEqual(messages.map((message) => message.role), ["user", "assistant", "user", "assistant"]);
    const lines = fs.readFileSync(path.join(examples, file), "utf8").split("\n");
    const code = lines.filter((line) => line.trim() && !/^\s*(#|\/\/)/.test(line));
    assert.ok(code.length <= 20, `${file} has ${code.length} lines`);
    console.log(`ok ${file}`);
  }
} finally {
  server.kill();
}
