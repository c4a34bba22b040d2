// Plays the first ten minutes of a new user in a terminal, and compares every screen with a file in
// .ci/screens. Run by .ci/e2e: node minutes.mjs QUIPU FOLDER
//
// In CI, the Debian package is built, installed for the test and removed again. ACCEPT=1 writes the
// screens to the files. A screen that differs is printed: all that it shows is from the demo and
// from fixtures.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";
import { finish, pass } from "./programs.mjs";
import { Terminal } from "./terminal.mjs";

const [quipu, work] = process.argv.slice(2);
const ci = import.meta.dirname;
const home = path.join(work, "minutes");
const bin = path.join(home, "bin");
const project = path.join(home, "work");
for (const folder of [bin, project]) fs.mkdirSync(folder, { recursive: true });

const dpkg = (...args) => execFileSync("dpkg", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

/** Builds and installs the Debian package, and removes it at the end. Returns whether it may be installed. */
function installPackage() {
  const isAllowed = process.env.CI === "true";
  if (!isAllowed || process.getuid() !== 0) {
    console.error("SKIPPED: the Debian package is installed only in CI, by root");
    assert.ok(!isAllowed, "in CI, the package has to be tested");
    return false;
  }
  const target = path.join(home, "target");
  fs.mkdirSync(path.join(target, "release"), { recursive: true });
  // The binary that exists stands for the release build.
  fs.copyFileSync(quipu, path.join(target, "release/quipu"));
  execFileSync(path.join(ci, "package"), [quipu, "deb"], { stdio: ["ignore", "ignore", "inherit"] });
  const tools = path.join(process.env.CARGO_TARGET_DIR ?? path.join(ci, "../target"), "ci/cargo/bin");
  const file = path.join(home, "quipu.deb");
  execFileSync("cargo", ["deb", "--package", "quipu", "--no-build", "--fast", "--quiet", "--output", file],
    { cwd: path.join(ci, ".."), env: { ...process.env, PATH: `${tools}:${process.env.PATH}`, CARGO_TARGET_DIR: target } });
  assert.ok(!fs.existsSync("/usr/bin/quipu"), "another quipu is installed");
  process.on("exit", () => dpkg("--purge", "quipu"));
  dpkg("--install", file);
  return true;
}

const isInstalled = installPackage();
if (isInstalled) {
  const files = dpkg("--listfiles", "quipu").split("\n");
  for (const name of ["/usr/bin/quipu", "/usr/share/man/man1/quipu-search.1", "/usr/share/bash-completion/completions/quipu",
    "/usr/share/zsh/vendor-completions/_quipu", "/usr/share/fish/vendor_completions.d/quipu.fish"]) {
    assert.ok(files.some((file) => file.startsWith(name) && fs.existsSync(file)), `the package lacks ${name}`);
  }
  pass("installed from the package");
} else {
  fs.symlinkSync(quipu, path.join(bin, "quipu"));
}

// A stand-in for the agent: prints how it was started, and whether the transcript is there.
fs.writeFileSync(path.join(bin, "claude"),
  `#!/bin/sh\necho "claude $* in $(basename "$PWD")"; ls ~/.claude/projects/*/"$2".jsonl | wc -l\n`, { mode: 0o755 });
const terminal = new Terminal(path.join(work, "minutes.tmux"), ["bash", "--norc"], {
  cwd: home,
  env: { HOME: home, PATH: `${bin}:/usr/bin:/bin`, LANG: "C.UTF-8", TZ: "UTC", PS1: "$ ", HISTFILE: "" },
});

process.on("exit", () => terminal.close());

const day = 86_400_000;
const today = Date.parse(new Date().toISOString().slice(0, 10));
const weekEnd = Date.parse("2026-03-08");
/** Removes what differs from day to day and from run to run. */
const steady = (line) => line
  .replaceAll(home, "HOME")
  // The demo's week ends yesterday.
  .replace(/20\d\d-\d\d-\d\d/g, (date) => {
    const moved = Date.parse(date) - (today - day - weekEnd);
    return Math.abs(moved - weekEnd) <= 7 * day ? new Date(moved).toISOString().slice(0, 10) : date;
  })
  .replace(/list prices of [\d-]+/, "list prices of DAY")
  .replace(/\b\d h ago {0,2}|\d\d h ago ?/, "1 day ago")
  .trimEnd();
/** Removes ages, and the width of their column. */
const ageless = (line) => steady(line).replace(/\d+ \w+ ago|just now|20\d\d-\d\d-\d\d( \d\d:\d\d)?/g, "AGE")
  .replace(/[\d.]+ kB/g, "SIZE").replace(/^( *collected) .*checked.*/, "$1 nothing new")
  .replace(/\d+ days left/, "N days left").replace(/ {2,}/g, "  ");
/** Removes the calendar, which begins in another month each time. */
const withoutCalendar = (lines) => lines.filter((line) => !/[·░▒▓█]{5}|^ +[A-Z][a-z]{2} [A-Z][a-z]{2}/.test(line));

/** Removes the name of the machine from links. */
const linked = (line) => ageless(line).replaceAll(/file:\/\/[^/]*/g, "file://HOST");

/** Compares the screen with the file of this name. */
function compare(name, lines, clean) {
  const file = path.join(ci, "screens", `${name}.txt`);
  const seen = `${lines.map(clean).join("\n")}\n`;
  if (process.env.ACCEPT) fs.writeFileSync(file, seen);
  const expected = fs.readFileSync(file, "utf8");
  assert.ok(seen === expected, `the screen ${name} differs:\n${seen}\nexpected:\n${expected}`);
  pass(name);
}

const isReady = (lines) => lines.at(-1) === "$";
/** Empties the screen. */
async function clear() {
  await terminal.until("a prompt", isReady);
  terminal.press("C-l");
  await terminal.until("an empty screen", (lines) => lines.length === 1 && isReady(lines));
}
/** Types a command, and waits for the next prompt. Without a name, the screen is not compared. */
async function enter(command, name, clean = steady) {
  await clear();
  terminal.type(command);
  terminal.press("Enter");
  const lines = await terminal.until(command, (lines) => lines.length > 1 && isReady(lines));
  if (name) compare(name, lines, clean);
  return lines;
}
/** Types a command that asks, and the answers to its questions. */
async function answer(command, questions, name, clean = ageless) {
  await clear();
  terminal.type(command);
  terminal.press("Enter");
  for (const [question, keys] of questions) {
    await terminal.until(question, (lines) => lines.at(-1)?.endsWith(question));
    for (const key of keys) terminal.press(key);
  }
  compare(name, await terminal.until(command, isReady), clean);
}

// An empty home, and the demo.
await enter("quipu", "empty");
const printed = await enter("quipu demo --to demo", "demo");
for (const line of printed.filter((line) => line.startsWith("  export "))) await enter(line.trim());
compare("demo-overview", withoutCalendar(await enter("quipu")), ageless);
await enter("quipu sessions", "demo-sessions");
await enter("quipu search fishermen", "demo-search");
await enter("quipu show b20f", "demo-show");
await enter("quipu usage", "demo-usage");
await enter("quipu serach tide; quipu show nothing", "demo-mistakes");
await enter("quipu sessions | head -n 2", "demo-head");

// A screen of 40 columns.
await clear();
terminal.resize(40);
await enter("quipu sessions", "narrow-sessions");
await enter("quipu search fishermen", "narrow-search");
await enter("quipu show b20f --turn 3", "narrow-show");
await enter("quipu usage", "narrow-usage");
await clear();
terminal.resize(80);
await enter("unset QUIPU_CONFIG QUIPU_LEDGER");

// Homes that Claude Code and OpenClaw wrote, moved to this home.
const fixtures = path.join(ci, "../crates/ledger/tests/fixtures");
const claude = path.join(home, ".claude");
fs.cpSync(path.join(fixtures, "claude-code-2.1.325/projects"), path.join(claude, "projects"), { recursive: true });
for (const entry of fs.readdirSync(claude, { recursive: true, withFileTypes: true })) {
  const file = path.join(entry.parentPath, entry.name);
  if (entry.isFile()) fs.writeFileSync(file, fs.readFileSync(file, "utf8").replaceAll('"cwd":"/home/ada/work"', `"cwd":"${project}"`));
}
const state = path.join(home, ".openclaw/agents/main/agent");
fs.mkdirSync(state, { recursive: true });
fs.writeFileSync(path.join(state, "openclaw-agent.sqlite"),
  zlib.zstdDecompressSync(fs.readFileSync(path.join(fixtures, "openclaw-2026.9.6/native.sqlite.zst"))));
await enter("quipu sync", "home-sync", ageless);
await enter("quipu sessions", "home-sessions", ageless);
await enter("quipu search zebra role:user -n 2", "home-search", ageless);
await enter("quipu show 5ccc6b99", "home-show", ageless);
await enter("quipu usage model", "home-usage", ageless);

// The sessions of a folder.
await enter("cd ~/work");
const question = "Which one? [1-5, Return: 1]";
await answer("quipu show --prompts", [[question, ["9", "Enter"]], [question, ["2", "Enter"]]], "choose-second");
await answer("quipu resume", [[question, ["Enter"]]], "choose-first");
await answer("quipu show", [[question, ["C-c"]]], "choose-interrupted");
assert.equal((await enter("echo $?"))[1], "130", "the exit code of a question after Ctrl-C");
await answer("quipu show; echo $?", [[question, ["C-d"]]], "choose-end");
await enter("quipu show | head -n 1", "choose-not", ageless);
terminal.resize(40);
await answer("quipu resume", [[question, ["Enter"]]], "choose-narrow");
await clear();
terminal.resize(80);

// Links to files and transcripts, on a terminal that has them.
await enter("FORCE_HYPERLINK=1 script -qec 'quipu sessions -n 1; quipu show 5ccc6b99 --last 1; quipu search zebra -n 1; quipu usage session -n 1; quipu tree 5ccc6b99' /dev/null </dev/null | tr -d '\\r' | cat -v", "links", linked);

// A session is continued after its transcript was deleted.
fs.rmSync(path.join(claude, "projects"), { recursive: true });
const resumed = (await enter("quipu resume 5ccc6b99 --run")).join(" ");
assert.match(resumed, /restored the transcript.*claude --resume 5ccc6b99-a982-4442-bb53-86dd04f7f84b in work 1/);
pass("resume-deleted");

// Completions of bash, from the package if there is one.
const completions = isInstalled ? "/usr/share/bash-completion/completions/quipu" : "<(quipu completions bash)";
await enter(`source ${completions}`);
/** Types the beginning of a command and Tab, and compares what the shell makes of it. */
async function complete(typed, end, tabs, name) {
  await clear();
  terminal.type(typed);
  for (let tab = 0; tab < tabs; tab += 1) terminal.press("Tab");
  compare(name, await terminal.until(typed, (lines) => end(lines)), steady);
  terminal.press("C-c");
}
await complete("quipu stat", (lines) => lines.length > 2, 3, "complete-commands");
await complete("quipu show 5ccc", (lines) => lines.at(-1).length > "$ quipu show 5ccc".length, 1, "complete-session");
await complete("quipu sessions --project wo", (lines) => lines.at(-1).endsWith("work"), 1, "complete-project");

// Following a session, until Ctrl-C.
await clear();
terminal.type("quipu tail 5ccc6b99 -n 1; echo $?");
terminal.press("Enter");
await terminal.until("the last message", (lines) => lines.length > 5 && !isReady(lines));
const transcript = fs.globSync(path.join(claude, "projects/*/5ccc6b99*.jsonl"))[0];
const line = { type: "user", uuid: "00000000-0000-4000-8000-000000000001", sessionId: path.basename(transcript, ".jsonl"),
  timestamp: "2026-11-17T10:00:00.000Z", cwd: project, message: { role: "user", content: "and now?" } };
fs.appendFileSync(transcript, `${JSON.stringify(line)}\n`);
await terminal.until("the new message", (lines) => lines.some((line) => line.endsWith("❯ and now?")));
terminal.press("C-c");
compare("tail", await terminal.until("the end of tail", isReady), ageless);

finish();
process.exit();
