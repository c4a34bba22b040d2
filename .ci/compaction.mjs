// Compares quipu's plans for compactions with those of pi's own `prepareCompaction`, and the context
// after a compaction with that of pi and OpenClaw. Run by .ci/e2e: node compaction.mjs QUIPU FOLDER
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
  if (plan.compacted === false) return null;
  const { firstKeptEntryId, isSplitTurn, tokensBefore, history, turnPrefix, readFiles, modifiedFiles } = plan;
  return { firstKeptEntryId, isSplitTurn, tokensBefore, history, turnPrefix, readFiles, modifiedFiles };
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
const live = (report) => report.files.filter((file) => file.session && file.path.endsWith(".jsonl"));
const collected = live(exportAll(path.join(home, "exported"))).filter((file) => /^(oc71|pi73|pi87)-/.test(file.session));
assert.ok(collected.length >= 20, `${collected.length} exported`);
for (const { session: id, path: file } of collected) {
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
  if (JSON.parse(run(["session", "compact", id, "--keep", "200", "--json"])).compacted) compacted += 1;
}
assert.ok(compacted >= 20, `${compacted} compacted`);
const exported = new Map(live(exportAll(path.join(home, "after"))).map((file) => [file.session, file.path]));
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
process.exit(0);
