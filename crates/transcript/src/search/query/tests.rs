//! Tests the meaning of queries, and which of them are errors.

use proptest::prelude::*;

use super::*;

fn now() -> Zoned {
    "2026-11-16T08:30:00[UTC]".parse().unwrap()
}

fn read(text: &str) -> Query {
    parse(text, &now()).unwrap()
}

/// Returns the words as they were understood.
fn words(text: &str) -> String {
    read(text).understood().to_string()
}

#[test]
fn words_phrases_and_exclusions_are_parsed() {
    assert_eq!(words("fix the bug"), "fix AND the AND bug");
    assert_eq!(words("\"out of memory\" -test conf*"), "\"out of memory\" AND conf*, not test");
    assert_eq!(words("-\"not this\" \"or tha\"*"), "\"or tha\"*, not \"not this\"");
    assert_eq!(words("twice twice"), "twice");
    assert_eq!(words("-one -two"), "not one or two");
}

#[test]
fn operators_bind_as_in_fts5() {
    assert_eq!(words("a b OR c"), "(a AND b) OR c");
    assert_eq!(words("a OR b c OR d"), "a OR (b AND c) OR d");
    assert_eq!(words("a b NOT c d OR e"), "((a AND b) NOT (c AND d)) OR e");
    assert_eq!(words("a NOT b NOT c"), "a NOT b NOT c");
    assert_eq!(words("a AND b NOT c"), "(a AND b) NOT c");
    assert_eq!(words("a NOT b AND c"), "(a AND c) NOT b");
    // A dash excludes from all sides.
    assert_eq!(words("a OR b -c"), "a OR b, not c");
    // Filters hold for all sides, wherever they are typed.
    let query = read("a OR b role:user");
    assert_eq!((query.alternatives.len(), query.filters.len()), (2, 1));
    assert_eq!(words("a role:user OR b"), "a OR b");
    assert_eq!(words("a OR role:user b"), "a OR b");
}

#[test]
fn operators_without_words_are_text() {
    assert_eq!(words("OR a"), "OR AND a");
    assert_eq!(words("a NOT"), "a AND NOT");
    assert_eq!(words("a OR OR b"), "(a AND OR) OR b");
    assert_eq!(words("a or b not c"), "a AND or AND b AND not AND c");
    assert_eq!(words("a \"OR\" b -NOT"), "a AND \"OR\" AND b, not NOT");
    let wrong = |text: &str| parse(text, &now()).unwrap_err().to_string();
    let beside = "`OR` joins words, and a filter holds for the whole query";
    assert_eq!(wrong("role:user OR tool:Bash"), beside);
    assert_eq!(wrong("role:user OR a"), beside);
    assert_eq!(wrong("a OR role:user"), beside);
}

#[test]
fn text_that_only_looks_special_is_searched_for() {
    assert_eq!(words("a-b @x foo:bar http://x/y"), "a-b AND @x AND foo:bar AND http://x/y");
    assert_eq!(words("--no-verify - -- *"), "--no-verify AND - AND -- AND *");
    assert_eq!(words("NEAR( a b) ^c"), "NEAR( AND a AND b) AND ^c");
    assert_eq!(words("file:///etc/hosts project:"), "file:///etc/hosts AND project:");
    assert_eq!(words("\"role:user\""), "\"role:user\"");
    assert_eq!(words("open \"ended"), "open AND \"ended\"");
    assert_eq!(words("a\0b say\"hi\""), "a AND b AND say AND \"hi\"");
    assert_eq!(words(&"(".repeat(5000)), "(".repeat(5000));
    assert!(read("").is_empty() && read(" \t\0 ").is_empty() && read("\"\" -\"\"").is_empty());
}

#[test]
fn filters_are_parsed() {
    let query = read("bug project:\"my shop\" -tool:Bash role:user is:error since:2026-11-01");
    assert_eq!(query.understood().to_string(), "bug");
    let parsed: Vec<String> = query
        .filters
        .iter()
        .map(|filter| format!("{}{:?}", filter.is_negated, filter.condition))
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
    assert_eq!(until[0].condition, Condition::Until(1_793_577_600_000));
    for range in ["since:2026-11-01..2026-11-01", "until:2026-11-01..2026-11-01"] {
        let range = read(range).filters;
        assert_eq!(range[0].condition, Condition::Since(1_793_491_200_000));
        assert_eq!(range[1].condition, Condition::Until(1_793_577_600_000));
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
        "`since:soon` is not a time; try 3d, yesterday, last-week, 2026-11-01 or \
         2026-11-01..2026-11-07"
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
        prop_assert!(query.filters.is_empty() && query.clauses().count() <= 1);
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
