//! Tests the meaning of queries, and which of them are errors.

use proptest::prelude::*;

use super::*;

fn now() -> Zoned {
    "2026-11-16T08:30:00[UTC]".parse().unwrap()
}

fn read(text: &str) -> Query {
    parse(text, &now()).unwrap()
}

/// Returns clauses in typed form: `-` negates, `*` is a prefix.
fn clauses(text: &str) -> Vec<String> {
    let shown = |clause: &Clause| {
        let (dash, star) =
            (["", "-"][usize::from(clause.is_negated)], ["", "*"][usize::from(clause.is_prefix)]);
        format!("{dash}{}{star}", clause.text)
    };
    read(text).clauses.iter().map(shown).collect()
}

#[test]
fn words_phrases_and_exclusions_are_parsed() {
    assert_eq!(clauses("fix the bug"), ["fix", "the", "bug"]);
    assert_eq!(clauses("\"out of memory\" -test conf*"), ["out of memory", "-test", "conf*"]);
    assert_eq!(clauses("-\"not this\" \"or tha\"*"), ["-not this", "or tha*"]);
    assert_eq!(clauses("twice twice"), ["twice"]);
}

#[test]
fn text_that_only_looks_special_is_searched_for() {
    assert_eq!(clauses("a-b @x foo:bar http://x/y"), ["a-b", "@x", "foo:bar", "http://x/y"]);
    assert_eq!(clauses("--no-verify - -- *"), ["--no-verify", "-", "--", "*"]);
    assert_eq!(clauses("NEAR( a OR b) ^c"), ["NEAR(", "a", "OR", "b)", "^c"]);
    assert_eq!(clauses("file:///etc/hosts project:"), ["file:///etc/hosts", "project:"]);
    assert_eq!(clauses("\"role:user\""), ["role:user"]);
    assert_eq!(clauses("open \"ended"), ["open", "ended"]);
    assert_eq!(clauses("a\0b say\"hi\""), ["a", "b", "say", "hi"]);
    assert_eq!(clauses(&"(".repeat(5000)), ["(".repeat(5000)]);
    assert!(read("").is_empty() && read(" \t\0 ").is_empty() && read("\"\" -\"\"").is_empty());
}

#[test]
fn filters_are_parsed() {
    let query = read("bug project:\"my shop\" -tool:Bash role:user is:error since:2026-11-01");
    assert_eq!(query.clauses.len(), 1);
    let parsed: Vec<String> = query
        .filters
        .iter()
        .map(|filter| format!("{}{:?}", filter.is_negated, filter.what))
        .collect();
    assert_eq!(
        parsed,
        [
            "falseProject(\"my shop\")",
            "trueTool(\"Bash\")",
            "falseRole(User)",
            "falseError",
            "falseSince(1793491200000)",
        ]
    );
    assert_eq!(read("in:thinking in:tools").places, [Place::Thinking, Place::Input, Place::Result]);
    let until = read("until:2026-11-01").filters;
    assert_eq!(until[0].what, What::Until(1_793_577_600_000));
    for range in ["since:2026-11-01..2026-11-01", "until:2026-11-01..2026-11-01"] {
        let range = read(range).filters;
        assert_eq!(range[0].what, What::Since(1_793_491_200_000));
        assert_eq!(range[1].what, What::Until(1_793_577_600_000));
    }
}

#[test]
fn invalid_queries_are_refused_with_the_reason() {
    let wrong = |text: &str| parse(text, &now()).unwrap_err().to_string();
    assert_eq!(
        wrong("role:human"),
        "`role:human` is not a valid filter; role: accepts user, assistant, tool, system"
    );
    assert_eq!(wrong("is:great"), "`is:great` is not a valid filter; is: accepts error");
    assert!(wrong("-since:2026-11-01..2026-11-07").contains("is not a time"));
    assert_eq!(
        wrong("since:soon"),
        "`since:soon` is not a time; try 3d, yesterday, 2026-11-01 or 2026-11-01..2026-11-07"
    );
    assert_eq!(wrong(&"x".repeat(MAX_QUERY_BYTES + 1)), "the query is longer than 64 KiB");
    let many: String = (0..20_000).map(|number| format!("{number} ")).take(5000).collect();
    assert_eq!(wrong(&many), "the query has more than 256 words");
}

proptest! {
    #[test]
    fn quoted_text_is_never_an_error(text in ".{0,200}") {
        let quoted = format!("\"{}\"", text.replace('"', " "));
        let query = parse(&quoted, &now()).unwrap();
        prop_assert!(query.filters.is_empty() && query.clauses.len() <= 1);
    }

    #[test]
    fn only_filters_are_errors(text in "[a-z:*\"() \\-]{0,60}") {
        if let Err(error) = parse(&text, &now()) {
            let is_about_a_filter =
                matches!(error, QueryError::Value { .. } | QueryError::Time { .. });
            prop_assert!(is_about_a_filter);
        }
    }
}
