//! Files that are not only appended to: truncated, replaced, rewritten, renamed, copied.

use crate::home::*;
use quipu_ledger::collect::Progress;
use quipu_ledger::restore::Generations;

fn lines(range: std::ops::Range<u32>) -> String {
    range
        .map(|number| {
            let parent = (number > 0).then(|| uuid(number - 1));
            line("user", &uuid(number), parent.as_deref(), &format!("word{number}"))
        })
        .collect()
}

#[test]
fn a_file_that_was_emptied_and_regrew_is_a_new_generation() {
    let home = Home::new();
    home.write(MAIN, lines(0..10));
    home.sync();
    home.write(MAIN, lines(20..45));
    let report = home.sync();
    assert_eq!(report.rewritten_sources, 1);
    assert_eq!(report.records_added, 25);
    home.assert_restores_all(&[MAIN]);
    assert_eq!(home.hits("word3"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM absent"), 10);
    let all = home.restored(Generations::All);
    assert_eq!(all.len(), 2);
    assert!(all.values().any(|bytes| *bytes == lines(0..10).into_bytes()));
    home.assert_rebuilds();
}

#[test]
fn a_truncated_file_is_a_new_generation() {
    let home = Home::new();
    home.write(MAIN, lines(0..10));
    home.sync();
    home.write(MAIN, lines(0..4));
    let report = home.sync();
    assert_eq!((report.rewritten_sources, report.lines_parsed), (1, 0));
    assert_eq!(home.problems().get("source_truncated"), Some(&1));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM absent"), 6);
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
}

#[test]
fn only_a_changed_line_is_parsed_again() {
    let home = Home::new();
    home.write(MAIN, lines(0..100));
    home.sync();
    for (round, (from, to)) in
        [("word50", "wordX0"), ("word70", "a much longer word"), ("word20", "short")]
            .iter()
            .enumerate()
    {
        let text = std::fs::read_to_string(home.path(MAIN)).unwrap().replace(from, to);
        if round == 1 {
            home.replace(MAIN, text)
        } else {
            home.write(MAIN, text)
        }
        let report = home.sync();
        assert_eq!((report.rewritten_sources, report.lines_parsed), (1, 1), "{from}");
        home.assert_restores_all(&[MAIN]);
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM absent"), 3);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 100);
    assert_eq!(home.one::<i64>("SELECT max(number) FROM generations"), 4);
    home.assert_rebuilds();
}

#[test]
fn many_rewrites_make_no_long_chain() {
    const REWRITES: u32 = 150;
    let home = Home::quick();
    let mut texts: Vec<String> = (0..40).map(|number| lines(number..number + 1)).collect();
    home.write(MAIN, texts.concat());
    home.sync();
    let mut versions = vec![texts.concat()];
    for round in 0..REWRITES {
        let changed = 20 + (round * 7) % 20;
        let parent = (changed > 0).then(|| uuid(changed - 1));
        texts[changed as usize] =
            line("user", &uuid(changed), parent.as_deref(), &format!("round{round}"));
        home.write(MAIN, texts.concat());
        assert_eq!(home.sync().lines_parsed, 1);
        versions.push(texts.concat());
    }
    // The number of references to follow for a byte of the generation just before a flattened one.
    let chains = "WITH RECURSIVE piece (generation, start, end, steps) AS (
            SELECT id, 0, cursor, 0 FROM generations WHERE number = 127
             UNION
            SELECT s.from_generation,
                   s.from_start + max(p.start, s.start) - s.start,
                   s.from_start + min(p.end, s.start + s.length) - s.start,
                   steps + 1
              FROM piece p JOIN spans s ON s.generation = p.generation
             WHERE s.from_generation IS NOT NULL
               AND s.start < p.end AND p.start < s.start + s.length)
        SELECT max(steps) FROM piece";
    assert_eq!(home.one::<i64>(chains), 64);
    // One changed line makes three spans. Only every 64th generation has a span for each run.
    let spans: i64 = home.one(
        "SELECT count(*) FROM spans
          WHERE generation IN (
            SELECT g.id FROM generations g JOIN sources s ON s.id = g.source WHERE s.kind = 'file')",
    );
    assert!(spans < 3 * i64::from(REWRITES) + 2 * 80, "{spans} spans");
    let restored = home.restored(Generations::All);
    assert_eq!(restored.len(), versions.len());
    for version in versions {
        assert!(restored.values().any(|bytes| *bytes == version.as_bytes()));
    }
    home.assert_sound();
    home.assert_rebuilds();
}

#[test]
fn a_replaced_file_with_the_same_beginning_has_grown() {
    let home = Home::new();
    home.write(MAIN, lines(0..10));
    home.sync();
    home.replace(MAIN, lines(0..12));
    let report = home.sync();
    assert_eq!((report.rewritten_sources, report.records_added), (0, 2));
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
}

#[test]
fn a_touched_file_is_not_changed() {
    let home = Home::new();
    home.write(MAIN, lines(0..10));
    home.sync();
    home.write(MAIN, lines(0..10));
    let report = home.sync();
    assert_eq!((report.rewritten_sources, report.records_added, report.bytes_read), (0, 0, 0));
    assert_eq!(home.sync().bytes_verified, 0);
}

#[test]
fn a_renamed_file_is_not_read_again() {
    let home = Home::new();
    let live = ".openclaw/agents/main/sessions/13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl";
    let reset = ".openclaw/agents/main/sessions/13f7ee8b-4916-4c0c-a7c3-6a9d44685f32.jsonl.reset.2026-01-31T07-26-10.958Z";
    home.write(
        live,
        "{\"role\":\"user\",\"content\":\"hello\",\"timestamp\":\"2026-02-27T08:30:00.000Z\"}\n",
    );
    home.sync();
    home.rename(live, reset);
    home.write(
        live,
        "{\"role\":\"user\",\"content\":\"again\",\"timestamp\":\"2026-02-28T08:30:00.000Z\"}\n",
    );
    let report = home.sync();
    assert_eq!((report.renamed_sources, report.gone_sources, report.lines_parsed), (1, 0, 1));
    home.assert_restores_all(&[live, reset]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM source_paths"), 1);
    home.remove(live);
    home.sync();
    assert_eq!(home.one::<String>("SELECT state FROM sessions"), "archived");
    home.assert_rebuilds();
}

#[test]
fn a_copy_is_a_session_that_shares_its_bytes() {
    let home = Home::new();
    let copy = ".claude/projects/-home-alice-shop/00000000-d010-4b20-a591-b7172ef08e66.jsonl";
    home.write(MAIN, lines(0..50));
    home.write(copy, lines(0..50));
    let report = home.sync();
    assert_eq!(report.lines_parsed, 100);
    let stored: i64 = home.one("SELECT sum(length(bytes)) FROM pending");
    assert!(stored < 2 * lines(0..50).len() as i64 - 100, "{stored} bytes");
    assert_eq!(home.one::<i64>("SELECT min(entries) FROM sessions"), 50);
    home.assert_restores_all(&[MAIN, copy]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 2);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions WHERE fork_of IS NOT NULL"), 1);
    home.append(copy, lines(60..61));
    home.sync();
    home.assert_restores_all(&[MAIN, copy]);
    home.assert_rebuilds();
}

#[test]
fn a_reused_inode_is_another_file() {
    let home = Home::new();
    let other = ".claude/projects/-home-alice-shop/11111111-d010-4b20-a591-b7172ef08e66.jsonl";
    home.write(MAIN, lines(0..5));
    home.sync();
    home.remove(MAIN);
    home.write(other, lines(100..120));
    let report = home.sync();
    assert_eq!(report.renamed_sources, 0);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 2);
    home.assert_restores_all(&[other]);
    home.assert_rebuilds();
}

#[test]
fn another_name_for_a_known_file_changes_nothing() {
    let home = Home::new();
    home.write(MAIN, lines(0..5));
    home.sync();
    let alias = home.path(".claude/projects/-a");
    std::os::unix::fs::symlink("-home-alice-shop", &alias).unwrap();
    let hard =
        home.path(".claude/projects/-home-alice-shop/00000000-d010-4b20-a591-b7172ef08e66.jsonl");
    std::fs::hard_link(home.path(MAIN), &hard).unwrap();
    home.append(MAIN, lines(5..6));
    let report = home.sync();
    assert_eq!((report.renamed_sources, report.gone_sources, report.records_added), (0, 0, 1));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sources WHERE kind = 'file'"), 1);
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
}

#[test]
fn an_interrupted_rewrite_continues_with_the_old_lines() {
    let home = Home::new();
    // All lines are equal, so the fingerprint before the cursor is the same after each of them.
    let same = line("user", &uuid(1), None, &"x".repeat(300));
    let changed = line("user", &uuid(2), None, &"y".repeat(300));
    home.write(MAIN, same.repeat(40));
    home.sync();
    home.write(MAIN, [changed.clone(), same.repeat(39)].concat());
    home.sync();
    // As if the process had ended after twenty lines.
    let reached = changed.len() + 19 * same.len();
    home.sql()
        .execute_batch(&format!(
            "UPDATE spans SET length = {} WHERE from_generation IS NOT NULL;
             UPDATE generations SET cursor = {reached} WHERE number = 2;",
            19 * same.len()
        ))
        .unwrap();
    let report = home.sync_and_check();
    assert_eq!((report.records_added, report.bytes_read), (0, 20 * same.len() as u64));
    home.assert_restores_all(&[MAIN]);
}

/// The bytes of a file that the ledger has already are read, and so the work is done.
#[test]
fn progress_counts_what_was_read() {
    let home = Home::new();
    home.write(MAIN, lines(0..10));
    home.sync();
    home.write(MAIN, lines(0..4));
    let (mut planned, mut done) = (0, 0);
    let mut ledger = home.open();
    quipu_ledger::collect::collect(&mut ledger, &home.roots(), &mut |progress| match progress {
        Progress::Planned { bytes, .. } => planned += bytes,
        Progress::Done { bytes } => done += bytes,
        Progress::Rebuilding { .. } => {}
    })
    .unwrap();
    assert_eq!((planned, done), (lines(0..4).len() as u64, lines(0..4).len() as u64));
}
