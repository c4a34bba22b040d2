// A person at a terminal, for the end-to-end checks: types into a shell in tmux and reads the screen.
import { execFileSync } from "node:child_process";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The time in ms until a program that is started in a busy machine has drawn its screen. */
const PATIENCE = 60_000;

export class Terminal {
  /** Starts a program in a terminal. */
  constructor(socket, program, { env, cwd, columns = 80, rows = 100 }) {
    this.socket = socket;
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    this.#tmux("-f", "/dev/null", "new-session", "-d", "-x", `${columns}`, "-y", `${rows}`, "-c", cwd,
      "--", "env", "-i", ...variables, "TERM=screen-256color", ...program);
  }

  #tmux(...args) {
    return execFileSync("tmux", ["-S", this.socket, ...args], { encoding: "utf8" });
  }

  /** Types text, without Return. */
  type(text) {
    this.#tmux("send-keys", "-l", "--", text);
  }

  /** Presses a key: Enter, Tab, C-c. */
  press(key) {
    this.#tmux("send-keys", key);
  }

  /** Changes the width. */
  resize(columns) {
    this.#tmux("resize-window", "-x", `${columns}`);
  }

  /** Returns the lines on the screen, with their colours if wanted. */
  lines(...options) {
    const lines = this.#tmux("capture-pane", "-p", "-J", ...options).split("\n").map((line) => line.trimEnd());
    return lines.slice(0, lines.findLastIndex((line) => line !== "") + 1);
  }

  /** Waits until the screen is as `is` wants it, and returns its lines. */
  async until(what, is) {
    for (const begun = Date.now(); Date.now() - begun < PATIENCE; await sleep(50)) {
      const lines = this.lines();
      if (is(lines)) return lines;
    }
    throw new Error(`${what}: not on the screen\n${this.lines().join("\n")}`);
  }

  close() {
    this.#tmux("kill-server");
  }
}
