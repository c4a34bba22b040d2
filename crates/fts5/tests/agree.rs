//! After any changes of a table, reading its pages finds the same rows, columns and scores as FTS5.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use proptest::prelude::*;
use quipu_fts5::{Access, Index, Matches, PendingPostings, Phrase, PostingsBuilder, RowId, Scored};
use rusqlite::Connection;

/// A change of the table.
#[derive(Debug, Clone)]
enum Step {
    /// Writes this many rows without FTS5.
    Bulk(usize),
    /// Inserts this many rows through FTS5.
    Insert(usize),
    /// Deletes one row in this many.
    Delete(usize),
    Merge(i64),
    Optimize,
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..60_usize).prop_map(Step::Bulk),
        3 => (1..12_usize).prop_map(Step::Insert),
        2 => (2..9_usize).prop_map(Step::Delete),
        2 => (1..20_i64).prop_map(Step::Merge),
        1 => Just(Step::Optimize),
        3 => Just(Step::Commit),
    ]
}

fn token() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-d]{1,2}", 1 => "[a-e]{3}", 1 => Just("über".to_owned())]
}

fn phrase() -> impl Strategy<Value = Phrase> {
    (proptest::collection::vec("[a-d]{1,2}", 1..4), any::<bool>())
        .prop_map(|(tokens, is_prefix)| Phrase { tokens, is_prefix })
}

/// Applies the steps to a new table. Every row has one of `texts` in each column.
fn table(steps: &[Step], texts: &[String], page_size: usize) -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    quipu_fts5::create(&conn, ["a", "b", "c", "d", "e"]).unwrap();
    conn.execute("INSERT INTO search (search, rank) VALUES ('pgsz', ?1)", [page_size as i64])
        .unwrap();
    conn.execute_batch("BEGIN").unwrap();
    let mut next = 1_usize;
    let mut row = || {
        next += 1;
        let text = |column: usize| texts[(next * 3 + column * 7) % texts.len()].as_str();
        (RowId(next as i64 * 2), [text(0), text(1), text(2), text(3), text(4)])
    };
    for step in steps {
        match step {
            Step::Bulk(count) => {
                let mut pending = PendingPostings::default();
                let mut builder = PostingsBuilder::default();
                pending.begin_batch(&conn).unwrap();
                for (rowid, texts) in (0..*count).map(|_| row()) {
                    pending.set_rowid(builder.add(texts), rowid);
                }
                pending.end_batch(builder.finish());
                let pages = pending.merge(quipu_fts5::page_size(&conn).unwrap()).unwrap();
                pending.write(&conn, &pages).unwrap();
            }
            Step::Insert(count) => {
                for (rowid, [a, b, c, d, e]) in (0..*count).map(|_| row()) {
                    conn.prepare_cached(
                        "INSERT INTO search (rowid, a, b, c, d, e) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    )
                    .unwrap()
                    .execute((rowid, a, b, c, d, e))
                    .unwrap();
                }
            }
            Step::Delete(nth) => {
                let sql = "DELETE FROM search WHERE rowid IN (SELECT id FROM search_docsize
                            WHERE id / 2 % ?1 = 0)";
                conn.execute(sql, [*nth as i64]).unwrap();
            }
            Step::Merge(pages) => {
                let sql = "INSERT INTO search (search, rank) VALUES ('merge', ?1)";
                conn.execute(sql, [pages]).unwrap();
            }
            Step::Optimize => {
                conn.execute_batch("INSERT INTO search (search) VALUES ('optimize')").unwrap();
            }
            Step::Commit => conn.execute_batch("COMMIT; BEGIN").unwrap(),
        }
    }
    conn.execute_batch("COMMIT").unwrap();
    conn
}

/// Returns the `limit` best and those that tie with the last, in order.
fn best(mut scored: Vec<Scored>, limit: usize) -> Vec<(RowId, f64)> {
    scored
        .sort_by(|one, other| other.score.total_cmp(&one.score).then(one.rowid.cmp(&other.rowid)));
    let worst = limit.checked_sub(1).and_then(|last| scored.get(last)).map(|scored| scored.score);
    scored.retain(|scored| worst.is_none_or(|worst| scored.score >= worst));
    scored.iter().map(|scored| (scored.rowid, scored.score)).collect()
}

/// Returns the configuration of a property test: `cases` cases that are the same in every run or,
/// if `PROPTEST_CASES` is set, that number of random ones.
fn few_cases(cases: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => Config { failure_persistence: None, ..Config::default() },
        None => {
            let rng_seed = RngSeed::Fixed(1);
            Config { cases, rng_seed, failure_persistence: None, ..Config::default() }
        }
    }
}

proptest! {
    #![proptest_config(few_cases(96))]

    #[test]
    fn direct_and_plain_access_give_the_same_answers(
        steps in proptest::collection::vec(step(), 1..16),
        texts in proptest::collection::vec(
            proptest::collection::vec(token(), 0..14).prop_map(|tokens| tokens.join(" ")), 3..30),
        page_size in prop_oneof![32..80_usize, Just(8000)],
        queries in proptest::collection::vec(
            (proptest::collection::vec(phrase(), 0..3), proptest::collection::vec(phrase(), 0..2),
             1..32_u8, 1..30_usize), 1..8),
    ) {
        let conn = table(&steps, &texts, page_size);
        let direct = Index::open(&conn, Access::Direct).unwrap();
        let plain = Index::open(&conn, Access::Plain).unwrap();
        for (wanted, unwanted, mask, limit) in &queries {
            let (ours, theirs) = (
                direct.find(wanted, unwanted, *mask).unwrap(),
                plain.find(wanted, unwanted, *mask).unwrap(),
            );
            let rows = |index: &quipu_fts5::Matches| -> Vec<(RowId, u8)> {
                index.list().iter().map(|found| (found.rowid, found.columns())).collect()
            };
            prop_assert_eq!(rows(&ours), rows(&theirs));
            prop_assert_eq!(
                best(direct.best(&ours, *limit).unwrap(), *limit),
                best(plain.best(&theirs, *limit).unwrap(), *limit)
            );
            // Joined lists are those of FTS5's operators. Without NOT: beside OR, FTS5 may count the
            // phrases after NOT in a score.
            for join in [Matches::all_of, Matches::any_of] {
                let of = |index: &Index<'_>| {
                    let one = index.find(wanted, &[], *mask).unwrap();
                    let each = wanted.iter().chain(unwanted);
                    let each = each
                        .map(|phrase| index.find(std::slice::from_ref(phrase), &[], *mask).unwrap());
                    join(std::iter::once(one).chain(each).collect())
                };
                let (ours, theirs) = (of(&direct), of(&plain));
                if wanted.is_empty() {
                    continue;
                }
                prop_assert_eq!(rows(&ours), rows(&theirs));
                prop_assert_eq!(
                    best(direct.best(&ours, *limit).unwrap(), *limit),
                    best(plain.best(&theirs, *limit).unwrap(), *limit)
                );
            }
            let all = plain.rows(*mask).unwrap();
            prop_assert_eq!(&direct.rows(*mask).unwrap(), &all);
            let some: Vec<RowId> = (0..400).step_by(3).map(RowId).collect();
            prop_assert_eq!(
                direct.rows_among(&some, *mask).unwrap(),
                plain.rows_among(&some, *mask).unwrap()
            );
            for index in [&direct, &plain] {
                let mut matches = quipu_fts5::Matches::without_phrases(all.iter().copied());
                index.remove(&mut matches, unwanted, *mask).unwrap();
                let removed = all.len() - matches.len();
                let any: Vec<RowId> = unwanted
                    .iter()
                    .flat_map(|phrase| {
                        let found = plain.find(std::slice::from_ref(phrase), &[], *mask).unwrap();
                        found.rowids().collect::<Vec<_>>()
                    })
                    .collect::<std::collections::BTreeSet<_>>()
                    .into_iter()
                    .collect();
                prop_assert_eq!(removed, any.len());
            }
            let Some(Phrase { tokens, .. }) = wanted.first() else { continue };
            let terms = |index: &Index<'_>, limit: usize| {
                let mut terms = std::collections::BTreeSet::new();
                let seen = index.each_term(&tokens[0], limit, &mut |term| {
                    assert!(term.starts_with(tokens[0].as_str()));
                    terms.insert(term.to_owned());
                });
                (terms, seen.unwrap())
            };
            // Terms whose rows were all deleted stay until a merge, so ours may be more.
            let (ours, theirs) = (terms(&direct, usize::MAX).0, terms(&plain, usize::MAX).0);
            prop_assert!(ours.is_superset(&theirs), "{:?} {:?}", ours, theirs);
            prop_assert!(terms(&direct, 3).1 <= 3);
            let (ours, theirs) = (
                direct.rowids_of_term(&tokens[0], *mask).unwrap(),
                plain.rowids_of_term(&tokens[0], *mask).unwrap(),
            );
            prop_assert_eq!(
                ours.iter().collect::<std::collections::BTreeSet<_>>(),
                theirs.iter().collect::<std::collections::BTreeSet<_>>()
            );
            let (among, top) = direct.top_k_of_term(&tokens[0], *mask, *limit).unwrap().unwrap();
            let scored = direct.best_of_top_k(top, &among, *limit).unwrap().unwrap().1;
            let term = Phrase { tokens: vec![tokens[0].clone()], is_prefix: false };
            let theirs = plain.find(&[term], &[], *mask).unwrap();
            prop_assert_eq!(
                best(scored, *limit),
                best(plain.best(&theirs, *limit).unwrap(), *limit)
            );
        }
    }
}
