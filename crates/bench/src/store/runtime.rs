//! A runtime that appends through `quipu session append` and waits for each answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::measure::Workplace;

/// The number of words of a typical message.
const MESSAGE_WORDS: usize = 120;

/// A running `quipu session append`.
pub(crate) struct Runtime {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    answer: String,
}

impl Runtime {
    /// Creates a session and starts a process that appends to it.
    pub(super) fn start(place: &Workplace) -> Result<Runtime> {
        Runtime::of(place, &Runtime::session(place)?, &[])
    }

    /// Creates a session. Returns its id.
    pub(crate) fn session(place: &Workplace) -> Result<String> {
        let made = place.quipu(&["session", "new"])?;
        Ok(String::from_utf8(made.stdout)?.trim().to_owned())
    }

    /// Starts a process that appends to `session`, with the given command-line options. Appends a
    /// first message.
    pub(crate) fn of(place: &Workplace, session: &str, options: &[&str]) -> Result<Runtime> {
        let mut command = place.command(&["session", "append", session]);
        command.args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start quipu")?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the child has no stdout")?;
        let mut runtime =
            Runtime { child, input, output: BufReader::new(output), answer: String::new() };
        // The first append waits for the process to start, so its time is not measured.
        runtime.append(&message(0))?;
        Ok(runtime)
    }

    /// Appends a line and waits until it is on disk. Returns the time from writing the line to
    /// reading the answer.
    pub(crate) fn append(&mut self, line: &str) -> Result<Duration> {
        let started = Instant::now();
        let input = self.input.as_mut().context("the runtime has ended")?;
        input.write_all(line.as_bytes())?;
        input.flush()?;
        self.answer.clear();
        self.output.read_line(&mut self.answer)?;
        let took = started.elapsed();
        let answer: Value = serde_json::from_str(&self.answer)
            .with_context(|| format!("`quipu session append` answered {:?}", self.answer))?;
        ensure!(answer["id"].is_string(), "`quipu session append` answered {answer}");
        Ok(took)
    }

    /// Closes the input and waits for the process to exit. Fails if its exit code is not 0.
    pub(crate) fn end(mut self) -> Result<()> {
        drop(self.input.take());
        ensure!(self.child.wait()?.success(), "`quipu session append` failed");
        Ok(())
    }
}

/// Returns a message of about 730 bytes, with its newline.
pub(crate) fn message(number: usize) -> String {
    let words: Vec<String> = (0..MESSAGE_WORDS)
        .map(|word| format!("w{}", (number * 7919 + word * 104_729) % 5000))
        .collect();
    let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
    format!("{}\n", serde_json::json!({"role": role, "content": words.join(" ")}))
}
