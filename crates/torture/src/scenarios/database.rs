//! A database of OpenClaw: its program ends while it is read, the last row of a session is replaced
//! under the same number, and the files beside it are pipes, devices and folders.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use rusqlite::{Connection, params};
use rustix::fs::{CWD, Mode};

use super::sources::{NOT_FILES, NotAFile, create, plant, run_within, unplant};
use crate::sandbox::{Run, Sandbox, files};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "database",
    faults: "A70 A72",
    what: "OpenClaw's database: its program ends meanwhile, replaced rows, pipes as companions",
    run,
};

const DATABASE: &str = ".openclaw/agents/main/agent/openclaw-agent.sqlite";

/// The tables of version 23, without types.
const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA user_version = 23;
    CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd, event_utf8_bytes);
    CREATE TABLE transcript_rewrite_watermarks (session_id TEXT PRIMARY KEY, generation TEXT);
    INSERT INTO transcript_rewrite_watermarks VALUES ('rows', 'a')";

/// The program that writes the database.
struct Program<'s> {
    sandbox: &'s Sandbox,
    /// The rows of the session.
    rows: i64,
    /// The number of the newest text.
    texts: u64,
    /// The time of the fastest sync: the program ends before that.
    fastest: Duration,
}

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    writer.lines(&sandbox, 5)?;
    rustix::fs::mkfifoat(CWD, sandbox.at("pipe"), Mode::RWXU)?;
    create(&sandbox.home().join(DATABASE), "")?;
    let mut program = Program { sandbox: &sandbox, rows: 0, texts: 0, fastest: Duration::MAX };
    program.open()?.execute_batch(TABLES)?;
    program.check()?;
    let (mut ends, mut during, mut replaced, mut companions) = (0, 0, 0, 0);
    for _ in 0..setting.times(8, 200) {
        let conn = program.open()?;
        for _ in 0..1 + writer.below(100) {
            program.add(&conn)?;
        }
        let delay = Duration::from_micros(writer.below(program.fastest.as_micros() as u64));
        during += u64::from(program.end(conn, delay).context("its program ended")?);
        program.check()?;
        ends += 1;
    }
    for _ in 0..setting.times(3, 100) {
        let conn = program.open()?;
        program.replace(&conn)?;
        drop(conn);
        program.check().context("the last row was replaced")?;
        replaced += 1;
    }
    for odd in NOT_FILES {
        for suffix in ["-journal", "-wal", "-shm"] {
            let about = || format!("{odd:?} as {suffix}");
            program.companion(odd, suffix).with_context(about)?;
            companions += 1;
        }
    }
    ensure!(during > 0, "every sync was done before the program ended");
    // What was collected stays without the database. Its rows are lines of a restored file.
    fs::remove_file(sandbox.home().join(DATABASE))?;
    sandbox.json(&["sync"])?;
    program.check_texts()?;
    sandbox.check(writer.complete() + program.texts)?;
    let what = format!(
        "{ends} ends ({during} during a sync), {replaced} replaced rows, {companions} companions; \
         {} rows, each kept",
        program.texts
    );
    Ok(Outcome::Held { runs: ends + replaced + companions, what })
}

impl Program<'_> {
    fn path(&self) -> PathBuf {
        self.sandbox.home().join(DATABASE)
    }

    fn open(&self) -> Result<Connection> {
        Ok(Connection::open(self.path())?)
    }

    /// Returns a new message.
    fn event(&mut self) -> String {
        self.texts += 1;
        let text = format!("{} {}", text(self.texts), "word ".repeat(50));
        format!(
            "{{\"type\":\"message\",\"id\":\"{:08x}\",\"parentId\":null,\
             \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}",
            self.texts
        )
    }

    fn add(&mut self, conn: &Connection) -> Result<()> {
        let (row, event) = (self.rows, self.event());
        self.rows += 1;
        conn.execute(
            "INSERT INTO transcript_events (session_id, seq, event_json) VALUES ('rows', ?1, ?2)",
            params![row, event],
        )?;
        Ok(())
    }

    /// Replaces the last row under its number.
    fn replace(&mut self, conn: &Connection) -> Result<()> {
        let event = self.event();
        conn.execute(
            "UPDATE transcript_events SET event_json = ?2 WHERE seq = ?1",
            params![self.rows - 1, event],
        )?;
        Ok(())
    }

    /// Closes the database while a sync reads it, and checks that its files are as SQLite left
    /// them. Returns whether the sync was still running.
    fn end(&self, conn: Connection, delay: Duration) -> Result<bool> {
        let mut child = self.sandbox.command(&["sync"]).spawn()?;
        std::thread::sleep(delay);
        conn.close().map_err(|(_, error)| error)?;
        let left = self.listing()?;
        let is_during = child.try_wait()?.is_none();
        let run = Run::from(child.wait_with_output()?);
        ensure!(run.code == Some(0), "{run:?}");
        ensure!(left.len() == 1, "its log was not removed: {left:?}");
        ensure!(self.listing()? == left, "its files were changed");
        Ok(is_during)
    }

    /// Returns the files beside the database, with sizes and times. None is opened: that would end
    /// the locks of this process.
    fn listing(&self) -> Result<BTreeMap<OsString, (u64, SystemTime)>> {
        let path = self.path();
        let folder = fs::read_dir(path.parent().context("a folder")?)?;
        folder
            .map(|entry| {
                let entry = entry?;
                let metadata = entry.metadata()?;
                Ok((entry.file_name(), (metadata.len(), metadata.modified()?)))
            })
            .collect()
    }

    /// Syncs, and checks that every text is stored, even if it was replaced.
    fn check(&mut self) -> Result<()> {
        let began = Instant::now();
        self.sandbox.json(&["sync"])?;
        self.fastest = self.fastest.min(began.elapsed());
        self.check_texts()
    }

    fn check_texts(&self) -> Result<()> {
        let to = self.sandbox.at("rows");
        self.sandbox.json(&["restore", "--all", "--generation", "all", "--to", "rows"])?;
        let stored: Vec<u8> = files(&to)?.into_values().flatten().collect();
        let stored = String::from_utf8_lossy(&stored);
        for number in 1..=self.texts {
            ensure!(stored.contains(&text(number)), "row text {number} is not stored");
        }
        Ok(fs::remove_dir_all(&to)?)
    }

    /// Adds a row, and puts something other than a file beside the database.
    fn companion(&mut self, odd: NotAFile, suffix: &str) -> Result<()> {
        let conn = self.open()?;
        self.add(&conn)?;
        drop(conn);
        let at = self.sandbox.home().join(format!("{DATABASE}{suffix}"));
        plant(self.sandbox, odd, &at)?;
        let held = self.check_companion(suffix);
        unplant(&at)?;
        held?;
        self.check()
    }

    /// Checks that no command waits, and that the newest row is read or the reason reported.
    fn check_companion(&self, suffix: &str) -> Result<()> {
        let mut is_reported = true;
        for command in ["sync", "status", "doctor"] {
            let run = run_within(self.sandbox, &[command, "--json"])?;
            is_reported &= run.stdout.contains(&format!("the {suffix} file beside it"));
        }
        let found = run_within(self.sandbox, &["search", "--exact", &text(self.texts)])?;
        ensure!(is_reported || found.code == Some(0), "neither read nor reported: {found:?}");
        Ok(())
    }
}

/// Returns a word that is part of no other one.
fn text(number: u64) -> String {
    format!("row{number}end")
}
