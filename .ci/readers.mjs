// Writes sessions with quipu, exports them, and compares the context that pi and OpenClaw read from
// the files with quipu's own. Run by .ci/e2e: node readers.mjs QUIPU FOLDER
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [quipu, work] = process.argv.slice(2);
const home = path.join(work, "home");
fs.mkdirSync(home, { recursive: true });

// Leaves out the settings of the machine, which could change the results.
const environment = (more) => ({ PATH: process.env.PATH, HOME: home, NO_COLOR: "1", ...more });
Object.assign(process.env, { HOME: home, OPENCLAW_STATE_DIR: path.join(work, "state") });

const require = createRequire(path.join(work, "npm", "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const readers = {
  pi: await import(pathToFileURL(
    path.join(work, "npm/node_modules/@earendil-works/pi-coding-agent/dist/index.js")).href),
  openclaw: await load("openclaw/plugin-sdk/agent-sessions"),
};

/** Runs quipu on a ledger. */
function run(ledger, args, input) {
  const options = { env: environment({ QUIPU_LEDGER: path.join(work, ledger) }), input };
  return execFileSync(quipu, args, { ...options, encoding: "utf8", maxBuffer: 1 << 28 });
}

/** One session, written to as a runtime does. */
class Written {
  constructor(...args) {
    this.id = run("ledger.db", ["session", "new", "--cwd", "/work", ...args]).trim();
  }
  do(action, ...args) {
    return JSON.parse(run("ledger.db", ["session", action, this.id, ...args]));
  }
  append(...entries) {
    const lines = entries.map((entry) => JSON.stringify(entry)).join("\n");
    const out = run("ledger.db", ["session", "append", this.id], lines + "\n");
    return out.trim().split("\n").map((line) => JSON.parse(line).id);
  }
  user(text) {
    return this.append({ role: "user", content: text })[0];
  }
  answer(text, ...blocks) {
    return this.append(assistant(text, ...blocks))[0];
  }
}

const usage = {
  input: 10, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 15,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};
const assistant = (text, ...blocks) => ({
  role: "assistant", content: [{ type: "text", text }, ...blocks], api: "anthropic-messages",
  provider: "anthropic", model: "claude-sonnet-4-5", usage, stopReason: "stop",
});
const call = (id) => ({ type: "toolCall", id, name: "read", arguments: { path: "a" } });
const result = (id) => ({
  role: "toolResult", toolCallId: id, toolName: "read",
  content: [{ type: "text", text: "contents" }], isError: false,
});

/** Every way in which a session can become odd to another reader, by name. */
const scenarios = {
  plain() {
    const session = new Written("--key", "agent:main:main");
    session.append(
      { type: "thinking_level_change", thinkingLevel: "high" },
      { type: "model_change", provider: "openai", modelId: "gpt" },
    );
    session.user("What is in it?");
    session.append(assistant("Reading.", call("c1")), result("c1"), assistant("A title."));
    return session;
  },
  labelsAndNotes() {
    const session = new Written();
    const first = session.user("one");
    session.answer("two");
    session.do("label", first, "here");
    session.append(
      { type: "custom", customType: "state", data: { n: 1 } },
      { type: "custom_message", customType: "hint", content: "look", display: true },
      { type: "session_info", name: "A name" },
      { type: "usage", kind: "compaction", provider: "p", model: "m", usage },
    );
    session.do("mirror", "sent to the channel");
    return session;
  },
  movedLeaf() {
    const session = new Written();
    session.user("one");
    const two = session.answer("two");
    session.user("three");
    const four = session.answer("four");
    session.do("branch", "--from", two);
    session.user("five");
    session.answer("six");
    session.do("leaf", four);
    return session;
  },
  leafWithin() {
    const session = new Written();
    session.user("one");
    const two = session.answer("two");
    session.user("three");
    session.do("leaf", two);
    return session;
  },
  leafAtRoot() {
    const session = new Written();
    session.user("one");
    session.answer("two");
    session.do("leaf", "root");
    return session;
  },
  branchSummary() {
    const session = new Written();
    const one = session.user("one");
    session.answer("two");
    session.do("branch", "--from", one, "--summary", "tried two");
    session.answer("three");
    return session;
  },
  unanswered() {
    const session = new Written();
    session.do("begin", "--text", "lost");
    session.do("begin", "--text", "again");
    session.answer("yes");
    return session;
  },
  reset() {
    const session = new Written("--key", "agent:main:telegram:direct:7");
    session.append({ type: "thinking_level_change", thinkingLevel: "low" });
    session.user("before");
    session.answer("before too");
    session.do("reset");
    session.user("after");
    session.answer("after too");
    return session;
  },
  resetOnly() {
    const session = new Written();
    session.user("before");
    session.answer("before too");
    session.do("reset", "--reason", "daily");
    return session;
  },
  resetThatKeeps() {
    const session = new Written();
    session.user("before");
    const kept = session.user("kept");
    session.append(assistant("kept too", call("c1")), result("c1"));
    session.append({ type: "custom_message", customType: "x", content: "not kept", display: true });
    session.answer("kept at last");
    session.do("reset", "--keep", kept);
    session.user("after");
    session.do("reset");
    session.user("after all");
    return session;
  },
  compaction() {
    const session = new Written();
    session.user("one");
    session.answer("two");
    const kept = session.user("three");
    session.answer("four");
    session.append({ type: "compaction", summary: "one and two", firstKeptEntryId: kept, tokensBefore: 100 });
    const again = session.user("five");
    session.answer("six");
    session.append({ type: "compaction", summary: "up to four", firstKeptEntryId: again, tokensBefore: 90 });
    session.user("seven");
    return session;
  },
  compactionAfterReset() {
    const session = new Written();
    session.user("zero");
    session.do("reset");
    session.user("one");
    const kept = session.answer("two");
    session.append({ type: "compaction", summary: "one", firstKeptEntryId: kept, tokensBefore: 9 });
    session.user("three");
    return session;
  },
  edits() {
    const session = new Written();
    const one = session.user("long");
    const two = session.answer("wrong");
    session.user("three");
    session.append(
      { type: "context_edit", targetId: one, replacement: { content: "short" } },
      { type: "context_edit", targetId: two, replacement: null },
    );
    return session;
  },
  topic() {
    const session = new Written("--key", "agent:main:telegram:group:-100:topic:7/a b");
    session.user("in a topic");
    session.answer("yes");
    session.do("reset");
    session.user("still in it");
    return session;
  },
  otherAgent() {
    const session = new Written("--key", "agent:work:slack:channel:C1:thread:17.5");
    session.user("a thread of another agent");
    return session;
  },
  oddId() {
    const session = new Written("--id", "../odd id");
    session.user("my id is no name of a file");
    return session;
  },
  empty() {
    return new Written();
  },
};

/** What a value is once it was written as JSON. */
const plain = (value) => JSON.parse(JSON.stringify(value));

/** The live transcript of each session in an exported folder. */
function exported(report) {
  const live = report.written.filter((file) => file.session_id && file.path.endsWith(".jsonl"));
  return new Map(live.map((file) => [file.session_id, file.path]));
}

/** Compares what each reader makes of a file with quipu's own context. */
function compare(name, file, own) {
  const before = fs.readFileSync(file);
  assert.equal(fs.statSync(file).mode & 0o777, 0o600, `${name}: mode`);
  for (const [who, { SessionManager }] of Object.entries(readers)) {
    const manager = SessionManager.open(file);
    const read = plain(manager.buildSessionContext());
    const told = `${name}: ${who}`;
    // Only pi since 0.87 has system messages; OpenClaw leaves them out.
    const seen = who === "openclaw" ? own.messages.filter((one) => one.role !== "system") : own.messages;
    assert.deepEqual(read.messages, seen, `${told}: messages`);
    const model = own.model && { provider: own.provider, modelId: own.model };
    assert.deepEqual(read.model ?? null, model, `${told}: model`);
    assert.equal(read.thinkingLevel, own.thinking_level, `${told}: thinking level`);
    // Before the first entry there is nothing that pi could name, and OpenClaw sees through entries
    // of types that it does not know.
    const line = before.toString().trim().split("\n").findLast((line) => JSON.parse(line).id === own.leaf);
    const isNew = line && ["reset", "usage", "context_edit"].includes(JSON.parse(line).type);
    if (own.leaf !== null && !(who === "openclaw" && isNew)) assert.equal(manager.getLeafId(), own.leaf, `${told}: leaf`);
    assert.deepEqual(fs.readFileSync(file), before, `${told}: the file was changed`);
  }
}

const context = (ledger, id) => JSON.parse(run(ledger, ["session", "context", id, "--json"]));
const exportTo = (ledger, folder, ...args) =>
  JSON.parse(run(ledger, ["export", "--all", "--format", "openclaw", "--to", folder, "--json", ...args]));

let passed = 0;
const pass = (what) => {
  passed += 1;
  console.log(`ok  ${what}`);
};

// Written by quipu, read by the others.
const sessions = Object.fromEntries(
  Object.entries(scenarios).map(([name, write]) => [name, write().id]));
const source = new Written();
source.user("one");
const at = source.answer("two");
source.do("label", at, "fork here");
source.user("three");
sessions.forkedFrom = source.id;
sessions.fork = run("ledger.db", ["session", "fork", source.id, "--at", at]).trim();

const state = path.join(work, "state");
const files = exported(exportTo("ledger.db", state));
const nothingSaid = new Set(["leafAtRoot", "resetOnly", "empty"]);
for (const [name, id] of Object.entries(sessions)) {
  const own = context("ledger.db", id);
  assert.equal(own.messages.length === 0, nothingSaid.has(name), `${name}: messages`);
  compare(name, files.get(id), own);
  pass(name);
}
const fork = JSON.parse(fs.readFileSync(files.get(sessions.fork), "utf8").split("\n")[0]);
assert.equal(fork.parentSession, files.get(sessions.forkedFrom), "fork: its parent");
assert.match(path.basename(files.get(sessions.topic)), /-topic-7%2Fa%20b\.jsonl$/);
const archives = fs.readdirSync(path.dirname(files.get(sessions.reset))).filter((name) => name.includes(".jsonl.reset."));
assert.equal(archives.length, 6, `archives: ${archives}`);
pass("names of files");

// OpenClaw itself finds them by their keys.
const openclaw = path.join(work, "npm/node_modules/openclaw/openclaw.mjs");
const listed = (...args) => JSON.parse(execFileSync(process.execPath, [openclaw, "sessions", "--json", ...args], {
  env: environment({ OPENCLAW_STATE_DIR: state }), encoding: "utf8", timeout: 120_000,
})).sessions;
// Without a configuration it knows the agent `main` only; others by their index.
const ofWork = path.join(state, "agents/work/sessions/sessions.json");
const keys = new Map([...listed(), ...listed("--store", ofWork)].map((found) => [found.key, found.sessionId]));
assert.equal(keys.get("agent:main:main"), sessions.plain);
assert.equal(keys.get("agent:main:telegram:group:-100:topic:7/a b"), sessions.topic);
// OpenClaw 2026.9.6 refuses an index with capitals in such a key, so it is written without them.
assert.equal(keys.get("agent:work:slack:channel:c1:thread:17.5"), sessions.otherAgent);
assert.equal(keys.size, Object.keys(sessions).length, `keys: ${[...keys.keys()]}`);
pass("openclaw sessions");

// Back in, and out again.
const rows = run("again.db", ["import", state, "--json"]).trim().split("\n").map((line) => JSON.parse(line));
assert.deepEqual(rows.filter((row) => row.has_failed || row.rows !== row.stored), []);
const again = exported(exportTo("again.db", path.join(work, "again")));
for (const [name, id] of Object.entries(sessions)) {
  assert.deepEqual(context("again.db", id), context("ledger.db", id), `${name}: imported`);
  compare(`${name}, imported`, again.get(id), context("ledger.db", id));
}
const twice = run("again.db", ["import", state, "--json"]).trim().split("\n").map((line) => JSON.parse(line));
assert.equal(twice.reduce((sum, row) => sum + row.added, 0), 0, "imported twice");
pass("import and export again");

// Written by the others, collected by quipu, exported, and read by both.
const fixtures = "crates/transcript/fixtures/context";
for (const reader of ["oc71", "pi73", "pi87"]) {
  const folder = path.join(home, ".openclaw/agents", reader, "sessions");
  fs.mkdirSync(folder, { recursive: true });
  for (const name of fs.readdirSync(path.join(fixtures, reader)).filter((name) => name.endsWith(".jsonl"))) {
    fs.copyFileSync(path.join(fixtures, reader, name), path.join(folder, `${reader}-${name}`));
  }
}
run("collected.db", ["sync"]);
const collected = exported(exportTo("collected.db", path.join(work, "collected")));
assert.ok(collected.size >= 20, `collected: ${collected.size}`);
for (const [id, file] of collected) compare(id, file, context("collected.db", id));
pass(`${collected.size} collected sessions`);

console.log(`${passed} passed, 0 failed`);
process.exit(0);
