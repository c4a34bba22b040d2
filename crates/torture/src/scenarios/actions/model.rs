//! A home whose files change at random, and what its ledger must restore.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};

use crate::Setting;
use crate::prng::Prng;
use crate::sandbox::{Sandbox, files};

const CLAUDE: &str = ".claude/projects/-home-alice-shop";
const OPENCLAW: &str = ".openclaw/agents/main/sessions";

/// Files of each agent. Renames and copies stay within one agent.
const FILES_PER_AGENT: u64 = 4;

/// Complete syncs between two checks of everything that was ever stored.
const SYNCS_PER_HISTORY: u64 = 20;

/// The longest running time of a killed process, in microseconds.
const MAX_RUN_MICROS: u64 = 40_000;

/// Bytes at the beginning of a file that quipu compares before it reads new lines.
const HEAD_BYTES: usize = 1024;

/// Bytes before the cursor that quipu compares before it reads new lines.
const MARKER_BYTES: usize = 256;

/// A home, its ledger, and what that ledger must contain.
pub(super) struct Model {
    sandbox: Sandbox,
    prng: Prng,
    /// The number of lines made so far. Each line is unique.
    lines: u64,
    /// The number of file times set so far. Each time is new.
    ticks: u64,
    /// By inode, the contents that quipu may have read last: at the last complete sync, or at a
    /// killed one.
    read: BTreeMap<u64, Vec<Vec<u8>>>,
    /// The contents that a file had at any complete sync.
    stored: Vec<Vec<u8>>,
    pub(super) killed: u64,
    pub(super) actions: u64,
}

impl Model {
    pub(super) fn new(setting: &Setting, seed: u64) -> Result<Model> {
        let sandbox = Sandbox::new(setting)?;
        fs::create_dir_all(sandbox.home().join(CLAUDE))?;
        fs::create_dir_all(sandbox.home().join(OPENCLAW))?;
        Ok(Model {
            sandbox,
            prng: Prng::new(seed),
            lines: 0,
            ticks: 0,
            read: BTreeMap::new(),
            stored: Vec::new(),
            killed: 0,
            actions: 0,
        })
    }

    /// Acts and syncs `syncs` times, and checks after each complete sync.
    pub(super) fn run(&mut self, syncs: u64) -> Result<()> {
        for number in 1..=syncs {
            for _ in 0..self.prng.below(6) {
                self.act()?;
            }
            self.make_visible()?;
            match self.prng.below(5) {
                0 | 1 if number < syncs => self.killed_sync()?,
                _ => self.sync()?,
            }
            if number % SYNCS_PER_HISTORY == 0 {
                self.check_history()?;
            }
        }
        self.check_history()
    }

    fn path(&self, file: u64) -> PathBuf {
        self.sandbox.home().join(name(file))
    }

    fn line(&mut self, file: u64) -> Vec<u8> {
        self.lines += 1;
        let (id, words) = (self.lines, "word ".repeat(self.prng.below(40) as usize));
        let session = file;
        let line = if is_claude(file) {
            format!(
                "{{\"parentUuid\":null,\"isSidechain\":false,\"cwd\":\"/home/alice/shop\",\
                 \"sessionId\":\"{session:08x}-d010-4b20-a591-b7172ef08e66\",\"type\":\"user\",\
                 \"message\":{{\"role\":\"user\",\"content\":\"unique{id} {words}\"}},\
                 \"uuid\":\"{id:08x}-0000-4000-8000-000000000000\",\
                 \"timestamp\":\"2026-01-12T10:30:00.000Z\"}}\n"
            )
        } else {
            format!(
                "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,\
                 \"timestamp\":1770193116233,\
                 \"message\":{{\"role\":\"user\",\"content\":\"unique{id} {words}\"}}}}\n"
            )
        };
        line.into_bytes()
    }

    /// Changes or creates one file.
    fn act(&mut self) -> Result<()> {
        self.actions += 1;
        let file = self.prng.below(2 * FILES_PER_AGENT);
        let path = self.path(file);
        let Ok(old) = fs::read(&path) else {
            let line = self.line(file);
            fs::write(&path, line)?;
            return self.tick(&path);
        };
        match self.prng.below(20) {
            0..=5 => {
                for _ in 0..=self.prng.below(8) {
                    let line = self.line(file);
                    append(&path, &line)?;
                }
            }
            6..=8 => {
                let line = self.line(file);
                let cut = self.prng.below(line.len() as u64 + 1) as usize;
                append(&path, line.get(..cut).unwrap_or_default())?;
            }
            9 | 10 => {
                let length = self.prng.below(old.len() as u64 + 1);
                OpenOptions::new().write(true).open(&path)?.set_len(length)?;
            }
            11..=13 => {
                let bytes = self.changed(file, &old);
                self.replace(&path, &bytes)?;
            }
            14..=16 => {
                let bytes = self.changed(file, &old);
                fs::write(&path, bytes)?;
            }
            17 => return Ok(fs::remove_file(&path)?),
            18 => {
                let other = self.neighbour(file);
                return Ok(fs::rename(&path, self.path(other))?);
            }
            _ => {
                let other = self.neighbour(file);
                let path = self.path(other);
                fs::write(&path, old)?;
                return self.tick(&path);
            }
        }
        self.tick(&path)
    }

    /// Returns another file of the same agent.
    fn neighbour(&mut self, file: u64) -> u64 {
        let first = file - file % FILES_PER_AGENT;
        first + (file + 1 + self.prng.below(FILES_PER_AGENT - 1)) % FILES_PER_AGENT
    }

    /// Returns what an agent might write instead of `old`.
    fn changed(&mut self, file: u64, old: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> =
            old.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let new = self.line(file);
        let at = self.prng.below(lines.len() as u64) as usize;
        match self.prng.below(7) {
            0 => lines.truncate(lines.len() / 2),
            1 => lines.push(new),
            2 => {}
            3 if at < lines.len() => lines[at] = new,
            4 => lines.insert(at, new),
            5 if at < lines.len() => drop(lines.remove(at)),
            _ => lines = (0..6).map(|_| self.line(file)).collect(),
        }
        lines.concat()
    }

    /// Renames another file over it.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let other = self.sandbox.at("replacement");
        fs::write(&other, bytes)?;
        Ok(fs::rename(other, path)?)
    }

    /// Sets a file time that was not used before, because clocks are coarse.
    fn tick(&mut self, path: &Path) -> Result<()> {
        self.ticks += 1;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + self.ticks);
        Ok(File::options().write(true).open(path)?.set_modified(time)?)
    }

    /// Replaces files whose change quipu cannot detect: an edit in the middle together with an
    /// append (docs/reliability.md, "Not promised").
    fn make_visible(&mut self) -> Result<()> {
        for file in 0..2 * FILES_PER_AGENT {
            let path = self.path(file);
            let Ok(now) = fs::read(&path) else { continue };
            let inode = fs::metadata(&path)?.ino();
            let before = self.read.get(&inode).map(Vec::as_slice).unwrap_or_default();
            if before.iter().any(|then| is_hidden(then, &now)) {
                self.replace(&path, &now)?;
                self.tick(&path)?;
            }
        }
        Ok(())
    }

    /// Starts a sync or a rebuild and kills it at a random time.
    fn killed_sync(&mut self) -> Result<()> {
        let task = if self.prng.below(8) == 0 { "rebuild" } else { "sync" };
        let mut child = self.sandbox.command(&[task]).spawn()?;
        std::thread::sleep(Duration::from_micros(self.prng.below(MAX_RUN_MICROS)));
        child.kill()?;
        child.wait()?;
        self.killed += 1;
        for (inode, bytes) in self.contents()?.into_values() {
            self.read.entry(inode).or_default().push(bytes);
        }
        Ok(())
    }

    /// Syncs, and compares every file with its restored copy.
    fn sync(&mut self) -> Result<()> {
        self.sandbox.json(&["sync"])?;
        let restored = self.restored(&[])?;
        self.read.clear();
        for (file, (inode, bytes)) in self.contents()? {
            let name = name(file).replacen(".claude", "claude-code", 1).replacen(
                ".openclaw",
                "openclaw",
                1,
            );
            let found = restored.get(Path::new(&name));
            ensure!(found == Some(&bytes), "{name} was not restored");
            self.read.entry(inode).or_default().push(bytes.clone());
            self.stored.push(bytes);
        }
        Ok(())
    }

    /// Checks that everything ever stored is still there, and that nothing is read twice.
    fn check_history(&mut self) -> Result<()> {
        self.make_visible()?;
        self.sync()?;
        let again = self.sandbox.json(&["sync"])?;
        ensure!(again["bytes_read"] == 0 && again["records_added"] == 0, "read again: {again}");
        let generations = self.restored(&["--generation", "all"])?;
        for stored in &self.stored {
            let is_kept = generations.values().any(|bytes| bytes.starts_with(stored));
            ensure!(is_kept, "an earlier content of a file is lost ({} B)", stored.len());
        }
        self.sandbox.check_sound()
    }

    fn restored(&self, options: &[&str]) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let to = self.sandbox.at("restored");
        let command = ["restore", "--all", "--to", "restored"];
        // A ledger without a source has nothing to restore.
        let run = self.sandbox.run(&[&command[..], options].concat())?;
        ensure!(matches!(run.code, Some(0 | 1)), "restore failed: {run:?}");
        let found = files(&to)?;
        let _ = fs::remove_dir_all(to);
        Ok(found)
    }

    /// Returns inode and contents of each existing file.
    fn contents(&self) -> Result<BTreeMap<u64, (u64, Vec<u8>)>> {
        let mut contents = BTreeMap::new();
        for file in 0..2 * FILES_PER_AGENT {
            let path = self.path(file);
            let Ok(bytes) = fs::read(&path) else { continue };
            let inode = fs::metadata(&path).context("cannot stat a file that was just read")?.ino();
            contents.insert(file, (inode, bytes));
        }
        Ok(contents)
    }
}

fn is_claude(file: u64) -> bool {
    file < FILES_PER_AGENT
}

fn name(file: u64) -> String {
    if is_claude(file) {
        format!("{CLAUDE}/{file:08x}-d010-4b20-a591-b7172ef08e66.jsonl")
    } else {
        format!("{OPENCLAW}/session-{file}.jsonl")
    }
}

/// Returns whether a file changed from `then` to `now` but looks as if it had only grown.
fn is_hidden(then: &[u8], now: &[u8]) -> bool {
    let ends = |bytes: &[u8]| {
        let head = bytes.get(..then.len().min(HEAD_BYTES)).map(<[u8]>::to_vec);
        let marker =
            bytes.get(then.len().saturating_sub(MARKER_BYTES)..then.len()).map(<[u8]>::to_vec);
        (head, marker)
    };
    now.len() > then.len() && !now.starts_with(then) && ends(now) == ends(then)
}

fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(OpenOptions::new().append(true).open(path)?.write_all(bytes)?)
}
