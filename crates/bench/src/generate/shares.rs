//! Counts what the bytes of a home are used for, by reading the files back.
//!
//! Does not use the generator's own counts: the same code counts generated and real homes, so the
//! two can be compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::texture::Texture;
use crate::corpus;
use crate::report::{Report, Target, Unit};

/// The shares of a home's bytes, by use.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    pub(crate) claude: Half,
    pub(crate) openclaw: Half,
    pub(crate) longest_line: usize,
}

/// The files of one agent.
#[derive(Debug, Default)]
pub(crate) struct Half {
    pub(crate) bytes: usize,
    kinds: [usize; KINDS.len()],
    /// Counts by line type; OpenClaw's messages count under their role.
    lines: BTreeMap<String, Lines>,
    /// The bytes of lines with a tool result.
    tool_result_line_bytes: usize,
    pub(crate) texture: Texture,
}

#[derive(Debug, Default, Clone, Copy)]
struct Lines {
    count: usize,
    bytes: usize,
}

/// A kind of text for the search index.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Prompts and the text of answers.
    Prose,
    Thinking,
    ToolInput,
    /// The result as the model received it. Copies of it in the same line are not counted.
    ToolResult,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Prose, "prose"),
    (Kind::Thinking, "thinking"),
    (Kind::ToolInput, "tool input"),
    (Kind::ToolResult, "tool result text"),
];

/// A range that was measured on real transcripts.
type Real = (f64, f64);

/// Measurements of one agent's real transcripts. The transcripts are two collections of Claude Code
/// sessions (10 MB), and one of sessions of pi (1 MB), which writes the same lines as OpenClaw.
struct Measured {
    /// The share of each kind of text, in the order of `KINDS`.
    kinds: [Real; KINDS.len()],
    /// Each line type with its share of all bytes, and the mean bytes of a line.
    lines: &'static [(&'static str, Real, Real)],
    /// Compressed bytes / bytes.
    packed: Real,
    /// Distinct words of an entry / all words of it.
    distinct: Real,
    /// Means: the words of an entry, the bytes of a word, and the bits (entropy) of a word.
    words: [Real; 3],
}

const REAL_CLAUDE: Measured = Measured {
    kinds: [(0.010, 0.022), (0.006, 0.013), (0.028, 0.037), (0.120, 0.137)],
    lines: &[
        ("user", (0.62, 0.64), (4000.0, 8200.0)),
        ("assistant", (0.21, 0.28), (1260.0, 1450.0)),
        ("progress", (0.07, 0.135), (640.0, 1550.0)),
        ("file-history-snapshot", (0.01, 0.03), (600.0, 1030.0)),
        ("system", (0.003, 0.006), (580.0, 610.0)),
        ("queue-operation", (0.001, 0.005), (190.0, 220.0)),
    ],
    packed: (0.128, 0.134),
    distinct: (0.439, 0.516),
    words: [(67.7, 115.5), (7.4, 7.5), (9.5, 9.7)],
};

const REAL_OPENCLAW: Measured = Measured {
    kinds: [(0.066, 0.066), (0.0, 0.03), (0.153, 0.153), (0.265, 0.265)],
    lines: &[
        ("toolResult", (0.49, 0.49), (1290.0, 1290.0)),
        ("assistant", (0.47, 0.47), (1000.0, 1000.0)),
        ("user", (0.027, 0.027), (300.0, 300.0)),
    ],
    packed: (0.160, 0.160),
    distinct: (0.454, 0.454),
    words: [(67.0, 67.0), (7.8, 7.8), (9.2, 9.2)],
};

/// Returns the shares of all transcripts below `home`.
pub(crate) fn of_home(home: &Path) -> Result<Shares> {
    let mut shares = Shares::default();
    for file in corpus::sources(home)? {
        let bytes = fs::read(&file.path)?;
        let is_claude = file.path.strip_prefix(home)?.starts_with(".claude");
        let half = if is_claude { &mut shares.claude } else { &mut shares.openclaw };
        half.bytes += bytes.len();
        half.texture.add_bytes(&bytes);
        if !file.is_lines() {
            continue;
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            shares.longest_line = shares.longest_line.max(line.len());
            if let Ok(entry) = serde_json::from_slice::<Value>(line) {
                half.count(&entry, line.len());
            }
        }
    }
    shares.claude.texture.finish();
    shares.openclaw.texture.finish();
    Ok(shares)
}

impl Shares {
    /// Returns the share of all bytes in lines with a tool result.
    pub(crate) fn tool_results(&self) -> f64 {
        self.part(|half| half.tool_result_line_bytes)
    }

    /// Returns the share of all bytes that a search index receives.
    pub(crate) fn text(&self) -> f64 {
        self.part(|half| half.kinds.iter().sum())
    }

    /// Returns the share of all bytes in files of Claude Code.
    pub(crate) fn of_claude(&self) -> f64 {
        ratio(self.claude.bytes, self.claude.bytes + self.openclaw.bytes)
    }

    /// Adds the whole table, each figure next to that of real transcripts.
    pub(crate) fn add_rows(&self, report: &mut Report) {
        report.fact_bytes("longest line", self.longest_line as u64);
        report.row("tool results / all", self.tool_results(), Unit::Share, Target::None);
        report.row("text for search / all", self.text(), Unit::Share, Target::None);
        report.row("Claude Code / all", self.of_claude(), Unit::Share, Target::None);
        self.claude.add_rows("Claude Code", &REAL_CLAUDE, report);
        self.openclaw.add_rows("OpenClaw", &REAL_OPENCLAW, report);
    }

    fn part(&self, count: impl Fn(&Half) -> usize) -> f64 {
        ratio(count(&self.claude) + count(&self.openclaw), self.claude.bytes + self.openclaw.bytes)
    }
}

impl Half {
    /// Returns the share of this half's bytes that is text of one kind.
    pub(crate) fn kind(&self, kind: Kind) -> f64 {
        ratio(self.kinds[kind as usize], self.bytes)
    }

    /// Returns the share of this half's bytes in lines of one type.
    pub(crate) fn lines(&self, line_type: &str) -> f64 {
        ratio(self.lines_of(line_type).bytes, self.bytes)
    }

    /// Returns the mean bytes of a line of one type.
    pub(crate) fn mean_line(&self, line_type: &str) -> f64 {
        let lines = self.lines_of(line_type);
        ratio(lines.bytes, lines.count)
    }

    fn lines_of(&self, line_type: &str) -> Lines {
        self.lines.get(line_type).copied().unwrap_or_default()
    }

    fn add_rows(&self, agent: &str, real: &Measured, report: &mut Report) {
        let like = |(low, high)| Target::Like(low, high);
        for ((kind, name), measured) in KINDS.into_iter().zip(real.kinds) {
            report.row(format!("{agent}: {name}"), self.kind(kind), Unit::Share, like(measured));
        }
        let results = ratio(self.tool_result_line_bytes, self.bytes);
        report.row(format!("{agent}: tool result lines"), results, Unit::Share, Target::None);
        for (line_type, share, mean) in real.lines {
            let name = format!("{agent}: {line_type} lines");
            report.row(name, self.lines(line_type), Unit::Share, like(*share));
            let name = format!("{agent}: {line_type}, mean line");
            report.row(name, self.mean_line(line_type), Unit::Bytes, like(*mean));
        }
        let n_lines = self.lines.values().map(|lines| lines.count).sum();
        let bytes = self.lines.values().map(|lines| lines.bytes).sum();
        let name = format!("{agent}: mean line");
        report.row(name, ratio(bytes, n_lines), Unit::Bytes, Target::None);
        let texture = &self.texture;
        let [words, bytes, bits] = real.words;
        for (name, value, unit, measured) in [
            ("packed / plain", texture.packed(), Unit::Share, real.packed),
            ("distinct words / words of an entry", texture.distinct(), Unit::Share, real.distinct),
            ("words of an entry", texture.words_per_entry(), Unit::Number, words),
            ("bytes of a word", texture.bytes_per_word(), Unit::Number, bytes),
            ("bits of a word", texture.bits_per_word(), Unit::Number, bits),
        ] {
            report.row(format!("{agent}: {name}"), value, unit, like(measured));
        }
    }

    fn count(&mut self, entry: &Value, line_len: usize) {
        self.texture.add_entry(entry);
        let message = &entry["message"];
        let line_type = match entry["type"].as_str().unwrap_or("none") {
            "message" => message["role"].as_str().unwrap_or("none"),
            line_type => line_type,
        };
        let lines = self.lines.entry(line_type.to_owned()).or_default();
        lines.count += 1;
        lines.bytes += line_len;
        let mut is_result = message["role"] == "toolResult";
        let text_kind = if is_result { Kind::ToolResult } else { Kind::Prose };
        match &message["content"] {
            Value::Array(blocks) => {
                for block in blocks {
                    is_result |= block["type"] == "tool_result";
                    self.count_block(block, text_kind);
                }
            }
            text => self.add(text_kind, text),
        }
        self.add(Kind::Prose, &entry["summary"]);
        if is_result {
            self.tool_result_line_bytes += line_len;
        }
    }

    fn count_block(&mut self, block: &Value, text_kind: Kind) {
        match block["type"].as_str().unwrap_or_default() {
            "tool_use" => self.add(Kind::ToolInput, &block["input"]),
            "toolCall" => self.add(Kind::ToolInput, &block["arguments"]),
            "tool_result" => match &block["content"] {
                Value::Array(inner) => {
                    inner.iter().for_each(|block| self.count_block(block, Kind::ToolResult));
                }
                text => self.add(Kind::ToolResult, text),
            },
            "thinking" => self.add(Kind::Thinking, &block["thinking"]),
            _ => self.add(text_kind, &block["text"]),
        }
    }

    fn add(&mut self, kind: Kind, text: &Value) {
        self.kinds[kind as usize] += strings(text);
    }
}

/// Returns the total length of the strings inside a value.
fn strings(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(strings).sum(),
        Value::Object(fields) => fields.values().map(strings).sum(),
        _ => 0,
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}
