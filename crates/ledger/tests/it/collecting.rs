//! Collecting: exactly once, byte for byte, and no byte is read twice.

use crate::home::*;

fn fixture_home() -> Home {
    Home::with_fixtures()
}

#[test]
fn fixtures_of_every_format_are_restored() {
    let home = fixture_home();
    let report = home.sync();
    assert!(report.records_added > 100, "{report:?}");
    home.assert_restores();
    home.assert_rebuilds();
    for format in quipu_transcript::format::FORMATS {
        let sessions: i64 =
            home.one(&format!("SELECT count(*) FROM sessions WHERE format = '{}'", format.name()));
        assert!(sessions > 0, "no session of {}", format.name());
    }
}

#[test]
fn a_second_sync_reads_no_bytes_and_parses_no_lines() {
    let home = fixture_home();
    home.sync();
    let report = home.sync();
    assert_eq!(
        (report.bytes_read, report.bytes_verified, report.lines_parsed, report.records_added),
        (0, 0, 0, 0)
    );
    assert_eq!(report.sources_changed, 0);
    // The second sync found which tails no longer change. From then on not even the ledger is
    // written to.
    let before = std::fs::read(home.ledger_path()).unwrap();
    home.sync();
    assert!(before == std::fs::read(home.ledger_path()).unwrap());
}

#[test]
fn an_appended_line_is_all_that_is_read() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.sync();
    let more = line("assistant", &uuid(2), Some(&uuid(1)), "world");
    home.append(MAIN, &more);
    let report = home.sync();
    assert_eq!(
        (report.bytes_read, report.lines_parsed, report.records_added),
        (more.len() as u64, 1, 1)
    );
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
    assert_eq!(home.hits("world"), 1);
}

#[test]
fn an_unterminated_line_becomes_provisional_once_it_no_longer_changes() {
    let home = Home::new();
    let first = line("user", &uuid(1), None, "hello");
    let second = line("assistant", &uuid(2), Some(&uuid(1)), "world");
    let (now, later) = second.split_at(40);
    home.write(MAIN, format!("{first}{now}"));
    home.sync();
    home.assert_restores_all(&[MAIN]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 1);

    // Half a line that no longer changes: it is stored, but has no entry.
    assert_eq!(home.sync().bytes_read, 0);
    home.append(MAIN, later.trim_end());
    let report = home.sync();
    assert_eq!(report.bytes_read, later.trim_end().len() as u64);
    home.assert_restores_all(&[MAIN]);

    // A complete line without its newline that no longer changes: it has a provisional entry.
    let report = home.sync();
    assert_eq!((report.bytes_read, report.lines_parsed), (0, 0));
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE id < 0"), 1);
    assert_eq!(home.hits("world"), 1);
    home.assert_rebuilds();

    home.append(MAIN, "\n");
    assert_eq!(home.sync().bytes_read, 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE id < 0"), 0);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 2);
    assert_eq!(home.hits("world"), 1);
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
}

#[test]
fn a_provisional_entry_leaves_no_trace() {
    let home = Home::new();
    let other = ".claude/projects/-home-alice-shop/00000000-d010-4b20-a591-b7172ef08e66.jsonl";
    let first = line("user", &uuid(1), None, "hello");
    let strange = r#"{"type":"strange","note":"never seen before"}"#;
    home.write(MAIN, format!("{first}{strange}"));
    home.sync();
    home.sync();
    assert_eq!(home.all("SELECT type FROM entries WHERE id < 0"), ["'strange'"]);
    home.assert_rebuilds();

    // Only records number the interned kinds, not provisional entries.
    home.write(other, line("assistant", &uuid(2), None, "answer"));
    home.sync();
    home.assert_rebuilds();
    home.append(MAIN, "\n");
    home.sync();
    assert_eq!(home.all("SELECT id FROM kinds WHERE id < 0"), [""; 0]);
    assert_eq!(home.all("SELECT id FROM kinds WHERE type = 'strange'"), ["3"]);
    home.assert_rebuilds();
}

#[test]
fn the_search_index_stays_in_few_segments() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(0), None, "word0"));
    home.sync();
    for number in 1..100 {
        let parent = uuid(number - 1);
        home.append(MAIN, line("user", &uuid(number), Some(&parent), &format!("word{number}")));
        home.sync();
    }
    // Each sync has added a segment; its id is above bit 37 of its pages' ids.
    let pieces = "SELECT count(DISTINCT id >> 37) FROM search_data WHERE id >= 1 << 37";
    let pieces: i64 = home.one(pieces);
    assert!(pieces < 16, "{pieces} pieces");
    assert_eq!((home.hits("word0"), home.hits("word99")), (1, 1));
    home.assert_sound();
}

#[test]
fn a_deleted_file_stays_in_the_ledger() {
    let home = Home::new();
    let lines =
        line("user", &uuid(1), None, "hello") + line("user", &uuid(2), None, "cut").trim_end();
    home.write(MAIN, &lines);
    home.sync();
    home.remove(MAIN);
    assert_eq!(home.sync().gone_sources, 1);
    assert_eq!(home.one::<String>("SELECT state FROM sessions"), "gone");
    assert_eq!(home.problems().get("unterminated"), Some(&1));
    let restored = home.restored(quipu_ledger::restore::Generations::Newest);
    assert_eq!(restored.values().next().unwrap(), lines.as_bytes());
    home.assert_rebuilds();

    // The file returns longer: nothing is stored twice.
    home.write(MAIN, format!("{lines}\n"));
    home.sync();
    assert_eq!(home.one::<String>("SELECT state FROM sessions"), "live");
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 2);
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
}

#[test]
fn a_file_of_one_unterminated_line_is_found() {
    let home = Home::new();
    home.write(MAIN, line("user", &uuid(1), None, "lonely").trim_end());
    home.sync();
    home.sync();
    assert_eq!(home.hits("lonely"), 1);
    home.assert_restores_all(&[MAIN]);
    home.assert_rebuilds();
    home.append(MAIN, "\n");
    home.sync();
    assert_eq!(home.hits("lonely"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 1);
    home.assert_rebuilds();
}

#[test]
fn titles_and_summaries_are_found() {
    let home = Home::new();
    home.write(
        MAIN,
        [
            line("user", &uuid(1), None, "hello"),
            "{\"type\":\"summary\",\"summary\":\"Xylophone repair\",\"leafUuid\":null}\n".to_owned(),
            format!(
                "{{\"type\":\"custom-title\",\"customTitle\":\"Quinoa harvest\",\"sessionId\":\"{SESSION}\"}}\n"
            ),
        ]
        .concat(),
    );
    home.sync_and_check();
    assert_eq!((home.hits("xylophone"), home.hits("quinoa")), (1, 1));
}

/// A parent may be collected after its child, from the same file or another: then nothing is
/// missing.
#[test]
fn problems_that_solve_themselves_are_not_counted() {
    let noted = |home: &Home| home.one::<i64>("SELECT count(*) FROM problems").cast_unsigned();
    let child = line("user", &uuid(1), Some(&uuid(2)), "child");
    let parent = line("user", &uuid(2), None, "parent");
    let orphan = line("user", &uuid(3), Some(&uuid(9)), "orphan");
    let home = Home::quick();
    home.write(MAIN, format!("{child}{parent}"));
    assert_eq!(home.sync().problems, 0);
    assert_eq!(noted(&home), 0);

    // In another file of the session, which is read in another phase.
    let home = Home::quick();
    home.write(MAIN, &child);
    home.write(&MAIN.replace("-home-alice-shop", "-home-alice-other"), format!("{parent}{orphan}"));
    assert_eq!(home.sync().problems, 1);
    assert_eq!(noted(&home), 1);

    // Problems of an earlier sync are not subtracted from those of this one.
    let home = Home::quick();
    home.write(MAIN, &child);
    assert_eq!(home.sync().problems, 1);
    home.append(MAIN, format!("{parent}{orphan}"));
    assert_eq!(home.sync_and_check().problems, 1);
    assert_eq!(noted(&home), 1);
}

/// The sync report and `status` count the same files.
#[test]
fn files_without_a_record_are_not_counted() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.write(".claude/projects/-home-alice-shop/notes.jsonl", "{\"note\":1}\n");
    for changed in [1, 0] {
        let report = home.sync();
        assert_eq!((report.sources, report.sources_changed), (1, changed));
        let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
        assert_eq!(status.formats[0].sources, 1);
    }
}

/// `projects` may be a link to another disk. The link is not followed, but its target can be
/// configured as a root.
#[test]
fn a_projects_folder_can_be_a_root() {
    let home = Home::quick();
    let disk = home.scratch("disk/all-projects");
    let file = disk.join("-home-alice-shop").join(format!("{SESSION}.jsonl"));
    let agent = disk.join(format!("-home-alice-shop/{SESSION}/subagents/agent-1.jsonl"));
    for (path, number) in [(&file, 1), (&agent, 2)] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, line("user", &uuid(number), None, "elsewhere")).unwrap();
    }
    std::fs::create_dir_all(home.path(".claude")).unwrap();
    std::os::unix::fs::symlink(&disk, home.path(".claude/projects")).unwrap();
    let report = home.sync();
    assert_eq!((report.sources, report.outside().count()), (0, 1));
    assert_eq!(report.outside().next().unwrap().paths, ["projects"]);

    let mut roots = home.roots();
    roots[1] =
        quipu_ledger::collect::RootPath { path: home.path(".claude/projects"), ..roots[0].clone() };
    let report = quipu_ledger::collect::collect(&mut home.open(), &roots, &mut |_| {}).unwrap();
    assert_eq!((report.sources, report.records_added), (2, 2));
    let ids = home.all("SELECT session_id, slug, part FROM sessions ORDER BY session_id");
    assert_eq!(
        ids,
        [
            format!("'{SESSION}'|'-home-alice-shop'|'transcript'"),
            format!("'{SESSION}/agent-1'|'-home-alice-shop'|'subagent'"),
        ]
    );
    let report = quipu_ledger::collect::collect(&mut home.open(), &roots, &mut |_| {}).unwrap();
    assert_eq!(report.bytes_read, 0);
}
