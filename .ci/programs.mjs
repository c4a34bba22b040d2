// Runs other programs for the end-to-end checks: with an environment of their own, a time limit, and
// without printing what they say, which is text of transcripts.
import { spawn } from "node:child_process";

const running = new Set();
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    for (const child of running) child.kill("SIGKILL");
    process.exit(1);
  });
}

/** Runs a program and returns its output. Another exit code than 0 is an error. */
export function run(program, args, { env, cwd, input = "", seconds = 60 }) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env: { PATH: process.env.PATH, NO_COLOR: "1", LANG: "C.UTF-8", TZ: "UTC", ...env } });
    running.add(child);
    let out = "";
    let err = 0;
    child.stdout.setEncoding("utf8").on("data", (data) => (out += data));
    child.stderr.on("data", (data) => (err += data.length));
    child.stdin.on("error", () => {}).end(input);
    const limit = setTimeout(() => child.kill("SIGKILL"), seconds * 1000);
    child.on("error", reject);
    child.on("close", (code, signal) => {
      clearTimeout(limit);
      running.delete(child);
      const name = [program.split("/").at(-1), ...args.slice(0, 3)].join(" ");
      if (code === 0) resolve(out);
      else reject(new Error(`${name}: ${signal ? `ended after ${seconds} s` : `exit code ${code}`}, ${err} bytes of errors`));
    });
  });
}

/** Returns a function that runs quipu, and returns what it prints as JSON: one value per line. */
export const asker = (quipu, env) => async (...args) => {
  const out = await run(quipu, [...args, "--json"], { env });
  return out.split("\n").filter(Boolean).map((line) => JSON.parse(line));
};

let passed = 0;
/** Notes that a check has passed. */
export const pass = (what) => {
  passed += 1;
  console.log(`ok  ${what}`);
};
/** Prints how many checks have passed. */
export const finish = () => console.log(`${passed} passed, 0 failed`);
