// Moves the sessions that readers.mjs exported into the database of OpenClaw 2026.9.6, goes on with
// some of them there, and collects that database. Run by .ci/e2e: node openclaw.mjs QUIPU FOLDER
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { startModel } from "./model.mjs";
import { ownParts, same, sentParts } from "./parts.mjs";
import { asker, finish, pass, run } from "./programs.mjs";

const [quipu, work] = process.argv.slice(2);
const exported = path.join(work, "state/agents");
assert.ok(fs.existsSync(exported), "readers.mjs has to run first, with the same folder");
const root = path.join(work, "openclaw");
const [home, workspace] = ["home", "workspace"].map((name) => path.join(root, name));
const state = path.join(home, ".openclaw");
fs.mkdirSync(workspace, { recursive: true });
fs.cpSync(exported, path.join(state, "agents"), { recursive: true });

const model = await startModel();
const one = {
  id: "one", name: "One", reasoning: false, input: ["text"], contextWindow: 200_000, maxTokens: 4096,
  cost: { input: 1, output: 2, cacheRead: 0.5, cacheWrite: 1 },
};
fs.writeFileSync(path.join(state, "openclaw.json"), JSON.stringify({
  agents: {
    ownership: "explicit", entries: { main: {}, work: {} },
    defaults: { workspace, skipBootstrap: true, model: { primary: "loopback/one" }, systemAgent: { agentId: "main" } },
  },
  plugins: { enabled: false },
  logging: { file: path.join(root, "openclaw.log") },
  models: {
    mode: "replace",
    providers: { loopback: { baseUrl: model.url, apiKey: "none", api: "anthropic-messages", models: [one] } },
  },
}));

/** Runs OpenClaw, and returns what it prints as JSON. */
async function openclaw(...args) {
  const program = path.join(work, "npm/node_modules/openclaw-2026.9.6/openclaw.mjs");
  const env = {
    ...model.environment, HOME: home, OPENCLAW_STATE_DIR: state, TMPDIR: root,
    // One process, which stays on this machine.
    OPENCLAW_NO_RESPAWN: "1", OPENCLAW_DISABLE_BONJOUR: "1", OPENCLAW_NO_AUTO_UPDATE: "1",
  };
  return JSON.parse(await run(process.execPath, [program, ...args, "--json"], { env, cwd: workspace, seconds: 180 }));
}

/** Returns the parts of a request, without what OpenClaw adds when sending. */
const sent = ({ messages }) => sentParts(messages, (text) => {
  if (text.startsWith("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>")) return undefined;
  return text.replace(/^\[\w{3} \d{4}-\d\d-\d\d \d\d:\d\d UTC\] /gm, "");
});

/** Collects everything, and returns the sessions by their keys: how much is in them, and their context. */
async function collected(ledger) {
  const ask = asker(quipu, { HOME: home, QUIPU_LEDGER: path.join(root, ledger) });
  await ask("sync");
  const rows = await ask("sessions", "--all");
  const found = new Map();
  for (const { session_id: id, session_key: key, turns, messages, tool_calls, total_tokens } of rows) {
    assert.ok(!found.has(key), `${ledger}: ${key} has two sessions`);
    const [context] = await ask("session", "context", id);
    const counts = { turns, messages, tool_calls, total_tokens };
    // OpenClaw drops the thread from a session's id.
    found.set(key, { id: id.split("-topic-")[0], counts, parts: ownParts(context.messages) });
  }
  return found;
}

/** Compares collected sessions. `added` has, by key, what OpenClaw has added since. */
function compare(what, found, before, added = new Map()) {
  assert.deepEqual([...found.keys()].sort(), [...before.keys()].sort(), `${what}: keys`);
  for (const [key, { id, counts, parts }] of found) {
    const old = before.get(key);
    assert.equal(id, old.id, `${what}: ${key} has another id`);
    const { parts: more = [], ...numbers } = added.get(key) ?? {};
    const sums = Object.entries(old.counts).map(([name, count]) => [name, count + (numbers[name] ?? 0)]);
    assert.deepEqual(counts, Object.fromEntries(sums), `${what}: ${key}`);
    same(`${what}: ${key}`, parts, [...old.parts, ...more]);
  }
}

// Imported, listed, and collected from the database.
const files = await collected("ledger.db");
const { totals, targets } = await openclaw("doctor", "--session-sqlite", "import", "--session-sqlite-all-agents");
const issues = (targets ?? []).flatMap((target) => target.issues ?? []).map((issue) => issue.code);
assert.equal(totals.issues, 0, `issues of the import: ${issues}`);
assert.equal(totals.importedEntries, files.size, "imported sessions");
const listed = [];
for (const agent of ["main", "work"]) listed.push(...(await openclaw("sessions", "--agent", agent)).sessions);
assert.deepEqual(listed.map(({ key }) => key).sort(), [...files.keys()].sort(), "the keys that OpenClaw lists");
pass(`${listed.length} sessions imported and listed`);
compare("imported", await collected("ledger.db"), files);
pass("collected from the database");

// Continued there: one with tool calls, one after a reset.
const added = new Map();
for (const key of ["agent:main:main", "agent:main:telegram:direct:7"]) {
  await openclaw("agent", "--local", "--session-key", key, "--message", "go on");
  const { answer, ...request } = model.requests.at(-1);
  const prompt = ["user", "go on"];
  same(`what was sent to ${key}`, sent(request), [...files.get(key).parts, prompt]);
  const { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } = answer.usage;
  const tokens = input_tokens + output_tokens + cache_read_input_tokens + cache_creation_input_tokens;
  added.set(key, { turns: 1, messages: 2, total_tokens: tokens, parts: [prompt, ["assistant", answer.content[0].text]] });
}
assert.equal(model.requests.length, added.size, "requests");
compare("continued", await collected("ledger.db"), files, added);
compare("collected anew", await collected("anew.db"), files, added);
pass("continued, and collected again");

model.close();
finish();
