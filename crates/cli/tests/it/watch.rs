//! `quipu watch`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::home::Home;

const SHOP: &str = ".claude/projects/-home-alice-shop";

/// A watch that runs in a home.
struct Watch<'a> {
    home: &'a Home,
    child: Option<Child>,
}

impl Watch<'_> {
    fn start<'a>(home: &'a Home, arguments: &[&str]) -> Watch<'a> {
        Watch::run(home, home.command(["watch"].iter().chain(arguments)))
    }

    fn run(home: &Home, mut command: Command) -> Watch<'_> {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Watch { home, child: Some(child) }
    }

    /// Waits until the ledger has this many records.
    #[track_caller]
    fn wait_for(&self, records: u64) {
        let began = Instant::now();
        loop {
            let status = self.home.run("status --json").json();
            let found = status["ledger"]["records"].as_u64().unwrap();
            if found >= records {
                assert_eq!(found, records, "something is there twice");
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{found} of {records} records");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal and returns the exit status and output.
    #[track_caller]
    fn end(&mut self, signal: Signal) -> (Option<i32>, String, String) {
        let child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn line(number: u32) -> String {
    format!(
        "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"hello\"}},\
         \"uuid\":\"{number:08}-0000-4000-8000-00000000000a\"}}\n"
    )
}

/// Returns the name of a session's transcript.
fn named(number: u32) -> String {
    format!("{number:08}-0000-4000-8000-00000000000b.jsonl")
}

fn append(home: &Home, path: &str, number: u32) {
    fs::create_dir_all(home.path(path).parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().append(true).create(true).open(home.path(path)).unwrap();
    file.write_all(line(number).as_bytes()).unwrap();
}

#[test]
fn whatever_changes_is_collected() {
    let home = Home::empty();
    append(&home, &format!("{SHOP}/{}", named(1)), 1);
    let mut watch = Watch::start(&home, &["--json"]);
    watch.wait_for(1);
    append(&home, &format!("{SHOP}/{}", named(1)), 2);
    watch.wait_for(2);
    append(&home, &format!("{SHOP}/{}", named(2)), 3);
    watch.wait_for(3);
    append(&home, &format!(".claude/projects/-new/{}", named(3)), 4);
    watch.wait_for(4);
    append(&home, ".openclaw/agents/main/sessions/s.jsonl", 5);
    watch.wait_for(5);
    append(&home, ".openclaw/agents/main/sessions/s.jsonl", 6);
    watch.wait_for(6);
    // Another sync has nothing left to do.
    assert_eq!(home.run("sync --json").json()["records_added"], 0);

    let (code, stdout, stderr) = watch.end(Signal::INT);
    assert_eq!((code, stderr.as_str()), (Some(130), ""));
    let reports: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records: u64 = reports.iter().map(|report| report["records_added"].as_u64().unwrap()).sum();
    assert_eq!(records, 6, "{stdout}");
    assert!(reports.iter().all(|report| report["time"].as_i64().unwrap() > 1_700_000_000_000));
}

#[test]
fn a_watch_prints_nothing_without_a_terminal() {
    for arguments in [&[][..], &["-q"]] {
        // A home of its own for each: a ledger that is already full would not show that the
        // watch has begun, and a signal before that ends the process without an exit code.
        let home = Home::small();
        let mut watch = Watch::start(&home, arguments);
        watch.wait_for(55);
        assert_eq!(watch.end(Signal::TERM), (Some(0), String::new(), String::new()));
    }
}

#[test]
fn a_closed_terminal_ends_the_watch() {
    let home = Home::small();
    let mut watch = Watch::start(&home, &[]);
    watch.wait_for(55);
    assert_eq!(watch.end(Signal::HUP), (Some(0), String::new(), String::new()));
    // Unless it was started with `nohup`.
    let mut command = Command::new("nohup");
    command.args([env!("CARGO_BIN_EXE_quipu"), "watch"]).env_clear();
    command.env("HOME", home.path("")).env("PATH", std::env::var_os("PATH").unwrap());
    if cfg!(target_os = "linux") {
        let mut watch = Watch::run(&home, command);
        append(&home, &format!("{SHOP}/{}", named(1)), 1);
        watch.wait_for(56);
        kill_process(Pid::from_child(watch.child.as_ref().unwrap()), Signal::HUP).unwrap();
        append(&home, &format!("{SHOP}/{}", named(1)), 2);
        watch.wait_for(57);
        assert_eq!(watch.end(Signal::TERM).0, Some(0));
    }
}

/// Returns the inodes that a process watches.
#[cfg(target_os = "linux")]
fn watched(process: u32) -> Vec<u64> {
    let mut inodes = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with("inotify ")) {
            let inode = line.split(' ').find_map(|word| word.strip_prefix("ino:")).unwrap();
            inodes.push(u64::from_str_radix(inode, 16).unwrap());
        }
    }
    inodes
}

#[test]
#[cfg(target_os = "linux")]
fn only_what_is_claimed_is_watched() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::small();
    home.write(".openclaw/credentials/secret.json", "{}");
    home.write(".openclaw/agents/main/credentials/secret.json", "{}");
    home.write(".claude/todos/todo.json", "{}");
    let mut watch = Watch::start(&home, &[]);
    watch.wait_for(55);
    let inode = |path: &str| fs::metadata(home.path(path)).unwrap().ino();
    let process = watch.child.as_ref().unwrap().id();
    let began = Instant::now();
    while !watched(process).contains(&inode(SHOP)) {
        assert!(began.elapsed() < Duration::from_secs(60), "{SHOP} is not watched");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Watches are set one after the other; the last event shows that all of them are set.
    append(&home, &format!("{SHOP}/{}", named(1)), 1);
    watch.wait_for(56);
    let watched = watched(process);
    assert!(watched.contains(&inode(".openclaw/agents/main/sessions")));
    for path in [".openclaw/credentials", ".openclaw/agents/main/credentials", ".claude/todos"] {
        assert!(!watched.contains(&inode(path)), "{path} is watched");
    }
    assert_eq!(watch.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_locked_ledger_does_not_delay_the_end() {
    let home = Home::small();
    home.run("sync");
    let lock = OpenOptions::new().write(true).open(home.path(".local/share/quipu/ledger.db.lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    let mut watch = Watch::start(&home, &[]);
    append(&home, &format!("{SHOP}/{}", named(1)), 1);
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    assert_eq!(watch.end(Signal::INT).0, Some(130));
    // Waiting for the lock takes ten seconds.
    assert!(asked.elapsed() < Duration::from_secs(8));
}

#[test]
fn a_file_that_is_no_ledger_is_refused_at_once() {
    let home = Home::small();
    home.write("other.db", "not a ledger");
    let run = home.run("watch --ledger other.db");
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("is not a quipu ledger"), "{run}");
}

#[test]
fn a_ledger_of_a_newer_quipu_is_refused() {
    let home = Home::small();
    home.run("sync");
    // The schema version in SQLite's header.
    let mut bytes = fs::read(home.ledger()).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(home.ledger(), bytes).unwrap();
    let run = home.run("watch");
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("newer quipu"), "{run}");
}

/// In its own user namespace, which may have fewer watches than there are folders.
#[test]
#[cfg(target_os = "linux")]
fn folders_without_a_watch_are_reported_and_scanned() {
    let home = Home::empty();
    for number in 0..12 {
        append(&home, &format!(".claude/projects/-p{number}/{}", named(number)), number);
    }
    let script = "echo 5 > /proc/sys/user/max_inotify_watches && exec \"$0\" watch";
    let within = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-Ur", "sh", "-c", script, env!("CARGO_BIN_EXE_quipu")]);
        command.env("HOME", home.path(""));
        command
    };
    let can = within("echo 5 > /proc/sys/user/max_inotify_watches").output();
    if !can.is_ok_and(|output| output.status.success()) {
        // Not every system lets a test reduce the number of watches.
        return;
    }
    let mut watch = Watch::run(&home, within(script));
    watch.wait_for(12);
    // The watch has to notice that it must scan by itself.
    std::thread::sleep(Duration::from_millis(1_500));
    for number in 0..12 {
        append(&home, &format!(".claude/projects/-p{number}/{}", named(number)), 100 + number);
    }
    watch.wait_for(24);
    let (code, _, stderr) = watch.end(Signal::TERM);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stderr.matches("folders can be watched").count(), 1, "{stderr}");
}
