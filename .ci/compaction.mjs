// Compares quipu's plans for compactions with those of pi's own `prepareCompaction`, and the context
// after a compaction or a repair with that of pi and OpenClaw. Run by .ci/e2e: node compaction.mjs QUIPU FOLDER
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { KEEP, pi, session } from "./plans.mjs";

const [quipu, work] = process.argv.slice(2);
const home = path.join(work, "compaction");
fs.mkdirSync(home, { recursive: true });
Object.assign(process.env, { HOME: home, OPENCLAW_STATE_DIR: path.join(home, "state") });
const planOf = await pi(path.join(work, "npm"));

/** Runs quipu on a ledger of its own. */
function run(args, input) {
  const env = { PATH: process.env.PATH, HOME: home, NO_COLOR: "1", QUIPU_LEDGER: path.join(home, "ledger.db") };
  return execFileSync(quipu, args, { env, input, encoding: "utf8", maxBuffer: 1 << 28 });
}

const plain = (value) => JSON.parse(JSON.stringify(value));

/** quipu's plan in pi's words. */
function own(id, keep) {
  const plan = JSON.parse(run(["session", "compact", id, "--keep", String(keep), "--window", "1000000000", "--dry-run", "--json"]));
  if (plan.is_compacted === false) return null;
  return {
    firstKeptEntryId: plan.first_kept_entry_id,
    isSplitTurn: plan.is_split_turn,
    tokensBefore: plan.tokens_before,
    history: plan.history,
    turnPrefix: plan.turn_prefix,
    readFiles: plan.read_files,
    modifiedFiles: plan.modified_files,
  };
}

let plans = 0;
function compare(name, id, file) {
  for (const keep of KEEP) {
    const theirs = plain(planOf(file, keep));
    const ours = own(id, keep);
    for (const field of Object.keys(theirs ?? ours ?? {})) {
      assert.deepEqual(ours?.[field], theirs?.[field], `${name}, keeping ${keep}: ${field}`);
    }
    plans += ours ? 1 : 0;
  }
}

// Generated sessions.
const folder = path.join(home, "generated");
fs.mkdirSync(folder);
const COUNT = 200;
for (let seed = 1; seed <= COUNT; seed += 1) {
  const lines = session(seed, 12, 0.6);
  fs.writeFileSync(path.join(folder, `${lines[0].id}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
}
run(["import", folder, "--json"]);
const names = fs.readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
assert.equal(names.length, COUNT);
for (const name of names) compare(name, name.replace(".jsonl", ""), path.join(folder, name));
assert.ok(plans > 2 * COUNT, `${plans} plans`);
console.log(`ok  ${plans} plans of ${COUNT} generated sessions`);

// Collected sessions of the releases, as quipu exports them.
plans = 0;
const fixtures = "crates/transcript/fixtures/context";
for (const reader of ["oc71", "pi73", "pi87"]) {
  const sessions = path.join(home, ".openclaw/agents", reader, "sessions");
  fs.mkdirSync(sessions, { recursive: true });
  for (const name of fs.readdirSync(path.join(fixtures, reader)).filter((name) => name.endsWith(".jsonl"))) {
    fs.copyFileSync(path.join(fixtures, reader, name), path.join(sessions, `${reader}-${name}`));
  }
}
run(["sync"]);
const exportAll = (to) => JSON.parse(run(["export", "--all", "--format", "openclaw", "--to", to, "--json"]));
const live = (report) => report.written.filter((file) => file.session_id && file.path.endsWith(".jsonl"));
const collected = live(exportAll(path.join(home, "exported"))).filter((file) => /^(oc71|pi73|pi87)-/.test(file.session_id));
assert.ok(collected.length >= 20, `${collected.length} exported`);
for (const { session_id: id, path: file } of collected) {
  // An export applies edits, which makes the usage before them valid for pi.
  if (fs.readFileSync(path.join(home, ".openclaw/agents", id.slice(0, 4), "sessions", `${id}.jsonl`), "utf8").includes("context_edit")) continue;
  compare(id, id, file);
}
console.log(`ok  ${plans} plans of ${collected.length} collected sessions`);

// After a compaction, pi and OpenClaw build the context that quipu prints.
const require = createRequire(path.join(work, "npm", "package.json"));
const readers = {
  pi: await import(pathToFileURL(path.join(work, "npm/node_modules/@earendil-works/pi-coding-agent/dist/index.js")).href),
  openclaw: await import(pathToFileURL(require.resolve("openclaw/plugin-sdk/agent-sessions")).href),
};
let compacted = 0;
for (const name of names.slice(0, 40)) {
  const id = name.replace(".jsonl", "");
  if (JSON.parse(run(["session", "compact", id, "--keep", "200", "--json"])).is_compacted) compacted += 1;
}
assert.ok(compacted >= 20, `${compacted} compacted`);
const exported = new Map(live(exportAll(path.join(home, "after"))).map((file) => [file.session_id, file.path]));
for (const name of names.slice(0, 40)) {
  const id = name.replace(".jsonl", "");
  const context = JSON.parse(run(["session", "context", id, "--json"]));
  for (const [who, { SessionManager }] of Object.entries(readers)) {
    const read = plain(SessionManager.open(exported.get(id)).buildSessionContext());
    // The readers pair calls and results later. Only pi has system messages.
    const seen = (messages) => messages.filter((message) => message.role !== "toolResult" && (who === "pi" || message.role !== "system"));
    assert.deepEqual(seen(read.messages), seen(context.messages), `${name}: ${who}`);
  }
}
console.log(`ok  contexts of ${compacted} compacted sessions`);

// After a repair, they build that context without pairing anything.
/** A session in which some results are lost, come late, or are there twice. */
function broken(seed) {
  const [header, ...entries] = session(seed, 12, 0.6);
  const id = header.id.replace("4000", "4111");
  const out = [];
  const late = [];
  entries.forEach((entry, number) => {
    while (late[0]?.at <= number) out.push(late.shift().entry);
    const harm = entry.message?.role === "toolResult" ? (seed * 31 + number * 17) % 6 : 6;
    if (harm === 0) return;
    if (harm === 1) return late.push({ at: number + 4, entry });
    if (harm === 2) out.push({ ...entry, id: `${entry.id}-2` });
    out.push(entry);
  });
  out.push(...late.map(({ entry }) => entry));
  const linked = out.map((entry, number) => ({ ...entry, parentId: out[number - 1]?.id ?? null }));
  return [{ ...header, id }, ...linked];
}

const harmed = path.join(home, "harmed");
fs.mkdirSync(harmed);
const ids = [];
for (let seed = 1; seed <= 40; seed += 1) {
  const lines = broken(seed);
  ids.push(lines[0].id);
  fs.writeFileSync(path.join(harmed, `${lines[0].id}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
}
run(["import", harmed, "--json"]);
/** Results behind the same message may have any order. */
function sorted(messages) {
  const blocks = [];
  for (const message of messages) {
    if (message.role === "toolResult" && blocks.length) blocks.at(-1).push(message);
    else blocks.push([message]);
  }
  const byCall = (one, other) => String(one.toolCallId ?? "").localeCompare(String(other.toolCallId ?? ""));
  return blocks.flatMap(([first, ...results]) => [first, ...results.sort(byCall)]);
}
let mended = 0;
const before = new Map();
for (const id of ids) {
  before.set(id, JSON.parse(run(["session", "context", id, "--json"])).messages);
  const report = JSON.parse(run(["session", "repair", id, "--apply", "--json"]));
  if (report.repaired) mended += 1;
  assert.equal(JSON.parse(run(["session", "repair", id, "--json"])).isNeeded, false, `${id}: repaired`);
}
assert.ok(mended >= 20, `${mended} repaired`);
const repaired = new Map(live(exportAll(path.join(home, "repaired"))).map((file) => [file.session_id, file.path]));
for (const id of ids) {
  const context = JSON.parse(run(["session", "context", id, "--json"]));
  assert.deepEqual(context.messages, before.get(id), `${id}: the context before`);
  for (const [who, { SessionManager }] of Object.entries(readers)) {
    const read = plain(SessionManager.open(repaired.get(id)).buildSessionContext());
    // Only pi has system messages.
    const seen = (messages) => sorted(messages.filter((message) => who === "pi" || message.role !== "system"));
    assert.deepEqual(seen(read.messages), seen(context.messages), `${id}: ${who}`);
  }
}
console.log(`ok  contexts of ${mended} repaired sessions`);
process.exit(0);
