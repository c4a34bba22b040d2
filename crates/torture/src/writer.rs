//! An agent that writes: whole lines, and lines torn into pieces.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use anyhow::Result;

use crate::place::Place;
use crate::prng::Prng;

/// Two files of each agent, and one that has to be looked into to see what it is. Only ever appended
/// to.
pub(crate) const FILES: [&str; 5] = [
    ".claude/projects/-home-alice-shop/00000001-d010-4b20-a591-b7172ef08e66.jsonl",
    ".claude/projects/-home-alice-shop/00000002-d010-4b20-a591-b7172ef08e66.jsonl",
    ".openclaw/agents/main/sessions/first.jsonl",
    ".openclaw/agents/main/sessions/second.jsonl",
    ".claude/projects/-home-alice-shop/notes.jsonl",
];

/// Writes lines that are all different.
#[derive(Debug)]
pub(crate) struct Writer {
    prng: Prng,
    lines: u64,
    /// For each file, what is still to be written of its last line.
    rest: [Vec<u8>; FILES.len()],
}

impl Writer {
    /// Creates the files, empty.
    pub(crate) fn new(place: &Place, seed: u64) -> Result<Writer> {
        for file in FILES {
            let path = place.home().join(file);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(path, "")?;
        }
        Ok(Writer { prng: Prng::new(seed), lines: 0, rest: Default::default() })
    }

    /// How many lines are complete.
    pub(crate) fn complete(&self) -> u64 {
        self.lines - self.rest.iter().filter(|rest| !rest.is_empty()).count() as u64
    }

    fn line(&mut self, file: usize) -> Vec<u8> {
        self.lines += 1;
        let (id, words) = (self.lines, "word ".repeat(self.prng.below(60) as usize));
        let line = match file {
            0 | 1 | 4 => format!(
                "{{\"parentUuid\":null,\"isSidechain\":false,\"cwd\":\"/home/alice/shop\",\
                 \"sessionId\":\"{:08x}-d010-4b20-a591-b7172ef08e66\",\"type\":\"user\",\
                 \"message\":{{\"role\":\"user\",\"content\":\"unique{id} {words}\"}},\
                 \"uuid\":\"{id:08x}-0000-4000-8000-000000000000\",\
                 \"timestamp\":\"2026-01-12T10:30:00.000Z\"}}\n",
                file + 1
            ),
            _ => format!(
                "{{\"type\":\"message\",\"id\":\"{id:08x}\",\"parentId\":null,\
                 \"timestamp\":1770193116233,\
                 \"message\":{{\"role\":\"user\",\"content\":\"unique{id} {words}\"}}}}\n"
            ),
        };
        line.into_bytes()
    }

    /// Appends some bytes of a line, cut anywhere.
    pub(crate) fn piece(&mut self, place: &Place) -> Result<()> {
        let file = self.prng.below(FILES.len() as u64) as usize;
        if self.rest.get(file).is_some_and(Vec::is_empty) {
            let line = self.line(file);
            if let Some(rest) = self.rest.get_mut(file) {
                *rest = line;
            }
        }
        let Some(rest) = self.rest.get_mut(file) else { return Ok(()) };
        let cut = 1 + self.prng.below(rest.len() as u64) as usize;
        let later = rest.split_off(cut);
        let now = std::mem::replace(rest, later);
        append(place, file, &now)
    }

    /// Ends every line that was begun, and appends so many whole ones to each file.
    pub(crate) fn lines(&mut self, place: &Place, number: u64) -> Result<()> {
        for file in 0..FILES.len() {
            let mut bytes = self.rest.get_mut(file).map(std::mem::take).unwrap_or_default();
            for _ in 0..number {
                bytes.extend(self.line(file));
            }
            append(place, file, &bytes)?;
        }
        Ok(())
    }

    /// How long something takes, at random.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.prng.below(end)
    }
}

fn append(place: &Place, file: usize, bytes: &[u8]) -> Result<()> {
    let Some(name) = FILES.get(file) else { return Ok(()) };
    let mut file = OpenOptions::new().append(true).open(place.home().join(name))?;
    file.write_all(bytes)?;
    Ok(())
}
