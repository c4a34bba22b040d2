//! Properties: any split of the same bytes gives the same ledger, any history of file-system
//! actions is kept, and rebuilding equals collecting.
//!
//! The cases are the same in every run. `PROPTEST_CASES` runs that many random ones.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use crate::home::*;
use quipu_ledger::restore::Generations;

/// Runs `test` on this many cases.
fn check<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let mut runner = TestRunner::new(ProptestConfig { max_shrink_iters: 300, ..few_cases(cases) });
    let outcome = runner.run(&strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

// --- Any split of the same bytes -----------------------------------------------------------------

/// Generates a line of a file, valid or not.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let good = (0_u32..40, any::<bool>()).prop_map(|(number, is_user)| {
        let role = if is_user { "user" } else { "assistant" };
        let parent = (number > 0).then(|| uuid(number - 1));
        line(role, &uuid(number), parent.as_deref(), &format!("word{number} é 🦞"))
    });
    let with = |change: fn(&str) -> Vec<u8>| good.clone().prop_map(move |line| change(&line));
    prop_oneof![
        6 => with(|line| line.as_bytes().to_vec()),
        1 => with(|line| line.replace('\n', "\r\n").into_bytes()),
        1 => with(|line| [&[0; 70][..], line.as_bytes()].concat()),
        1 => with(|line| [line.trim_end().as_bytes(), &[0; 33], b"\n"].concat()),
        1 => with(|line| format!("{}{line}", line.trim_end()).into_bytes()),
        1 => with(|line| format!("{}{line}", &line[..line.len() / 3]).into_bytes()),
        1 => with(|line| line.replace("word", "\u{fffd}").into_bytes().iter()
            .map(|byte| if *byte == 0xbf { 0xff } else { *byte }).collect()),
        1 => with(|line| line.replace("word", "\\ud83d").into_bytes()),
        1 => with(|line| line.replace("word", "\0\u{1b}[2J").into_bytes()),
        1 => with(|line| format!("\u{feff}{line}").into_bytes()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"  \t \r\n".to_vec()),
        1 => Just(b"{\"type\":\"mystery\",\"x\":[1,2,{}]}\n".to_vec()),
        1 => vec(any::<u8>(), 0..60),
    ]
}

/// Generates the bytes of a file: lines, and perhaps an end without a newline.
fn any_file() -> impl Strategy<Value = Vec<u8>> {
    (vec(any_line(), 0..14), any_line(), any::<Index>(), any::<bool>()).prop_map(
        |(lines, last, cut, is_torn)| {
            let mut bytes = lines.concat();
            if is_torn && !last.is_empty() {
                bytes.extend_from_slice(&last[..cut.index(last.len())]);
            }
            bytes
        },
    )
}

/// Returns start and length of each line.
fn boundaries(bytes: &[u8]) -> Vec<(u64, u64)> {
    let mut start = 0;
    complete_lines(bytes)
        .map(|line| {
            let record = (start, line.len() as u64);
            start += record.1;
            record
        })
        .collect()
}

fn check_split(bytes: &[u8], cuts: &[Index]) {
    let whole = Home::quick();
    whole.write(MAIN, bytes);
    whole.sync();
    whole.sync();

    let pieces = Home::quick();
    pieces.write(MAIN, "");
    let mut ends: BTreeSet<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.insert(bytes.len());
    let mut from = 0;
    for end in ends {
        pieces.append(MAIN, &bytes[from..end]);
        from = end;
        pieces.sync();
        pieces.assert_restores_all(&[MAIN]);
        assert_eq!(records(&pieces), boundaries(&bytes[..end]));
    }
    pieces.sync();

    assert_eq!(records(&whole), boundaries(bytes));
    let (one, many) = (whole.projection(), pieces.projection());
    for (table, rows) in one {
        assert_eq!(rows, many[&table], "{table} depends on how the bytes were split");
    }
    pieces.assert_sound();
    pieces.assert_rebuilds();
}

fn records(home: &Home) -> Vec<(u64, u64)> {
    let generations = home.generations();
    assert_eq!(generations.len(), 1, "{generations:?}");
    generations[0].records.clone()
}

#[test]
fn any_split_of_the_same_bytes_gives_the_same_ledger() {
    check(60, (any_file(), vec(any::<Index>(), 0..7)), |(bytes, cuts)| check_split(&bytes, &cuts));
}

/// Every byte on its own is the worst split.
#[test]
fn byte_by_byte_gives_the_same_ledger() {
    let bytes = [
        line("user", &uuid(1), None, "hello").as_bytes(),
        b"{\"cut\":",
        &line("assistant", &uuid(2), Some(&uuid(1)), "world").as_bytes()[..60],
    ]
    .concat();
    let home = Home::quick();
    home.write(MAIN, "");
    for byte in &bytes {
        home.append(MAIN, [*byte]);
        home.sync();
    }
    assert_eq!(records(&home), boundaries(&bytes));
    home.assert_restores_all(&[MAIN]);
    home.assert_sound();
    home.assert_rebuilds();
}

// --- Random file-system actions against a model

/// An action on one of a few files.
#[derive(Debug, Clone)]
enum Action {
    /// Complete lines are appended.
    Append {
        lines: u32,
    },
    /// Some bytes of a line are appended, with or without its newline.
    AppendPart {
        cut: Index,
    },
    Truncate {
        to: Index,
    },
    /// Another file is renamed over it.
    Replace(Change),
    /// It is written again in place.
    Rewrite(Change),
    Delete,
    /// It is renamed to another path, which may exist.
    RenameTo {
        path: usize,
    },
    CopyTo {
        path: usize,
    },
    Touch,
    Sync,
}

#[derive(Debug, Clone)]
enum Change {
    Shorter,
    Longer,
    Identical,
    OneLine { at: Index },
    OneLineAdded { at: Index },
    OneLineRemoved { at: Index },
    Other,
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Shorter),
        Just(Change::Longer),
        Just(Change::Identical),
        any::<Index>().prop_map(|at| Change::OneLine { at }),
        any::<Index>().prop_map(|at| Change::OneLineAdded { at }),
        any::<Index>().prop_map(|at| Change::OneLineRemoved { at }),
        Just(Change::Other),
    ]
}

const PATHS: usize = 4;

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => (1_u32..12).prop_map(|lines| Action::Append { lines }),
        3 => any::<Index>().prop_map(|cut| Action::AppendPart { cut }),
        2 => any::<Index>().prop_map(|to| Action::Truncate { to }),
        3 => any_change().prop_map(Action::Replace),
        3 => any_change().prop_map(Action::Rewrite),
        1 => Just(Action::Delete),
        2 => (0..PATHS).prop_map(|path| Action::RenameTo { path }),
        2 => (0..PATHS).prop_map(|path| Action::CopyTo { path }),
        1 => Just(Action::Touch),
        9 => Just(Action::Sync),
    ]
}

fn path_of(number: usize) -> String {
    format!(".claude/projects/-home-alice-shop/{number:08x}-d010-4b20-a591-b7172ef08e66.jsonl")
}

/// A home, and its expected contents.
struct Model {
    home: Home,
    /// The number of lines ever created; each differs from the others.
    lines: u32,
    /// The number of times a file was touched; each touch sets another time.
    ticks: u64,
    /// True if files have old times, so that their tails count as unchanged at once.
    is_old: bool,
    /// The contents of each file at the last sync, by inode.
    synced: BTreeMap<u64, Vec<u8>>,
    /// The contents of files at any sync.
    seen: Vec<Vec<u8>>,
    /// Generations that were already checked: source and number.
    checked: HashSet<(i64, i64)>,
}

impl Model {
    fn new(is_old: bool, home: Home) -> Model {
        Model {
            home,
            lines: 0,
            ticks: 0,
            is_old,
            synced: BTreeMap::new(),
            seen: Vec::new(),
            checked: HashSet::new(),
        }
    }

    fn line(&mut self) -> Vec<u8> {
        self.lines += 1;
        let parent = (self.lines > 1).then(|| uuid(self.lines - 1));
        let text = format!("word{} {}", self.lines, "x".repeat(self.lines as usize * 7 % 90));
        line("user", &uuid(self.lines), parent.as_deref(), &text).into_bytes()
    }

    fn bytes(&self, file: usize) -> Option<Vec<u8>> {
        fs::read(self.home.path(&path_of(file))).ok()
    }

    /// Sets a time that no file had before: clocks are too coarse for fast tests.
    fn tick(&mut self, file: usize) {
        self.ticks += 1;
        let base = if self.is_old { 1_000_000_000 } else { 4_000_000_000 };
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(base + self.ticks);
        let path = self.home.path(&path_of(file));
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn changed(&mut self, old: &[u8], change: &Change) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> =
            old.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        match change {
            Change::Shorter => lines.truncate(lines.len() / 2),
            Change::Longer => {
                if lines.last().is_some_and(|line| !line.ends_with(b"\n")) {
                    lines.pop();
                }
                lines.push(self.line());
            }
            Change::Identical => {}
            Change::OneLine { at } if !lines.is_empty() => {
                let at = at.index(lines.len());
                lines[at] = self.line();
            }
            Change::OneLineAdded { at } => lines.insert(at.index(lines.len() + 1), self.line()),
            Change::OneLineRemoved { at } if !lines.is_empty() => {
                lines.remove(at.index(lines.len()));
            }
            Change::OneLine { .. } | Change::OneLineRemoved { .. } | Change::Other => {
                lines = (0..6).map(|_| self.line()).collect();
            }
        }
        lines.concat()
    }

    fn act(&mut self, file: usize, action: &Action) {
        let path = path_of(file);
        let Some(old) = self.bytes(file) else {
            if matches!(action, Action::Sync) {
                return self.sync();
            }
            // An action on a file that does not exist creates it first.
            let first = self.line();
            self.home.write(&path, first);
            return self.tick(file);
        };
        match action {
            Action::Append { lines } => {
                for _ in 0..*lines {
                    let line = self.line();
                    self.home.append(&path, line);
                }
            }
            Action::AppendPart { cut } => {
                let line = self.line();
                self.home.append(&path, &line[..cut.index(line.len() + 1)]);
            }
            Action::Truncate { to } => {
                let length = to.index(old.len() + 1) as u64;
                let target = File::options().write(true).open(self.home.path(&path)).unwrap();
                target.set_len(length).unwrap();
            }
            Action::Replace(change) => {
                let bytes = self.changed(&old, change);
                self.home.replace(&path, bytes);
            }
            Action::Rewrite(change) => {
                let bytes = self.changed(&old, change);
                self.home.write(&path, bytes);
            }
            Action::Delete => return self.home.remove(&path),
            Action::RenameTo { path: to } => {
                return if *to != file {
                    self.home.rename(&path, &path_of(*to))
                };
            }
            Action::CopyTo { path: to } => {
                if *to != file {
                    self.home.write(&path_of(*to), old);
                    self.tick(*to);
                }
                return;
            }
            Action::Touch => {}
            Action::Sync => return self.sync(),
        }
        self.tick(file);
    }

    /// Replaces files that were changed in the middle and grew in place: such a change cannot be
    /// seen, because the first and the last bytes that were read are unchanged.
    fn make_visible(&self) {
        for file in 0..PATHS {
            let path = self.home.path(&path_of(file));
            let (Ok(meta), Some(now)) = (fs::metadata(&path), self.bytes(file)) else { continue };
            let Some(then) = self.synced.get(&meta.ino()) else { continue };
            let ends = |bytes: &[u8]| {
                (
                    bytes[..then.len().min(1024)].to_vec(),
                    bytes[then.len().saturating_sub(256)..then.len()].to_vec(),
                )
            };
            if now.len() > then.len() && !now.starts_with(then) && ends(&now) == ends(then) {
                let time = meta.modified().unwrap();
                self.home.replace(&path_of(file), &now);
                File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            }
        }
    }

    fn sync(&mut self) {
        self.make_visible();
        self.home.sync();
        self.home.assert_sound();

        let newest = self.home.restored(Generations::Newest);
        self.synced.clear();
        for file in 0..PATHS {
            let path = path_of(file);
            let Some(bytes) = self.bytes(file) else { continue };
            let name = path.replacen(".claude", "claude-code", 1);
            assert!(newest.get(&name) == Some(&bytes), "{path} is not restored");
            let inode = fs::metadata(self.home.path(&path)).unwrap().ino();
            self.synced.insert(inode, bytes.clone());
            self.seen.push(bytes);
        }

        let generations = self.home.generations();
        for seen in &self.seen {
            let is_kept = generations.iter().any(|generation| generation.bytes.starts_with(seen));
            assert!(is_kept, "the bytes of a file at an earlier sync are lost");
        }
        for generation in &generations {
            if !self.checked.insert((generation.source, generation.number))
                || generation.number == 1
            {
                continue;
            }
            let before = generations.iter().find(|other| {
                (other.source, other.number) == (generation.source, generation.number - 1)
            });
            let before: HashSet<&[u8]> = complete_lines(&before.unwrap().bytes).collect();
            for record in generation.own_records() {
                assert!(!before.contains(record), "an unchanged line is stored twice");
            }
        }
        let report = self.home.sync();
        assert_eq!((report.bytes_read, report.records_added), (0, 0), "{report:?}");
    }
}

fn check_actions(home: Home, is_old: bool, actions: &[(usize, Action)]) {
    let mut model = Model::new(is_old, home);
    for (file, action) in actions {
        model.act(*file, action);
    }
    model.sync();
    model.home.assert_rebuilds();
}

fn any_actions() -> impl Strategy<Value = (bool, Vec<(usize, Action)>)> {
    (any::<bool>(), vec((0..PATHS - 1, any_action()), 4..24))
}

#[test]
fn random_actions_lose_nothing_and_store_nothing_twice() {
    check(100, any_actions(), |(is_old, actions)| check_actions(Home::quick(), is_old, &actions));
}

/// Disks give the inode of a deleted file to the next one; memory file systems do not.
#[test]
fn random_actions_on_a_disk_that_reuses_inodes_lose_nothing() {
    check(12, any_actions(), |(is_old, actions)| check_actions(Home::new(), is_old, &actions));
}

// --- Random transcripts

/// A line of a transcript that is valid, but not sensible.
#[derive(Debug, Clone)]
struct Line {
    file: usize,
    kind: usize,
    id: Option<u32>,
    /// The parent's id; `None`: no field. An id that does not exist: a parent that never arrives.
    parent: Option<u32>,
    is_root: bool,
    is_sidechain: bool,
    variant: u32,
    call: u32,
    message: u32,
    time: u32,
    is_synced: bool,
}

const CLAUDE_KINDS: usize = 11;
const FILES: [&str; 6] = [
    ".claude/projects/-home-alice-shop/00000000-d010-4b20-a591-b7172ef08e66.jsonl",
    ".claude/projects/-home-alice-shop/00000001-d010-4b20-a591-b7172ef08e66.jsonl",
    ".claude/projects/-home-alice-shop/00000000-d010-4b20-a591-b7172ef08e66/subagents/agent-beef.jsonl",
    ".openclaw/agents/main/sessions/plain.jsonl",
    ".openclaw/agents/other/sessions/plain-topic-7.jsonl",
    ".claude/history.jsonl",
];

fn any_transcript_line() -> impl Strategy<Value = Line> {
    let ids = (
        proptest::option::weighted(0.9, 0_u32..12),
        proptest::option::weighted(0.9, 0_u32..14),
        proptest::bool::weighted(0.1),
    );
    let rest = (0_u32..3, 0_u32..4, 0_u32..5, 0_u32..50);
    let flags = (proptest::bool::weighted(0.2), proptest::bool::weighted(0.25));
    (0..FILES.len(), 0..CLAUDE_KINDS, ids, rest, flags).prop_map(
        |(
            file,
            kind,
            (id, parent, is_root),
            (variant, call, message, time),
            (is_sidechain, is_synced),
        )| Line {
            file,
            kind,
            id,
            parent,
            is_root,
            is_sidechain,
            variant,
            call,
            message,
            time,
            is_synced,
        },
    )
}

impl Line {
    fn text(&self) -> String {
        match self.file {
            0..3 => self.claude(),
            3 | 4 => self.openclaw(),
            _ => format!(
                "{{\"display\":\"prompt{}\",\"timestamp\":{},\"project\":\"/p\",\"sessionId\":\"0000000{}-d010-4b20-a591-b7172ef08e66\"}}\n",
                self.variant,
                1_700_000_000_000_u64 + u64::from(self.time),
                self.message
            ),
        }
    }

    fn claude(&self) -> String {
        let Line { variant, call, message, time, .. } = self;
        let id = self.id.map(|id| format!("\"uuid\":\"{}\",", uuid(id))).unwrap_or_default();
        let parent = match (self.is_root, self.parent) {
            (true, _) => "\"parentUuid\":null,".to_owned(),
            (false, Some(parent)) => format!("\"parentUuid\":\"{}\",", uuid(parent)),
            (false, None) => String::new(),
        };
        let session = match self.file {
            1 => "00000001",
            _ => "00000000",
        };
        let common = format!(
            "{id}{parent}\"isSidechain\":{},\"sessionId\":\"{session}-d010-4b20-a591-b7172ef08e66\",\
             \"cwd\":\"/p\",\"version\":\"2.1.{variant}\",\"gitBranch\":\"b{variant}\",\
             \"timestamp\":\"2026-01-12T10:30:{:02}.000Z\"",
            self.is_sidechain || self.file == 2,
            time % 60
        );
        let usage = format!(
            "\"id\":\"msg_{message}\",\"model\":\"m{variant}\",\"usage\":{{\"input_tokens\":{},\"output_tokens\":{}}}",
            10 + variant,
            time
        );
        let request = match variant {
            0 => String::new(),
            _ => format!(",\"requestId\":\"req_{}\"", message % 2),
        };
        let body = match self.kind {
            0 | 1 => format!("\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"ask{variant}\"}}"),
            2 | 3 => format!(
                "\"type\":\"assistant\",\"message\":{{\"role\":\"assistant\",{usage},\"content\":[{{\"type\":\"text\",\"text\":\"say{variant}\"}}]}}{request}"
            ),
            4 => format!(
                "\"type\":\"assistant\",\"message\":{{\"role\":\"assistant\",{usage},\"stop_reason\":\"tool_use\",\"content\":[\
                 {{\"type\":\"tool_use\",\"id\":\"toolu_{call}\",\"name\":\"Bash\",\"input\":{{\"command\":\"ls {variant}\"}}}},\
                 {{\"type\":\"tool_use\",\"id\":\"toolu_{}\",\"name\":\"Task\",\"input\":{{}}}}]}}{request}",
                call + variant
            ),
            5 | 6 => format!(
                "\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_{call}\",\
                 \"is_error\":{},\"content\":\"result{variant} failed\"}}]}},\"toolUseResult\":{{\"agentId\":\"beef\"}}",
                *variant == 1
            ),
            7 => format!(
                "\"type\":\"system\",\"subtype\":\"compact_boundary\",\"content\":\"Conversation compacted\",\
                 \"compactMetadata\":{{\"trigger\":\"auto\",\"preTokens\":{time}}},\"logicalParentUuid\":\"{}\"",
                uuid(*call)
            ),
            8 => format!(
                "\"type\":\"user\",\"isCompactSummary\":true,\"message\":{{\"role\":\"user\",\"content\":\"summary{variant}\"}}"
            ),
            9 => return format!(
                "{{\"type\":\"summary\",\"summary\":\"title{variant}\",\"leafUuid\":\"{}\"}}\n",
                uuid(*call)
            ),
            _ => "\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[Request interrupted by user]\"}]}".to_owned(),
        };
        format!("{{{common},{body}}}\n")
    }

    fn openclaw(&self) -> String {
        let Line { variant, call, time, .. } = self;
        let id = self.id.map(|id| format!("\"id\":\"{id:08x}\",")).unwrap_or_default();
        let parent = match (self.is_root, self.parent) {
            (true, _) => "\"parentId\":null,".to_owned(),
            (false, Some(parent)) => format!("\"parentId\":\"{parent:08x}\","),
            (false, None) => String::new(),
        };
        let common =
            format!("{id}{parent}\"timestamp\":\"2026-02-04T10:30:{:02}.000Z\"", time % 60);
        let body = match self.kind {
            0 | 1 => format!("\"type\":\"message\",\"message\":{{\"role\":\"user\",\"content\":\"ask{variant}\"}}"),
            2 => format!(
                "\"type\":\"message\",\"message\":{{\"role\":\"assistant\",\"model\":\"m{variant}\",\"provider\":\"p\",\"stopReason\":\"stop\",\
                 \"content\":[{{\"type\":\"text\",\"text\":\"say{variant}\"}}],\"usage\":{{\"input\":{variant},\"output\":{time}}}}}"
            ),
            3 | 4 => format!(
                "\"type\":\"message\",\"message\":{{\"role\":\"assistant\",\"model\":\"m\",\"stopReason\":\"toolUse\",\
                 \"content\":[{{\"type\":\"toolCall\",\"id\":\"call_{call}\",\"name\":\"read\",\"arguments\":{{\"path\":\"p{variant}\"}}}}]}}"
            ),
            5 => format!(
                "\"type\":\"message\",\"message\":{{\"role\":\"toolResult\",\"toolCallId\":\"call_{call}\",\"toolName\":\"read\",\
                 \"content\":[{{\"type\":\"text\",\"text\":\"result{variant}\"}}]}}"
            ),
            6 => "\"type\":\"message\",\"message\":{\"role\":\"toolResult\",\"toolName\":\"read\",\"content\":\"no id\"}".to_owned(),
            7 => format!(
                "\"type\":\"compaction\",\"summary\":\"s{variant}\",\"tokensBefore\":{time},\"firstKeptEntryId\":\"{call:08x}\""
            ),
            8 => format!("\"type\":\"label\",\"targetId\":\"{call:08x}\",\"label\":\"l{variant}\""),
            9 => format!("\"type\":\"leaf\",\"targetId\":\"{call:08x}\""),
            _ => format!("\"type\":\"session\",\"version\":3,\"cwd\":\"/p{variant}\""),
        };
        format!("{{{common},{body}}}\n")
    }
}

fn check_transcripts(lines: &[Line], ends: &[usize]) {
    let home = Home::quick();
    let mut whole = vec![String::new(); FILES.len()];
    for line in lines {
        let text = line.text();
        if whole[line.file].is_empty() {
            home.write(FILES[line.file], "");
        }
        home.append(FILES[line.file], &text);
        whole[line.file].push_str(&text);
        if line.is_synced {
            home.sync();
        }
    }
    home.sync();
    home.assert_sound();
    home.assert_rebuilds();
    check_order(&home, &whole);

    // Then the files are changed.
    for end in ends {
        let path = FILES[*end];
        let archive = format!("{path}.reset.2026-02-04T10-30-00.000Z");
        if !home.path(path).exists() {
            continue;
        }
        match end {
            3 | 4 if !home.path(&archive).exists() => home.rename(path, &archive),
            0 => home.replace(path, &whole[1]),
            _ => home.remove(path),
        }
        home.sync();
    }
    home.assert_sound();
    home.assert_rebuilds();
}

/// Checks what must not depend on the order in which files were collected.
fn check_order(home: &Home, whole: &[String]) {
    let other = Home::quick();
    for (path, text) in FILES.iter().zip(whole) {
        if !text.is_empty() {
            other.write(path, text);
        }
    }
    other.sync();
    for query in [
        "SELECT s.agent, s.session_id, m.role, m.time, m.text FROM messages m JOIN sessions s ON s.id = m.session",
        "SELECT s.agent, s.session_id, t.call_id, t.tool, t.target, t.result IS NULL, t.is_error
           FROM tool_calls t JOIN sessions s ON s.id = t.session",
        "SELECT s.agent, s.session_id, t.status, t.model, t.started_at, t.ended_at, t.input_tokens, t.output_tokens
           FROM turns t JOIN sessions s ON s.id = t.session",
        "SELECT agent, session_id, part, state, parent_session_id, parent_call, slug, cwd, git_branch, title, first_prompt,
                model, started_at, updated_at, entries, turns, messages, tool_calls, compactions FROM sessions",
        "SELECT sum(input_tokens + output_tokens), count(*) FROM usage WHERE is_counted",
        "SELECT kind, count(*) FROM problems GROUP BY kind",
        "SELECT count(*) FROM sightings",
    ] {
        assert_eq!(home.all(query), other.all(query), "depends on the order: {query}");
    }
}

#[test]
fn rebuild_equals_incremental_for_any_transcript() {
    let ends = vec(0..FILES.len(), 0..4);
    check(80, (vec(any_transcript_line(), 1..40), ends), |(lines, ends)| {
        check_transcripts(&lines, &ends);
    });
}
