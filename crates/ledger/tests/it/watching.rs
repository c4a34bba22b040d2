//! Watching: every change is collected, and the process sleeps while nothing changes.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quipu_ledger::Error;
use quipu_ledger::collect::collect_changed;
use quipu_ledger::collect::{watch::Event, watch::Stop, watch::Timing, watch::watch};

use crate::home::*;

/// A report of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reported {
    Watching,
    Collected { records: u64, bytes: u64 },
    Unreadable(PathBuf),
    Replaced { is_new: bool },
    Paused,
    Resumed,
}

/// A watch on a thread of its own.
struct Watching<'a> {
    home: &'a Home,
    stop: Stop,
    reported: Arc<Mutex<Vec<Reported>>>,
    /// The thread's number in `/proc`.
    thread_number: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<quipu_ledger::Result<()>>>,
}

impl Watching<'_> {
    fn start(home: &Home, timing: Timing) -> Watching<'_> {
        let (stop, reported) = (Stop::new(), Arc::<Mutex<Vec<Reported>>>::default());
        let thread_number = Arc::<Mutex<Option<String>>>::default();
        let thread = std::thread::spawn({
            let (path, roots, stop) = (home.ledger_path(), home.roots(), stop.clone());
            let (reported, thread_number) = (Arc::clone(&reported), Arc::clone(&thread_number));
            move || {
                let link = fs::read_link("/proc/thread-self").ok();
                *thread_number.lock().unwrap() =
                    link.map(|link| link.file_name().unwrap().to_string_lossy().into_owned());
                watch(&path, "here", &roots, &timing, &stop, &mut |event| {
                    reported.lock().unwrap().extend(to_reported(&event));
                    ControlFlow::Continue(())
                })
            }
        });
        let watching = Watching { home, stop, reported, thread_number, thread: Some(thread) };
        watching.wait("the first sweep", || watching.has(&Reported::Watching));
        watching
    }

    fn has(&self, what: &Reported) -> bool {
        self.reported.lock().unwrap().contains(what)
    }

    fn reported(&self) -> Vec<Reported> {
        self.reported.lock().unwrap().clone()
    }

    /// Waits until a condition holds, or fails.
    #[track_caller]
    fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", self.reported());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a word can be found.
    #[track_caller]
    fn wait_for(&self, word: &str) {
        self.wait(word, || self.home.hits(word) > 0);
    }

    fn end(&mut self) -> quipu_ledger::Result<()> {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

fn to_reported(event: &Event<'_>) -> Option<Reported> {
    Some(match event {
        Event::Watching { .. } => Reported::Watching,
        Event::Collected(report) => {
            Reported::Collected { records: report.records_added, bytes: report.bytes_read }
        }
        Event::Unreadable { path, .. } => Reported::Unreadable(path.to_path_buf()),
        Event::Replaced { is_new } => Reported::Replaced { is_new: *is_new },
        Event::Paused { .. } => Reported::Paused,
        Event::Resumed => Reported::Resumed,
        _ => return None,
    })
}

/// Returns a timing without sweeps within a test: everything is found by events.
fn quick() -> Timing {
    Timing {
        debounce: Duration::from_millis(20),
        recheck: Duration::from_millis(200),
        checkpoint: Duration::from_millis(300),
        retry: Duration::from_millis(50),
        sweep: Duration::from_secs(3600),
        ..Timing::default()
    }
}

fn path_of(project: &str, number: u32) -> String {
    format!(".claude/projects/{project}/{}.jsonl", uuid(number))
}

fn changed(home: &Home, paths: &[&str]) -> Option<quipu_ledger::wire::SyncReport> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| home.path(path)).collect();
    collect_changed(&mut home.open(), &home.roots(), &paths, &mut |_| {}).unwrap()
}

#[test]
fn only_the_changed_file_is_read() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.write(&path_of("-b", 2), line("user", &uuid(2), None, "other"));
    home.sync();
    let more = line("assistant", &uuid(3), Some(&uuid(1)), "world");
    home.append(MAIN, &more);
    // Neither of these is looked at.
    home.append(&path_of("-b", 2), &more);
    home.remove(&path_of("-b", 2));
    let report = changed(&home, &[MAIN, MAIN]).unwrap();
    assert_eq!(
        (
            report.sources,
            report.bytes_read,
            report.lines_parsed,
            report.records_added,
            report.gone_sources
        ),
        (1, more.len() as u64, 1, 1, 0)
    );
    assert_eq!(changed(&home, &[MAIN]).unwrap().bytes_read, 0);
    assert_eq!(home.hits("world"), 1);
    assert_eq!(home.sync().gone_sources, 1);
    home.assert_sound();
    home.assert_rebuilds();
}

#[test]
fn anything_but_growth_needs_a_walk() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.sync();
    home.folder_for(&path_of("-b", 2));
    home.rename(MAIN, &path_of("-b", 2));
    assert!(changed(&home, &[&path_of("-b", 2)]).is_none(), "a new name");
    assert!(changed(&home, &[MAIN]).is_none(), "a name that is gone");
    home.rename(&path_of("-b", 2), MAIN);
    assert!(changed(&home, &[&path_of("-b", 3)]).is_none(), "no file");
    std::os::unix::fs::symlink(home.path(MAIN), home.path(&path_of("-b", 4))).unwrap();
    assert!(changed(&home, &[&path_of("-b", 4)]).is_none(), "a link");
    home.replace(MAIN, line("user", &uuid(1), None, "hello"));
    assert!(changed(&home, &[MAIN]).is_none(), "another file with that name");
    home.sync();
    fs::hard_link(home.path(MAIN), home.path("linked")).unwrap();
    assert!(changed(&home, &[MAIN]).is_none(), "a file with two names");
}

#[test]
fn a_new_file_and_its_copy_are_collected_as_a_walk_would() {
    let home = Home::new();
    let (new, copy) = (path_of("-b", 2), path_of("-c", 3));
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.sync();
    home.write(&new, line("user", &uuid(2), None, "new"));
    assert_eq!(changed(&home, &[&new]).unwrap().sources_added, 1);
    home.write(&copy, line("user", &uuid(2), None, "new"));
    assert_eq!(changed(&home, &[&copy, MAIN]).unwrap().sources_added, 1);
    let report = home.sync();
    assert_eq!((report.sources, report.sources_changed, report.gone_sources), (3, 0, 0));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records WHERE same_as IS NOT NULL"), 1);
    home.assert_sound();
    home.assert_restores_all(&[MAIN, &new, &copy]);
    home.assert_rebuilds();
}

#[test]
fn names_that_no_format_claims_are_ignored() {
    let home = Home::new();
    home.write(".openclaw/credentials/x.jsonl", "{}\n");
    home.write(".claude/settings.json", "{}\n");
    home.write("elsewhere.jsonl", "{}\n");
    home.sync();
    let report = changed(
        &home,
        &[".openclaw/credentials/x.jsonl", ".claude/settings.json", "elsewhere.jsonl"],
    );
    assert_eq!(report.unwrap().sources, 0);
}

#[test]
#[cfg(target_os = "linux")]
fn everything_that_changes_is_noticed() {
    let home = Home::new();
    fs::create_dir_all(home.path("")).unwrap();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    let mut watching = Watching::start(&home, quick());
    watching.wait_for("hello");

    home.append(MAIN, line("user", &uuid(2), None, "appended"));
    watching.wait_for("appended");
    home.write(&path_of("-home-alice-shop", 9), line("user", &uuid(3), None, "newfile"));
    watching.wait_for("newfile");
    home.write(&path_of("-another", 10), line("user", &uuid(4), None, "newproject"));
    watching.wait_for("newproject");
    home.append(&path_of("-another", 10), line("user", &uuid(5), None, "newwatch"));
    watching.wait_for("newwatch");
    let claw = ".openclaw/agents/main/sessions/s1.jsonl";
    home.write(claw, "{\"role\":\"user\",\"content\":\"newroot\",\"timestamp\":1770193116233}\n");
    watching.wait_for("newroot");

    // A renamed folder is watched under its new name.
    home.rename(".claude/projects/-another", ".claude/projects/-renamed");
    home.append(&path_of("-renamed", 10), line("user", &uuid(6), None, "afterrename"));
    watching.wait_for("afterrename");
    home.append(&path_of("-renamed", 10), line("user", &uuid(7), None, "again"));
    watching.wait_for("again");

    // So is one that was removed and created again.
    fs::remove_dir_all(home.path(".claude")).unwrap();
    home.write(&path_of("-anew", 11), line("user", &uuid(8), None, "resurrected"));
    watching.wait_for("resurrected");
    home.append(&path_of("-anew", 11), line("user", &uuid(9), None, "alive"));
    watching.wait_for("alive");

    // An unterminated last line is found once it has not changed for a while.
    home.append(&path_of("-anew", 11), line("user", &uuid(12), None, "unfinished").trim_end());
    watching.wait_for("unfinished");

    watching.end().unwrap();
    home.assert_sound();
    home.assert_restores();
    home.assert_rebuilds();
    let wal = home.ledger_path().with_extension("db-wal");
    assert!(fs::metadata(wal).map_or(0, |meta| meta.len()) == 0, "the log is written back");
}

/// Returns a thread's counts of reads and of voluntary sleeps.
#[cfg(target_os = "linux")]
fn reads_and_sleeps(thread: &str) -> (String, String) {
    let of = |file: &str, keys: &[&str]| -> String {
        let text = fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).unwrap();
        text.lines().filter(|line| keys.iter().any(|key| line.starts_with(key))).collect()
    };
    (of("io", &["rchar", "syscr", "syscw"]), of("status", &["voluntary_ctxt"]))
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_is_done_while_nothing_changes() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    let watching = Watching::start(&home, quick());
    home.append(MAIN, line("user", &uuid(2), None, "last"));
    watching.wait_for("last");
    let thread = watching.thread_number.lock().unwrap().clone().unwrap();
    // Settled, checkpointed, and asleep until the next sweep: the counts do not change.
    let mut before = reads_and_sleeps(&thread);
    watching.wait("quiet", || {
        std::thread::sleep(Duration::from_millis(800));
        let now = reads_and_sleeps(&thread);
        let is_quiet = now == before;
        before = now;
        is_quiet
    });
    // A file that no format claims does not wake it either.
    home.write(".claude/settings.json", "{}");
    home.write(".claude/projects/-home-alice-shop/notes.txt", "note");
    let _ = fs::read(home.path(MAIN)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(reads_and_sleeps(&thread), before);
}

#[test]
#[cfg(target_os = "linux")]
fn touching_everything_reads_nothing_again() {
    const FILES: u32 = 2_000;
    let home = Home::quick();
    for number in 1..=FILES {
        home.write(&path_of("-many", number), line("user", &uuid(number), None, "hello"));
    }
    let mut watching = Watching::start(&home, quick());
    watching.wait("the first sweep", || home.hits("hello") == i64::from(FILES));
    watching.wait("quiet", || {
        let reported = watching.reported().len();
        std::thread::sleep(Duration::from_millis(600));
        reported == watching.reported().len()
    });
    let reported = watching.reported().len();
    let later = std::time::SystemTime::now() + Duration::from_secs(3600);
    for number in 1..=FILES {
        let file = fs::File::options().append(true).open(home.path(&path_of("-many", number)));
        file.unwrap().set_modified(later).unwrap();
    }
    let now_ms = later.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() - 3_600_000;
    let untouched = format!(
        "SELECT count(*) FROM sources s JOIN generations g ON g.id = s.generation
          WHERE s.kind = 'file' AND g.mtime_ns / 1000000 <= {now_ms}"
    );
    watching.wait("a look at every file", || home.one::<i64>(&untouched) == 0);
    home.append(&path_of("-many", 7), line("user", &uuid(9_999), None, "finally"));
    watching.wait_for("finally");
    watching.end().unwrap();
    let reported = watching.reported().split_off(reported);
    let records: u64 = reported
        .iter()
        .map(|reported| match reported {
            Reported::Collected { records, .. } => *records,
            _ => 0,
        })
        .sum();
    assert_eq!(records, 1, "{reported:?}");
    assert_eq!(home.one::<i64>("SELECT max(number) FROM generations"), 1);
    assert_eq!(home.sync().bytes_verified, 0, "no file is compared again");
}

#[test]
#[cfg(target_os = "linux")]
fn an_unreadable_file_is_reported_once() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    let closed = path_of("-closed", 2);
    home.write(&closed, line("user", &uuid(2), None, "secret"));
    fs::set_permissions(home.path(&closed), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(home.path(&closed)).is_ok() {
        // Root can read everything.
        return;
    }
    let watching = Watching::start(&home, quick());
    for number in 3..8 {
        home.append(MAIN, line("user", &uuid(number), None, &format!("word{number}")));
        watching.wait_for(&format!("word{number}"));
    }
    // Another one appears while it is watched, and grows.
    let later = path_of("-home-alice-shop", 9);
    fs::write(home.path(&later), "").unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(home.path(&later)).unwrap();
    fs::set_permissions(home.path(&later), fs::Permissions::from_mode(0o000)).unwrap();
    for number in 10..13 {
        let written = line("user", &uuid(number), None, "withheld");
        std::io::Write::write_all(&mut file, written.as_bytes()).unwrap();
        home.append(MAIN, line("user", &uuid(number + 10), None, &format!("word{number}")));
        watching.wait_for(&format!("word{number}"));
    }
    for path in [&closed, &later] {
        let unreadable = Reported::Unreadable(home.path(path).canonicalize().unwrap());
        assert_eq!(
            watching.reported().iter().filter(|reported| **reported == unreadable).count(),
            1
        );
    }
    fs::set_permissions(home.path(&later), fs::Permissions::from_mode(0o600)).unwrap();
    watching.wait_for("withheld");
    fs::set_permissions(home.path(&closed), fs::Permissions::from_mode(0o600)).unwrap();
    watching.wait_for("secret");
}

#[test]
#[cfg(target_os = "linux")]
fn a_ledger_that_is_swapped_is_opened_again() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    let mut watching = Watching::start(&home, quick());
    watching.wait_for("hello");
    let data = home.ledger_path().parent().unwrap().to_owned();
    fs::rename(&data, home.scratch("away")).unwrap();
    home.append(MAIN, line("user", &uuid(2), None, "after"));
    watching.wait("a new ledger", || home.ledger_path().exists());
    watching.wait_for("after");
    assert_eq!(home.hits("hello"), 1);
    watching.end().unwrap();
    home.assert_sound();
}

/// Returns a timing without checkpoints, so that the log holds everything collected.
fn with_a_log() -> Timing {
    Timing { checkpoint: Duration::from_secs(3600), ..quick() }
}

#[test]
#[cfg(target_os = "linux")]
fn another_ledger_in_its_place_gets_nothing_of_the_old_log() {
    let home = Home::new();
    let other = path_of("-b", 2);
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.write(&other, line("user", &uuid(2), None, "other"));
    home.sync();
    let copy = home.scratch("copy.db");
    home.sql().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    let mut watching = Watching::start(&home, with_a_log());
    for number in 10..40 {
        home.append(&other, line("user", &uuid(number), None, &format!("word{number}")));
    }
    watching.wait_for("word39");
    quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {}).unwrap();
    let log = home.ledger_path().with_extension("db-wal");
    assert!(fs::metadata(log).unwrap().len() > 0);
    let kept = home.scratch("kept.db");
    fs::rename(home.ledger_path(), &kept).unwrap();
    fs::rename(&copy, home.ledger_path()).unwrap();

    home.append(MAIN, line("user", &uuid(3), None, "after"));
    watching.wait("a word", || watching.has(&Reported::Replaced { is_new: false }));
    watching.wait_for("after");
    // All of it is there at once, not after the next sweep.
    watching.wait_for("word39");
    watching.end().unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 33);
    home.assert_sound();
    home.assert_restores_all(&[MAIN, &other]);
    home.assert_rebuilds();

    // The records of the log are in the file that it belongs to.
    let kept = rusqlite::Connection::open(kept).unwrap();
    assert_eq!(rows(&kept, "PRAGMA integrity_check"), ["'ok'"]);
    assert_eq!(rows(&kept, "SELECT count(*) FROM entries"), ["32"]);
    let left: Vec<String> = files(home.ledger_path().parent().unwrap()).into_keys().collect();
    assert!(!left.iter().any(|name| name.contains(".before-")), "{left:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_log_in_use_is_renamed() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.sync();
    let copy = home.scratch("copy.db");
    home.sql().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    let mut watching = Watching::start(&home, with_a_log());
    let reader = home.sql();
    reader.execute_batch("BEGIN; SELECT count(*) FROM entries").unwrap();
    assert_eq!(rows(&reader, "SELECT count(*) FROM entries"), ["1"]);
    home.append(MAIN, line("user", &uuid(2), None, "meanwhile"));
    watching.wait_for("meanwhile");
    fs::rename(&copy, home.ledger_path()).unwrap();
    home.append(MAIN, line("user", &uuid(3), None, "after"));
    watching.wait("a word", || watching.has(&Reported::Replaced { is_new: false }));
    watching.wait_for("after");
    assert_eq!(rows(&reader, "SELECT count(*) FROM entries"), ["1"]);
    watching.end().unwrap();
    drop(reader);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 3);
    home.assert_sound();
    let left: Vec<String> = files(home.ledger_path().parent().unwrap()).into_keys().collect();
    assert!(left.iter().any(|name| name.contains(".before-")), "{left:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_removed_ledger_is_collected_again_at_once() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.write(&path_of("-b", 2), line("user", &uuid(2), None, "other"));
    let mut watching = Watching::start(&home, with_a_log());
    watching.wait_for("other");
    for suffix in ["", "-wal", "-shm", ".lock", ".wait"] {
        let mut name = home.ledger_path().into_os_string();
        name.push(suffix);
        fs::remove_file(name).unwrap();
    }
    home.append(MAIN, line("user", &uuid(3), None, "after"));
    watching.wait("a word", || watching.has(&Reported::Replaced { is_new: true }));
    watching.wait_for("after");
    watching.wait_for("other");
    watching.end().unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 3);
    home.assert_sound();
}

#[test]
#[cfg(target_os = "linux")]
fn a_newer_ledger_ends_the_watch() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    let mut watching = Watching::start(&home, quick());
    watching.wait_for("hello");
    home.sql().pragma_update(None, "user_version", 99).unwrap();
    home.append(MAIN, line("user", &uuid(2), None, "more"));
    let thread = watching.thread.take().unwrap();
    watching.wait("the end", || thread.is_finished());
    let ended = thread.join().unwrap();
    assert!(matches!(ended, Err(Error::Upgraded)), "{ended:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_ledger_that_cannot_be_written_to_is_waited_for() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    let timing = Timing { wait: Duration::from_millis(100), ..quick() };
    let mut watching = Watching::start(&home, timing);
    watching.wait_for("hello");
    let other = home.sql();
    // Longer than the wait limit for a lock.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    home.append(MAIN, line("user", &uuid(2), None, "meanwhile"));
    watching.wait("a pause", || watching.has(&Reported::Paused));
    home.append(MAIN, line("user", &uuid(3), None, "stillmore"));
    other.execute_batch("ROLLBACK").unwrap();
    watching.wait_for("stillmore");
    watching.wait("the end of it", || watching.has(&Reported::Resumed));
    watching.end().unwrap();
    assert_eq!(home.hits("meanwhile"), 1);
    assert_eq!(
        watching.reported().iter().filter(|reported| **reported == Reported::Paused).count(),
        1
    );
    home.assert_sound();
}

#[test]
#[cfg(target_os = "linux")]
fn two_watches_and_a_sync_store_nothing_twice() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    let mut first = Watching::start(&home, quick());
    let mut second = Watching::start(&home, quick());
    for number in 2..30 {
        home.append(MAIN, line("user", &uuid(number), None, &format!("word{number}")));
        if number % 7 == 0 {
            home.sync();
        }
    }
    first.wait_for("word29");
    first.end().unwrap();
    second.end().unwrap();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 29);
    home.assert_sound();
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
}
