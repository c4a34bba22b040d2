// Generated sessions in pi's format, and pi's own plan for compacting a session. Used by
// compaction.mjs. As a program, it writes the plans that the tests of quipu-transcript compare with:
// node .ci/plans.mjs target/ci/npm > crates/transcript/fixtures/compaction/plans.jsonl
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

/** The same numbers for the same seed. */
function random(seed) {
  let state = (seed * 2654435761) >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  return { below, chance: (p) => next() < p, pick: (list) => list[below(list.length)] };
}

const WORDS = ["look", "at", "the", "file", "ünïcödé", "😀", "\n", "\"quoted\"", "a\\b", "tab\t", "done", "中文"];
const PATHS = ["a.rs", "src/b.rs", "README.md", "ä.txt", "😀.md", "\uffff.md"];

/** A session of pi in which results stand directly behind their calls. */
export function session(seed, turns = 28, words = 1) {
  const { below, chance, pick } = random(seed);
  const lines = [];
  const start = Date.parse("2026-01-01T00:00:00Z");
  const time = () => new Date(start + lines.length * 1000).toISOString();
  const text = (most) => Array.from({ length: 1 + below(Math.ceil(most * words)) }, () => pick(WORDS)).join(" ");
  lines.push({ type: "session", version: 3, id: `00000000-0000-4000-8000-${String(seed).padStart(12, "0")}`, timestamp: time(), cwd: "/work" });
  let leaf = null;
  const ids = [];
  const add = (entry) => {
    const id = (lines.length + seed * 4096).toString(16).padStart(8, "0");
    lines.push({ ...entry, id, parentId: leaf, timestamp: time() });
    if (!entry.appendMode) leaf = id;
    ids.push(id);
    return id;
  };
  const say = (message) => add({ type: "message", message: { ...message, timestamp: Date.parse(time()) } });
  const content = (most) => chance(0.4) ? text(most) : [
    ...(chance(0.9) ? [{ type: "text", text: text(most) }] : []),
    ...(chance(0.1) ? [{ type: "image", data: "AAAA", mimeType: "image/png" }] : []),
  ];
  const blocks = (most) => [{ type: "text", text: text(most) }];
  const args = (name) => name === "bash"
    ? { command: text(6), timeout: pick([1, 1.5, 1e21, -3, 0.00001]), list: [null, true, { a: "ü" }] }
    : { path: pick(PATHS), ...(chance(0.3) ? { text: text(20) } : {}) };
  const usage = () => pick([
    { input: below(500), output: below(100), cacheRead: below(2000), cacheWrite: 0, totalTokens: below(3) * below(4000), cost: {} },
    { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: {} },
    { input: 10 + below(2000), output: 5, cacheRead: 0, cacheWrite: 7, cost: {} },
    undefined,
  ]);
  let calls = 0;
  const count = 3 + below(turns);
  for (let turn = 0; turn < count; turn += 1) {
    if (chance(0.06)) say({ role: "system", content: chance(0.5) ? text(20) : blocks(10), ...(chance(0.5) ? { sections: { skills: text(5), old: chance(0.3) ? null : text(3) } } : {}), ...(chance(0.5) ? { toolsAdded: [{ name: pick(["read", "bash"]), description: text(5) }] } : {}) });
    if (chance(0.1)) add({ type: "model_change", provider: "p", modelId: "m" });
    if (chance(0.1)) add({ type: "label", targetId: pick(ids) ?? "none", label: "here" });
    if (chance(0.08)) add({ type: "custom_message", customType: "hint", content: content(20), display: true });
    if (chance(0.06)) add({ type: "branch_summary", fromId: "root", summary: chance(0.3) ? "" : text(30) });
    if (chance(0.06)) say({ role: "bashExecution", command: text(4), output: text(60), exitCode: below(2), cancelled: false, truncated: false });
    if (chance(0.85)) say({ role: "user", content: content(60) });
    for (let step = 0; step < 1 + below(4); step += 1) {
      const made = Array.from({ length: chance(0.6) ? below(3) + 1 : 0 }, () => {
        const name = pick(["read", "write", "edit", "bash", "read"]);
        calls += 1;
        return { type: "toolCall", id: `c${calls}`, name, arguments: args(name) };
      });
      const stopReason = chance(0.08) ? pick(["error", "aborted"]) : made.length ? "toolUse" : "stop";
      const answer = say({ role: "assistant", content: [...(chance(0.3) ? [{ type: "thinking", thinking: text(30) }] : []), ...(chance(0.8) ? blocks(50) : []), ...made], api: "x", provider: "p", model: "m", usage: usage(), stopReason });
      for (const call of made) {
        if (chance(0.05)) add({ type: "custom", customType: "state", data: 1 });
        say({ role: "toolResult", toolCallId: call.id, toolName: call.name, content: chance(0.1) ? blocks(700) : blocks(80), isError: chance(0.1) });
      }
      if (chance(0.05)) add({ type: "context_edit", targetId: answer, replacement: chance(0.6) ? null : { content: text(10) } });
    }
    if (chance(0.05)) add({ type: "context_edit", targetId: pick(ids), replacement: chance(0.5) ? null : { content: text(10) } });
    if (chance(0.07)) add({ type: "compaction", summary: text(60), firstKeptEntryId: chance(0.8) ? pick(ids.slice(-12)) : pick(ids), tokensBefore: 9, ...(chance(0.7) ? { details: { readFiles: [pick(PATHS)], modifiedFiles: chance(0.5) ? [pick(PATHS)] : [] } } : {}), ...(chance(0.2) ? { fromHook: true } : {}), ...(chance(0.3) ? { systemMessage: { role: "system", content: text(9), timestamp: 5 } } : {}) });
    if (chance(0.04)) leaf = pick(ids);
  }
  return lines;
}

/** pi, from an npm prefix. */
export async function pi(npm) {
  const dist = path.join(path.resolve(npm), "node_modules/@earendil-works/pi-coding-agent/dist");
  const load = (file) => import(pathToFileURL(path.join(dist, file)).href);
  const { prepareCompaction } = await load("core/compaction/compaction.js");
  const { computeFileLists } = await load("core/compaction/utils.js");
  const { SessionManager } = await load("core/session-manager.js");
  /** pi's plan for a file: null if there is nothing to compact. */
  return (file, keep) => {
    const branch = SessionManager.open(file).getBranch();
    const plan = prepareCompaction(branch, { enabled: true, reserveTokens: 16384, keepRecentTokens: keep });
    if (!plan) return null;
    return {
      firstKeptEntryId: plan.firstKeptEntryId,
      isSplitTurn: plan.isSplitTurn,
      tokensBefore: plan.tokensBefore,
      history: plan.messagesToSummarize,
      turnPrefix: plan.turnPrefixMessages,
      ...computeFileLists(plan.fileOps),
    };
  };
}

/** How much to keep: everything, about half, little, nothing. */
export const KEEP = [20000, 400, 60, 0];

if (process.argv[1] && import.meta.url === pathToFileURL(path.resolve(process.argv[1])).href) {
  const plan = await pi(process.argv[2]);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "plans-"));
  const write = (name, file) => {
    const plans = KEEP.map((keep) => {
      const found = plan(file, keep);
      const times = (messages) => messages.map((message) => message.timestamp);
      return found && { ...found, history: times(found.history), turnPrefix: times(found.turnPrefix) };
    });
    const lines = fs.readFileSync(file, "utf8").trimEnd().split("\n");
    console.log(JSON.stringify({ name, ...(name.startsWith("seed") ? { lines } : {}), plans }));
  };
  const fixtures = "crates/transcript/fixtures/context";
  for (const reader of ["pi73", "pi87", "oc71"]) {
    for (const name of fs.readdirSync(path.join(fixtures, reader)).filter((name) => name.endsWith(".jsonl")).sort()) {
      const copy = path.join(folder, name);
      fs.copyFileSync(path.join(fixtures, reader, name), copy);
      write(`${reader}/${name}`, copy);
    }
  }
  for (let seed = 1; seed <= 12; seed += 1) {
    const file = path.join(folder, `${seed}.jsonl`);
    fs.writeFileSync(file, session(seed, 6, 0.2).map((line) => `${JSON.stringify(line)}\n`).join(""));
    write(`seed ${seed}`, file);
  }
  fs.rmSync(folder, { recursive: true });
}
