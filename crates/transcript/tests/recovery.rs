//! Damaged lines: what is recovered, and which problems are reported. The module's own tests count
//! the work, which is linear.
//!
//! Tests called `a5_…` to `a49_…` are the rows of the table of bad inputs. The lines are
//! OpenClaw's, but recovery knows nothing about formats except through their decoder.

use proptest::prelude::*;

use quipu_transcript::entry::{Entry, Kind, SessionFact};
use quipu_transcript::format::{Format, Origin};
use quipu_transcript::formats::openclaw::OpenClaw;
use quipu_transcript::problem::ProblemKind::{self, *};
use quipu_transcript::record;

const USER: &str = r#"{"type":"message","id":"u1","parentId":null,"timestamp":"2026-02-04T10:30:00.000Z","message":{"role":"user","content":"hello"}}"#;
const ANSWER: &str = r#"{"type":"message","id":"a1","parentId":"u1","timestamp":"2026-02-04T10:30:01.000Z","message":{"role":"assistant","content":[{"type":"text","text":"hi {\"there\"}"}],"model":"m"}}"#;

/// Returns the result of a line: `type/id/text` of each entry, then the kinds of problem.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    entries: Vec<String>,
    problems: Vec<ProblemKind>,
}

fn origin() -> Origin {
    OpenClaw.origin(b"agents/main/sessions/s.jsonl")
}

fn read(line: impl AsRef<[u8]>) -> Seen {
    let mut seen = Seen::default();
    let problems = record::read(&OpenClaw, &origin(), line.as_ref(), &mut |entry| {
        seen.entries.push(brief(entry));
        seen.problems.extend(entry.problems.iter().map(|problem| problem.kind));
    });
    for problem in &problems {
        assert!(problem.detail.len() < 80, "{problem:?}");
    }
    seen.problems.extend(problems.iter().map(|problem| problem.kind));
    seen
}

fn brief(entry: &Entry<'_>) -> String {
    format!("{}/{}/{}", entry.type_name, entry.id.as_deref().unwrap_or("-"), entry.text())
}

#[track_caller]
fn check(line: impl AsRef<[u8]>, entries: &[&str], problems: &[ProblemKind]) {
    let seen = read(line);
    assert_eq!(seen.entries, entries);
    assert_eq!(seen.problems, problems);
}

const HELLO: &str = "message/u1/hello";
const HI: &str = "message/a1/hi {\"there\"}";

#[test]
fn a5_two_records_glued() {
    check(format!("{USER}{ANSWER}\n"), &[HELLO, HI], &[Welded]);
}

#[test]
fn a6_truncated_splice() {
    check(format!(r#"{{"type":"pr-link","prNu{USER}"#), &[HELLO], &[Fragment]);
}

#[test]
fn a6_a_record_torn_anywhere_never_hides_the_next() {
    for cut in 1..ANSWER.len() {
        let seen = read(format!("{}{USER}", &ANSWER[..cut]));
        assert_eq!(seen.entries, [HELLO], "cut at {cut}: {}", &ANSWER[..cut]);
        assert_eq!(seen.problems, [Fragment], "cut at {cut}");
    }
}

#[test]
fn a6_torn_between_escapes_and_inside_characters() {
    let torn = "{\"type\":\"message\",\"x\":\"\\ud83d\\ude00 \u{1f99e} \\n\\\\ \\\"\",\"y\":[-1.5e+3,true,null]".as_bytes();
    for cut in 1..torn.len() {
        let line = [&torn[..cut], USER.as_bytes()].concat();
        assert_eq!(read(line).entries, [HELLO], "cut at {cut}");
    }
}

#[test]
fn a7_three_records_welded() {
    check(format!("{USER}{ANSWER} {USER}"), &[HELLO, HI, HELLO], &[Welded]);
}

#[test]
fn a7_welded_and_torn() {
    let line =
        format!(r#"{USER}{{"type":"message","id":"x","mess{ANSWER}{{"type":"custom","da{USER}"#);
    check(line, &[HELLO, HI, HELLO], &[Fragment, Welded]);
    // Nothing is invented from a torn end.
    check(format!("{USER}{}", &ANSWER[..60]), &[HELLO], &[Opaque]);
    check(&ANSWER[..100], &[], &[Opaque]);
}

#[test]
fn a7_a_torn_record_does_not_lend_its_inner_objects() {
    // Torn right after an inner object that, alone, would pass for a bare message.
    let torn = r#"{"type":"message","id":"x","message":{"role":"user","content":"inner"}"#;
    check(torn, &[], &[Opaque]);
    check(format!("{torn}{USER}"), &[HELLO], &[Fragment]);
    // An inner object of a known type, in a record that is broken elsewhere.
    let broken = format!(r#"{{"type":"x","n":NaN,"inner":{USER},"more":1}}"#);
    check(&broken, &[], &[Opaque]);
    check(format!("{broken}{ANSWER}"), &[HI], &[Fragment]);
}

#[test]
fn a8_json_inside_a_string_is_no_record() {
    let text = serde_json::to_string(&format!("{USER}{ANSWER}")).unwrap();
    let line =
        format!(r#"{{"type":"message","id":"x","message":{{"role":"user","content":{text}}}}}"#);
    let expected = format!("message/x/{USER}{ANSWER}");
    check(&line, &[&expected], &[]);
    // Also when the outer record has to be recovered.
    check(format!("\0{line}"), &[&expected], &[NulRun]);
    let line = line.replace("\"id\":\"x\"", "\"id\":\"x\",\"cwd\":\"\\ud83d\"");
    check(&line, &[&expected], &[LoneSurrogate]);
}

#[test]
fn a9_nothing_but_nul() {
    check(vec![0; 143 << 10], &[], &[NulRun]);
}

#[test]
fn a10_record_and_nul_padding() {
    check([USER.as_bytes(), &[0; 9 << 10]].concat(), &[HELLO], &[NulRun]);
}

#[test]
fn a11_nul_run_before_a_record() {
    check([&[0; 4096], USER.as_bytes()].concat(), &[HELLO], &[NulRun]);
    check([USER.as_bytes(), &[0; 64], ANSWER.as_bytes()].concat(), &[HELLO, HI], &[Welded, NulRun]);
    check([br#"{"type":"x","#, &[0; 64][..], ANSWER.as_bytes()].concat(), &[HI], &[Fragment]);
}

#[test]
fn a12_raw_nul_inside_a_string() {
    check(USER.replace("hello", "he\0llo"), &["message/u1/he\0llo"], &[ControlCharacter]);
}

#[test]
fn a13_byte_order_mark_at_the_start() {
    let line = "\u{feff}{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"cwd\":\"/a\"}";
    let mut has_cwd = false;
    record::read(&OpenClaw, &origin(), line.as_bytes(), &mut |entry| {
        has_cwd = entry.facts.contains(&SessionFact::Cwd("/a".into()));
    });
    assert!(has_cwd);
    check(line, &["session/-/"], &[ByteOrderMark]);
}

#[test]
fn a14_byte_order_mark_between_records() {
    check(format!("{USER}\u{feff}{ANSWER}"), &[HELLO, HI], &[Welded, ByteOrderMark]);
    check(USER.replace("hello", "\u{feff}hello"), &["message/u1/\u{feff}hello"], &[]);
}

#[test]
fn a15_crlf() {
    check(format!("{USER}\r\n"), &[HELLO], &[]);
}

#[test]
fn a16_lone_cr_as_separator() {
    check(format!("{USER}\r{ANSWER}\r"), &[HELLO, HI], &[Welded]);
}

#[test]
fn a17_unicode_line_separators_are_text() {
    let text = "a\u{2028}b\u{2029}c\u{85}d";
    check(USER.replace("hello", text), &[&format!("message/u1/{text}")], &[]);
}

#[test]
fn a18_bytes_that_are_not_utf8() {
    check(bytes("he", b"\xff\xfe", "llo"), &["message/u1/he\u{fffd}\u{fffd}llo"], &[InvalidUtf8]);
}

#[test]
fn a19_cesu8_overlong_and_truncated_characters() {
    for bad in [&b"\xed\xa0\xbd\xed\xb8\x80"[..], b"\xc0\xaf", b"\xf0\x9f\xa6", b"\xe2\x82"] {
        let seen = read(bytes("he", bad, "llo"));
        assert_eq!(seen.problems, [InvalidUtf8]);
        let text = seen.entries.concat();
        assert!(text.starts_with("message/u1/he\u{fffd}") && text.ends_with("llo"), "{text}");
    }
    // In the message's last character, right before the quote.
    check(bytes("hello", b"\xe2\x82", ""), &["message/u1/hello\u{fffd}"], &[InvalidUtf8]);
}

#[test]
fn a20_utf16() {
    let little: Vec<u8> = USER.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = USER.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for line in
        [&little[..], &big, &[b"\xff\xfe", &little[..]].concat(), &[b"\0", &little[..]].concat()]
    {
        check(line, &[], &[Encoding]);
    }
}

#[test]
fn a21_compressed() {
    check(b"\x1f\x8b\x08\0\0\0\0\0\0\x03{\"type\":\"message\"}", &[], &[Encoding]);
    check(b"\x28\xb5\x2f\xfd\x04\x58\x41", &[], &[Encoding]);
    check(b"\x93\x01\xfa{\"a\xff\"\x07}", &[], &[Opaque]);
}

#[test]
fn a22_latin1() {
    check(bytes("caf", b"\xe9", ""), &["message/u1/caf\u{fffd}"], &[InvalidUtf8]);
}

#[test]
fn a23_blank_lines_have_no_entries() {
    check(vec![b' '; 1 << 20], &[], &[]);
    check(b"\r\n", &[], &[]);
}

#[test]
fn a27_lone_high_surrogate() {
    check(USER.replace("hello", r"a\ud83d"), &["message/u1/a\u{fffd}"], &[LoneSurrogate]);
    check(USER.replace("hello", r"\ud83d\ude00"), &["message/u1/\u{1f600}"], &[]);
}

#[test]
fn a28_other_lone_surrogates() {
    check(USER.replace("hello", r"\udc00b"), &["message/u1/\u{fffd}b"], &[LoneSurrogate]);
    check(
        USER.replace("hello", r"\ude00\ud83d"),
        &["message/u1/\u{fffd}\u{fffd}"],
        &[LoneSurrogate],
    );
    check(
        USER.replace("hello", r"\ud83d\ud83d\ude00"),
        &["message/u1/\u{fffd}\u{1f600}"],
        &[LoneSurrogate],
    );
    check(USER.replace("\"type\"", "\"\\ud83d\":1,\"type\""), &[HELLO], &[LoneSurrogate]);
    // Recovered next to other damage too.
    check(
        format!("\0{}", USER.replace("hello", r"\ud83d")),
        &["message/u1/\u{fffd}"],
        &[NulRun, LoneSurrogate],
    );
}

#[test]
fn a29_escaped_nul_is_ordinary() {
    check(USER.replace("hello", r"a\u0000b"), &["message/u1/a\0b"], &[]);
}

#[test]
fn a30_raw_control_characters() {
    check(
        USER.replace("hello", "\u{1b}[2J\u{7}\t"),
        &["message/u1/\u{1b}[2J\u{7}\t"],
        &[ControlCharacter],
    );
}

#[test]
fn a31_depth_127_to_129() {
    on_a_small_stack(|| {
        for depth in [100, 117, 120, 121, 126, 127, 128, 129, 1000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let nest = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                let block = format!(r#"[{{"type":"text","text":"hello"}},{nest}]"#);
                for line in [
                    USER.replace("\"id\"", &format!("\"unknown\":{nest},\"id\"")),
                    USER.replace("\"hello\"", &block),
                ] {
                    assert_eq!(read(&line).entries, [HELLO], "{depth}");
                    // With other damage next to it, the line goes through recovery, which cuts it
                    // off.
                    let seen = read(format!("\0{line}"));
                    assert_eq!(seen.entries, [HELLO], "{depth}");
                    assert_eq!(
                        seen.problems.contains(&TooDeep),
                        depth > 118,
                        "{depth}: {:?}",
                        seen.problems
                    );
                }
            }
        }
    });
}

#[test]
fn a32_hostile_depth() {
    on_a_small_stack(|| {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        check(
            format!("\0{}", USER.replace("\"id\"", &format!("\"x\":{deep},\"id\""))),
            &[HELLO],
            &[NulRun, TooDeep],
        );
        check(&deep, &[], &[NotObject]);
        check(vec![b'['; 10_000_000], &[], &[Opaque]);
        check("{\"a\":".repeat(2_000_000), &[], &[Opaque]);
    });
}

#[test]
fn a33_repeated_keys() {
    check(
        USER.replace("\"parentId\"", "\"id\":\"u2\",\"parentId\""),
        &["message/u2/hello"],
        &[DuplicateKey],
    );
    check(USER.replace("\"id\"", "\"type\":\"custom\",\"id\""), &["custom/u1/"], &[DuplicateKey]);
}

#[test]
fn a34_large_integers() {
    for number in ["9007199254740993", "18446744073709551616", "-9223372036854775809"] {
        check(USER.replace("\"id\"", &format!("\"n\":{number},\"id\"")), &[HELLO], &[]);
    }
    check(USER.replace("\"u1\"", "9007199254740993"), &["message/9007199254740993/hello"], &[]);
}

#[test]
fn a35_numbers_out_of_range() {
    for number in ["1e400", "-1e400", &"9".repeat(400)] {
        let seen = read(format!(
            r#"{{"type":"compaction","id":"c","summary":"s","tokensBefore":{number}}}"#
        ));
        assert_eq!(seen.entries, ["compaction/c/"], "{number}");
        assert_eq!(seen.problems, [NumberRange], "{number}");
    }
    for number in ["1e-400", "-0", "1E+2", "1.7e308"] {
        let seen = read(format!(
            r#"{{"type":"compaction","id":"c","summary":"s","tokensBefore":{number}}}"#
        ));
        assert_eq!(seen.entries, ["compaction/c/"], "{number}");
        assert!(!seen.problems.contains(&NumberRange), "{number}");
    }
}

#[test]
fn a36_json5_is_not_json() {
    for line in [
        r#"{"type":"message","n":NaN}"#,
        r#"{"type":"message","n":Infinity}"#,
        r#"{"type":"message",}"#,
        r"{'type':'message'}",
        r#"{type:"message"}"#,
        r#"{"type":"message" /* why */}"#,
        r#"{"type":"message","n":01}"#,
        r#"{"type":"message","n":1.}"#,
        r#"{"type":"message"]"#,
        r#"{"type":"mess\age"}"#,
    ] {
        check(line, &[], &[Opaque]);
    }
}

#[test]
fn a37_not_an_object() {
    for line in
        ["[]", "[1,{\"type\":\"message\"}]", "\"text\"", "7", "-1.5e3", "null", "true", "\0null\0"]
    {
        assert_eq!(read(line).problems.first(), Some(&NotObject), "{line}");
        assert_eq!(read(line).entries, [""; 0], "{line}");
    }
    // The end of a torn record, with a complete one after it.
    check(format!("42}}{USER}"), &[HELLO], &[Fragment]);
    check(format!("llo\"}}}}{USER}"), &[HELLO], &[Fragment]);
}

#[test]
fn a38_no_usable_type() {
    check(r#"{"id":"x"}"#, &["/x/"], &[NoType]);
    check(r#"{"id":"x","type":null}"#, &["/x/"], &[NoType]);
    check(r#"{"id":"x","type":5}"#, &["/x/"], &[NoType]);
    check(r#"{"id":"x","type":"hologram"}"#, &["hologram/x/"], &[]);
    let mut is_unknown = false;
    record::read(&OpenClaw, &origin(), br#"{"type":"hologram"}"#, &mut |entry| {
        is_unknown = matches!(entry.kind, Kind::Unknown);
    });
    assert!(is_unknown);
}

#[test]
fn a39_many_and_long_keys() {
    let keys: String = (0..10_000).map(|n| format!("\"k{n}\":{n},")).collect();
    check(USER.replace("\"id\"", &format!("{keys}\"id\"")), &[HELLO], &[]);
    let long = format!("\"{}\":1,\"id\"", "k".repeat(1 << 20));
    check(USER.replace("\"id\"", &long), &[HELLO], &[]);
    check(format!("\0{}", USER.replace("\"id\"", &long)), &[HELLO], &[NulRun]);
}

#[test]
fn a44_times_of_every_kind() {
    let second = Some(1_770_201_042_000);
    for (written, expected) in [
        ("1770201042", second),
        ("1770201042000", second),
        ("1770201042000000", second),
        (r#""2026-02-04T11:30:42+01:00""#, second),
        (r#""2026-02-04T10:30:42""#, second),
        (r#""1770201042""#, second),
        (r#""0000-01-01T00:00:00Z""#, Some(-62_167_219_200_000)),
        (r#""9999-12-31T23:59:59.999Z""#, Some(253_402_300_799_999)),
        (r#""+292278994-08-17T07:12:55.807Z""#, None),
        (r#""""#, None),
        ("null", None),
        ("-1", None),
        ("1e30", None),
        ("[1]", None),
    ] {
        let mut time = None;
        let line = format!(r#"{{"type":"label","id":"l","targetId":"t","timestamp":{written}}}"#);
        let problems = record::read(&OpenClaw, &origin(), line.as_bytes(), &mut |entry| {
            time = Some(entry.time.map(|time| time.0));
        });
        assert_eq!((time, problems), (Some(expected), vec![]), "{written}");
    }
}

#[test]
fn a48_header_of_another_session() {
    check(r#"{"type":"session","version":3,"id":"t"}"#, &["session/-/"], &[HeaderMismatch]);
    check(r#"{"type":"session","version":3,"id":"s"}"#, &["session/-/"], &[]);
    check(r#"{"type":"session","version":3}"#, &["session/-/"], &[]);
}

#[test]
fn a49_header_versions() {
    check(r#"{"type":"session","version":"0.50.1","id":"s"}"#, &["session/-/"], &[]);
    check(r#"{"type":"session","version":999,"id":"s"}"#, &["session/-/"], &[NewerVersion]);
    check(r#"{"type":"session","version":{},"id":"s"}"#, &["session/-/"], &[BadField]);
}

#[test]
fn an_oversize_record_is_read_from_its_head() {
    let line = r#"{"type":"message","id":"big","parentId":"p","timestamp":"2026-02-04T10:30:00.000Z","message":{"role":"assistant","model":"m","content":[{"type":"text","text":"before"},{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"a"}},{"type":"toolCall","id":"c2","name":"write","arguments":{"path":"b","content":"xxxxxxxxxxxxxxxxxxxxxxxx"#;
    let mut seen = Vec::new();
    let problems =
        record::read_oversize(&OpenClaw, &origin(), line.as_bytes(), 40 << 20, &mut |entry| {
            let time = entry.time.map(|time| time.0);
            seen.push(format!(
                "{} {:?} {time:?} {:?} {:?}",
                brief(entry),
                entry.parent,
                entry.role,
                entry.model
            ));
            assert_eq!(entry.blocks.len(), 2, "half a tool call is none");
        });
    assert_eq!(
        seen,
        [r#"message/big/before Id("p") Some(1770201000000) Some(Assistant) Some("m")"#]
    );
    assert_eq!(problems.iter().map(|problem| problem.kind).collect::<Vec<_>>(), [Oversize]);
}

#[test]
fn an_oversize_record_cut_anywhere_has_only_fields_of_the_whole() {
    let whole: serde_json::Value = serde_json::from_str(ANSWER).unwrap();
    for cut in 0..ANSWER.len() {
        let mut count = 0;
        let problems = record::read_oversize(
            &OpenClaw,
            &origin(),
            &ANSWER.as_bytes()[..cut],
            1 << 30,
            &mut |entry| {
                count += 1;
                if let Some(id) = &entry.id {
                    assert_eq!(**id, *whole["id"].as_str().unwrap());
                }
                assert!("hi {\"there\"}".starts_with(&*entry.text()), "{}", entry.text());
            },
        );
        assert_eq!(count, usize::from(cut > 0), "cut at {cut}");
        assert_eq!(problems.last().unwrap().kind, Oversize);
    }
}

/// Words that the head ends in are read up to the last space; calls, ids and other strings that it
/// ends in are not.
#[test]
fn an_oversize_record_keeps_its_first_words() {
    let first_words = |head: &str| {
        let mut texts = Vec::new();
        record::read_oversize(&OpenClaw, &origin(), head.as_bytes(), 40 << 20, &mut |entry| {
            texts.push((entry.text().into_owned(), entry.id.as_deref().map(str::to_owned)));
        });
        texts
    };
    let message =
        |rest: &str| format!(r#"{{"type":"message","id":"big","message":{{"role":"user",{rest}"#);
    let big = Some("big".to_owned());
    for (rest, text) in [
        (r#""content":"first words of ma"#, "first words of"),
        (r#""content" : "first \u00e9 \u00"#, "first \u{e9}"),
        (r#""content":"first\nwords\"#, "first\nwords"),
        (
            r#""content":[{"type":"text","text":"whole"},{"type":"text","text":"first words of ma"#,
            "whole\nfirst words of",
        ),
        (
            r#""content":[{"type":"text","text":"whole"},{"type":"image","data":"iVBORw0 KGgo"#,
            "whole",
        ),
        (
            r#""content":[{"type":"toolCall","id":"c","name":"write","arguments":{"content":"half a"#,
            "",
        ),
        (r#""content":[{"type":"text","text":"whole"}],"model":"half a mod"#, "whole"),
        (r#""content":[{"type":"text","text":"whole"}],"te"#, "whole"),
    ] {
        assert_eq!(first_words(&message(rest)), [(text.to_owned(), big.clone())], "{rest}");
    }
    // A character that is cut in two is not damage.
    let line = message(r#""content":"first wörds"#);
    let cut = &line.as_bytes()[..line.find('\u{f6}').unwrap() + 1];
    let problems = record::read_oversize(&OpenClaw, &origin(), cut, 40 << 20, &mut |_| {});
    assert_eq!(problems.iter().map(|problem| problem.kind).collect::<Vec<_>>(), [Oversize]);
}

#[test]
fn an_oversize_record_may_be_damaged_too() {
    let head = format!(
        "\0\0{}",
        USER.replace("hello", "\u{1b}\\ud83d and so on and on").trim_end_matches("\"}}")
    );
    let mut count = 0;
    let problems =
        record::read_oversize(&OpenClaw, &origin(), head.as_bytes(), 1 << 30, &mut |_| count += 1);
    assert_eq!(count, 1);
    assert!(problems.iter().any(|problem| problem.kind == NulRun));
    for head in [&[0; 4096][..], &[b'['; 4096], &[b'{'; 4096], b"\x1f\x8b\x08", b"", b"\"", b"nul"]
    {
        record::read_oversize(&OpenClaw, &origin(), head, 1 << 30, &mut |entry| {
            assert!(entry.id.is_none());
        });
    }
}

/// Runs where recursion over the input would overflow at once.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work).expect("a thread");
    thread.join().expect("no panic and no overflow");
}

/// [`USER`] with other bytes for its text.
fn bytes(before: &str, bad: &[u8], after: &str) -> Vec<u8> {
    let (head, tail) = USER.split_once("hello").expect("its text");
    [head.as_bytes(), before.as_bytes(), bad, after.as_bytes(), tail.as_bytes()].concat()
}

/// Any JSON object, with strings that try to look like records.
fn any_object() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "[a-z{}\"\\\\\\[\\]:, \u{0}-\u{1f}\u{e9}\u{1f99e}]{0,12}",
        Just("{\"type\":\"message\"}".to_owned()),
        Just("}{\"".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        text.clone().prop_map(Into::into),
    ];
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    ("[a-z_]{0,8}", value)
        .prop_map(|(name, value)| serde_json::json!({ "type": name, "x": value }).to_string())
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
    #![proptest_config(few_cases(512))]

    #[test]
    fn any_bytes_are_survived(line in proptest::collection::vec(any::<u8>(), 0..400)) {
        read(&line);
        record::read_oversize(&OpenClaw, &origin(), &line, 1 << 30, &mut |_| {});
    }

    #[test]
    fn any_damage_to_a_record_is_survived(
        at in 0..ANSWER.len(), length in 0usize..20, with in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let end = (at + length).min(ANSWER.len());
        let line = [&ANSWER.as_bytes()[..at], &with, &ANSWER.as_bytes()[end..], USER.as_bytes()].concat();
        let seen = read(&line);
        prop_assert!(seen.entries.len() <= 4);
    }

    #[test]
    fn any_two_records_on_one_line_are_read_as_two(first in any_object(), second in any_object()) {
        let alone: Vec<String> = [&first, &second].iter().flat_map(|line| read(line).entries).collect();
        let seen = read(format!("{first}{second}"));
        prop_assert_eq!(seen.entries, alone);
        prop_assert!(seen.problems.contains(&Welded));
    }

    #[test]
    fn any_torn_record_gives_way_to_the_next(first in any_object(), cut in any::<proptest::sample::Index>()) {
        let cut = 1 + cut.index(first.len() - 1);
        let line = [&first.as_bytes()[..cut], USER.as_bytes()].concat();
        let seen = read(&line);
        prop_assert_eq!(seen.entries.last().map(String::as_str), Some(HELLO));
        prop_assert_eq!(seen.entries.len(), 1);
    }
}
