//! A collector that is killed at any moment loses nothing and stores nothing twice.
//!
//! A child process collects (and sometimes rebuilds) while lines arrive in torn pieces. It is
//! killed a random time after it began, again and again. Only these tests wait for time to pass:
//! the kills have to fall at any point.

use quipu_torture::Prng;
use std::fs::File;
use std::time::{Duration, Instant};

use crate::child;
use crate::home::*;

const ROUNDS: u64 = 5;
const KILLS: u64 = 100;

/// Files that are only appended to.
const STEADY: [&str; 2] = [
    ".claude/projects/-p/00000001-d010-4b20-a591-b7172ef08e66.jsonl",
    ".openclaw/agents/main/sessions/steady.jsonl",
];

/// A file that is rewritten, truncated, replaced and renamed.
const WILD: &str = ".openclaw/agents/main/sessions/wild.jsonl";

struct Writer<'h> {
    home: &'h Home,
    prng: Prng,
    lines: u32,
    archives: u32,
    /// For each file, the rest of its last line that is still to be written.
    rest: [Vec<u8>; 3],
}

impl Writer<'_> {
    fn line(&mut self, file: usize) -> Vec<u8> {
        self.lines += 1;
        let (id, mut words) = (self.lines, "word ".repeat(self.prng.below(30) as usize));
        // A run of one byte: an unterminated tail like this is stored compressed.
        if self.prng.below(8) == 0 {
            words.push_str(&"x".repeat(self.prng.below(30_000) as usize));
        }
        match file {
            0 => line("user", &uuid(id), None, &format!("unique{id} {words}")).into_bytes(),
            _ => format!(
                "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,\"timestamp\":1770193116233,\
                 \"message\":{{\"role\":\"user\",\"content\":\"unique{id} {words}\"}}}}\n"
            )
            .into_bytes(),
        }
    }

    /// Appends some bytes of a line, cut anywhere.
    fn step(&mut self) {
        let file = self.prng.below(3) as usize;
        if file == 2 && self.prng.below(30) == 0 {
            return self.rewrite();
        }
        if self.rest[file].is_empty() {
            self.rest[file] = self.line(file);
        }
        let cut = 1 + self.prng.below(self.rest[file].len() as u64) as usize;
        let later = self.rest[file].split_off(cut);
        let now = std::mem::replace(&mut self.rest[file], later);
        self.home.append(path_of(file), now);
    }

    /// Changes the wild file in a way that no append does. Its first line always changes.
    fn rewrite(&mut self) {
        self.rest[2].clear();
        let mut bytes = self.line(2);
        let old = std::fs::read(self.home.path(WILD)).unwrap();
        match self.prng.below(4) {
            0 => {
                bytes.extend_from_slice(&old);
                self.home.write(WILD, bytes);
            }
            1 => {
                bytes.extend_from_slice(&old);
                self.home.replace(WILD, bytes);
            }
            2 => {
                let length = self.prng.below(old.len() as u64 + 1);
                let file = File::options().write(true).open(self.home.path(WILD)).unwrap();
                file.set_len(length).unwrap();
            }
            _ => {
                self.archives += 1;
                let to = format!("{WILD}.reset.2026-02-04T10-30-00.{:03}Z", self.archives);
                self.home.rename(WILD, &to);
                self.home.write(WILD, bytes);
            }
        }
    }
}

fn path_of(file: usize) -> &'static str {
    STEADY.get(file).copied().unwrap_or(WILD)
}

fn round(seed: u64) {
    let home = Home::quick();
    let mut writer = Writer {
        home: &home,
        prng: Prng::new(seed),
        lines: 0,
        archives: 0,
        rest: Default::default(),
    };
    for file in 0..3 {
        home.write(path_of(file), "");
    }
    for kill in 0..KILLS {
        let mut child = child::start_alone(&home, "collect until killed");
        // Without a ledger, a round shows nothing.
        while kill == 0 && !home.ledger_path().exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // On a loaded machine, starting a process may take longer than the time until its kill, and
        // so may a sync. Some are killed while they start, and some only after a sync.
        match writer.prng.below(8) {
            0 => {}
            1 => child::wait_until_collected(&home, &mut child),
            _ => child::wait_until_begun(&home, &mut child),
        }
        let end = Instant::now() + Duration::from_micros(writer.prng.below(36_000));
        while Instant::now() < end {
            writer.step();
            std::thread::sleep(Duration::from_micros(500));
        }
        child::assert_lives(&home, &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let before: i64 = home.one("SELECT count(*) FROM records");
    assert!(before > i64::from(writer.lines) / 2, "{before} of {} lines", writer.lines);

    home.sync();
    home.assert_sound();
    home.assert_restores_all(&[STEADY[0], STEADY[1], WILD]);
    let generations = home.generations();
    for path in STEADY {
        let bytes = std::fs::read(home.path(path)).unwrap();
        let steady: Vec<_> = generations
            .iter()
            .filter(|generation| path.ends_with(generation.path.as_str()))
            .collect();
        assert_eq!(steady.len(), 1, "{path} was never rewritten");
        assert_eq!(steady[0].bytes, bytes);
        let lines: Vec<&[u8]> = complete_lines(&bytes).collect();
        assert_eq!(steady[0].own_records().collect::<Vec<_>>(), lines, "{path}");
    }
    let doubled = "SELECT text FROM messages WHERE id > 0 GROUP BY text HAVING count(*) > 1";
    assert_eq!(home.all(doubled), [""; 0]);
    home.assert_rebuilds();
}

#[test]
fn a_collector_killed_five_hundred_times_loses_nothing() {
    for seed in 1..=ROUNDS {
        println!("seed {seed}");
        round(seed);
    }
}
