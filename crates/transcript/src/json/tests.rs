//! Tests each promise of the lenient reader, on a struct that has a field of every type.

use super::*;
use crate::entry::RawJson;
use crate::time::Timestamp;

fields! {
    struct Sample<'a> {
        "text" => text: Cow<'a, str>,
        "word" => word: Word<'a>,
        "count" => count: u64,
        "cost" => cost: f64,
        "flag" => flag: bool,
        "time" => time: Timestamp,
        "parent" => parent: Nullable<Cow<'a, str>>,
        "raw" => raw: RawJson<'a>,
        "there" => there: Present,
        "list" => list: Vec<Cow<'a, str>>,
        "inner" => inner: Inner,
    }
}

fields! {
    struct Inner {
        "count" => count: u64,
    }
}

/// Reads a sample and passes it to `look` with the names of its problems.
#[track_caller]
fn check(json: &str, look: impl FnOnce(Sample<'_>, Vec<String>)) {
    let mut odd = Oddities::default();
    let sample = object::<Sample<'_>>(json.as_bytes(), &mut odd).expect("it is an object");
    let problems = odd.into_problems();
    look(*sample, problems.iter().map(|odd| format!("{} {}", odd.kind, odd.detail)).collect());
}

#[test]
fn text_borrows_unless_it_holds_escapes() {
    check(r#"{"text":"plain"}"#, |sample, _| {
        assert!(matches!(sample.text, Some(Cow::Borrowed("plain"))));
    });
    check(r#"{"text":"a\nb"}"#, |sample, _| {
        assert!(matches!(sample.text, Some(Cow::Owned(text)) if text == "a\nb"));
    });
}

#[test]
fn keys_with_escapes_are_the_same_keys() {
    check(r#"{"te\u0078t":"a"}"#, |sample, _| assert_eq!(sample.text.as_deref(), Some("a")));
}

#[test]
fn unknown_keys_are_skipped_whatever_they_hold() {
    let deep = format!(r#"{{"?":{}{},"text":"a"}}"#, "[".repeat(10_000), "]".repeat(10_000));
    check(&deep, |sample, problems| {
        assert_eq!(sample.text.as_deref(), Some("a"));
        assert!(problems.is_empty());
    });
}

#[test]
fn null_counts_as_absent_except_in_nullable_fields() {
    let json = r#"{"text":null,"count":null,"time":null,"raw":null,"there":null,"list":null,"inner":null,"parent":null}"#;
    check(json, |sample, problems| {
        assert!(sample.text.is_none() && sample.count.is_none() && sample.time.is_none());
        assert!(sample.raw.is_none() && sample.there.is_none());
        assert!(sample.list.is_none() && sample.inner.is_none());
        assert!(matches!(sample.parent, Some(Nullable(None))));
        assert!(problems.is_empty());
    });
    check("{}", |sample, _| assert!(sample.parent.is_none()));
}

#[test]
fn numbers_are_converted_or_noted() {
    for (json, expected) in [
        ("7", Some(7)),
        ("7.0", Some(7)),
        (r#"" 7 ""#, Some(7)),
        ("18446744073709551615", Some(u64::MAX)),
        ("-1", None),
        ("-0.5", None),
        ("1e300", None),
        (r#""seven""#, None),
        ("true", None),
        ("[7]", None),
    ] {
        check(&format!(r#"{{"count":{json}}}"#), |sample, problems| {
            assert_eq!(sample.count, expected, "{json}");
            assert_eq!(problems.is_empty(), expected.is_some(), "{json}");
        });
    }
    check(r#"{"cost":"0.25","word":3}"#, |sample, _| {
        assert_eq!(sample.cost, Some(0.25));
        assert_eq!(sample.word.map(|word| word.0.into_owned()).as_deref(), Some("3"));
    });
}

#[test]
fn an_unexpected_type_is_noted_once_and_the_rest_is_read() {
    let json = r#"{"text":{"a":[1]},"flag":"yes","time":{},"inner":[1,2],"list":["a",1,{},"b"],"word":"w"}"#;
    check(json, |sample, problems| {
        assert!(sample.text.is_none() && sample.flag.is_none() && sample.inner.is_none());
        assert_eq!(sample.list.unwrap(), ["a", "b"]);
        assert!(sample.word.is_some());
        assert_eq!(
            problems,
            [
                "bad_field text",
                "bad_field flag",
                "bad_time time",
                "bad_field inner",
                "bad_field []"
            ]
        );
    });
}

#[test]
fn the_last_of_repeated_keys_counts() {
    check(
        r#"{"text":null,"text":"a","text":"b","inner":{"count":1,"count":2}}"#,
        |sample, problems| {
            assert_eq!(sample.text.as_deref(), Some("b"));
            assert_eq!(sample.inner.and_then(|inner| inner.count), Some(2));
            assert_eq!(problems, ["duplicate_key text", "duplicate_key count"]);
        },
    );
}

#[test]
fn raw_json_is_kept_as_written() {
    check(r#"{"raw":{ "b":1e400, "a":"\ud800" }}"#, |sample, problems| {
        assert_eq!(sample.raw.unwrap().get(), r#"{ "b":1e400, "a":"\ud800" }"#);
        assert!(problems.is_empty());
    });
}

#[test]
fn anything_but_exactly_one_object_is_an_error() {
    for json in
        ["", "[]", "null", "1", r#""a""#, "{} {}", "{}x", r#"{"text":"a"#, r#"{"text":"\ud800"}"#]
    {
        let read = object::<Sample<'_>>(json.as_bytes(), &mut Oddities::default());
        assert!(read.is_err(), "{json}");
    }
}
