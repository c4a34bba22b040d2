// Runs the real Claude Code against a model on the loopback interface, and compares what it sends and
// what it spends with quipu's own numbers. Run by .ci/e2e: node claude.mjs QUIPU FOLDER
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { startModel } from "./model.mjs";
import { ownParts, same, sentParts } from "./parts.mjs";
import { asker, finish, pass, run } from "./programs.mjs";
import { Terminal } from "./terminal.mjs";

const [quipu, work] = process.argv.slice(2);
const root = path.join(work, "claude");
const [home, project] = ["home", "project"].map((name) => path.join(root, name));
fs.mkdirSync(home, { recursive: true });
fs.mkdirSync(project, { recursive: true });
const program = path.join(work, "npm/node_modules/@anthropic-ai/claude-code-linux-x64/claude");

const call = (name, input) => ({ name, input });
const model = await startModel({
  "write and read": [
    [call("Write", { file_path: path.join(project, "a.txt"), content: "one\n" })],
    [call("Read", { file_path: path.join(project, "a.txt") }), call("Bash", { command: "echo two" }), call("Bash", { command: "exit 3" })],
    [call("Bash", { command: "seq 1 20000" })],
  ],
  "ask a helper": [[call("Agent", { description: "count", prompt: "count the otters", subagent_type: "general-purpose" })]],
  "count the otters": [[call("Bash", { command: "ls" })]],
});

const environment = (config) => ({
  ...model.environment, HOME: home, CLAUDE_CONFIG_DIR: config, CLAUDE_CODE_TMPDIR: root, IS_SANDBOX: "1",
  ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: "none", DISABLE_AUTOUPDATER: "1",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_TELEMETRY: "1", DISABLE_ERROR_REPORTING: "1",
});

/** Runs one turn of Claude Code, and returns what it reports. */
async function turn(prompt, args, config = path.join(home, ".claude")) {
  const out = await run(program, ["-p", prompt, "--output-format", "json", "--dangerously-skip-permissions", ...args], {
    cwd: project,
    env: { ...environment(config), TERM: "dumb" },
  });
  const report = JSON.parse(out);
  assert.equal(report.is_error, false, `${prompt}: Claude Code reports an error`);
  return report;
}

const ask = asker(quipu, { HOME: home, QUIPU_LEDGER: path.join(root, "ledger.db") });

/** Returns the parts of a request, without what Claude Code adds when sending. */
const sent = (request) => sentParts(request.messages, (text) => {
  if (!text.startsWith("<system-reminder>")) return text;
  // A reminder is not part of the conversation, but a notification inside of it is.
  return text.match(/<task-notification>.*<\/task-notification>/s)?.[0];
});

const folder = path.join(home, ".claude/projects");
/** Returns every file that Claude Code has written about its sessions, by its path in their folder. */
const written = () => new Map(fs.readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)))
  .map((name) => [name, fs.readFileSync(path.join(folder, name))]));

/** Returns the lines with which responses begin and end, by the response's id. */
function responses() {
  const found = new Map();
  for (const [name, bytes] of written()) {
    if (!name.endsWith(".jsonl")) continue;
    const session = path.basename(name, ".jsonl");
    for (const line of bytes.toString().trim().split("\n").map((line) => JSON.parse(line))) {
      if (line.type !== "assistant") continue;
      const { id } = line.message;
      // A fork repeats the responses before it.
      if (!found.has(id)) found.set(id, { session, parent: line.parentUuid });
      if (found.get(id).session === session) found.get(id).last = line.uuid;
    }
  }
  return found;
}

/** Compares every request with quipu's context of that moment. `unrecorded` requests have no line. */
async function compareRequests(unrecorded) {
  await ask("sync");
  const found = responses();
  const recorded = model.requests.filter(({ answer }) => found.has(answer.id));
  assert.equal(model.requests.length - recorded.length, unrecorded, "requests without a line");
  for (const request of recorded) {
    const { session, parent } = found.get(request.answer.id);
    const [own] = await ask("session", "context", session, "--leaf", parent);
    same(`what was sent before ${request.answer.id}`, sent(request), ownParts(own.messages));
  }
}

const context = async (session) => ownParts((await ask("session", "context", session))[0].messages);
const sessions = async () => new Map((await ask("sessions", "--all")).map((row) => [row.session_id, row]));
const isClose = (a, b) => Math.abs(a - b) < 1e-9;

/** Compares a cost with quipu's for a session. */
async function compareCost(what, theirs, session) {
  const ours = (await ask("usage", "session", "--all")).find((row) => row.group === session).cost_usd;
  assert.ok(isClose(theirs, ours), `${what}: Claude Code counts $${theirs}, quipu $${ours}`);
}

// Turns with tools, a sub-agent and a resumed session.
const first = randomUUID();
await turn("first prompt", ["--session-id", first]);
await turn("write and read", ["--resume", first]);
const helped = await turn("ask a helper", ["--resume", first]);
assert.ok(model.requests.length >= 9, `requests: ${model.requests.length}`);
await compareRequests(0);
assert.equal((await sessions()).get(first).subagents, 1, "sub-agents");
await compareCost("tools and a sub-agent", helped.total_cost_usd, first);
pass("tools, a sub-agent, a resumed session");

// A fork, after which the original goes on from an earlier answer: the rewind of a program without a
// terminal. Claude Code counts a fork's cost from the original's on.
const fork = await turn("in the fork", ["--resume", first, "--fork-session"]);
const { last } = responses().get("msg_0005");
const rewound = await turn("instead", ["--resume", first, "--resume-session-at", last]);
assert.equal(rewound.session_id, first, "a rewind stays in its session");
await compareRequests(0);
assert.equal((await sessions()).get(fork.session_id).fork_of, first, "what the fork is a fork of");
assert.equal((await sessions()).get(first).fork_of, null, "the original is no fork");
assert.equal((await sessions()).get(first).branches, 2, "branches after a rewind");
await compareCost("a fork", fork.total_cost_usd - helped.total_cost_usd, fork.session_id);
await compareCost("a rewind", rewound.total_cost_usd, first);
pass("a fork, a rewind");

// A compaction. Of its own request there is no line.
await turn("/compact keep the numbers", ["--resume", first]);
const after = await turn("after the compaction", ["--resume", first]);
await compareRequests(1);
assert.equal((await sessions()).get(first).compactions, 1, "compactions");
await compareCost("a compaction", after.total_cost_usd, first);
pass("a compaction");

// Deleted, restored to where they were, and resumed.
const contexts = new Map();
for (const id of [first, fork.session_id]) contexts.set(id, await context(id));
assert.ok(contexts.get(fork.session_id).length > 25, "the fork has everything that was said before it");
const files = written();
for (const part of ["subagents/", "tool-results/"]) assert.ok([...files.keys()].some((name) => name.includes(part)), `no ${part}`);
fs.rmSync(folder, { recursive: true });
await ask("sync");
for (const [id, before] of contexts) {
  const [{ cwd, command }] = await ask("resume", id);
  assert.deepEqual([cwd, ...command], [project, "claude", "--resume", id], "the command that resumes a session");
  for (const [name, bytes] of files) {
    if (name.includes(id)) assert.ok(written().get(name)?.equals(bytes), `${name}: not restored byte for byte`);
  }
  const resumed = await turn("still there?", command.slice(1));
  same("what was sent after a restore", sent(model.requests.at(-1)), [...before, ["user", "still there?"]]);
  await ask("sync");
  if (id === first) await compareCost("a restored session", resumed.total_cost_usd, id);
  else await compareCost("a restored fork", resumed.total_cost_usd - helped.total_cost_usd, id);
}
await compareRequests(1);
pass("deleted, restored, resumed");

// Restored to another folder, and resumed there.
const other = path.join(root, "other");
await ask("restore", first, "--to", other);
const elsewhere = await context(first);
await turn("and elsewhere?", ["--resume", first], path.join(other, "claude-code"));
same("what was sent after a restore elsewhere", sent(model.requests.at(-1)), [...elsewhere, ["user", "and elsewhere?"]]);
pass("restored to another folder, resumed");

// Its status line, in a terminal. Its questions for new users are answered in its files.
const config = path.join(home, ".claude");
const own = path.join(config, ".claude.json");
const known = fs.existsSync(own) ? JSON.parse(fs.readFileSync(own)) : {};
fs.writeFileSync(own, JSON.stringify({
  ...known, hasCompletedOnboarding: true, theme: "dark", customApiKeyResponses: { approved: ["none"], rejected: [] },
  projects: { ...known.projects, [project]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
}));
const passed = path.join(root, "statusline.json");
fs.writeFileSync(path.join(config, "settings.json"),
  JSON.stringify({ statusLine: { type: "command", command: `tee ${passed} | ${quipu} statusline` } }));
await ask("sync");
const terminal = new Terminal(path.join(work, "claude.tmux"), [program], {
  cwd: project, columns: 120, rows: 50,
  env: { ...environment(config), PATH: process.env.PATH, LANG: "C.UTF-8", TZ: "UTC", QUIPU_LEDGER: path.join(root, "ledger.db") },
});
process.on("exit", () => terminal.close());
await terminal.until("a status line", (lines) => lines.some((line) => line.includes(" session · $")));
terminal.type("typed at a terminal");
await terminal.until("the prompt", (lines) => lines.some((line) => line.endsWith("typed at a terminal")));
terminal.press("Enter");
const shown = /\$(0\.\d+) session · \$\d+\.\d+ today · \d+% context/;
const isSpent = (line) => Number(line.match(shown)?.[1] ?? 0) > 0;
await terminal.until("what the session costs and how much of the context is used", (lines) => lines.some(isSpent));
const { session_id, cost } = JSON.parse(fs.readFileSync(passed));
await ask("sync");
await compareCost("a session in a terminal", cost.total_cost_usd, session_id);
pass("the status line");

model.close();
finish();
process.exit();
