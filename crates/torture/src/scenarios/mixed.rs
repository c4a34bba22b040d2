//! Everything at once: several processes append, collect, rebuild, forget, back up, check and read
//! one ledger, and are killed in between. One more process rebuilds it in a loop. A model records
//! which appends were acknowledged and which sessions were forgotten.
//!
//! No command may report an acknowledged session missing, or print an answer without everything
//! that was acknowledged before it began, unless it warns that something is missing. `doctor` may
//! not report damage.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::prng::Prng;
use crate::sandbox::{Run, Sandbox};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "mixed",
    faults: "F38 F39 F46",
    what: "append, sync, rebuild, forget, backup, doctor and reads by several processes, with kills",
    run,
};

/// Processes that run at the same time.
const WORKERS: u64 = 3;

/// The longest running time of a killed command, in microseconds.
const MAX_RUN_MICROS: u64 = 60_000;

/// One of this many commands is killed.
const COMMANDS_PER_KILL: u64 = 5;

/// The number of lines in each file that are collected before the commands start, so that a rebuild
/// takes a moment.
const LINES_AT_START: u64 = 3000;

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    writer.lines(&sandbox, LINES_AT_START)?;
    sandbox.json(&["sync"])?;
    let model = Model::default();
    let is_over = AtomicBool::new(false);
    let commands = setting.times(14, 150);
    let results = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let (sandbox, model, is_over) = (&sandbox, &model, &is_over);
                let prng = Prng::new(setting.seed.wrapping_mul(WORKERS).wrapping_add(number));
                scope.spawn(move || {
                    let mut worker =
                        Worker { sandbox, model, prng, number, texts: 0, own: Vec::new() };
                    let done = worker.work(commands, is_over);
                    // One broken promise is enough.
                    if done.is_err() {
                        is_over.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        let rebuilt = scope.spawn(|| rebuild(&sandbox, &is_over));
        let mut written = Ok(());
        while written.is_ok() && workers.iter().any(|worker| !worker.is_finished()) {
            written = writer.piece(&sandbox);
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut results = vec![written];
        results.extend(workers.into_iter().map(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => bail!("a worker panicked"),
        }));
        is_over.store(true, Ordering::Relaxed);
        results.push(rebuilt.join().unwrap_or_else(|_| bail!("the rebuilding thread panicked")));
        results
    });
    results.into_iter().collect::<Result<()>>()?;
    check(&sandbox, &model)?;
    let kills = model.kills.load(Ordering::Relaxed);
    let sessions = model.sessions();
    let forgotten = sessions.values().filter(|session| session.state == State::Forgotten).count();
    let entries: usize = sessions.values().map(|session| session.entries.len()).sum();
    let [whole, partial] =
        [&model.whole, &model.partial].map(|count| count.load(Ordering::Relaxed));
    let what = format!(
        "{kills} kills; {entries} acknowledged entries in {} sessions, {forgotten} forgotten; \
         {whole} answers were complete, {partial} warned that they were not",
        sessions.len()
    );
    Ok(Outcome::Held { runs: WORKERS * commands, what })
}

/// Rebuilds the ledger in a loop.
fn rebuild(sandbox: &Sandbox, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let run = sandbox.run(&["rebuild"])?;
        ensure!(run.code == Some(0), "`quipu rebuild`: {run:?}");
    }
    Ok(())
}

/// Checks everything after all commands have ended.
fn check(sandbox: &Sandbox, model: &Model) -> Result<()> {
    sandbox.json(&["sync"])?;
    let diagnosis = sandbox.json(&["doctor", "--deep"]).context("at the end")?;
    ensure!(diagnosis["is_ok"] == true, "at the end: {diagnosis}");
    sandbox.check_sound()?;
    sandbox.check_restores()?;
    sandbox.json(&["restore", "--all", "--to", "last"])?;
    let folder = sandbox.at("last/native/agents/main/sessions");
    for (id, session) in &*model.sessions() {
        let file = folder.join(format!("{id}.jsonl"));
        if session.state == State::Forgotten {
            ensure!(!file.exists(), "{id} was forgotten but exists");
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("session {id}"))?;
        let mut texts: BTreeMap<&str, u64> = BTreeMap::new();
        let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        for line in &lines {
            if let Some(text) = line["message"]["content"].as_str() {
                *texts.entry(text).or_default() += 1;
            }
        }
        for (entry, text) in &session.entries {
            let ids = lines.iter().filter(|line| line["id"] == **entry).count();
            ensure!(ids == 1, "entry {entry} of {id} exists {ids} times");
            let times = texts.get(text.as_str()).copied().unwrap_or_default();
            ensure!(times == 1, "{text} of {id} was appended {times} times");
        }
    }
    Ok(())
}

/// The acknowledged appends and sessions.
#[derive(Debug, Default)]
struct Model {
    sessions: Mutex<BTreeMap<String, Session>>,
    kills: AtomicU64,
    /// The number of complete answers.
    whole: AtomicU64,
    /// The number of answers with a warning that something is missing.
    partial: AtomicU64,
}

#[derive(Debug, Default)]
struct Session {
    state: State,
    /// Entries by id, and their texts, which are unique.
    entries: Vec<(String, String)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Live,
    /// The session may exist or not.
    Going,
    Forgotten,
}

impl Model {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the texts that were appended to a session so far.
    fn texts(&self, id: &str) -> Vec<String> {
        let sessions = self.sessions();
        let entries = sessions.get(id).map(|session| session.entries.iter());
        entries.into_iter().flatten().map(|(_, text)| text.clone()).collect()
    }

    fn is_live(&self, id: &str) -> bool {
        self.sessions().get(id).is_some_and(|session| session.state == State::Live)
    }

    fn set(&self, id: &str, state: State) {
        if let Some(session) = self.sessions().get_mut(id) {
            session.state = state;
        }
    }
}

/// The texts that an answer must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Every text of the session.
    Texts,
    /// The last text, once.
    One,
    /// A count of messages that is not below the number of texts.
    Count,
    /// The session's id.
    Listed,
}

/// Builds the arguments of a command from a session id and the last text of the session.
type Arguments<'a> = dyn Fn(&str, &str) -> Vec<String> + 'a;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns whether a command failed because the projection is incomplete.
fn is_behind(run: &Run) -> bool {
    run.code == Some(2) && run.stderr.contains("are being rebuilt")
}

/// Runs one command after another.
struct Worker<'a> {
    sandbox: &'a Sandbox,
    model: &'a Model,
    prng: Prng,
    number: u64,
    /// The number of texts appended so far.
    texts: u64,
    /// Sessions that only this worker forgets.
    own: Vec<String>,
}

impl Worker<'_> {
    fn work(&mut self, commands: u64, is_over: &AtomicBool) -> Result<()> {
        self.make()?;
        for _ in 0..commands {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.prng.below(24) {
                0 => self.make()?,
                1..=7 => self.append()?,
                8 | 9 => self.plain(&["sync"])?,
                10 => self.plain(&["rebuild"])?,
                11 => self.forget()?,
                12 => {
                    let copy = format!("copy-{}.db", self.number);
                    self.plain(&["backup", &copy, "--force"])?;
                }
                13 => self.plain(&["doctor"])?,
                14 => self.plain(&["doctor", "--deep"])?,
                15 => self.read(&["session", "leaf"])?,
                16 => self.read(&["tree"])?,
                17 => self.read(&["session", "meta"])?,
                18 => self.compare(Answer::Texts, &|id, _| words(&["session", "context", id]))?,
                19 => self.compare(Answer::Texts, &|id, _| words(&["show", id, "--full"]))?,
                20 => {
                    let jsonl = |id: &str, _: &str| words(&["export", id, "--format", "jsonl"]);
                    self.compare(Answer::Texts, &jsonl)?;
                }
                21 => self.compare(Answer::One, &|_, last| words(&["search", "--exact", last]))?,
                22 => self.compare(Answer::Count, &|id, _| {
                    let query =
                        format!("SELECT messages AS n FROM sessions WHERE session_id = '{id}'");
                    words(&["sql", &query])
                })?,
                _ => self.compare(Answer::Listed, &|_, _| words(&["sessions", "--all"]))?,
            }
        }
        Ok(())
    }

    /// Creates a session. It is not killed, because its id would be unknown.
    fn make(&mut self) -> Result<()> {
        let made = self.sandbox.json(&["session", "new"])?;
        let id = made["session_id"].as_str().context("a session without an id")?.to_owned();
        self.model.sessions().insert(id.clone(), Session::default());
        self.own.push(id);
        Ok(())
    }

    /// Appends to a session, and repeats it with the same key if it was killed.
    fn append(&mut self) -> Result<()> {
        let Some(id) = self.pick() else { return Ok(()) };
        self.texts += 1;
        let text = format!("worker {} text {}.", self.number, self.texts);
        let key = format!("{}-{}", self.number, self.texts);
        let line = serde_json::json!({"role": "user", "content": text}).to_string();
        let arguments = ["session", "append", &id, "--key", &key];
        if self.is_killed() {
            self.kill(&arguments, &line)?;
        }
        let run = self.sandbox.feed(&arguments, &line)?;
        if self.has_failed(&run, &id)? {
            return Ok(());
        }
        let answer: Value = serde_json::from_str(run.stdout.lines().next().unwrap_or_default())
            .with_context(|| format!("an append was not acknowledged: {run:?}"))?;
        let entry = answer["id"].as_str().context("an entry without an id")?.to_owned();
        if let Some(session) = self.model.sessions().get_mut(&id) {
            session.entries.push((entry, text));
        }
        Ok(())
    }

    /// Runs a command without a session.
    fn plain(&mut self, arguments: &[&str]) -> Result<()> {
        if self.is_killed() {
            return self.kill(arguments, "");
        }
        let run = self.sandbox.run(arguments)?;
        ensure!(run.code == Some(0), "`quipu {}`: {run:?}", arguments.join(" "));
        Ok(())
    }

    /// Reads a session.
    fn read(&mut self, command: &[&str]) -> Result<()> {
        let Some(id) = self.pick() else { return Ok(()) };
        let run = self.sandbox.run(&[command, &[id.as_str()]].concat())?;
        self.has_failed(&run, &id).map(|_| ())
    }

    /// Compares the output of a command with what was acknowledged before.
    fn compare(&mut self, answer: Answer, arguments: &Arguments<'_>) -> Result<()> {
        let Some(id) = self.pick() else { return Ok(()) };
        let texts = self.model.texts(&id);
        let Some(last) = texts.last() else { return Ok(()) };
        let mut arguments = arguments(&id, last);
        if !arguments.iter().any(|argument| argument == "export") {
            arguments.push("--json".to_owned());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let run = self.sandbox.run(&arguments)?;
        let is_partial = run.stderr.contains("not in the readable tables yet") || is_behind(&run);
        let count = if is_partial { &self.model.partial } else { &self.model.whole };
        count.fetch_add(1, Ordering::Relaxed);
        if is_partial || !self.model.is_live(&id) {
            return Ok(());
        }
        let has = match answer {
            Answer::Texts => texts.iter().all(|text| run.stdout.contains(&format!("\"{text}\""))),
            Answer::One => run.stdout.lines().count() == 1,
            Answer::Count => {
                let line: Value = serde_json::from_str(run.stdout.lines().next().unwrap_or("{}"))?;
                line["n"].as_u64().is_some_and(|count| count >= texts.len() as u64)
            }
            Answer::Listed => run.stdout.contains(&id),
        };
        ensure!(has && run.code == Some(0), "session {id} has {texts:?}; {arguments:?}: {run:?}");
        Ok(())
    }

    /// Forgets one of its own sessions.
    fn forget(&mut self) -> Result<()> {
        if self.own.len() < 2 {
            return self.make();
        }
        let id = self.own.remove(0);
        self.model.set(&id, State::Going);
        if self.is_killed() {
            self.kill(&["forget", &id, "--yes"], "")?;
        }
        let run = self.sandbox.run(&["forget", &id, "--yes"])?;
        // Pages of readers with an older snapshot are cleaned by the next command.
        let is_done = run.code == Some(0) || run.stderr.contains("gone from every table");
        ensure!(is_done, "`quipu forget`: {run:?}");
        self.model.set(&id, State::Forgotten);
        Ok(())
    }

    /// Returns whether a command failed because its session was forgotten or the projection is
    /// incomplete. Any other failure is a broken promise.
    fn has_failed(&self, run: &Run, id: &str) -> Result<bool> {
        if run.code == Some(0) {
            return Ok(false);
        }
        ensure!(
            is_behind(run) || !self.model.is_live(id),
            "session {id} was acknowledged: {run:?}"
        );
        Ok(true)
    }

    fn pick(&mut self) -> Option<String> {
        let sessions = self.model.sessions();
        let live: Vec<&String> = sessions
            .iter()
            .filter(|(_, session)| session.state == State::Live)
            .map(|(id, _)| id)
            .collect();
        let choice = self.prng.below(live.len() as u64) as usize;
        live.get(choice).map(|id| (*id).clone())
    }

    fn is_killed(&mut self) -> bool {
        self.prng.below(COMMANDS_PER_KILL) == 0
    }

    /// Starts a command and kills it.
    fn kill(&mut self, arguments: &[&str], input: &str) -> Result<()> {
        let mut command = self.sandbox.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.as_bytes());
        }
        std::thread::sleep(Duration::from_micros(self.prng.below(MAX_RUN_MICROS)));
        child.kill()?;
        child.wait()?;
        self.model.kills.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
