//! The measured files of a home, and the two bare passes over them that quipu is compared with:
//! walk + stat, and parsing every line.
//!
//! Knows only folder names; no other file in a home is opened.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// The folders of a home that hold sessions.
const ROOTS: &[&str] = &[".claude/projects", ".openclaw/agents"];

/// A file and its size.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
}

impl File {
    /// Returns whether the file is JSON lines: a transcript, or one under a longer name.
    pub(crate) fn is_lines(&self) -> bool {
        self.name().contains(".jsonl")
    }

    fn name(&self) -> std::borrow::Cow<'_, str> {
        self.path.file_name().unwrap_or_default().to_string_lossy()
    }

    /// Returns whether a ledger of sessions stores this file.
    fn is_source(&self) -> bool {
        let name = self.name();
        let parent = self.path.parent().and_then(Path::file_name);
        self.is_lines() && !name.ends_with(".lock")
            || name == "sessions.json"
            || name.ends_with(".meta.json")
            || parent.is_some_and(|parent| parent == "tool-results")
    }
}

/// Returns every file below `folder` with its size, by `read_dir` and one stat each.
pub(crate) fn walk(folder: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                let size = entry.metadata()?.len();
                files.push(File { path: entry.path(), size });
            }
        }
    }
    Ok(files)
}

/// Returns the files of `home` that a ledger of sessions stores, in order of path.
pub(crate) fn sources(home: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for root in ROOTS {
        let root = home.join(root);
        if root.is_dir() {
            files.extend(walk(&root)?.into_iter().filter(File::is_source));
        }
    }
    let history = home.join(".claude/history.jsonl");
    if let Ok(metadata) = fs::metadata(&history) {
        files.push(File { path: history, size: metadata.len() });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The counts of the parsing pass.
pub(crate) struct Parsed {
    pub(crate) wall: Duration,
    pub(crate) n_files: u64,
    pub(crate) bytes: u64,
    pub(crate) n_lines: u64,
    pub(crate) n_bad_lines: u64,
    pub(crate) longest_line: u64,
}

impl Parsed {
    /// Returns the counts as JSON, which the parsing child passes to its parent.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "wall_ns": self.wall.as_nanos() as u64,
            "files": self.n_files,
            "bytes": self.bytes,
            "lines": self.n_lines,
            "bad_lines": self.n_bad_lines,
            "longest_line": self.longest_line,
        })
    }

    /// Parses the JSON of `to_json`.
    pub(crate) fn from_json(json: &Value) -> Result<Self> {
        let number = |field: &str| {
            json[field]
                .as_u64()
                .with_context(|| format!("the output of the parsing pass has no `{field}`"))
        };
        Ok(Self {
            wall: Duration::from_nanos(number("wall_ns")?),
            n_files: number("files")?,
            bytes: number("bytes")?,
            n_lines: number("lines")?,
            n_bad_lines: number("bad_lines")?,
            longest_line: number("longest_line")?,
        })
    }
}

/// Reads every source of `home` and parses each line into a `Value`, on one thread.
pub(crate) fn parse_every_line(home: &Path) -> Result<Parsed> {
    let started = Instant::now();
    let files = sources(home)?;
    let mut parsed = Parsed {
        wall: Duration::ZERO,
        n_files: files.len() as u64,
        bytes: 0,
        n_lines: 0,
        n_bad_lines: 0,
        longest_line: 0,
    };
    let mut bytes = Vec::new();
    for file in &files {
        bytes.clear();
        let mut reader = fs::File::open(&file.path)
            .with_context(|| format!("cannot read {}", file.path.display()))?;
        std::io::Read::read_to_end(&mut reader, &mut bytes)?;
        parsed.bytes += bytes.len() as u64;
        if !file.is_lines() {
            continue;
        }
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', &bytes).chain([bytes.len()]) {
            let line = &bytes[from.min(end)..end];
            from = end + 1;
            if line.is_empty() {
                continue;
            }
            parsed.n_lines += 1;
            parsed.longest_line = parsed.longest_line.max(line.len() as u64);
            match serde_json::from_slice::<Value>(line) {
                Ok(value) => drop(std::hint::black_box(value)),
                Err(_) => parsed.n_bad_lines += 1,
            }
        }
    }
    parsed.wall = started.elapsed();
    Ok(parsed)
}

/// Copies the sources of `from` below `to`; returns their number.
pub(crate) fn copy_sources(from: &Path, to: &Path) -> Result<usize> {
    let files = sources(from)?;
    for file in &files {
        let target = to.join(file.path.strip_prefix(from)?);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(&file.path, &target)
            .with_context(|| format!("cannot copy {}", file.path.display()))?;
    }
    Ok(files.len())
}
