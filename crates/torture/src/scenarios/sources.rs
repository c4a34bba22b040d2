//! Folders of agents with traps: hard links to files with secrets, pipes and devices in the place of
//! files, and a folder that is swapped for a link out of its root.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{CWD, Mode, RenameFlags};

use crate::sandbox::{Run, Sandbox, files};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "sources",
    faults: "A68 A73 A94",
    what: "hard links to secrets, pipes and devices as files, and folders swapped for links",
    run,
};

/// A word that must reach neither the ledger nor any output.
const CANARY: &str = "canary";

/// Limit for the time of a command. One that does not wait for anything takes far less.
const MAX_COMMAND_TIME: Duration = Duration::from_secs(60);

/// Files with secrets in a home.
const SECRETS: [&str; 7] = [
    ".openclaw/agents/main/agent/auth-profiles.json",
    ".openclaw/credentials/whatsapp/creds.json",
    ".openclaw/openclaw.json",
    ".openclaw-dev/credentials/token.json",
    ".claude/.credentials.json",
    ".claude.json",
    ".ssh/id_ed25519",
];

/// Paths that formats claim.
const CLAIMED: [&str; 7] = [
    ".openclaw/agents/main/sessions/trap.jsonl",
    ".openclaw/agents/main/sessions/trap.jsonl.reset.2026-01-01T00-00-00.000Z",
    ".openclaw/agents/main/sessions/sessions.json",
    ".openclaw/agents/main/agent/openclaw-agent.sqlite",
    ".openclaw/workspace/MEMORY.md",
    ".openclaw/cron/jobs.json",
    ".claude/projects/-home-alice-shop/00000009-d010-4b20-a591-b7172ef08e66.jsonl",
];

/// Files of the ledger, and a configuration, in the folder of the ledger.
const OWN: [&str; 4] = ["ledger.db-journal", "ledger.db-wal", "ledger.db-shm", "config.toml"];

/// Commands that open sources.
const COMMANDS: [&[&str]; 6] = [
    &["sync"],
    &["sessions", "--all"],
    &["search", CANARY],
    &["doctor", "--deep"],
    &["notes"],
    &["import", "home/.openclaw"],
];

/// Something other than a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum NotAFile {
    Pipe,
    LinkToPipe,
    LinkToDevice,
    Folder,
}

/// All kinds.
pub(super) const NOT_FILES: [NotAFile; 4] =
    [NotAFile::Pipe, NotAFile::LinkToPipe, NotAFile::LinkToDevice, NotAFile::Folder];

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    writer.lines(&sandbox, 20)?;
    sandbox.json(&["sync"])?;
    rustix::fs::mkfifoat(CWD, sandbox.at("pipe"), Mode::RWXU)?;
    let mut runs = 0;
    let pairs = SECRETS.iter().flat_map(|secret| CLAIMED.map(|claimed| (*secret, claimed)));
    let pairs: Vec<(&str, &str)> = pairs.collect();
    for number in 0..setting.times(7, 49) {
        // Seven steps of eight meet every secret and every path.
        let pair = (number * 8 + setting.seed) % pairs.len() as u64;
        let Some((secret, claimed)) = pairs.get(pair as usize) else { continue };
        linked(&sandbox, secret, claimed).with_context(|| format!("{claimed} is {secret}"))?;
        runs += 1;
    }
    for odd in NOT_FILES {
        for number in 0..setting.times(2, CLAIMED.len() as u64) {
            let chosen = (number + writer.below(CLAIMED.len() as u64)) as usize % CLAIMED.len();
            let Some(claimed) = CLAIMED.get(chosen) else { continue };
            odd_source(&sandbox, odd, claimed).with_context(|| format!("{odd:?} at {claimed}"))?;
            runs += 1;
        }
        for name in OWN {
            odd_companion(&sandbox, odd, name).with_context(|| format!("{odd:?} at {name}"))?;
            runs += 1;
        }
    }
    for _ in 0..setting.times(5, 200) {
        writer.lines(&sandbox, 1)?;
        swapped(&sandbox).context("a folder that is swapped for a link")?;
        runs += 1;
    }
    // The imported sessions are left out of the count.
    sandbox.remove_ledger()?;
    sandbox.check(writer.complete())?;
    let what = format!("{runs} traps; no secret stored, no command waited");
    Ok(Outcome::Held { runs, what })
}

/// Runs a command that must end by itself.
pub(super) fn run_within(sandbox: &Sandbox, arguments: &[&str]) -> Result<Run> {
    let mut child = sandbox.command(arguments).spawn()?;
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > MAX_COMMAND_TIME {
            child.kill()?;
            child.wait()?;
            bail!("`quipu {}` waits for something", arguments.join(" "));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let run = Run::from(child.wait_with_output()?);
    ensure!(run.code.is_some_and(|code| code <= 2), "it crashed: {run:?}");
    Ok(run)
}

fn run_all(sandbox: &Sandbox) -> Result<()> {
    for command in COMMANDS {
        let run = run_within(sandbox, command)?;
        // The search quotes its own word.
        let is_quoted = command.contains(&CANARY) && run.code == Some(1);
        let is_printed = run.stdout.contains(CANARY) || run.stderr.contains(CANARY);
        ensure!(is_quoted || !is_printed, "`{}` printed a secret: {run:?}", command.join(" "));
    }
    check_not_stored(sandbox)
}

/// Checks that no stored byte comes from a secret.
fn check_not_stored(sandbox: &Sandbox) -> Result<()> {
    let to = sandbox.at("restored");
    let _ = fs::remove_dir_all(&to);
    sandbox.json(&["restore", "--all", "--generation", "all", "--to", "restored"])?;
    for (path, bytes) in files(&to)? {
        let is_stored = bytes.windows(CANARY.len()).any(|word| word == CANARY.as_bytes());
        ensure!(!is_stored, "{} has a secret", path.display());
    }
    Ok(fs::remove_dir_all(&to)?)
}

pub(super) fn create(path: &Path, bytes: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, bytes)?)
}

/// Gives a file with secrets a name that is collected. The file has a line of each format, because
/// everything else would be noticed.
fn linked(sandbox: &Sandbox, secret: &str, claimed: &str) -> Result<()> {
    let line = format!(
        "{{\"type\":\"message\",\"id\":\"{CANARY}\",\"parentId\":null,\
         \"message\":{{\"role\":\"user\",\"content\":\"{CANARY}\"}}}}\n\
         {{\"type\":\"user\",\"uuid\":\"{CANARY}\",\"sessionId\":\"{CANARY}\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{CANARY}\"}}}}\n"
    );
    let (secret, claimed) = (sandbox.home().join(secret), sandbox.home().join(claimed));
    create(&secret, &line)?;
    create(&claimed, "")?;
    fs::remove_file(&claimed)?;
    fs::hard_link(&secret, &claimed)?;
    let held = run_all(sandbox);
    fs::remove_file(&claimed)?;
    fs::remove_file(&secret)?;
    held
}

pub(super) fn plant(sandbox: &Sandbox, odd: NotAFile, at: &Path) -> Result<()> {
    match odd {
        NotAFile::Pipe => rustix::fs::mkfifoat(CWD, at, Mode::RWXU)?,
        NotAFile::LinkToPipe => symlink(sandbox.at("pipe"), at)?,
        NotAFile::LinkToDevice => symlink("/dev/zero", at)?,
        NotAFile::Folder => fs::create_dir(at)?,
    }
    Ok(())
}

pub(super) fn unplant(at: &Path) -> Result<()> {
    let is_folder = at.is_dir() && !at.is_symlink();
    if is_folder {
        fs::remove_dir(at)?
    } else {
        fs::remove_file(at)?
    }
    Ok(())
}

fn odd_source(sandbox: &Sandbox, odd: NotAFile, claimed: &str) -> Result<()> {
    let at = sandbox.home().join(claimed);
    create(&at, "")?;
    fs::remove_file(&at)?;
    plant(sandbox, odd, &at)?;
    let held = run_all(sandbox);
    unplant(&at)?;
    held
}

/// Replaces a file of the ledger, or the configuration.
fn odd_companion(sandbox: &Sandbox, odd: NotAFile, name: &str) -> Result<()> {
    let at = sandbox.data().join(name);
    let aside = sandbox.at("aside");
    let was_there = fs::rename(&at, &aside).is_ok();
    plant(sandbox, odd, &at)?;
    let held = COMMANDS.iter().try_for_each(|command| {
        let config = ["--config", "data/config.toml"];
        let config = if name == "config.toml" { &config[..] } else { &[] };
        let run = run_within(sandbox, &[config, command].concat())?;
        ensure!(run.code != Some(0), "it was taken for a file: {run:?}");
        Ok(())
    });
    unplant(&at)?;
    if was_there {
        fs::rename(&aside, &at)?;
    }
    held
}

/// Syncs while another process exchanges a folder and a link to other files with the same names.
fn swapped(sandbox: &Sandbox) -> Result<()> {
    let folder = sandbox.home().join(".openclaw/agents/main/sessions");
    let (link, outside) = (sandbox.home().join(".openclaw/link"), sandbox.at("outside"));
    let line = format!(
        "{{\"type\":\"message\",\"id\":\"1\",\"parentId\":null,\
         \"message\":{{\"role\":\"user\",\"content\":\"{CANARY}\"}}}}\n"
    );
    for name in ["first.jsonl", "second.jsonl", "third.jsonl"] {
        create(&outside.join(name), &line)?;
    }
    symlink(&outside, &link)?;
    let is_done = AtomicBool::new(false);
    let held = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let _ = rustix::fs::renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        let held = run_all(sandbox);
        is_done.store(true, Ordering::Relaxed);
        held
    });
    if folder.is_symlink() {
        fs::remove_file(&folder)?;
        fs::rename(&link, &folder)?;
    } else {
        fs::remove_file(&link)?;
    }
    held
}
