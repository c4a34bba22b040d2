//! A writing agent: appends whole lines, and lines in parts.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use anyhow::Result;

use crate::prng::Prng;
use crate::sandbox::Sandbox;

/// Two files of each agent, and one that is a transcript only by its contents. They are only
/// appended to.
pub(crate) const FILES: [&str; 5] = [
    ".claude/projects/-home-alice-shop/00000001-d010-4b20-a591-b7172ef08e66.jsonl",
    ".claude/projects/-home-alice-shop/00000002-d010-4b20-a591-b7172ef08e66.jsonl",
    ".openclaw/agents/main/sessions/first.jsonl",
    ".openclaw/agents/main/sessions/second.jsonl",
    ".claude/projects/-home-alice-shop/notes.jsonl",
];

/// Writes unique lines.
#[derive(Debug)]
pub(crate) struct Writer {
    prng: Prng,
    lines: u64,
    /// For each file, the rest of its last line that is not written yet.
    rest: [Vec<u8>; FILES.len()],
}

impl Writer {
    /// Creates empty files.
    pub(crate) fn new(sandbox: &Sandbox, seed: u64) -> Result<Writer> {
        for file in FILES {
            let path = sandbox.home().join(file);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(path, "")?;
        }
        Ok(Writer { prng: Prng::new(seed), lines: 0, rest: Default::default() })
    }

    /// Returns the number of complete lines.
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

    /// Appends a part of a line, cut anywhere.
    pub(crate) fn piece(&mut self, sandbox: &Sandbox) -> Result<()> {
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
        append(sandbox, file, &now)
    }

    /// Completes every unfinished line, and appends `number` whole lines to each file.
    pub(crate) fn lines(&mut self, sandbox: &Sandbox, number: u64) -> Result<()> {
        for file in 0..FILES.len() {
            let mut bytes = self.rest.get_mut(file).map(std::mem::take).unwrap_or_default();
            for _ in 0..number {
                bytes.extend(self.line(file));
            }
            append(sandbox, file, &bytes)?;
        }
        Ok(())
    }

    /// Returns a random number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.prng.below(end)
    }
}

fn append(sandbox: &Sandbox, file: usize, bytes: &[u8]) -> Result<()> {
    let Some(name) = FILES.get(file) else { return Ok(()) };
    let mut file = OpenOptions::new().append(true).open(sandbox.home().join(name))?;
    file.write_all(bytes)?;
    Ok(())
}
