//! A program as a model: the prompt on its standard input, the answer on its standard output.
//!
//! It runs in its own process group. All processes of the group are killed when the program exits,
//! takes too long or prints too much, and when a signal ends quipu: Ctrl-C in a terminal does not
//! reach other groups. Its standard error is quipu's.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use quipu_ledger::store::{MAX_SUMMARY_BYTES, Summariser};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{Asks, Model};
use crate::config::SummariserConfig;
use crate::error::{CommandError, Result};
use crate::stopping;

/// The group of the program that runs now.
static RUNNING: Mutex<Option<Pid>> = Mutex::new(None);

/// The time that a program has, unless the configuration sets another.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// The time to wait for the end of the output after the group was killed. Only a process that left
/// the group can keep it open longer.
const GRACE: Duration = Duration::from_secs(2);

struct Program {
    words: Vec<String>,
    timeout: Duration,
}

pub(super) fn make(config: &SummariserConfig) -> Result<Box<dyn Summariser>> {
    if config.command.is_empty() {
        return Err(CommandError::new("the summariser `command` has no program")
            .hint("write `command = [\"program\", \"argument\"]` below `[store.compaction]`"));
    }
    let timeout = config.timeout_seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let program = Program { words: config.command.clone(), timeout };
    Ok(Box::new(Asks::new(program, config)))
}

impl Model for Program {
    fn name(&self) -> &'static str {
        "command"
    }

    fn ask(&self, prompt: &str, _max_tokens: u64) -> Result<String, String> {
        self.run(prompt.as_bytes().to_owned())
    }
}

impl Program {
    fn run(&self, input: Vec<u8>) -> Result<String, String> {
        let (program, arguments) = self.words.split_first().ok_or("there is no program")?;
        end_with_quipu();
        // A signal waits until the group is known.
        let mut group = running();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot run `{program}`: {error}"))?;
        *group = pid(&child);
        drop(group);
        let until = Instant::now() + self.timeout;
        let output = start_reading(&mut child, input);
        let is_ended = wait(&child, until);
        let mut printed = None;
        if !is_ended {
            // It may hang because it has printed too much, and nothing reads the rest.
            printed = output.try_recv().ok();
        }
        end_group();
        let status =
            child.wait().map_err(|error| format!("cannot wait for `{program}`: {error}"))?;
        let printed = match printed {
            Some(printed) => printed,
            None => output.recv_timeout(GRACE).map_err(|_| "its output did not end".to_owned())?,
        };
        if printed.len() > MAX_SUMMARY_BYTES {
            return Err(format!("it printed more than {MAX_SUMMARY_BYTES} bytes"));
        }
        if !is_ended {
            return Err(format!("no answer after {} seconds", self.timeout.as_secs()));
        }
        if !status.success() {
            return Err(status.to_string());
        }
        String::from_utf8(printed).map_err(|_| "it printed text that is not UTF-8".to_owned())
    }
}

/// Writes the input and reads the output in threads. The receiver gets the whole output, or one
/// byte more than the limit.
fn start_reading(child: &mut Child, input: Vec<u8>) -> mpsc::Receiver<Vec<u8>> {
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read its input.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut printed = Vec::new();
            let _ = stdout.take(MAX_SUMMARY_BYTES as u64 + 1).read_to_end(&mut printed);
            drop(sender.send(printed));
        });
    }
    receiver
}

/// Waits until the program has exited, without reaping it: its id still names its group. Returns
/// false if it takes too long.
fn wait(child: &Child, until: Instant) -> bool {
    let (sender, receiver) = mpsc::channel();
    let pid = pid(child);
    thread::spawn(move || {
        if let Some(pid) = pid {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
        }
        let _ = sender.send(());
    });
    receiver.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
}

/// Makes a signal that ends quipu end the program's group too.
fn end_with_quipu() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // If that fails, the program may run on after quipu was ended.
        let _ = stopping::before_end(end_group);
    });
}

fn running() -> MutexGuard<'static, Option<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all processes of the program's group. The program was not reaped yet, so its id still names
/// its group.
fn end_group() {
    if let Some(pid) = running().take() {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}
