//! Memory and personality notes: every version is kept and can be found, and they are not sessions.

use quipu_ledger::restore::Generations;

use crate::home::*;

const MEMORY: &str = ".openclaw/workspace/MEMORY.md";

#[test]
fn r7_every_version_of_a_note_is_kept() {
    let home = Home::quick();
    home.write(MEMORY, "Alice drinks tea.\n");
    home.sync_and_check();
    home.write(MEMORY, "Alice drinks coffee now.\n");
    let report = home.sync_and_check();
    assert_eq!((report.records_added, report.rewritten_sources), (1, 1));
    assert_eq!((home.hits("tea"), home.hits("coffee")), (1, 1));
    assert_eq!(
        home.restored(Generations::All).into_values().collect::<Vec<_>>(),
        [b"Alice drinks coffee now.\n".to_vec(), b"Alice drinks tea.\n".to_vec()]
    );
    // The first version again: stored once, found once, and the newest again.
    home.write(MEMORY, "Alice drinks tea.\n");
    home.sync_and_check();
    assert_eq!((home.hits("tea"), home.hits("coffee")), (1, 1));
    assert_eq!(
        home.one::<i64>(
            "SELECT sum(length(bytes)) FROM pending WHERE seq IN (SELECT id FROM documents)"
        ),
        43
    );
    assert_eq!(home.restored(Generations::All).len(), 3);
    home.assert_restores_all(&[MEMORY]);
    let newest = "SELECT bytes FROM documents WHERE id NOT IN (SELECT seq FROM absent)";
    assert_eq!(home.all(newest), ["18"]);
    // A touched note is not a new version.
    home.replace(MEMORY, "Alice drinks tea.\n");
    assert_eq!(home.sync().records_added, 0);
    assert_eq!(home.sync().sources_changed, 0);
}

#[test]
fn r7_notes_are_listed_by_agent_and_name() {
    let home = Home::quick();
    for (path, text) in [
        ("workspace/MEMORY.md", "a"),
        ("workspace/memory/2026-01-31.md", "b"),
        ("workspace/memory/people/alice.md", "c"),
        ("workspace/SOUL.md", "d"),
        ("workspace/IDENTITY.md", "e"),
        ("workspace-work/USER.md", "f"),
        ("workspace-work/memory/2026-01-31.md", "g"),
        ("workspace/AGENTS.md", ""),
    ] {
        home.write(&format!(".openclaw/{path}"), text);
    }
    home.sync_and_check();
    assert_eq!(
        home.all("SELECT agent, name, part, session FROM documents"),
        [
            "'main'|'IDENTITY.md'|'note'|NULL",
            "'main'|'MEMORY.md'|'note'|NULL",
            "'main'|'SOUL.md'|'note'|NULL",
            "'main'|'memory/2026-01-31.md'|'note'|NULL",
            "'main'|'memory/people/alice.md'|'note'|NULL",
            "'work'|'USER.md'|'note'|NULL",
            "'work'|'memory/2026-01-31.md'|'note'|NULL",
        ]
    );
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 0);
    // An empty note has no text, and is restored empty.
    assert_eq!(home.restored(Generations::Newest).len(), 8);
}

#[test]
fn r7_r8_nothing_else_in_a_workspace_is_opened() {
    let home = Home::quick();
    for path in
        ["README.md", "reports/q1.md", ".git/config", "src/main.rs", "memory/index.sqlite", ".env"]
    {
        home.write(&format!(".openclaw/workspace/{path}"), "canary");
    }
    home.write(MEMORY, "tea");
    let report = home.sync_and_check();
    assert_eq!((report.sources, home.hits("canary")), (1, 0));
    let named: Vec<String> =
        report.skipped.iter().flat_map(|skipped| skipped.paths.clone()).collect();
    for path in ["README.md", "reports/", ".git/", "src/", "memory/index.sqlite", ".env"] {
        assert!(named.contains(&format!("workspace/{path}")), "{path} is not in {named:?}");
    }
}

#[test]
fn r7_a_note_that_is_not_utf8_is_kept() {
    let home = Home::quick();
    home.write(MEMORY, b"\x89PNG\0\0binary");
    home.write(".openclaw/workspace/SOUL.md", b"caf\xe9 crema");
    home.sync_and_check();
    assert_eq!((home.hits("binary"), home.hits("crema")), (0, 1));
    assert_eq!(home.problems().get("invalid_utf8"), Some(&1));
    home.assert_restores_all(&[MEMORY, ".openclaw/workspace/SOUL.md"]);
}
