//! Writes homes full of agent sessions: half Claude Code, half OpenClaw by bytes.
//!
//! The composition follows measurements of real transcripts: `shares` has the figures and counts
//! them again in a generated home.
//!
//! The same seed and size give the same bytes, on any machine. Knows nothing of quipu; the files
//! are those that the agents' own releases would have left.

mod claude;
mod clock;
mod json;
mod material;
mod openclaw;
mod prng;
mod project;
mod scene;
pub(crate) mod shares;
mod sizes;
mod texture;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

pub(crate) use claude::appended_line;
pub(crate) use prng::Prng;
use project::Project;
use vocabulary::Vocabulary;

/// A word in exactly one entry of a generated home.
pub(crate) const RARE_WORD: &str = "xylorare";

/// Bytes of a home for each line of about 1 MB, an image.
const BYTES_PER_LARGE_IMAGE: f64 = 100e6;

/// The description of a home.
pub(crate) struct Plan {
    /// Bytes of all files together, met within a few percent.
    pub(crate) size: u64,
    pub(crate) seed: u64,
    /// Number of transcripts; by default, the usual number for the size.
    pub(crate) n_files: Option<usize>,
}

/// A transcript of the plan, before it is written.
struct Planned {
    /// Its own stream of random numbers.
    stream: u64,
    budget: usize,
}

/// Writes a home into `home`, which must be absent or empty; returns the bytes written.
pub(crate) fn write_home(plan: &Plan, home: &Path) -> Result<u64> {
    let is_empty = fs::read_dir(home).map_or(true, |mut entries| entries.next().is_none());
    ensure!(is_empty, "{} is not empty: name a new folder", home.display());
    let mut writer = Writer { home, bytes: 0 };
    let words = Vocabulary::new();
    let (claude, openclaw) = split_in_halves(plan);
    write_claude(plan, &words, claude, &mut writer)?;
    write_openclaw(plan, &words, openclaw, &mut writer)?;
    Ok(writer.bytes)
}

/// Writes a home of many small Claude Code sessions in `n_projects` folders.
pub(crate) fn write_small_sessions(
    seed: u64,
    n_files: usize,
    n_projects: usize,
    home: &Path,
) -> Result<u64> {
    let mut writer = Writer { home, bytes: 0 };
    let words = Vocabulary::new();
    let project = Project::new(0, &words, &mut Prng::stream(seed, 1));
    for file in 0..n_files {
        let mut prng = Prng::stream(seed, 1000 + file as u64);
        let session_id = prng.uuid();
        let path = format!(
            ".claude/projects/{}-{:03}/{session_id}.jsonl",
            project.slug(),
            file % n_projects
        );
        let order = session_order(session_id, 1500);
        let written = claude::write_session(&order, &project, prng);
        // The first lines are enough: this home measures files, not bytes.
        let end =
            written.lines.match_indices('\n').nth(2).map_or(written.lines.len(), |(at, _)| at + 1);
        writer.write(&path, &written.lines[..end])?;
    }
    Ok(writer.bytes)
}

/// Returns a Claude Code transcript of about `budget` bytes: its session id and its lines.
pub(crate) fn one_claude_session(seed: u64, budget: usize) -> (String, Vec<String>) {
    let words = Vocabulary::new();
    let project = Project::new(0, &words, &mut Prng::stream(seed, 1));
    let mut prng = Prng::stream(seed, 1000);
    let order = session_order(prng.uuid(), budget);
    let written = claude::write_session(&order, &project, prng);
    let lines = written.lines.split_inclusive('\n').map(str::to_owned).collect();
    (order.session_id, lines)
}

fn session_order(session_id: String, budget: usize) -> claude::Order {
    claude::Order {
        session_id,
        budget,
        agent_id: None,
        spawns: Vec::new(),
        has_rare_word: false,
        has_large_image: false,
    }
}

/// Distributes the file sizes so that both agents get about the same bytes.
fn split_in_halves(plan: &Plan) -> (Vec<Planned>, Vec<Planned>) {
    let mut halves = (Vec::new(), Vec::new());
    let mut bytes = (0, 0);
    for (i, budget) in sizes::long_tail(plan.size, plan.n_files).into_iter().enumerate() {
        let planned = Planned { stream: 1000 + i as u64, budget };
        if bytes.0 <= bytes.1 {
            bytes.0 += budget;
            halves.0.push(planned);
        } else {
            bytes.1 += budget;
            halves.1.push(planned);
        }
    }
    halves
}

fn write_claude(
    plan: &Plan,
    words: &Vocabulary,
    files: Vec<Planned>,
    writer: &mut Writer<'_>,
) -> Result<()> {
    let mut prng = Prng::stream(plan.seed, 1);
    let n_projects = (files.len() / 10).clamp(2, 40);
    let projects: Vec<Project<'_>> =
        (0..n_projects).map(|number| Project::new(number, words, &mut prng)).collect();
    let n_large_images = (plan.size as f64 / BYTES_PER_LARGE_IMAGE).round() as usize;
    // Sub-agents are planned first, because the session that starts one names it.
    let mut sessions: Vec<(Planned, usize, claude::Order)> = Vec::new();
    let mut agents: Vec<(Planned, usize, claude::Order)> = Vec::new();
    for planned in files {
        let may_be_agent = !sessions.is_empty() && planned.budget < 400_000;
        if may_be_agent && prng.chance(180) {
            let trunk = prng.below(sessions.len());
            let mut agent_id = String::from("a");
            prng.push_hex(&mut agent_id, 7);
            let (_, project, order) = &mut sessions[trunk];
            order.spawns.push(claude::Spawn {
                agent_id: agent_id.clone(),
                tool_use_id: prng.api_id("toolu_"),
            });
            let mut agent = session_order(order.session_id.clone(), planned.budget);
            agent.agent_id = Some(agent_id);
            agents.push((planned, *project, agent));
        } else {
            let mut order = session_order(prng.uuid(), planned.budget);
            order.has_rare_word = sessions.is_empty();
            // Sizes come largest first, so the long lines are in long sessions.
            order.has_large_image = sessions.len() < n_large_images;
            sessions.push((planned, prng.below(n_projects), order));
        }
    }
    let mut history = String::new();
    for (planned, project, order) in sessions.iter().chain(&agents) {
        let project = &projects[*project];
        let folder = format!(".claude/projects/{}", project.slug());
        let session_id = &order.session_id;
        let path = match &order.agent_id {
            Some(agent_id) => format!("{folder}/{session_id}/subagents/agent-{agent_id}.jsonl"),
            None => format!("{folder}/{session_id}.jsonl"),
        };
        let written =
            claude::write_session(order, project, Prng::stream(plan.seed, planned.stream));
        writer.write(&path, &written.lines)?;
        for (name, text) in &written.tool_results {
            writer.write(&format!("{folder}/{session_id}/tool-results/{name}"), text)?;
        }
        for spawn in &order.spawns {
            let path =
                format!("{folder}/{session_id}/subagents/agent-{}.meta.json", spawn.agent_id);
            writer.write(&path, &claude::meta_json(spawn))?;
        }
        history.push_str(&written.history);
    }
    writer.write(".claude/history.jsonl", &history)
}

fn write_openclaw(
    plan: &Plan,
    words: &Vocabulary,
    files: Vec<Planned>,
    writer: &mut Writer<'_>,
) -> Result<()> {
    let mut prng = Prng::stream(plan.seed, 2);
    let workspaces =
        [("main", Project::new(0, words, &mut prng)), ("work", Project::new(1, words, &mut prng))];
    let mut indexes = [Vec::new(), Vec::new()];
    for planned in files {
        let agent = usize::from(prng.chance(300));
        let (name, workspace) = &workspaces[agent];
        let session_id = prng.uuid();
        let written = openclaw::write_session(
            &session_id,
            planned.budget,
            workspace,
            Prng::stream(plan.seed, planned.stream),
        );
        // A transcript that was reset stays next to the others under a longer name.
        let suffix = if prng.chance(60) { ".reset.2026-03-01T04-00-00.000Z" } else { "" };
        let path = format!(".openclaw/agents/{name}/sessions/{session_id}.jsonl{suffix}");
        writer.write(&path, &written.lines)?;
        if suffix.is_empty() {
            indexes[agent].push((session_id, written.last_active_ms, written.tokens));
        }
    }
    for ((name, _), index) in workspaces.iter().zip(&indexes) {
        let json = openclaw::sessions_json(name, index, &mut prng);
        writer.write(&format!(".openclaw/agents/{name}/sessions/sessions.json"), &json)?;
    }
    Ok(())
}

/// Writes files below a home and counts their bytes.
struct Writer<'a> {
    home: &'a Path,
    bytes: u64,
}

impl Writer<'_> {
    fn write(&mut self, path: &str, text: &str) -> Result<()> {
        let path: PathBuf = self.home.join(path);
        let folder = path.parent().unwrap_or(self.home);
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        self.bytes += text.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::shares::Kind;
    use super::*;
    use crate::corpus;

    const PLAN: Plan = Plan { size: 6_000_000, seed: 11, n_files: Some(40) };

    fn generated(plan: &Plan) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        write_home(plan, home.path()).unwrap();
        home
    }

    /// Returns every file below a home with its bytes, in order of path.
    fn contents(home: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = corpus::walk(home)
            .unwrap()
            .into_iter()
            .map(|file| {
                (file.path.strip_prefix(home).unwrap().to_owned(), fs::read(&file.path).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn one_seed_gives_one_home_and_another_seed_another() {
        let first = contents(generated(&PLAN).path());
        assert!(first == contents(generated(&PLAN).path()));
        let other = Plan { seed: 12, ..PLAN };
        assert!(first != contents(generated(&other).path()));
    }

    #[test]
    fn every_line_is_json_and_the_rare_word_occurs_once() {
        let home = generated(&PLAN);
        let mut n_rare = 0;
        for (path, bytes) in contents(home.path()) {
            let name = path.to_string_lossy().into_owned();
            if name.contains(".jsonl") {
                assert_eq!(bytes.last(), Some(&b'\n'), "{name} ends a line");
                for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    serde_json::from_slice::<serde_json::Value>(line).unwrap_or_else(|error| {
                        panic!("{name}: {error}: {}", String::from_utf8_lossy(line))
                    });
                    n_rare +=
                        usize::from(memchr::memmem::find(line, RARE_WORD.as_bytes()).is_some());
                }
            } else if name.ends_with(".json") {
                serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
            }
        }
        assert_eq!(n_rare, 1);
    }

    #[test]
    fn shares_are_those_of_real_transcripts() {
        let plan = Plan { size: 24_000_000, seed: 1, n_files: None };
        let home = generated(&plan);
        let shares = shares::of_home(home.path()).unwrap();
        let check = |name: &str, value: f64, range: std::ops::RangeInclusive<f64>| {
            assert!(range.contains(&value), "{name}: {value:.4} is not in {range:?}");
        };
        check("Claude Code", shares.of_claude(), 0.45..=0.55);
        // The target is about 40 %; real transcripts have 60 % in Claude Code and 49 % in pi.
        check("tool results", shares.tool_results(), 0.40..=0.53);
        // Measured on real transcripts: 18 % of Claude Code's bytes and 51 % of pi's.
        check("text", shares.text(), 0.29..=0.37);
        // The ranges below contain the measurements of real transcripts, and the deviation of the
        // few files of a small home.
        let claude = &shares.claude;
        check("prose", claude.kind(Kind::Prose), 0.010..=0.023);
        check("thinking", claude.kind(Kind::Thinking), 0.005..=0.014);
        check("tool input", claude.kind(Kind::ToolInput), 0.028..=0.040);
        check("tool result text", claude.kind(Kind::ToolResult), 0.110..=0.140);
        check("user", claude.lines("user"), 0.56..=0.65);
        check("user line", claude.mean_line("user"), 4200.0..=8200.0);
        check("assistant", claude.lines("assistant"), 0.21..=0.28);
        check("assistant line", claude.mean_line("assistant"), 1300.0..=1500.0);
        check("progress", claude.lines("progress"), 0.07..=0.15);
        check("snapshots", claude.lines("file-history-snapshot"), 0.010..=0.030);
        check("system", claude.lines("system"), 0.003..=0.006);
        check("queue", claude.lines("queue-operation"), 0.001..=0.005);
        let openclaw = &shares.openclaw;
        check("prose", openclaw.kind(Kind::Prose), 0.05..=0.08);
        check("thinking", openclaw.kind(Kind::Thinking), 0.0..=0.03);
        check("tool input", openclaw.kind(Kind::ToolInput), 0.14..=0.18);
        check("tool result text", openclaw.kind(Kind::ToolResult), 0.22..=0.29);
        check("toolResult", openclaw.lines("toolResult"), 0.42..=0.52);
        check("toolResult line", openclaw.mean_line("toolResult"), 1100.0..=1450.0);
        check("assistant", openclaw.lines("assistant"), 0.44..=0.53);
        check("assistant line", openclaw.mean_line("assistant"), 950.0..=1200.0);
        check("user", openclaw.lines("user"), 0.020..=0.040);
        // The texture is slightly harder than that of real transcripts rather than slightly easier.
        check("packed", claude.texture.packed(), 0.128..=0.155);
        check("packed", openclaw.texture.packed(), 0.155..=0.175);
        check("distinct words", claude.texture.distinct(), 0.44..=0.52);
        check("distinct words", openclaw.texture.distinct(), 0.45..=0.51);
        check("words of an entry", claude.texture.words_per_entry(), 67.0..=116.0);
        check("words of an entry", openclaw.texture.words_per_entry(), 63.0..=78.0);
        check("bits of a word", claude.texture.bits_per_word(), 9.0..=10.1);
        check("bits of a word", openclaw.texture.bits_per_word(), 8.7..=9.6);
        let total = contents(home.path()).iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        assert!((23_000_000..26_500_000).contains(&total), "{total} bytes");
    }

    #[test]
    fn a_hundred_megabytes_have_a_line_of_one_megabyte() {
        let plan = Plan { size: 100_000_000, seed: 1, n_files: Some(4) };
        let (claude, _) = split_in_halves(&plan);
        let small = claude.into_iter().map(|planned| Planned { budget: 100_000, ..planned });
        let home = tempfile::tempdir().unwrap();
        let mut writer = Writer { home: home.path(), bytes: 0 };
        write_claude(&plan, &Vocabulary::new(), small.collect(), &mut writer).unwrap();
        let longest = shares::of_home(home.path()).unwrap().longest_line;
        assert!((900_000..1_300_000).contains(&longest), "{longest} bytes");
    }
}
