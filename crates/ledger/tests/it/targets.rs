//! Writing beneath a folder: files that other programs create there never lead a write elsewhere,
//! and one name never prevents the others from being restored.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use quipu_ledger::files::{Existing, Target};
use quipu_ledger::restore::{Generations, RestoreScope};
use rustix::fs::{CWD, Mode, RenameFlags};

use crate::home::*;

fn write(target: &Target, path: &str, existing: Existing) -> std::io::Result<()> {
    let new = target.create(Path::new(path))?;
    new.file().write_all(b"ours")?;
    new.keep(existing)
}

/// Returns a target and a folder outside of it, which has one file.
fn target(home: &Home) -> (Target, PathBuf) {
    let outside = home.scratch("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("theirs"), "theirs").unwrap();
    (Target::open(&home.scratch("out")).unwrap(), outside)
}

#[track_caller]
fn assert_untouched(outside: &Path) {
    let found: Vec<_> = files(outside).into_iter().collect();
    assert_eq!(found, [("theirs".to_owned(), b"theirs".to_vec())], "written outside");
}

#[test]
fn no_link_in_the_target_is_followed() {
    let home = Home::quick();
    let (target, outside) = target(&home);
    symlink(&outside, target.path().join("folder")).unwrap();
    symlink(outside.join("theirs"), target.path().join("file")).unwrap();
    symlink(outside.join("new"), target.path().join("dangling")).unwrap();
    fs::create_dir(target.path().join("deep")).unwrap();
    symlink("../../outside", target.path().join("deep/er")).unwrap();
    for path in ["folder/new", "file", "dangling", "deep/er/new", "deep/er/a/b"] {
        for existing in [Existing::Stays, Existing::IsReplaced] {
            let error = write(&target, path, existing).unwrap_err();
            assert!(error.to_string().contains("symbolic link"), "{path}: {error}");
        }
        assert!(target.read(Path::new(path)).is_err(), "{path}");
    }
    for path in ["../outside/new", "/etc/new", "a/../../outside/new", ""] {
        assert!(write(&target, path, Existing::IsReplaced).is_err(), "{path}");
    }
    assert_untouched(&outside);
    let left: Vec<_> = files(&target.path().join("deep")).into_keys().collect();
    assert_eq!(left, ["er/theirs"], "nothing half-written is left");
}

#[test]
fn a_path_that_is_no_file_is_not_replaced() {
    let home = Home::quick();
    let (target, _) = target(&home);
    fs::create_dir(target.path().join("folder")).unwrap();
    fs::write(target.path().join("plain"), "theirs").unwrap();
    rustix::fs::mkfifoat(CWD, target.path().join("pipe"), Mode::RWXU).unwrap();
    for path in ["folder", "pipe", "plain/below"] {
        assert!(write(&target, path, Existing::IsReplaced).is_err(), "{path}");
        assert!(write(&target, path, Existing::Stays).is_err(), "{path}");
    }
    // A pipe does not block.
    assert!(target.read(Path::new("pipe")).is_err());
    assert!(write(&target, "plain", Existing::Stays).is_err());
    assert_eq!(fs::read(target.path().join("plain")).unwrap(), b"theirs");
    write(&target, "plain", Existing::IsReplaced).unwrap();
    assert_eq!(fs::read(target.path().join("plain")).unwrap(), b"ours");
    write(&target, "a/b/c", Existing::Stays).unwrap();
    assert_eq!(target.read_all(Path::new("a/b/c"), 4).unwrap().unwrap(), b"ours");
    assert!(target.read_all(Path::new("a/b/c"), 3).is_err());
    assert!(target.read_all(Path::new("a/b/d"), 3).unwrap().is_none());
}

/// Swaps two names as fast as possible while `work` runs.
fn swapping<T>(one: &Path, other: &Path, work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                // The folder may not exist yet.
                let _ = rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
            }
        });
        // Also after a panic, so that the test ends.
        let _done = Done(&is_done);
        work()
    })
}

struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_folder_that_is_swapped_for_a_link_is_not_followed() {
    let home = Home::quick();
    let (target, outside) = target(&home);
    let (folder, link) = (target.path().join("folder"), target.path().join("link"));
    fs::create_dir(&folder).unwrap();
    symlink(&outside, &link).unwrap();
    let (mut written, mut refused) = (0, 0);
    swapping(&folder, &link, || {
        for number in 0..1_000_000 {
            match write(&target, &format!("folder/{number}"), Existing::Stays) {
                Ok(()) => written += 1,
                Err(_) => refused += 1,
            }
            if number > 2000 && written > 100 && refused > 100 {
                break;
            }
        }
    });
    assert!(written > 100 && refused > 100, "{written} written, {refused} refused");
    assert_untouched(&outside);
}

fn restore(home: &Home, to: &Path) -> quipu_ledger::wire::RestoreReport {
    quipu_ledger::restore::restore(&home.open(), RestoreScope::All, to, Generations::All).unwrap()
}

#[test]
fn a_restore_with_a_swapped_target_completes_afterwards() {
    let home = Home::quick();
    for number in 0..60 {
        home.write(
            &format!(".claude/projects/-a/{}.jsonl", uuid(number)),
            line("user", &uuid(number), None, "x"),
        );
    }
    home.sync();
    let (target, outside) = target(&home);
    let folder = target.path().join("claude-code/projects/-a");
    let link = target.path().join("link");
    symlink(&outside, &link).unwrap();
    fs::create_dir_all(&folder).unwrap();
    let mut skipped = 0;
    swapping(&folder, &link, || {
        for _ in 0..30 {
            skipped += restore(&home, target.path()).unwritten_files.len();
            assert_untouched(&outside);
        }
    });
    if folder.is_symlink() {
        fs::remove_file(&folder).unwrap();
        fs::rename(&link, &folder).unwrap();
    }
    let report = restore(&home, target.path());
    assert_eq!(
        (report.files + report.existing_files, report.unwritten_files.len()),
        (60, 0),
        "{skipped} before"
    );
    assert_eq!(restore(&home, target.path()).existing_files, 60);
    let restored = files(&folder);
    assert_eq!(restored.len(), 60);
    for number in 0..60 {
        let bytes = &restored[&format!("{}.jsonl", uuid(number))];
        assert_eq!(bytes, line("user", &uuid(number), None, "x").as_bytes());
    }
    assert_untouched(&outside);
}

/// Every generation of every file is restored, whatever the names of the others.
#[test]
fn names_of_restored_generations_never_collide() {
    let home = Home::quick();
    let session = ".claude/projects/-a/00000001-0000-4000-8000-000000000001";
    let longest = format!("{}.txt", "x".repeat(251));
    let results = |name: &str| format!("{session}/tool-results/{name}");
    let first = line("user", &uuid(1), None, "first");
    home.write(&format!("{session}.jsonl"), &first);
    home.write(&results("a.txt"), "first life");
    home.write(&results("a.txt.generation-1"), "another file");
    home.write(&results("a.txt.generation-1.generation-1"), "and another");
    home.write(&results(&longest), "long, first");
    home.sync();
    home.write(&results("a.txt"), "second life");
    home.write(&results("a.txt.generation-1"), "another file, second life");
    home.write(&results(&longest), "long, second");
    // The path of a file is a folder now.
    home.remove(&format!("{session}.jsonl"));
    let below = line("user", &uuid(2), None, "below");
    home.write(&format!("{session}.jsonl/subagents/agent-1.jsonl"), &below);
    home.sync();
    let to = home.scratch("all");
    let report = restore(&home, &to);
    assert_eq!((report.unwritten_files.len(), report.damaged_files.len()), (0, 0), "{report:?}");
    let restored = files(&to);
    let mut found: Vec<Vec<u8>> = restored.values().cloned().collect();
    found.sort();
    let mut generations: Vec<Vec<u8>> = [
        &*first,
        &*below,
        "first life",
        "second life",
        "another file",
        "another file, second life",
        "and another",
        "long, first",
        "long, second",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    generations.sort();
    assert_eq!(found, generations);
    let own = |path: String| format!("claude-code/{}", path.strip_prefix(".claude/").unwrap());
    assert_eq!(restored[&own(results("a.txt"))], b"second life");
    assert_eq!(restored[&own(results(&longest))], b"long, second");
    assert_eq!(
        restored[&own(format!("{session}.jsonl/subagents/agent-1.jsonl"))],
        below.as_bytes()
    );
    let aside: Vec<_> = report.written.iter().filter(|file| file.instead_of.is_some()).collect();
    assert_eq!(aside.len(), 4, "{aside:?}");
    // A second restore, and one of the newest generations alone, succeed.
    let again = restore(&home, &to);
    assert_eq!(
        (again.files, again.existing_files, again.unwritten_files.len()),
        (0, 9, 0),
        "{again:?}"
    );
    let newest = home.scratch("newest");
    let report = quipu_ledger::restore::restore(
        &home.open(),
        RestoreScope::All,
        &newest,
        Generations::Newest,
    )
    .unwrap();
    assert_eq!((report.files, report.unwritten_files.len()), (6, 0), "{report:?}");
}

/// A file in the way affects only the file of that name.
#[test]
fn a_file_that_cannot_be_written_is_reported_and_the_others_are_restored() {
    let home = Home::quick();
    for number in 0..4 {
        home.write(
            &format!(".claude/projects/-a/{}.jsonl", uuid(number)),
            line("user", &uuid(number), None, "x"),
        );
    }
    home.sync();
    let to = home.scratch("out");
    let at = |number: u32| to.join(format!("claude-code/projects/-a/{}.jsonl", uuid(number)));
    fs::create_dir_all(at(0)).unwrap();
    fs::write(at(1), "theirs").unwrap();
    // A part of the bytes that will be written.
    let bytes = line("user", &uuid(2), None, "x");
    fs::write(at(2), &bytes[..bytes.len() / 2]).unwrap();
    let report = restore(&home, &to);
    assert_eq!(
        (report.files, report.existing_files, report.unwritten_files.len()),
        (1, 0, 3),
        "{report:?}"
    );
    for (number, why) in [(0, "folder"), (1, "another file"), (2, "another file")] {
        let named = report.unwritten_files.iter().find(|file| Path::new(&file.path) == at(number));
        assert!(named.is_some_and(|file| file.reason.contains(why)), "{report:?}");
    }
    assert_eq!(fs::read(at(1)).unwrap(), b"theirs");
    fs::remove_dir(at(0)).unwrap();
    fs::remove_file(at(1)).unwrap();
    fs::remove_file(at(2)).unwrap();
    let report = restore(&home, &to);
    assert_eq!(
        (report.files, report.existing_files, report.unwritten_files.len()),
        (3, 1, 0),
        "{report:?}"
    );
}
