//! Child processes: the test binary runs itself with a task for [`run`].

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::home::{Home, MAIN, line, uuid};
use crate::{backups, restores, store_crowd, store_import};
use quipu_ledger::Ledger;

const TASK: &str = "QUIPU_TEST_TASK";
const FOLDER: &str = "QUIPU_TEST_FOLDER";

/// Returns a process with a task. It begins when its standard input ends.
pub(crate) fn command(home: &Home, task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    with_arguments(&mut command, home, task);
    command
}

/// Returns the same process, started by another program.
pub(crate) fn command_under(program: &str, arguments: &[&str], home: &Home, task: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(std::env::current_exe().unwrap());
    with_arguments(&mut command, home, task);
    command
}

fn with_arguments(command: &mut Command, home: &Home, task: &str) {
    command
        .args(["--exact", "child::run", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .env(FOLDER, home.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

/// Collects under strace and returns its log of opened files, with paths; `None` if strace cannot
/// run here.
pub(crate) fn trace_collect(home: &Home) -> Option<String> {
    let log = home.scratch("strace.log");
    let arguments =
        ["-f", "-y", "-qq", "-e", "trace=open,openat,openat2", "-o", log.to_str().unwrap()];
    let Ok(mut traced) = command_under("strace", &arguments, home, "collect").spawn() else {
        quipu_torture::skip("strace is not installed");
        return None;
    };
    drop(traced.stdin.take());
    let output = traced.wait_with_output().unwrap();
    let opened = std::fs::read_to_string(&log).unwrap_or_default();
    if !output.status.success() && !opened.contains("ledger.db") {
        quipu_torture::skip("strace may not trace here");
        return None;
    }
    assert_success(&output);
    Some(opened)
}

/// Starts a process without pipes. It begins at once.
///
/// Its errors go to a file, because a pipe that is not read could fill up; see [`assert_lives`].
pub(crate) fn start_alone(home: &Home, task: &str) -> Child {
    // A child that was killed may have left its marks.
    for mark in [BEGUN, COLLECTED] {
        _ = std::fs::remove_file(home.scratch(mark));
    }
    let errors = std::fs::File::create(home.scratch(ERRORS)).unwrap();
    let mut command = command(home, task);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    command.spawn().unwrap()
}

/// Exists since the child began its task.
const BEGUN: &str = "begun";
/// Exists since the child finished its first sync.
const COLLECTED: &str = "collected";
/// Holds what a child of [`start_alone`] wrote to its standard error.
const ERRORS: &str = "child-errors";

/// Waits until a process has begun its task, which it reports with [`begun`].
#[track_caller]
pub(crate) fn wait_until_begun(home: &Home, child: &mut Child) {
    wait_for(home, child, BEGUN);
}

/// Waits until a process with the task "collect until killed" has finished its first sync.
#[track_caller]
pub(crate) fn wait_until_collected(home: &Home, child: &mut Child) {
    wait_for(home, child, COLLECTED);
}

#[track_caller]
fn wait_for(home: &Home, child: &mut Child, mark: &str) {
    while !home.scratch(mark).exists() {
        assert_lives(home, child);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asserts that a process has not ended by itself, and prints its errors if it has.
#[track_caller]
pub(crate) fn assert_lives(home: &Home, child: &mut Child) {
    if let Some(status) = child.try_wait().unwrap() {
        let errors = std::fs::read_to_string(home.scratch(ERRORS)).unwrap_or_default();
        panic!("the child ended by itself: {status}\n{errors}");
    }
}

/// Reports to the parent process that the task begins.
fn begun(home: &Home) {
    std::fs::write(home.scratch(BEGUN), "").unwrap();
}

/// Starts a process and kills it after `time`.
pub(crate) fn kill_after(home: &Home, task: &str, time: Duration) {
    let mut child = start_alone(home, task);
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Starts `number` processes with the same task.
pub(crate) fn start(home: &Home, task: &str, number: usize) -> Vec<Child> {
    (0..number).map(|_| command(home, task).spawn().unwrap()).collect()
}

/// Lets all processes begin, and waits for them.
#[track_caller]
pub(crate) fn finish(mut children: Vec<Child>) {
    for child in &mut children {
        drop(child.stdin.take());
    }
    for child in children {
        assert_success(&child.wait_with_output().unwrap());
    }
}

#[track_caller]
pub(crate) fn assert_success(output: &Output) {
    assert!(
        output.status.success(),
        "a child failed\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs the task of a child. Does nothing in the parent process.
#[test]
fn run() {
    let (Ok(task), Ok(folder)) = (std::env::var(TASK), std::env::var(FOLDER)) else { return };
    let home = Home::of(folder);
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).unwrap();
    match task.as_str() {
        "open" => drop(Ledger::open(&home.ledger_path()).unwrap()),
        "collect" => drop(home.sync()),
        "append until killed" => store_crowd::append(&home, usize::MAX),
        "hold the ledger until killed" => store_crowd::hold(&home, begun),
        "import" => store_import::import(&home),
        "append 20 times" => store_crowd::append(&home, 20),
        "collect 12 times" => (0..12).for_each(|_| drop(home.sync())),
        "collect until killed" => {
            begun(&home);
            loop {
                for _ in 0..9 {
                    home.sync();
                    std::fs::write(home.scratch(COLLECTED), "").unwrap();
                }
                quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {}).unwrap();
            }
        }
        "collect and rebuild until killed" => {
            for number in 0_u32.. {
                let text = format!("while the doctor looks {number}");
                home.append(MAIN, line("user", &uuid(700_000 + number), None, &text));
                home.sync();
                if number % 16 == 15 {
                    quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {}).unwrap();
                }
            }
        }
        "rebuild until killed" => loop {
            quipu_ledger::rebuild::rebuild(&mut home.open(), &mut |_, _| {}).unwrap();
        },
        "hold a database" => crate::rows::hold(&home),
        "back up" => drop(backups::back_up(&home, &home.scratch("disk/copy.db")).unwrap()),
        "restore" => drop(restores::restore(&home, &home.scratch("disk/copy.db")).unwrap()),
        "hold" => {
            let held = home.open();
            restores::hold(&home, &held);
        }
        "collect while others restore" => restores::collect_on(&home),
        "forget" => drop(home.forget(crate::forget::VICTIM)),
        other => panic!("no such task: {other}"),
    }
}
