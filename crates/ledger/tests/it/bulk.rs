//! The search index of an import, which is written past FTS5, compared with FTS5's own: the
//! doctor's deep check derives everything again and lets FTS5 tokenize. Then the same through plain
//! FTS5, which is used where the format of its tables is unknown.

use quipu_ledger::search::Fts5Access;
use quipu_ledger::wire::Severity;

use crate::home::*;

/// Returns a home whose transcripts are large enough to be written past FTS5: with accents, welded
/// lines, a copy, repeated lines, base64, an entry that is indexed in part, and an end without a
/// newline.
fn large(access: Fts5Access) -> Home {
    let home = Home::quick().with_fts5(access);
    let message_line = |number: u32| {
        let other = number * 7919 % 3001;
        let text =
            format!("Größe word{number} common word{other} Straße_été 日本語 {}", "the ".repeat(9));
        line(["user", "assistant"][number as usize % 2], &uuid(number), None, &text)
    };
    let mut lines: Vec<String> = (1..4000).map(message_line).collect();
    lines.insert(1000, format!("{}{}", message_line(9001).trim_end(), message_line(9002)));
    lines.insert(2000, message_line(7));
    lines.insert(3000, line("user", &uuid(9003), None, &"QUJD".repeat(500)));
    lines.insert(3500, line("user", &uuid(9004), None, &"many words ".repeat(120_000)));
    lines.push(message_line(9005).trim_end().to_owned());
    home.write(MAIN, lines.concat());
    let copy = MAIN.replace(".jsonl", "-copy.jsonl");
    home.write(&copy, lines.get(..2500).unwrap().concat());
    home.write(
        ".openclaw/agents/main/sessions/large.jsonl",
        (1..3000)
            .map(|number| format!("{{\"role\":\"user\",\"content\":\"Ünder {number} common\"}}\n"))
            .collect::<String>(),
    );
    home
}

#[track_caller]
fn assert_as_fts5_has_it(home: &Home) {
    home.assert_sound();
    let diagnosis =
        quipu_ledger::doctor::doctor(&home.ledger_path(), &home.roots(), true, &mut |_| {});
    let bad: Vec<&str> = diagnosis
        .findings
        .iter()
        .filter(|finding| finding.severity != Severity::Note)
        .map(|finding| finding.message.as_str())
        .collect();
    assert_eq!(bad, [""; 0]);
}

#[test]
fn an_import_makes_the_index_that_fts5_would_make() {
    let home = large(Fts5Access::Direct);
    home.sync();
    assert_as_fts5_has_it(&home);
    // Two in one line, and again in the session of the copy.
    assert_eq!(home.hits("word9001") + home.hits("word9002"), 4);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM partly_indexed"), 1);
    // The totals that ranking uses are the same as well.
    let totals = "SELECT hex(block) FROM search_data WHERE id = 1";
    let before: String = home.one(totals);
    home.assert_rebuilds();
    assert_eq!(home.one::<String>(totals), before);
    assert_as_fts5_has_it(&home);
}

#[test]
fn entries_after_an_import_join_its_index() {
    let home = large(Fts5Access::Direct);
    home.sync();
    for round in 0..20_u32 {
        home.append(
            ".openclaw/agents/main/sessions/large.jsonl",
            format!("{{\"role\":\"user\",\"content\":\"later{round} common\"}}\n"),
        );
        home.sync();
        assert_eq!(home.hits(&format!("later{round}")), 1);
    }
    // The provisional entry at the end of the file becomes another one.
    home.append(MAIN, "\n");
    let more: String = (20_000..23_000)
        .map(|number| line("user", &uuid(number), None, &format!("word{number} again")))
        .collect();
    home.append(MAIN, more);
    home.sync();
    assert_as_fts5_has_it(&home);
    home.assert_rebuilds();
    assert_as_fts5_has_it(&home);
    home.sql().execute("INSERT INTO search (search) VALUES ('optimize')", []).unwrap();
    assert_as_fts5_has_it(&home);
}

/// Returns everything that a search can see: the positions of words, the lengths of entries, and
/// the totals.
fn index_of(home: &Home) -> [Vec<String>; 3] {
    let conn = home.sql();
    conn.execute_batch("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, search, instance)")
        .unwrap();
    [
        "SELECT term, doc, col, offset FROM temp.words ORDER BY 1, 2, 3, 4",
        "SELECT id, sz FROM search_docsize ORDER BY 1",
        "SELECT block FROM search_data WHERE id = 1",
    ]
    .map(|query| rows(&conn, query))
}

/// Imports, appends, forgets and rebuilds, past FTS5 and through it: index and answers are the same
/// at every step.
#[test]
fn without_the_known_format_fts5_does_the_same() {
    let homes = [Fts5Access::Direct, Fts5Access::Plain].map(large);
    // FTS5 accepts this version of its tables; the code that writes past it refuses it.
    drop(homes[1].open());
    homes[1].sql().execute("UPDATE search_config SET v = 5 WHERE k = 'version'", []).unwrap();
    let compare = |step: &str| {
        let [direct, plain] = homes.each_ref().map(index_of);
        assert!(direct == plain, "the indexes differ after {step}");
        for text in ["common", "word7", "strasse ete", "\"the the\"", "word1*", "under -common"] {
            let [direct, plain] = homes.each_ref().map(|home| {
                let answer = home.search(&request(text));
                let hits = answer.hits.iter().map(|hit| (hit.entry, hit.score)).collect::<Vec<_>>();
                (answer.total, hits)
            });
            assert_eq!(direct, plain, "{text} after {step}");
        }
    };
    let each = |step: &str, change: &dyn Fn(&Home)| {
        homes.iter().for_each(change);
        compare(step);
    };
    each("an import", &|home| {
        home.sync();
    });
    each("an append", &|home| {
        let line = "{\"role\":\"user\",\"content\":\"later common\"}\n";
        home.append(".openclaw/agents/main/sessions/large.jsonl", line);
        home.append(MAIN, "\n");
        home.sync();
    });
    each("forgetting", &|home| {
        home.forget("large");
    });
    each("a rebuild", &|home| home.assert_rebuilds());
    homes.iter().for_each(|home| assert_as_fts5_has_it(home));
}
