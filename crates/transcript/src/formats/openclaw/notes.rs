//! An agent's workspace: which of its files are notes (memory and personality), and their text.
//!
//! The workspace of the agent `main` is `workspace/`, that of any other `workspace-<agent>/`.
//! People work in these folders, so a file that is not named here is left out.

use std::borrow::Cow;

use super::files::MAIN;
use crate::entry::{Block, Entry, Kind};
use crate::format::{Claim, Node, Part};
use crate::formats::plain;

/// The files that OpenClaw puts into its model's prompt, as it spells them. `memory.md` is the
/// older name.
const NAMES: &[&[u8]] = &[
    b"MEMORY.md",
    b"memory.md",
    b"SOUL.md",
    b"IDENTITY.md",
    b"USER.md",
    b"AGENTS.md",
    b"HEARTBEAT.md",
    b"TOOLS.md",
    b"BOOTSTRAP.md",
];

/// Maximum depth of the folders below `memory/` that are searched. Agents group notes by year and
/// month; no deeper folder has been seen.
const MAX_FOLDER_DEPTH: usize = 4;

const OTHER: &str = "workspace: only memory and personality notes are collected";

/// Returns the agent whose workspace this folder of the state root is.
pub(super) fn agent(folder: &[u8]) -> Option<&[u8]> {
    match folder {
        b"workspace" => Some(MAIN.as_bytes()),
        _ => folder.strip_prefix(b"workspace-").filter(|agent| !agent.is_empty()),
    }
}

/// Returns what to do with a path inside a workspace; `inside` is empty for the workspace itself.
pub(super) fn claim(inside: &[&[u8]], node: Node) -> Claim {
    let is_note = |name: &[u8]| name.ends_with(b".md") && name.len() > 3 && !name.starts_with(b".");
    match (inside, node) {
        ([], Node::Directory) => Claim::Enter,
        ([name], Node::File) if NAMES.contains(name) => Claim::Collect(Part::Note),
        ([b"memory", folders @ ..], Node::Directory) if folders.len() <= MAX_FOLDER_DEPTH => {
            Claim::Enter
        }
        ([b"memory", folders @ .., name], Node::File)
            if folders.len() <= MAX_FOLDER_DEPTH && is_note(name) =>
        {
            Claim::Collect(Part::Note)
        }
        ([b"reports", ..], _) => Claim::LeaveOut("generated reports"),
        _ => Claim::LeaveOut(OTHER),
    }
}

/// Decodes a note.
pub(super) fn decode(bytes: &[u8]) -> Entry<'_> {
    let mut entry =
        Entry { type_name: Cow::Borrowed("note"), kind: Kind::Document, ..Entry::default() };
    let text = plain::text(&mut entry, bytes, "note");
    entry.blocks.extend(text.map(Block::Text));
    entry
}

#[cfg(test)]
mod tests {
    use super::super::files;
    use super::*;

    const NOTE: Claim = Claim::Collect(Part::Note);

    #[test]
    fn r7_memory_and_personality_are_claimed() {
        for (path, agent, name) in [
            ("workspace/MEMORY.md", "main", "MEMORY.md"),
            ("workspace/memory/2026-01-31.md", "main", "memory/2026-01-31.md"),
            ("workspace/memory/2026/01/31.md", "main", "memory/2026/01/31.md"),
            ("workspace/SOUL.md", "main", "SOUL.md"),
            ("workspace/IDENTITY.md", "main", "IDENTITY.md"),
            ("workspace-work/USER.md", "work", "USER.md"),
            ("workspace-work/AGENTS.md", "work", "AGENTS.md"),
            ("workspace-telegram/HEARTBEAT.md", "telegram", "HEARTBEAT.md"),
            ("workspace/TOOLS.md", "main", "TOOLS.md"),
            ("workspace/BOOTSTRAP.md", "main", "BOOTSTRAP.md"),
        ] {
            assert_eq!(files::claim(path.as_bytes(), Node::File), NOTE, "{path}");
            for (at, _) in path.match_indices('/') {
                let folder = path.get(..at).unwrap_or_default().as_bytes();
                assert_eq!(files::claim(folder, Node::Directory), Claim::Enter, "{path}");
            }
            let origin = files::origin(path.as_bytes());
            assert_eq!((origin.part, origin.session), (Part::Note, None), "{path}");
            assert_eq!(origin.agent.as_deref(), Some(agent), "{path}");
            assert_eq!(origin.name, name, "{path}");
        }
    }

    #[test]
    fn r7_r8_the_rest_of_a_workspace_is_left_out_and_named() {
        for path in [
            "workspace/README.md",
            "workspace/Soul.md",
            "workspace/notes/MEMORY.md",
            "workspace/reports/q1.md",
            "workspace/memory/x.txt",
            "workspace/memory/.hidden.md",
            "workspace/memory/.md",
            "workspace/memory/1/2/3/4/5/x.md",
            "workspace-work/src/main.rs",
        ] {
            let claim = files::claim(path.as_bytes(), Node::File);
            assert!(matches!(claim, Claim::LeaveOut(_)), "{path}: {claim:?}");
        }
        for path in ["workspace/reports", "workspace/.git", "workspace/memory/1/2/3/4/5"] {
            let claim = files::claim(path.as_bytes(), Node::Directory);
            assert!(matches!(claim, Claim::LeaveOut(_)), "{path}: {claim:?}");
        }
        for path in ["workspace/.env", "workspace/memory/server.key", "workspace/credentials"] {
            assert_eq!(files::claim(path.as_bytes(), Node::File), Claim::Deny, "{path}");
        }
        assert_eq!(files::claim(b"workspace-", Node::Directory), Claim::Ignore);
        assert_eq!(files::claim(b"workspaces/MEMORY.md", Node::File), Claim::Ignore);
    }

    #[test]
    fn r7_a_note_is_text() {
        assert_eq!(decode(b"# Alice\n\nlikes tea\n").text(), "# Alice\n\nlikes tea\n");
        let odd = decode(b"caf\xe9");
        assert_eq!((odd.text().as_ref(), odd.problems.len()), ("caf\u{fffd}", 1));
        assert_eq!(decode(b"\x89PNG\0").text(), "");
    }
}
