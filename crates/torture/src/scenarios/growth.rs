//! Much input of a kind that a quadratic algorithm would not finish: calls whose ids end alike,
//! many copies of one session, many files with one header.
//!
//! Compares the time that the kernel counts for the process, user and system together: other
//! processes hardly change it, and the two parts are only estimated.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use wait4::Wait4 as _;

use super::sources::create;
use crate::sandbox::{Sandbox, files};

use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "growth",
    faults: "",
    what: "many calls with similar ids, copies of one session, files with one header: linear time",
    run,
};

/// The larger input has four times the lines of the smaller one. Linear work takes at most four
/// times as long, quadratic work sixteen times.
const LARGEST_FACTOR: u32 = 8;

/// The largest number of measurements of one input.
const TRIES: u32 = 3;

const SESSION: &str = "13f7ee8b-4916-4c0c-a7c3-6a9d44685f32";
const SESSIONS: &str = ".openclaw/agents/main/sessions";

/// An input: its name, the function that writes its files, the command that reads them, and the two
/// sizes.
type Input = (&'static str, fn(&Sandbox, u64) -> Result<()>, &'static [&'static str], [u64; 2]);

const INPUTS: [Input; 5] = [
    ("calls whose ids end alike, shown", calls, &["show", SESSION, "--full"], [2000, 8000]),
    ("calls whose ids end alike, exported", calls, &["export", SESSION], [2000, 8000]),
    // The number of lines is the square of the number of copies.
    ("growing copies of a session", growing, &["sync"], [100, 200]),
    ("equal copies of a session", equal, &["sync"], [500, 2000]),
    // More bytes than stay pending.
    ("files with one header", headers, &["sync"], [1250, 5000]),
];

fn run(setting: &Setting) -> Result<Outcome> {
    let (mut runs, mut largest) = (0, 0.0_f64);
    for _ in 0..setting.times(1, 5) {
        for input in &INPUTS {
            let what = input.0;
            let [few, many] = compared(setting, input).context(what)?;
            ensure!(many <= few * LARGEST_FACTOR, "{what}: {few:?}, then {many:?} of CPU time");
            largest = largest.max(many.as_secs_f64() / few.as_secs_f64());
            runs += 2;
        }
    }
    let what =
        format!("{runs} inputs; at most {largest:.1} times the CPU time for four times the lines");
    Ok(Outcome::Held { runs, what })
}

/// Returns the CPU times of a command with the smaller and with the larger input. Both are measured
/// again if they do not look linear; the shortest times count.
fn compared(setting: &Setting, input: &Input) -> Result<[Duration; 2]> {
    let (_, write, command, sizes) = *input;
    let mut shortest = [Duration::MAX; 2];
    for _ in 0..TRIES {
        for (shortest, size) in shortest.iter_mut().zip(sizes) {
            // Another size for each seed.
            let size = size + size * (setting.seed % 10) / 20;
            let sandbox = Sandbox::new(setting)?;
            write(&sandbox, size)?;
            if command != ["sync"] {
                sandbox.json(&["sync"])?;
            }
            let ended = sandbox.command(command).stdout(Stdio::null()).spawn()?.wait4()?;
            ensure!(ended.status.success(), "`quipu {}`: {}", command.join(" "), ended.status);
            *shortest = (*shortest).min(ended.rusage.utime + ended.rusage.stime);
            let written = files(&sandbox.home())?;
            sandbox
                .check(written.values().flatten().filter(|byte| **byte == b'\n').count() as u64)?;
        }
        let [few, many] = shortest;
        if many <= few * LARGEST_FACTOR {
            break;
        }
    }
    Ok(shortest)
}

fn calls(sandbox: &Sandbox, size: u64) -> Result<()> {
    let mut text = String::new();
    for number in 0..size {
        let id = format!("toolu_01{number:08}same");
        for (kind, role, content) in [
            (
                1,
                "assistant",
                format!(r#""type":"tool_use","id":"{id}","name":"Bash","input":{{}}"#),
            ),
            (2, "user", format!(r#""type":"tool_result","tool_use_id":"{id}","content":"out""#)),
        ] {
            let uuid = |line: u64| format!("{line:08x}-0000-4000-8000-000000000000");
            writeln!(
                text,
                r#"{{"type":"{role}","uuid":"{}","parentUuid":"{}","sessionId":"{SESSION}","message":{{"role":"{role}","content":[{{{content}}}]}}}}"#,
                uuid(2 * number + kind),
                uuid(2 * number + kind - 1),
            )?;
        }
    }
    create(&sandbox.home().join(format!(".claude/projects/-p/{SESSION}.jsonl")), &text)
}

/// Returns a transcript with a header and these messages.
fn transcript(messages: std::ops::Range<u64>) -> String {
    let mut text = format!("{{\"type\":\"session\",\"version\":3,\"id\":\"{SESSION}\"}}\n");
    for number in messages {
        let _ = writeln!(
            text,
            r#"{{"type":"message","id":"{number:08x}","parentId":null,"message":{{"role":"user","content":"word{number}"}}}}"#
        );
    }
    text
}

fn growing(sandbox: &Sandbox, size: u64) -> Result<()> {
    backups(sandbox, size, |number| transcript(0..number + 1))
}

fn equal(sandbox: &Sandbox, size: u64) -> Result<()> {
    backups(sandbox, size, |_| transcript(0..5))
}

fn backups(sandbox: &Sandbox, size: u64, text: impl Fn(u64) -> String) -> Result<()> {
    let folder = sandbox.home().join(SESSIONS);
    (0..size).try_for_each(|number| {
        create(&folder.join(format!("{SESSION}.jsonl.bak-{number}-1770193116233")), &text(number))
    })
}

fn headers(sandbox: &Sandbox, size: u64) -> Result<()> {
    let folder = sandbox.home().join(SESSIONS).join("cold");
    (0..size).try_for_each(|number| {
        create(&folder.join(format!("{number:064x}.jsonl")), &transcript(number..number + 1))
    })
}
