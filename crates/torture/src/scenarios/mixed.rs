//! Everything at once: several processes append, collect, rebuild, forget, back up, examine and read
//! one ledger, and are killed in between. A model remembers which appends were acknowledged and which
//! sessions were forgotten.
//!
//! No command may report an acknowledged session missing, and `doctor` may not report damage.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::place::{Place, Run};
use crate::prng::Prng;
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

/// A command that is killed runs for less than this, in microseconds.
const LONGEST_LIFE: u64 = 60_000;

/// One of so many commands is killed.
const KILLED: u64 = 5;

fn run(setting: &Setting) -> Result<Outcome> {
    let place = Place::new(setting)?;
    let mut writer = Writer::new(&place, setting.seed)?;
    writer.lines(&place, 20)?;
    place.json(&["sync"])?;
    let model = Model::default();
    let is_over = AtomicBool::new(false);
    let commands = setting.times(14, 150);
    let results = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let (place, model, is_over) = (&place, &model, &is_over);
                let prng = Prng::new(setting.seed.wrapping_mul(WORKERS).wrapping_add(number));
                scope.spawn(move || {
                    let mut worker =
                        Worker { place, model, prng, number, said: 0, own: Vec::new() };
                    let done = worker.work(commands, is_over);
                    // One broken promise is enough.
                    if done.is_err() {
                        is_over.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        let mut written = Ok(());
        while written.is_ok() && workers.iter().any(|worker| !worker.is_finished()) {
            written = writer.piece(&place);
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut results = vec![written];
        results.extend(workers.into_iter().map(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => bail!("a worker panicked"),
        }));
        results
    });
    results.into_iter().collect::<Result<()>>()?;
    check(&place, &model)?;
    let kills = model.kills.load(Ordering::Relaxed);
    let sessions = model.sessions();
    let forgotten = sessions.values().filter(|session| session.state == State::Forgotten).count();
    let entries: usize = sessions.values().map(|session| session.entries.len()).sum();
    let what = format!(
        "{kills} kills; {entries} acknowledged entries in {} sessions, {forgotten} forgotten",
        sessions.len()
    );
    Ok(Outcome::Held { runs: WORKERS * commands, what })
}

/// Looks at everything when all is quiet.
fn check(place: &Place, model: &Model) -> Result<()> {
    place.json(&["sync"])?;
    let diagnosis = place.json(&["doctor", "--deep"]).context("at the end")?;
    ensure!(diagnosis["ok"] == true, "at the end: {diagnosis}");
    place.check_sound()?;
    place.check_restores()?;
    place.json(&["restore", "--all", "--to", "last"])?;
    let folder = place.at("last/native/agents/main/sessions");
    for (id, session) in &*model.sessions() {
        let file = folder.join(format!("{id}.jsonl"));
        if session.state == State::Forgotten {
            ensure!(!file.exists(), "{id} was forgotten and is there");
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("session {id}"))?;
        let mut texts: BTreeMap<&str, u64> = BTreeMap::new();
        let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        for line in &lines {
            if let Some(said) = line["message"]["content"].as_str() {
                *texts.entry(said).or_default() += 1;
            }
        }
        for (entry, said) in &session.entries {
            let ids = lines.iter().filter(|line| line["id"] == **entry).count();
            ensure!(ids == 1, "entry {entry} of {id} is there {ids} times");
            let times = texts.get(said.as_str()).copied().unwrap_or_default();
            ensure!(times == 1, "{said} of {id} was appended {times} times");
        }
    }
    Ok(())
}

/// What was acknowledged.
#[derive(Debug, Default)]
struct Model {
    sessions: Mutex<BTreeMap<String, Session>>,
    kills: AtomicU64,
}

#[derive(Debug, Default)]
struct Session {
    state: State,
    /// Entries by id, and what they say, which no other entry says.
    entries: Vec<(String, String)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Live,
    /// It may be there or not.
    Going,
    Forgotten,
}

impl Model {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Runs one command after another.
struct Worker<'a> {
    place: &'a Place,
    model: &'a Model,
    prng: Prng,
    number: u64,
    /// How many things it has said.
    said: u64,
    /// Sessions that it alone forgets.
    own: Vec<String>,
}

impl Worker<'_> {
    fn work(&mut self, commands: u64, is_over: &AtomicBool) -> Result<()> {
        self.make()?;
        for _ in 0..commands {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.prng.below(20) {
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
                16 => self.read(&["session", "context"])?,
                17 => self.read(&["show"])?,
                18 => self.read(&["tree"])?,
                _ => self.read(&["session", "meta"])?,
            }
        }
        Ok(())
    }

    /// Makes a session. It is not killed: its id would not be known.
    fn make(&mut self) -> Result<()> {
        let made = self.place.json(&["session", "new"])?;
        let id = made["session"].as_str().context("a session without an id")?.to_owned();
        self.model.sessions().insert(id.clone(), Session::default());
        self.own.push(id);
        Ok(())
    }

    /// Appends to a session, again with the same key if it was killed.
    fn append(&mut self) -> Result<()> {
        let Some(id) = self.pick() else { return Ok(()) };
        self.said += 1;
        let said = format!("worker {} says {}", self.number, self.said);
        let key = format!("{}-{}", self.number, self.said);
        let line = serde_json::json!({"role": "user", "content": said}).to_string();
        let arguments = ["session", "append", &id, "--key", &key];
        if self.is_killed() {
            self.kill(&arguments, &line)?;
        }
        let run = self.feed(&arguments, &line)?;
        if self.is_gone(&run, &id)? {
            return Ok(());
        }
        let answer: Value = serde_json::from_str(run.stdout.lines().next().unwrap_or_default())
            .with_context(|| format!("an append was not acknowledged: {run:?}"))?;
        let entry = answer["id"].as_str().context("an entry without an id")?.to_owned();
        if let Some(session) = self.model.sessions().get_mut(&id) {
            session.entries.push((entry, said));
        }
        Ok(())
    }

    /// Runs a command that is about no session.
    fn plain(&mut self, arguments: &[&str]) -> Result<()> {
        if self.is_killed() {
            return self.kill(arguments, "");
        }
        let run = self.place.run(arguments)?;
        ensure!(run.code == Some(0), "`quipu {}`: {run:?}", arguments.join(" "));
        Ok(())
    }

    /// Reads a session.
    fn read(&mut self, command: &[&str]) -> Result<()> {
        let Some(id) = self.pick() else { return Ok(()) };
        let run = self.place.run(&[command, &[id.as_str()]].concat())?;
        self.is_gone(&run, &id).map(|_| ())
    }

    /// Forgets one of its own sessions, for good.
    fn forget(&mut self) -> Result<()> {
        if self.own.len() < 2 {
            return self.make();
        }
        let id = self.own.remove(0);
        self.model.set(&id, State::Going);
        if self.is_killed() {
            self.kill(&["forget", &id, "--yes"], "")?;
        }
        let run = self.place.run(&["forget", &id, "--yes"])?;
        // The pages of readers that hold an older state are cleaned by the next command.
        let is_done = run.code == Some(0) || run.stderr.contains("gone from every table");
        ensure!(is_done, "`quipu forget`: {run:?}");
        self.model.set(&id, State::Forgotten);
        Ok(())
    }

    /// Whether a session was forgotten before a command about it was done. Any other failure is a
    /// broken promise.
    fn is_gone(&self, run: &Run, id: &str) -> Result<bool> {
        if run.code == Some(0) {
            return Ok(false);
        }
        ensure!(!self.model.is_live(id), "session {id} was acknowledged: {run:?}");
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
        self.prng.below(KILLED) == 0
    }

    /// Starts a command and kills it.
    fn kill(&mut self, arguments: &[&str], input: &str) -> Result<()> {
        let mut command = self.place.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.as_bytes());
        }
        std::thread::sleep(Duration::from_micros(self.prng.below(LONGEST_LIFE)));
        child.kill()?;
        child.wait()?;
        self.model.kills.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn feed(&self, arguments: &[&str], input: &str) -> Result<Run> {
        let mut command = self.place.command(arguments);
        command.stdin(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that fails early does not read it.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output()?;
        Ok(Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
