//! Restores and exports to folders with obstacles: links to elsewhere, files and folders with the
//! same names, a folder that is swapped for a link, a process that is killed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{CWD, Mode, RenameFlags};

use crate::sandbox::{Sandbox, files};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "targets",
    faults: "",
    what: "restore and export into folders with planted links, files in the way, swaps and kills",
    run,
};

/// An obstacle at the path of a restored file.
#[derive(Debug, Clone, Copy)]
enum Plant {
    LinkToFolder,
    LinkToFile,
    LinkToNothing,
    File,
    Folder,
    Pipe,
}

/// Obstacles, and their paths.
const PLANTS: [(Plant, &str); 9] = [
    (Plant::LinkToFolder, "claude-code"),
    (Plant::LinkToFolder, "claude-code/projects/-home-alice-shop"),
    (Plant::LinkToFolder, "openclaw/agents"),
    (Plant::LinkToFile, "openclaw/agents/main/sessions/first.jsonl"),
    (Plant::LinkToNothing, "openclaw/agents/main/sessions/first.jsonl"),
    (Plant::File, "openclaw/agents/main"),
    (Plant::File, "openclaw/agents/main/sessions/first.jsonl"),
    (Plant::Folder, "openclaw/agents/main/sessions/first.jsonl"),
    (Plant::Pipe, "openclaw/agents/main/sessions/first.jsonl"),
];

/// Export formats, and a folder on the path to their files.
const EXPORTS: [(&str, Option<&str>); 7] = [
    ("md", None),
    ("html", None),
    ("json", None),
    ("jsonl", None),
    ("csv", None),
    ("openclaw", Some("agents")),
    ("claude-code", Some("projects")),
];

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    writer.lines(&sandbox, 40)?;
    sandbox.json(&["sync"])?;
    fs::create_dir(sandbox.at("outside"))?;
    fs::write(sandbox.at("outside/theirs"), "theirs")?;
    sandbox.json(&["restore", "--all", "--to", "whole"])?;
    let whole = files(&sandbox.at("whole"))?;
    let mut runs = 0;
    for (plant, name) in PLANTS {
        planted(&sandbox, plant, name, &whole).with_context(|| format!("{plant:?} at {name}"))?;
        runs += 1;
    }
    for (format, folder) in EXPORTS {
        runs += exported(&sandbox, format, folder).with_context(|| format!("export {format}"))?;
    }
    for _ in 0..setting.times(3, 150) {
        swapped(&sandbox, &whole).context("a folder that is swapped for a link")?;
        runs += 1;
    }
    for _ in 0..setting.times(8, 300) {
        let life = Duration::from_micros(writer.below(40_000));
        killed(&sandbox, life, &whole).context("a restore that is killed")?;
        runs += 1;
    }
    sandbox.check(writer.complete())?;
    let what = format!("{runs} targets; nothing written outside, complete without obstacles");
    Ok(Outcome::Held { runs, what })
}

/// Removes the restored files of earlier runs.
fn fresh(sandbox: &Sandbox) -> Result<PathBuf> {
    let out = sandbox.at("out");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir(&out)?;
    Ok(out)
}

fn check_outside(sandbox: &Sandbox) -> Result<()> {
    let found = files(&sandbox.at("outside"))?;
    let expected = BTreeMap::from([(PathBuf::from("theirs"), b"theirs".to_vec())]);
    ensure!(found == expected, "written outside: {:?}", found.keys());
    Ok(())
}

/// Checks that a restore without obstacles completes, and that nothing was written outside.
fn check_complete(sandbox: &Sandbox, whole: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let report = sandbox.json(&["restore", "--all", "--to", "out"])?;
    let there =
        report["files"].as_u64().unwrap_or(0) + report["existing_files"].as_u64().unwrap_or(0);
    ensure!(there == whole.len() as u64, "{there} of {} files: {report}", whole.len());
    check_outside(sandbox)
}

/// Compares files under their own names. Temporary files of a killed process are hidden.
fn check_files(out: &Path, whole: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for (path, bytes) in files(out)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_whole = whole.get(&path) == Some(&bytes);
        ensure!(is_whole || name.starts_with(".quipu-"), "{} is incomplete", path.display());
    }
    Ok(())
}

fn planted(
    sandbox: &Sandbox,
    plant: Plant,
    name: &str,
    whole: &BTreeMap<PathBuf, Vec<u8>>,
) -> Result<()> {
    let at = fresh(sandbox)?.join(name);
    fs::create_dir_all(at.parent().context("a name")?)?;
    match plant {
        Plant::LinkToFolder => symlink(sandbox.at("outside"), &at)?,
        Plant::LinkToFile => symlink(sandbox.at("outside/theirs"), &at)?,
        Plant::LinkToNothing => symlink(sandbox.at("outside/nothing"), &at)?,
        Plant::File => fs::write(&at, "theirs")?,
        Plant::Folder => fs::create_dir(&at)?,
        Plant::Pipe => rustix::fs::mkfifoat(CWD, &at, Mode::RWXU)?,
    }
    let run = sandbox.run(&["restore", "--all", "--to", "out", "--json"])?;
    run.check_reported()?;
    ensure!(run.code == Some(2), "nothing was reported as missing: {run:?}");
    let report: serde_json::Value = serde_json::from_str(&run.stdout)?;
    let skipped = report["unwritten_files"].as_array().context("no list of skipped files")?;
    let below = whole.keys().filter(|path| path.starts_with(name)).count();
    ensure!(skipped.len() == below, "{below} files are in the way: {report}");
    ensure!(report["files"] == whole.len() - below, "the others were not restored: {report}");
    check_outside(sandbox)?;
    match plant {
        Plant::Folder => fs::remove_dir(&at)?,
        _ => fs::remove_file(&at)?,
    }
    check_complete(sandbox, whole)?;
    check_files(&sandbox.at("out"), whole)
}

/// Plants a link at the path of each file and of the folder, with and without `--force`.
fn exported(sandbox: &Sandbox, format: &str, folder: Option<&str>) -> Result<u64> {
    let _ = fs::remove_dir_all(sandbox.at("plain"));
    sandbox.json(&["export", "--all", "--format", format, "--to", "plain"])?;
    let mut names: Vec<(PathBuf, &str)> =
        files(&sandbox.at("plain"))?.into_keys().map(|path| (path, "outside/theirs")).collect();
    names.extend(folder.map(|folder| (PathBuf::from(folder), "outside")));
    let mut runs = 0;
    for (name, to) in names {
        for force in [&["--force"][..], &[]] {
            let at = fresh(sandbox)?.join(&name);
            fs::create_dir_all(at.parent().context("a name")?)?;
            symlink(sandbox.at(to), &at)?;
            let arguments = ["export", "--all", "--format", format, "--to", "out"];
            sandbox.run(&[&arguments[..], force].concat())?.check_reported()?;
            check_outside(sandbox)?;
            ensure!(at.is_symlink(), "{} was replaced", name.display());
            runs += 1;
        }
    }
    Ok(runs)
}

/// Restores while another process exchanges a folder and a link.
fn swapped(sandbox: &Sandbox, whole: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let out = fresh(sandbox)?;
    let folder = out.join("openclaw/agents/main/sessions");
    let link = out.join("link");
    fs::create_dir_all(&folder)?;
    symlink(sandbox.at("outside"), &link)?;
    let is_done = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let _ = rustix::fs::renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        let run = sandbox.run(&["restore", "--all", "--to", "out"]);
        is_done.store(true, Ordering::Relaxed);
        run
    })?;
    run.check_reported()?;
    check_outside(sandbox)?;
    if folder.is_symlink() {
        fs::remove_file(&folder)?;
        fs::rename(&link, &folder)?;
    } else {
        fs::remove_file(&link)?;
    }
    check_complete(sandbox, whole)?;
    check_files(&out, whole)
}

fn killed(sandbox: &Sandbox, life: Duration, whole: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let out = fresh(sandbox)?;
    let mut child = sandbox.command(&["restore", "--all", "--to", "out"]).spawn()?;
    std::thread::sleep(life);
    child.kill()?;
    child.wait()?;
    check_files(&out, whole)?;
    check_complete(sandbox, whole)
}
