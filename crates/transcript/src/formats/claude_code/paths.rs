//! The locations of Claude Code's files, and the facts in their paths.
//!
//! This is an allow-list: a path that is not named here is not opened. Slugs are compared and
//! stored, never decoded into a path (`/a-b` and `/a/b` have the same slug).

use crate::format::{Claim, Node, Origin, Part};
use crate::formats::spelled;
use crate::names;

/// Returns what to do with a path relative to the root.
pub(super) fn claim(path: &[u8], node: Node) -> Claim {
    if names::is_denied(path) {
        return Claim::Deny;
    }
    match node {
        Node::Directory => claim_directory(&components(path)),
        Node::File => claim_file(&components(path)),
    }
}

/// Returns the facts about a file's records that follow from its path.
pub(super) fn origin(path: &[u8]) -> Origin {
    let parts = components(path);
    let place = place(&parts);
    let project = match &place {
        Place::Top { slug, .. } | Place::Beside { slug, .. } => Some(spelled(slug)),
        Place::History | Place::Pasted | Place::Elsewhere => None,
    };
    let (part, session, parent) = match place {
        Place::Top { slug, file } => {
            let (slug, stem) = (spelled(slug), spelled(without_suffix(file, b".jsonl")));
            match top_part(file) {
                // Only a UUID is unique across projects.
                Some(Part::Transcript) if is_uuid(without_suffix(file, b".jsonl")) => {
                    (Part::Transcript, Some(stem), None)
                }
                Some(part) => (part, Some(format!("{slug}/{stem}")), None),
                None => (Part::Transcript, None, None),
            }
        }
        Place::Beside { session, below, .. } => match beside_part(below) {
            Some(part @ (Part::ToolOutput | Part::Title)) => (part, Some(spelled(session)), None),
            Some(part) => {
                let session = spelled(session);
                let below = below.get(1..).unwrap_or_default().join(&b'/');
                let stem = without_suffix(without_suffix(&below, b".jsonl"), b".meta.json");
                (part, Some(format!("{session}/{}", spelled(stem))), Some(session))
            }
            None => (Part::Transcript, None, None),
        },
        Place::History => (Part::PromptHistory, None, None),
        Place::Pasted => (Part::Pasted, None, None),
        Place::Elsewhere => (Part::Transcript, None, None),
    };
    let name = parts.last().map(|name| spelled(name)).unwrap_or_default();
    Origin { session, parent, project, ..Origin::of(part, name) }
}

/// The known location of a path.
enum Place<'p> {
    /// `projects/<slug>/<file>`
    Top {
        slug: &'p [u8],
        file: &'p [u8],
    },
    /// `projects/<slug>/<session>/<below…>`. The session's own transcript may be gone: Claude
    /// Code's cleanup after 30 days leaves these folders behind.
    Beside {
        slug: &'p [u8],
        session: &'p [u8],
        below: &'p [&'p [u8]],
    },
    /// `history.jsonl`
    History,
    /// `paste-cache/<hash>.txt`
    Pasted,
    Elsewhere,
}

fn place<'p>(parts: &'p [&'p [u8]]) -> Place<'p> {
    match parts {
        [b"history.jsonl"] => Place::History,
        [b"paste-cache", file] if is_hash(without_suffix(file, b".txt")) => Place::Pasted,
        [b"projects", slug, file] => Place::Top { slug, file },
        [b"projects", slug, session, below @ ..] if !below.is_empty() && *session != b"memory" => {
            Place::Beside { slug, session, below }
        }
        _ => Place::Elsewhere,
    }
}

fn claim_directory(parts: &[&[u8]]) -> Claim {
    match parts {
        [] | [b"projects"] | [b"projects", _] | [b"paste-cache"] => Claim::Enter,
        [b"projects", _, b"memory", ..] => MEMORY,
        [b"projects", _, _] => Claim::Enter,
        [b"projects", _, _, b"subagents", ..] | [b"projects", _, _, b"tool-results"] => {
            Claim::Enter
        }
        [b"projects", _, _, b"workflows", ..] => WORKFLOW,
        [b"file-history", ..] => Claim::LeaveOut("copies of edited files, not a transcript"),
        [b"todos", ..] => Claim::LeaveOut("task lists, not a transcript"),
        [b"shell-snapshots", ..] => Claim::LeaveOut("shell settings, not a transcript"),
        _ => Claim::Ignore,
    }
}

fn claim_file(parts: &[&[u8]]) -> Claim {
    match parts {
        [b"projects", _, b"sessions-index.json"] => {
            return Claim::LeaveOut("an index that Claude Code no longer maintains");
        }
        [b"projects", _, b"memory", ..] => return MEMORY,
        [b"projects", _, _, b"workflows", ..] => return WORKFLOW,
        [b"projects", _, _, b"subagents", .., b"journal.jsonl"] => {
            return Claim::LeaveOut("workflow journal, not a transcript");
        }
        _ => {}
    }
    match place(parts) {
        Place::History => Claim::Collect(Part::PromptHistory),
        Place::Pasted => Claim::Collect(Part::Pasted),
        Place::Top { file, .. } => match top_part(file) {
            Some(Part::Transcript) if !is_uuid(without_suffix(file, b".jsonl")) => {
                Claim::Probe(Part::Transcript)
            }
            Some(part) => Claim::Collect(part),
            None => Claim::Ignore,
        },
        Place::Beside { below, .. } => beside_part(below).map_or(Claim::Ignore, Claim::Collect),
        Place::Elsewhere => Claim::Ignore,
    }
}

const MEMORY: Claim = Claim::LeaveOut("project memory, not a transcript");
const WORKFLOW: Claim = Claim::LeaveOut("workflow state, not a transcript");

/// Returns the part of a file directly in a project's folder.
fn top_part(file: &[u8]) -> Option<Part> {
    if file.starts_with(b".") || !file.ends_with(b".jsonl") {
        None
    } else if file.starts_with(b"agent-") {
        Some(Part::Agent)
    } else {
        Some(Part::Transcript)
    }
}

/// Returns the part of a file in the folder next to a transcript.
fn beside_part(below: &[&[u8]]) -> Option<Part> {
    match below {
        [b"tool-results", file] if !file.starts_with(b".") => Some(Part::ToolOutput),
        [b"custom-title.json"] => Some(Part::Title),
        // All sub-agents are in one folder, however deep they are nested; workflow runs have
        // separate folders.
        [b"subagents", .., file] if file.starts_with(b"agent-") => {
            if file.ends_with(b".jsonl") {
                Some(Part::Subagent)
            } else if file.ends_with(b".meta.json") {
                Some(Part::SubagentMeta)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Splits a path into its names, and adds `projects` in front if the root is the folder of projects
/// itself. A person may add such a root, because `projects` may be a link to anywhere. There the
/// first name is a slug and begins with `-`; in Claude Code's own folder no name does.
fn components(path: &[u8]) -> Vec<&[u8]> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let is_slug = parts.clone().next().is_some_and(|first| first.starts_with(b"-"));
    is_slug.then_some(&b"projects"[..]).into_iter().chain(parts).collect()
}

fn without_suffix<'p>(name: &'p [u8], suffix: &[u8]) -> &'p [u8] {
    name.strip_suffix(suffix).unwrap_or(name)
}

/// Returns whether the name is a hash, as the names of pasted texts are.
fn is_hash(name: &[u8]) -> bool {
    name.len() == 16 && name.iter().all(u8::is_ascii_hexdigit)
}

fn is_uuid(name: &[u8]) -> bool {
    name.len() == 36
        && name.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    fn file(path: &str) -> Claim {
        claim(path.as_bytes(), Node::File)
    }

    fn directory(path: &str) -> Claim {
        claim(path.as_bytes(), Node::Directory)
    }

    #[test]
    fn transcripts_agents_and_their_neighbours_are_claimed() {
        assert_eq!(file(&format!("projects/-a/{ID}.jsonl")), Claim::Collect(Part::Transcript));
        assert_eq!(file("projects/-a/agent-1f2e.jsonl"), Claim::Collect(Part::Agent));
        assert_eq!(file("projects/-a/notes.jsonl"), Claim::Probe(Part::Transcript));
        let beside = format!("projects/-a/{ID}");
        assert_eq!(
            file(&format!("{beside}/subagents/agent-1.jsonl")),
            Claim::Collect(Part::Subagent)
        );
        assert_eq!(
            file(&format!("{beside}/subagents/workflows/r1/agent-1.meta.json")),
            Claim::Collect(Part::SubagentMeta)
        );
        assert_eq!(file(&format!("{beside}/tool-results/x.bin")), Claim::Collect(Part::ToolOutput));
        assert_eq!(file(&format!("{beside}/custom-title.json")), Claim::Collect(Part::Title));
        assert_eq!(file("history.jsonl"), Claim::Collect(Part::PromptHistory));
        assert_eq!(file("paste-cache/0123456789abcdef.txt"), Claim::Collect(Part::Pasted));
        assert_eq!(file("paste-cache/notes.txt"), Claim::Ignore);
    }

    #[test]
    fn other_files_are_left_out_with_a_reason() {
        for path in [
            "projects/-a/sessions-index.json",
            "projects/-a/memory/MEMORY.md",
            "projects/-a/x/subagents/workflows/r1/journal.jsonl",
            "projects/-a/x/workflows/r1.json",
        ] {
            assert!(matches!(file(path), Claim::LeaveOut(_)), "{path}");
        }
        for path in ["projects/-a/memory", "todos", "file-history", "shell-snapshots"] {
            assert!(matches!(directory(path), Claim::LeaveOut(_)), "{path}");
        }
    }

    #[test]
    fn secrets_are_denied_in_every_folder() {
        for path in [
            ".credentials.json",
            ".claude.json",
            "settings.json",
            "settings.local.json",
            "projects/-a/.env",
            "projects/-a/x/tool-results/server.pem",
            "projects/-a/x/tool-results/credentials.json",
            "projects/-a/x/subagents/private.key",
        ] {
            assert_eq!(file(path), Claim::Deny, "{path}");
        }
    }

    #[test]
    fn only_needed_directories_are_entered() {
        for path in
            ["", "projects", "projects/-a", "projects/-a/x", "projects/-a/x/subagents/workflows/r1"]
        {
            assert_eq!(directory(path), Claim::Enter, "{path}");
        }
        for path in ["plugins", "ide", "statsig", "projects/-a/x/y", "projects/-a/x/tool-results/y"]
        {
            assert_eq!(directory(path), Claim::Ignore, "{path}");
        }
        assert_eq!(file("CLAUDE.md"), Claim::Ignore);
        assert_eq!(file("projects/-a/x/tool-results/y/z.txt"), Claim::Ignore);
    }

    #[test]
    fn session_ids_are_unique_across_projects() {
        let session = |path: &str| origin(path.as_bytes()).session;
        assert_eq!(session(&format!("projects/-a/{ID}.jsonl")).as_deref(), Some(ID));
        assert_eq!(session("projects/-a/agent-1.jsonl").as_deref(), Some("-a/agent-1"));
        assert_eq!(session("projects/-a/notes.jsonl").as_deref(), Some("-a/notes"));
        assert_eq!(session("history.jsonl"), None);
        assert_eq!(session(&format!("projects/-a/{ID}/tool-results/x.txt")).as_deref(), Some(ID));
    }

    #[test]
    fn a_subagent_and_its_description_are_one_session_with_a_parent() {
        for (name, part) in
            [("agent-7.jsonl", Part::Subagent), ("agent-7.meta.json", Part::SubagentMeta)]
        {
            let path = format!("projects/-a/{ID}/subagents/workflows/r1/{name}");
            let origin = origin(path.as_bytes());
            assert_eq!(origin.part, part);
            assert_eq!(origin.session, Some(format!("{ID}/workflows/r1/agent-7")));
            assert_eq!(origin.parent.as_deref(), Some(ID));
            assert_eq!(origin.project.as_deref(), Some("-a"));
            assert_eq!(origin.name, name);
        }
    }

    #[test]
    fn paths_may_hold_any_bytes() {
        assert_eq!(
            claim(b"projects/\xff\xfe/a\x80.jsonl", Node::File),
            Claim::Probe(Part::Transcript)
        );
        assert_eq!(origin(b"projects/\xff/a\x80.jsonl").session.as_deref(), Some("\\xFF/a\\x80"));
    }

    #[test]
    fn names_that_are_not_utf8_stay_different() {
        let session = |path: &[u8]| origin(path).session;
        assert_ne!(session(b"projects/-p/inv\xff.jsonl"), session(b"projects/-p/inv\xfe.jsonl"));
    }

    #[test]
    fn a_root_may_be_the_folder_of_projects() {
        for below in [
            format!("{ID}.jsonl"),
            "agent-1.jsonl".to_owned(),
            "notes.jsonl".to_owned(),
            "sessions-index.json".to_owned(),
            "memory/MEMORY.md".to_owned(),
            format!("{ID}/subagents/agent-7.jsonl"),
            format!("{ID}/tool-results/x.txt"),
            format!("{ID}/tool-results/server.pem"),
        ] {
            let (alone, whole) = (format!("-a/{below}"), format!("projects/-a/{below}"));
            assert_eq!(file(&alone), file(&whole), "{below}");
            assert_eq!(origin(alone.as_bytes()), origin(whole.as_bytes()), "{below}");
        }
        assert_eq!(directory("-a"), Claim::Enter);
        assert_eq!(directory(&format!("-a/{ID}/subagents")), Claim::Enter);
        // Other folders at the top are not part of the format.
        assert_eq!(directory("a"), Claim::Ignore);
        assert_eq!(file(&format!("a/{ID}.jsonl")), Claim::Ignore);
        assert_eq!(file("-a.jsonl"), Claim::Ignore);
    }
}
