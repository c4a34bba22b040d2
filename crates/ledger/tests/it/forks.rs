//! Copies of sessions under new ids, which only their entries reveal.

use quipu_ledger::Ledger;
use quipu_ledger::query::{Story, find_session};

use crate::home::*;

fn id(number: u32) -> String {
    format!("{number:08x}-1111-4000-8000-000000000000")
}

fn path(number: u32) -> String {
    format!(".claude/projects/-p/{}.jsonl", id(number))
}

/// Returns entries with these ids, as the session `number` has them; each is a minute after the
/// last.
fn lines(number: u32, entries: impl IntoIterator<Item = u32>) -> String {
    let mut parent = None;
    let mut lines = String::new();
    for entry in entries {
        let time = format!("2026-01-12T{:02}:{:02}:00.000Z", entry / 60, entry % 60);
        let line = line("user", &uuid(entry), parent.as_deref(), &format!("said {entry}"));
        let line = line.replace(SESSION, &id(number)).replace("2026-01-12T10:30:00.000Z", &time);
        lines.push_str(&line);
        parent = Some(uuid(entry));
    }
    lines
}

fn originals(home: &Home, numbers: &[u32]) -> Vec<Option<String>> {
    let ledger = Ledger::open_read_only(&home.ledger_path()).unwrap();
    let of = |number: &u32| {
        let row = find_session(&ledger, &id(*number)).unwrap();
        let listed = quipu_ledger::query::summary_of(&ledger, row).unwrap().unwrap().fork_of;
        assert_eq!(Story::open(&ledger, row).unwrap().head().fork_of, listed);
        listed
    };
    numbers.iter().map(of).collect()
}

/// The session that continued first is the original, in any order of collecting, even if it
/// continued longer than its copy.
#[test]
fn a_copy_is_recognized_by_its_shared_entries() {
    let parts = [
        // The original continues after the copy was made, at 10.
        (1, lines(1, (1..=10).chain(200..220))),
        (2, lines(2, (1..=8).chain(130..133))),
        // A copy of the copy, made at its end.
        (3, lines(3, (1..=8).chain(130..133).chain([150]))),
        // An unrelated session.
        (4, lines(4, 60..65)),
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let home = Home::quick();
        for part in order {
            let (number, text) = &parts[part];
            home.write(&path(*number), text);
            home.sync();
        }
        home.sync_and_check();
        let expected = [None, Some(id(1)), Some(id(2)), None];
        assert_eq!(originals(&home, &[1, 2, 3, 4]), expected, "{order:?}");
    }
}

/// A resumed session: the old file ends where the new one continues.
#[test]
fn of_two_equal_beginnings_the_shorter_session_is_the_original() {
    let home = Home::quick();
    home.write(&path(9), lines(9, 1..=5));
    home.write(&path(2), lines(2, 1..=7));
    home.write(&path(3), lines(3, 1..=5));
    home.sync_and_check();
    // Two equal sessions are ordered by their names.
    assert_eq!(originals(&home, &[2, 3, 9]), [Some(id(3)), None, Some(id(3))]);
}

/// OpenClaw's short ids repeat by chance.
#[test]
fn equal_short_ids_do_not_make_a_fork() {
    let home = Home::quick();
    for name in ["a", "b"] {
        home.write(
            &format!(".openclaw/agents/main/sessions/{name}.jsonl"),
            format!("{{\"type\":\"session\",\"version\":3,\"id\":\"{name}\",\"timestamp\":\"2026-10-01T10:00:00Z\"}}\n\
             {{\"type\":\"message\",\"id\":\"00000001\",\"timestamp\":\"2026-10-01T10:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"{name}\"}}}}\n"),
        );
    }
    home.sync();
    let ledger = home.open();
    for name in ["a", "b"] {
        let row = find_session(&ledger, name).unwrap();
        assert_eq!(quipu_ledger::query::summary_of(&ledger, row).unwrap().unwrap().fork_of, None);
    }
}

/// A fork names its parent's file by the name at that time. After a rename, the parent is named by
/// the id that the ledger knows, and the parent lists its fork.
#[test]
fn a_parent_under_another_name_is_found_by_its_id() {
    let parent = "01a1e05d-bbc4-788e-93f0-09582f985242";
    let child = "01a1e05d-bbc9-7c45-9671-32b22988921d";
    let fixture = |name: &str| {
        std::fs::read(fixtures("context").join(format!("oc71/12-forked-{name}.jsonl"))).unwrap()
    };
    // The header's id, pi's name before it, and an unrelated name; other agents are not searched.
    for name in [parent.to_owned(), format!("before_{parent}"), "12-forked-parent".to_owned()] {
        let home = Home::quick();
        home.write(&format!(".openclaw/agents/main/sessions/{child}.jsonl"), fixture("child"));
        home.write(&format!(".openclaw/agents/other/sessions/{parent}.jsonl"), fixture("parent"));
        home.sync();
        let ledger = home.open();
        let fork_of = |ledger: &Ledger| {
            let row = find_session(ledger, child).unwrap();
            let listed = quipu_ledger::query::summary_of(ledger, row).unwrap().unwrap().fork_of;
            assert_eq!(Story::open(ledger, row).unwrap().head().fork_of, listed);
            let tree = quipu_ledger::query::tree(ledger, child).unwrap();
            assert_eq!(tree[0].session_id, listed);
            listed
        };
        let written = format!("2026-11-15T18-00-01-732Z_{parent}");
        assert_eq!(fork_of(&ledger), Some(written), "{name}");

        home.write(&format!(".openclaw/agents/main/sessions/{name}.jsonl"), fixture("parent"));
        home.sync();
        let ledger = home.open();
        assert_eq!(fork_of(&ledger), Some(name.clone()));
        let tree = quipu_ledger::query::tree(&ledger, &format!("main/{name}")).unwrap();
        let fork = tree.iter().find(|line| line.session_id.as_deref() == Some(child)).unwrap();
        assert_eq!((fork.kind, fork.first_entry_id.is_some()), ("fork", true));
        let others = quipu_ledger::query::tree(&ledger, &format!("other/{parent}")).unwrap();
        assert!(others.iter().all(|line| line.session_id.as_deref() != Some(child)), "{others:#?}");
    }
}
