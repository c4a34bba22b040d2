//! Bad input, row by row of the torture table: oddities are kept, counted, and hide nothing. The
//! transcript crate tests single lines; here they are collected, restored, searched and projected
//! again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use std::ops::ControlFlow;

use crate::home::*;
use quipu_ledger::query::{Choice, Story, tree};
use quipu_ledger::restore::Generations;
use quipu_ledger::search::SearchRequest;
use quipu_ledger::store::{Fork, Store};

const OPENCLAW: &str = ".openclaw/agents/main/sessions/torture.jsonl";
const HEADER: &str = "{\"type\":\"session\",\"version\":3,\"id\":\"torture\",\"timestamp\":\"2026-02-04T10:30:00.000Z\",\"cwd\":\"/p\"}\n";

/// Returns a line of OpenClaw, without its newline.
fn message_line(id: &str, parent: Option<&str>, text: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":{parent},\"timestamp\":\"2026-02-04T10:30:00.000Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}"
    )
}

/// Collects a transcript with `middle` between two good lines. Asserts that both stay readable,
/// every word of `words` is found once, these are the problems, and everything is restored.
#[track_caller]
fn check(middle: impl AsRef<[u8]>, words: &[&str], problems: &[(&str, i64)]) -> Home {
    let bytes = [
        HEADER.as_bytes(),
        message_line("aaaa0001", None, "neighbourbefore").as_bytes(),
        b"\n",
        middle.as_ref(),
        b"\n",
        message_line("aaaa0002", Some("aaaa0001"), "neighbourafter").as_bytes(),
        b"\n",
    ]
    .concat();
    let home = check_file(OPENCLAW, &bytes, problems);
    for word in words.iter().chain(&["neighbourbefore", "neighbourafter"]) {
        assert_eq!(home.hits(word), 1, "{word}");
    }
    home
}

/// Collects a file, and checks it.
#[track_caller]
fn check_file(path: &str, bytes: &[u8], problems: &[(&str, i64)]) -> Home {
    let home = Home::quick();
    home.write(path, bytes);
    home.sync_and_check();
    home.assert_restores_all(&[path]);
    let generations = home.generations();
    assert_eq!(generations.len(), 1);
    let lines: Vec<&[u8]> = complete_lines(bytes).collect();
    assert!(generations[0].own_records().eq(lines), "the records differ from the lines");
    let expected: Vec<(String, i64)> =
        problems.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
    assert_eq!(home.problems().into_iter().collect::<Vec<_>>(), expected);
    home
}

// --- A1 bytes and framing

#[test]
fn a01_empty_file() {
    let home = check_file(OPENCLAW, b"", &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sources WHERE kind = 'file'"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 0);
}

#[test]
fn a02_nothing_but_newlines() {
    let home = check_file(OPENCLAW, "\n".repeat(1000).as_bytes(), &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 1000);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 0);
}

#[test]
fn a03_unterminated_line_is_stored_once_when_it_ends() {
    let home = Home::quick();
    let whole = message_line("aaaa0001", None, "unique") + "\n";
    home.write(OPENCLAW, HEADER);
    for (from, to) in [(0, 1), (1, 40), (40, whole.len() - 1), (whole.len() - 1, whole.len())] {
        home.append(OPENCLAW, &whole[from..to]);
        home.sync_and_check();
    }
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 2);
    assert_eq!(home.hits("unique"), 1);
    assert!(home.problems().is_empty(), "{:?}", home.problems());
}

#[test]
fn a04_unterminated_line_of_a_file_that_ends() {
    // Deleted.
    let home = Home::quick();
    home.write(OPENCLAW, format!("{HEADER}{}", message_line("aaaa0001", None, "unique")));
    home.sync();
    home.remove(OPENCLAW);
    home.sync_and_check();
    assert_eq!(home.problems()["unterminated"], 1);
    assert_eq!(home.hits("unique"), 1);

    // Renamed: it may still continue.
    let home = Home::quick();
    let archive = format!("{OPENCLAW}.reset.2026-02-04T10-30-00.000Z");
    home.write(OPENCLAW, format!("{HEADER}{}", message_line("aaaa0001", None, "unique")));
    home.sync();
    home.rename(OPENCLAW, &archive);
    home.sync_and_check();
    home.append(&archive, "\n");
    home.sync_and_check();
    home.assert_restores_all(&[&archive]);
    assert!(home.problems().is_empty(), "{:?}", home.problems());
    assert_eq!(home.hits("unique"), 1);
}

#[test]
fn a05_next_record_glued_to_an_unterminated_one() {
    let home = Home::quick();
    home.write(OPENCLAW, format!("{HEADER}{}", message_line("aaaa0001", None, "first")));
    home.sync();
    home.sync();
    assert_eq!(home.hits("first"), 1);
    home.append(OPENCLAW, message_line("aaaa0002", Some("aaaa0001"), "second") + "\n");
    home.sync_and_check();
    assert_eq!((home.hits("first"), home.hits("second")), (1, 1));
    assert_eq!(home.problems()["welded"], 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 2);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 2);
}

#[test]
fn a06_truncated_splice() {
    check(
        format!(
            "{{\"type\":\"pr-link\",\"prNu{}",
            message_line("bbbb0001", Some("aaaa0001"), "spliced")
        ),
        &["spliced"],
        &[("fragment", 1)],
    );
}

#[test]
fn a07_three_records_welded() {
    let welded =
        ["one", "two", "three"].map(|word| message_line(&format!("bbbb-{word}"), None, word));
    let home = check(welded.concat(), &["one", "two", "three"], &[("welded", 1)]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 5);
}

/// Each record of the prompt list names its own session.
#[test]
fn a07_welded_records_of_two_sessions() {
    let prompt = |session: u32| {
        format!(
            "{{\"display\":\"prompt{session}\",\"timestamp\":1770193116233,\"project\":\"/p\",\"sessionId\":\"{}\"}}",
            uuid(session)
        )
    };
    let welded = format!("{}{}\n", prompt(1), prompt(2));
    let home = check_file(".claude/history.jsonl", welded.as_bytes(), &[("welded", 1)]);
    assert_eq!(home.all("SELECT session_id FROM sessions").len(), 2, "one session for each");
    assert_eq!((home.hits("prompt1"), home.hits("prompt2")), (1, 1));
}

#[test]
fn a08_json_inside_a_string() {
    let home = check(
        message_line("bbbb0001", None, "outer {\\\"type\\\":\\\"message\\\"} inner"),
        &["outer", "inner"],
        &[],
    );
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 3);
}

#[test]
fn a09_to_a12_nul_bytes() {
    let record = message_line("bbbb0001", Some("aaaa0001"), "padded");
    check(vec![0; 143 << 10], &[], &[("nul_run", 1)]);
    check([record.as_bytes(), &[0; 9 << 10]].concat(), &["padded"], &[("nul_run", 1)]);
    check([&[0; 9 << 10], record.as_bytes()].concat(), &["padded"], &[("nul_run", 1)]);
    let home = check(
        message_line("bbbb0001", None, "left\0right"),
        &["left", "right"],
        &[("control_character", 1)],
    );
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 3);

    // A block of NULs at the end, and the file continues after it.
    let home = Home::quick();
    home.write(OPENCLAW, [HEADER.as_bytes(), &[0; 5000]].concat());
    home.sync_and_check();
    home.append(OPENCLAW, format!("\n{record}\n"));
    home.sync_and_check();
    assert_eq!(home.hits("padded"), 1);
    assert_eq!(home.problems()["nul_run"], 1);
}

#[test]
fn a13_a14_byte_order_marks() {
    let start = format!("\u{feff}{HEADER}{}\n", message_line("aaaa0001", None, "unique"));
    let home = check_file(OPENCLAW, start.as_bytes(), &[("byte_order_mark", 1)]);
    assert_eq!(home.one::<String>("SELECT cwd FROM sessions"), "/p");
    check(
        format!("\u{feff}{}", message_line("bbbb0001", None, "marked")),
        &["marked"],
        &[("byte_order_mark", 1)],
    );
}

#[test]
fn a15_a16_carriage_returns() {
    check(format!("{}\r", message_line("bbbb0001", None, "carriage")), &["carriage"], &[]);
    let crlf =
        format!("{HEADER}{}\n", message_line("aaaa0001", None, "unique")).replace('\n', "\r\n");
    check_file(OPENCLAW, crlf.as_bytes(), &[]);
    // As separators they make one line; its records are still found.
    let words =
        ["uno", "due"].map(|word| message_line(&format!("bbbb-{word}"), None, word)).join("\r");
    check(words, &["uno", "due"], &[("welded", 1)]);
}

#[test]
fn a17_unicode_line_ends_are_text() {
    let home = check(message_line("bbbb0001", None, "a\u{2028}b\u{2029}c\u{85}d"), &[], &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 3);
}

#[test]
fn a18_a22_bytes_that_are_not_utf8() {
    let with = |bytes: &[u8]| {
        let text = message_line("bbbb0001", None, "lossy XX");
        let at = text.find("XX").unwrap();
        [&text.as_bytes()[..at], bytes, &text.as_bytes()[at + 2..]].concat()
    };
    for bytes in
        [&b"\xff\xfe"[..], b"\xed\xa0\xbd\xed\xb8\x80", b"\xc0\xaf", b"caf\xe9", b"\xe2\x82"]
    {
        check(with(bytes), &["lossy"], &[("invalid_utf8", 1)]);
    }
}

#[test]
fn a19_a_character_split_between_two_reads() {
    let home = Home::quick();
    let text =
        message_line("aaaa0001", None, &format!("{}\u{1f99e} lobster", "x".repeat(4096))) + "\n";
    let inside = text.find('\u{1f99e}').unwrap() + 2;
    home.write(OPENCLAW, HEADER);
    home.append(OPENCLAW, &text.as_bytes()[..inside]);
    home.sync_and_check();
    home.append(OPENCLAW, &text.as_bytes()[inside..]);
    home.sync_and_check();
    assert_eq!(home.hits("lobster"), 1);
    assert!(home.problems().is_empty(), "{:?}", home.problems());
}

#[test]
fn a20_a21_not_a_text_file() {
    let utf16: Vec<u8> = std::iter::once(0xfeff)
        .chain(format!("{HEADER}{}\n", message_line("aaaa0001", None, "wide")).encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let home = Home::quick();
    home.write(OPENCLAW, &utf16);
    home.sync_and_check();
    assert!(home.problems()["encoding"] >= 1, "{:?}", home.problems());

    let gzip = [&[0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 3], &b"not really compressed\n"[..]].concat();
    check(gzip, &[], &[("encoding", 1)]);
}

#[test]
fn a23_much_of_nothing() {
    check(" ".repeat(1 << 20), &[], &[]);
    let blank = "\n".repeat(100_000);
    let home = check(&blank, &[], &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE type = 'message'"), 2);
}

#[test]
fn a24_long_lines() {
    for mebibytes in [13, 40, 70] {
        let long =
            message_line("bbbb0001", Some("aaaa0001"), &"words ".repeat((mebibytes << 20) / 6));
        let problems: &[_] = if mebibytes > 32 { &[("oversize", 1)] } else { &[] };
        let home = check(long, &[], problems);
        assert_eq!(home.one::<i64>("SELECT count(*) FROM entries WHERE type = 'message'"), 3);
        let parent = "SELECT parent IS NOT NULL FROM entries WHERE id = 3";
        assert_eq!(home.one::<i64>(parent), 1, "the head of the long line is understood");
        let shown = home.items_of("torture", &Choice::default(), |item| item.oversize);
        let length: i64 = home.one("SELECT length FROM records WHERE seq = 3");
        let expected = (mebibytes > 32).then_some(length.cast_unsigned());
        assert_eq!(
            shown,
            [None, expected, None],
            "all entries are shown, and the long one is marked"
        );
    }
}

/// The words within the first 64 KiB of such a line are found, with the index and without it, and
/// the rest is counted as not read.
#[test]
fn a24_the_first_words_of_a_long_line_are_found() {
    let text = format!("firstword {} lastword", "words ".repeat((40 << 20) / 6));
    // Its head is in the chunk of its neighbours, or partly in the next one.
    for before in [10, (1 << 20) - (15 << 10)] {
        let filler = message_line("cccc0001", None, &"filler ".repeat(before / 7));
        let more = message_line("cccc0002", None, &"filler ".repeat(before / 7));
        let long = message_line("bbbb0001", Some("aaaa0001"), &text);
        let home = check(format!("{filler}\n{more}\n{long}"), &["firstword"], &[("oversize", 1)]);
        assert_eq!(home.hits("lastword"), 0);
        for (word, found) in [("firstword", 1), ("lastword", 0)] {
            let exact = SearchRequest { exact: Some(word.to_owned()), ..Default::default() };
            let answer = home.search(&exact);
            assert_eq!((answer.total, answer.gaps.too_long), (found, 1), "{word}");
            assert!(
                answer.scanned.unwrap().bytes < 4 << 20,
                "only the head of the long line is searched"
            );
        }
        let answer = home.search(&request("firstword"));
        assert_eq!((answer.gaps.partly_indexed, answer.gaps.too_long), (0, 1));
        assert!(answer.hits[0].snippet.contains("firstword words"), "{}", answer.hits[0].snippet);
        let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
        assert_eq!(
            (status.too_long_records, status.partly_indexed_entries),
            (1, answer.gaps.partly_indexed)
        );
    }
}

/// The forks get lines of their own: the parent of the long line, a label, is not copied.
#[test]
fn a24_search_and_status_count_a_copied_long_line_once() {
    let label = r#"{"type":"label","id":"bbbb0000","parentId":"aaaa0001","timestamp":"2026-02-04T10:30:00.000Z","targetId":"aaaa0001","label":"x"}"#;
    let text = "words ".repeat((33 << 20) / 6);
    let long = message_line("bbbb0001", Some("bbbb0000"), &text);
    let home = check(format!("{label}\n{long}"), &[], &[("oversize", 1)]);
    let store = Store::open(home.ledger_path()).unwrap();
    for id in ["one", "two"] {
        let fork = Fork { id: Some(id), at: Some("bbbb0001"), ..Fork::default() };
        store.fork("torture", &fork).unwrap();
    }
    drop(store);
    let own_lines = "SELECT count(*) FROM records WHERE length > 33 << 20 AND same_as IS NULL";
    assert_eq!(home.one::<i64>(own_lines), 3);
    let exact = SearchRequest { exact: Some("words".to_owned()), ..Default::default() };
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    let by_index = home.search(&request("words")).gaps.too_long;
    let by_scan = home.search(&exact).gaps.too_long;
    assert_eq!((by_index, by_scan), (status.too_long_records, status.too_long_records));
}

#[test]
fn a24_a_long_line_that_comes_in_parts() {
    let home = Home::quick();
    let long = message_line("bbbb0001", None, &"x".repeat(50 << 20)) + "\n";
    home.write(OPENCLAW, HEADER);
    for part in [20, 15, 10] {
        let end = home.path(OPENCLAW).metadata().unwrap().len() as usize - HEADER.len();
        home.append(OPENCLAW, &long[end..end + (part << 20)]);
        home.sync();
        home.assert_restores_all(&[OPENCLAW]);
    }
    let end = home.path(OPENCLAW).metadata().unwrap().len() as usize - HEADER.len();
    home.append(OPENCLAW, &long[end..]);
    home.append(OPENCLAW, message_line("aaaa0002", None, "after") + "\n");
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM records"), 3);
    assert_eq!(home.hits("after"), 1);
    assert_eq!(home.problems()["oversize"], 1);
}

/// A rewrite stores only new lines, however long the others are.
#[test]
fn a24_a_long_line_in_a_rewritten_file() {
    let home = Home::quick();
    let long = message_line("bbbb0001", None, &"x".repeat(40 << 20));
    let rest = format!("{long}\n{}\n", message_line("aaaa0002", None, "after"));
    home.write(OPENCLAW, format!("{HEADER}{}\n{rest}", message_line("aaaa0001", None, "before")));
    home.sync();
    home.write(OPENCLAW, format!("{HEADER}{}\n{rest}", message_line("aaaa0001", None, "changed")));
    let report = home.sync_and_check();
    assert_eq!(report.rewritten_sources, 1);
    let bytes: i64 = home.one("SELECT sum(length) FROM records");
    assert!(bytes < 41 << 20, "the long line is stored again: {bytes} bytes");
    assert_eq!(home.problems()["oversize"], 1);
}

#[test]
fn a25_many_large_lines() {
    let home = Home::quick();
    home.write(OPENCLAW, HEADER);
    for number in 0..12 {
        let text = format!("unique{number} {}", "progress ".repeat((3 << 20) / 9));
        home.append(OPENCLAW, message_line(&format!("bbbb{number:04}"), None, &text) + "\n");
    }
    home.sync_and_check();
    assert_eq!(home.hits("unique11"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM partly_indexed"), 12);
}

#[test]
fn a26_identical_lines() {
    let same = message_line("bbbb0001", Some("aaaa0001"), "triplet");
    let home = check(format!("{same}\n{same}\n{same}"), &["triplet"], &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 2);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 3);
}

#[test]
fn a26_identical_records_on_one_line() {
    let same = message_line("bbbb0001", Some("aaaa0001"), "triplet");
    let home = check(format!("{same}{same}{same}"), &["triplet"], &[("welded", 1)]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 2);
    assert_eq!(home.hits("triplet"), 1);
    // Alone and beside others it is the same, too.
    let other = message_line("bbbb0002", Some("bbbb0001"), "other");
    let home = check(format!("{same}\n{other}{same}"), &["triplet", "other"], &[("welded", 1)]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 1);
    assert_eq!(home.hits("triplet"), 1);
}

// --- A2 JSON

#[test]
fn a27_to_a30_strings() {
    for text in ["\\ud83d", "\\udc00", "\\ude00\\ud83d"] {
        check(
            message_line("bbbb0001", None, &format!("half {text}")),
            &["half"],
            &[("lone_surrogate", 1)],
        );
    }
    check(message_line("bbbb0001", None, "nul \\u0000 escaped"), &["nul", "escaped"], &[]);
    check(
        message_line("bbbb0001", None, "esc \u{1b}[2J raw"),
        &["esc", "raw"],
        &[("control_character", 1)],
    );
    let named = "{\"type\":\"message\",\"id\":\"bbbb0001\",\"message\":{\"role\":\"assistant\",\"content\":[\
                 {\"type\":\"toolCall\",\"id\":\"c\",\"name\":\"a\\u0000b\",\"arguments\":{\"path\":\"x\\u0000y\"}}]}}";
    let home = check(named, &[], &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tool_calls"), 1);
}

#[test]
fn a31_a32_depth() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for depth in [100, 127, 128, 129, 100_000] {
        let home = Home::quick();
        let deep = format!(
            "{{\"type\":\"message\",\"id\":\"bbbb0001\",\"parentId\":\"aaaa0001\",\"message\":{{\"role\":\"user\",\"content\":\"deep\"}},\"x\":{}}}",
            nested(depth)
        );
        home.write(
            OPENCLAW,
            format!("{HEADER}{}\n{deep}\n", message_line("aaaa0001", None, "before")),
        );
        home.sync_and_check();
        assert_eq!(home.hits("deep"), 1, "depth {depth}");
    }
    // Only brackets.
    let home = Home::quick();
    home.write(
        OPENCLAW,
        format!("{HEADER}{}\n{}\n", "[".repeat(1 << 20), message_line("a", None, "after")),
    );
    home.sync_and_check();
    assert_eq!(home.hits("after"), 1);
}

#[test]
fn a33_to_a36_objects_and_numbers() {
    let with = |extra: &str| {
        message_line("bbbb0001", Some("aaaa0001"), "kept").replacen('{', &format!("{{{extra},"), 1)
    };
    check(with("\"id\":\"twice\""), &["kept"], &[("duplicate_key", 1)]);
    check(
        with("\"x\":18446744073709551616,\"y\":9007199254740993,\"z\":-9223372036854775809"),
        &["kept"],
        &[],
    );
    let home = check(with("\"x\":1e400,\"y\":-1e400,\"z\":1e-400,\"w\":-0"), &["kept"], &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), 3);
    for odd in ["{\"a\":NaN}", "{'a':1}", "{\"a\":1,}", "/* x */", "{a:1}"] {
        check(odd, &[], &[("opaque", 1)]);
    }
}

#[test]
fn a37_a38_lines_without_a_type() {
    for value in ["[1,2]", "\"text\"", "12", "null", "true"] {
        check(value, &[], &[("not_object", 1)]);
    }
    for object in ["{\"x\":1}", "{\"type\":7}", "{\"type\":null}"] {
        let home = check(object, &[], &[("no_type", 1)]);
        assert_eq!(
            home.one::<i64>("SELECT count(*) FROM entries WHERE is_known = 0"),
            1,
            "{object}"
        );
    }
    let home = check("{\"type\":\"mystery\",\"id\":\"bbbb0001\"}", &[], &[]);
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    assert_eq!(status.formats[1].records_by_unknown_type["mystery"], 1);
}

#[test]
fn a39_many_and_long_keys() {
    let many: Vec<String> = (0..10_000).map(|number| format!("\"k{number}\":{number}")).collect();
    let long = format!("\"{}\":1", "k".repeat(1 << 20));
    for extra in [many.join(","), long] {
        let line = message_line("bbbb0001", None, "kept").replacen('{', &format!("{{{extra},"), 1);
        check(line, &["kept"], &[]);
    }
}

#[test]
fn a40_to_a43_content_of_every_shape() {
    let with = |content: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"bbbb0001\",\"message\":{{\"role\":\"user\",\"content\":{content}}}}}"
        )
    };
    check(with("\"shape\""), &["shape"], &[]);
    check(with("[{\"type\":\"text\",\"text\":\"shape\"}]"), &["shape"], &[]);
    for odd in [
        "null",
        "{\"type\":\"text\",\"text\":\"shape\"}",
        "7",
        "[7,null,\"shape\"]",
        "[{\"type\":\"mystery\"}]",
    ] {
        let home = Home::quick();
        home.write(
            OPENCLAW,
            format!("{HEADER}{}\n{}\n", with(odd), message_line("after", None, "after")),
        );
        home.sync_and_check();
        assert_eq!(
            home.one::<i64>("SELECT count(*) FROM entries WHERE type = 'message'"),
            2,
            "{odd}"
        );
    }
    // Images are kept and not searched.
    let image = format!(
        "[{{\"type\":\"image\",\"data\":\"{}\",\"mimeType\":\"image/png\"}}]",
        "QUJD".repeat(2 << 20)
    );
    let home = check(with(&image), &[], &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM partly_indexed"), 0);
    // A large tool input is indexed up to its first mebibyte.
    let input = format!(
        "[{{\"type\":\"toolCall\",\"id\":\"c\",\"name\":\"write\",\"arguments\":{{\"path\":\"findme\",\"content\":\"{}\"}}}}]",
        "five words of tool input ".repeat(200_000)
    );
    let home = check(with(&input).replace("user", "assistant"), &["findme"], &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM partly_indexed"), 1);
}

#[test]
fn a44_a45_times() {
    let times = [
        "1706976000",
        "1706976000000",
        "1706976000000000",
        "\"2026-02-04T10:30:00+02:00\"",
        "\"2026-02-04T10:30:00\"",
        "\"0000-01-01T00:00:00Z\"",
        "\"9999-12-31T23:59:59Z\"",
        "292278994000000000",
        "\"\"",
        "null",
        "-1",
        "\"2036-02-04T10:30:00Z\"",
        "\"2016-02-04T10:30:00Z\"",
    ];
    let home = Home::quick();
    home.write(OPENCLAW, HEADER);
    for (number, time) in times.iter().enumerate() {
        let line = format!(
            "{{\"type\":\"message\",\"id\":\"{number}\",\"timestamp\":{time},\"message\":{{\"role\":\"user\",\"content\":\"time{number}\"}}}}\n"
        );
        home.append(OPENCLAW, line);
    }
    home.sync_and_check();
    let order = home.sql().query_row(
        "SELECT group_concat(text) FROM (SELECT text FROM messages ORDER BY id)",
        [],
        |row| row.get::<_, String>(0),
    );
    let expected: Vec<String> = (0..times.len()).map(|number| format!("time{number}")).collect();
    assert_eq!(order.unwrap(), expected.join(","), "order is by offset, not by time");
}

#[test]
fn a45_a_clock_that_jumps_is_reported_and_dates_no_session() {
    let message_line = |number: usize, time: &str| {
        format!(
            "{{\"type\":\"message\",\"id\":\"{number}\",\"timestamp\":\"{time}\",\"message\":{{\"role\":\"user\",\"content\":\"x\"}}}}\n"
        )
    };
    let times = [
        "2026-02-04T10:30:00Z",
        "2026-02-04T10:30:00Z",
        "2026-02-04T10:29:58Z",
        "2036-02-04T10:30:00Z", // ahead
        "2026-02-04T10:31:00Z",
        "2016-02-04T10:31:00Z", // back
        "2026-02-04T10:32:00Z",
        "2025-12-24T10:31:00Z", // back
        "2025-12-24T10:32:00Z",
        "2027-01-01T10:32:00Z",
    ];
    let lines: Vec<String> =
        times.iter().enumerate().map(|(number, time)| message_line(number, time)).collect();
    let at_once = Home::quick();
    at_once.write(OPENCLAW, HEADER.to_owned() + &lines.concat());
    at_once.sync_and_check();
    let one_by_one = Home::quick();
    one_by_one.write(OPENCLAW, HEADER);
    for line in &lines {
        one_by_one.append(OPENCLAW, line);
        one_by_one.sync();
    }
    one_by_one.sync_and_check();
    for home in [at_once, one_by_one] {
        let flagged = "SELECT group_concat(entry_id || ' ' || detail, ', ' ORDER BY e.id)
                         FROM problems p JOIN entries e ON e.id = p.entry WHERE kind = 'clock_skew'";
        assert_eq!(
            home.one::<String>(flagged),
            "3 3652 days ahead, 5 3653 days back, 7 42 days back"
        );
        let newest = "SELECT strftime('%Y', updated_at / 1000, 'unixepoch') FROM sessions";
        assert_eq!(home.one::<String>(newest), "2027");
    }
}

#[test]
fn a46_a47_strange_text() {
    let text = format!("strange {}", "\u{1f469}\u{200d}\u{1f469}\u{301}\u{202e}".repeat(100_000));
    check(message_line("bbbb0001", None, &text), &["strange"], &[]);
}

#[test]
fn a48_headers() {
    let first = message_line("aaaa0001", None, "unique");
    // Missing.
    check_file(OPENCLAW, format!("{first}\n").as_bytes(), &[("header_missing", 1)]);
    // Second.
    check_file(
        OPENCLAW,
        format!("{first}\n{HEADER}").as_bytes(),
        &[("header_missing", 1), ("header_repeated", 1)],
    );
    // Twice.
    check_file(
        OPENCLAW,
        format!("{HEADER}{HEADER}{first}\n").as_bytes(),
        &[("header_repeated", 1)],
    );
    // Of another session: the file's name wins.
    let other = HEADER.replace("\"torture\"", "\"other\"");
    let home =
        check_file(OPENCLAW, format!("{other}{first}\n").as_bytes(), &[("header_mismatch", 1)]);
    assert_eq!(home.all("SELECT session_id FROM sessions"), ["'torture'"]);
}

#[test]
fn a49_header_versions() {
    for (version, problems) in
        [("3", &[][..]), ("\"3\"", &[]), ("1", &[]), ("999", &[("newer_version", 1)])]
    {
        let header = HEADER.replace("\"version\":3", &format!("\"version\":{version}"));
        let home = check_file(OPENCLAW, header.as_bytes(), problems);
        assert_eq!(
            home.one::<String>("SELECT header_version FROM sessions"),
            version.trim_matches('"')
        );
    }
}

// --- A3 the graph

/// Returns a Claude Code transcript of entries `(id, parent)`.
fn graph(entries: impl IntoIterator<Item = (u32, Option<u32>)>) -> String {
    entries
        .into_iter()
        .map(|(id, parent)| {
            line("user", &uuid(id), parent.map(uuid).as_deref(), &format!("word{id}"))
        })
        .collect()
}

/// Returns the number of entries without a parent.
fn roots(home: &Home) -> i64 {
    home.one("SELECT count(*) FROM entries WHERE parent IS NULL")
}

/// Reads the story and the tree of a session, and returns the number of entries. Asserts that
/// neither takes more than a fixed number of steps per entry, for any graph.
#[track_caller]
fn count_shown_in_few_steps(home: &Home, session: &str) -> u64 {
    const MAX_STEPS_PER_ENTRY: u64 = 300;
    let entries: i64 = home.one("SELECT count(*) FROM entries");
    let most = MAX_STEPS_PER_ENTRY * (entries.cast_unsigned() + 50);
    let (shown, steps) = home.steps(|ledger| {
        let mut shown = 0;
        let story = Story::find(ledger, session).unwrap();
        let shown_all = story.each_item(&Choice::default(), &mut |_| {
            shown += 1;
            ControlFlow::Continue(())
        });
        shown_all.unwrap();
        shown
    });
    assert!(steps <= most, "{steps} steps to show {entries} entries");
    let (lines, steps) = home.steps(|ledger| tree(ledger, session).unwrap().len());
    assert!(steps <= most, "{steps} steps to draw {entries} entries in {lines} lines");
    shown
}

#[test]
fn a50_a_missing_parent_leaves_two_islands() {
    let home = check_file(
        MAIN,
        graph([(1, None), (2, Some(1)), (5, Some(4)), (6, Some(5))]).as_bytes(),
        &[("missing_parent", 1)],
    );
    assert_eq!(roots(&home), 2);
    assert_eq!(
        home.one::<i64>("SELECT count(*) FROM entries WHERE missing_parent_id IS NOT NULL"),
        1
    );
    let gaps = || home.items_of(SESSION, &Choice::default(), |item| item.missing_parent.clone());
    assert_eq!(
        gaps(),
        [None, None, Some(uuid(4)), None],
        "both parts of the tree are shown, with a gap"
    );
    let drawn = || {
        let lines = tree(&home.open(), SESSION).unwrap();
        lines.into_iter().map(|line| line.missing_parent_id).collect::<Vec<_>>()
    };
    assert_eq!(drawn(), [None, Some(uuid(4))]);
    // The parent arrives later.
    home.append(MAIN, graph([(4, Some(2))]));
    home.sync_and_check();
    assert!(home.problems().is_empty());
    assert_eq!(roots(&home), 1);
    assert!(gaps().iter().chain(&drawn()).all(Option::is_none));
}

#[test]
fn a51_cycles() {
    for length in [1, 2, 3, 10_000] {
        let cycle = (0..length).map(|id| (id, Some((id + length - 1) % length)));
        let home = check_file(MAIN, graph(cycle).as_bytes(), &[("parent_cycle", 1)]);
        assert_eq!(roots(&home), 1, "a cycle of {length} is cut once");
        assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), i64::from(length));
        // Walking up from any entry ends.
        let walked: i64 = home.one(
            "WITH RECURSIVE up (id, steps) AS (
                SELECT max(id), 0 FROM entries
                UNION ALL
                SELECT e.parent, steps + 1 FROM up JOIN entries e ON e.id = up.id WHERE e.parent IS NOT NULL AND steps < 20000
             ) SELECT max(steps) FROM up",
        );
        assert!(walked < i64::from(length), "{walked} steps in a cycle of {length}");
        assert_eq!(count_shown_in_few_steps(&home, SESSION), u64::from(length));
        // Reversed: each is a child of the next.
        let cycle = (0..length).map(|id| (id, Some((id + 1) % length)));
        let home = check_file(MAIN, graph(cycle).as_bytes(), &[("parent_cycle", 1)]);
        assert_eq!(count_shown_in_few_steps(&home, SESSION), u64::from(length));
    }
}

#[test]
fn a51_a_cycle_that_closes_in_a_later_sync() {
    let home = Home::quick();
    for entry in [(1, Some(3)), (2, Some(1)), (3, Some(2)), (4, Some(3))] {
        match home.path(MAIN).exists() {
            true => home.append(MAIN, graph([entry])),
            false => home.write(MAIN, graph([entry])),
        }
        home.sync_and_check();
    }
    assert_eq!(home.problems()["parent_cycle"], 1);
    assert_eq!(roots(&home), 1);
}

#[test]
fn a52_a_parent_that_comes_later_in_the_file() {
    let home = check_file(MAIN, graph([(2, Some(1)), (3, Some(1)), (1, None)]).as_bytes(), &[]);
    assert_eq!(roots(&home), 1);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 3);
    // A thousand, each after its child; and a thousand that are children of the end of a chain that
    // begins after them.
    let later = (0..2_000).map(|id| (id, (id < 1_999).then_some(id + 1)));
    let home = check_file(MAIN, graph(later).as_bytes(), &[]);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 2_000);
    let first = (0..1_000).map(|id| (id, Some(1_999)));
    let chain = (1_000..2_000).map(|id| (id, (id > 1_000).then(|| id - 1)));
    let home = check_file(MAIN, graph(first.chain(chain)).as_bytes(), &[]);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 2_000);
}

#[test]
fn a53_a_parent_in_another_session() {
    let other = ".claude/projects/-home-alice-shop/00000000-d010-4b20-a591-b7172ef08e66.jsonl";
    let home = Home::quick();
    home.write(MAIN, graph([(1, None), (2, Some(1))]));
    home.write(other, graph([(3, Some(2))]));
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 2);
    assert_eq!(home.one::<i64>("SELECT count(DISTINCT session) FROM entries"), 2, "no merge");
    assert_eq!(home.problems()["missing_parent"], 1);
}

/// Returns an assistant's line with usage.
fn line_with_usage(id: u32, session: &str, text: &str) -> String {
    format!(
        "{{\"parentUuid\":null,\"isSidechain\":false,\"cwd\":\"/p\",\"sessionId\":\"{session}\",\"type\":\"assistant\",\
         \"message\":{{\"id\":\"msg_1\",\"role\":\"assistant\",\"model\":\"m\",\"usage\":{{\"input_tokens\":10,\"output_tokens\":5}},\
         \"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}},\"requestId\":\"req_1\",\"uuid\":\"{}\",\"timestamp\":\"2026-01-12T10:30:00.000Z\"}}\n",
        uuid(id)
    )
}

#[test]
fn a54_the_same_entry_five_times() {
    let home = check_file(MAIN, line_with_usage(1, SESSION, "copied").repeat(5).as_bytes(), &[]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sightings"), 4);
    assert_eq!(
        home.one::<i64>("SELECT sum(input_tokens + output_tokens) FROM usage WHERE is_counted"),
        15
    );
}

#[test]
fn a55_the_same_id_with_other_content() {
    let versions = line_with_usage(1, SESSION, "old") + &line_with_usage(1, SESSION, "new");
    let home = check_file(MAIN, versions.as_bytes(), &[("id_reused", 1)]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), 2);
    assert_eq!(home.all("SELECT text FROM messages"), ["'new'"]);
    assert_eq!((home.hits("old"), home.hits("new")), (1, 1));
    assert_eq!(
        home.one::<i64>("SELECT sum(input_tokens + output_tokens) FROM usage WHERE is_counted"),
        15
    );
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 1);
    // A thousand versions, and a child of each.
    let mut lines = graph([(0, None)]);
    for id in 2..1_002 {
        lines += &line("user", &uuid(1), Some(&uuid(0)), &format!("version{id}"));
        lines += &graph([(id, Some(1))]);
    }
    let home = check_file(MAIN, lines.as_bytes(), &[("id_reused", 999)]);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 1_002);
    // A newer version that is a descendant of the older one, and many children of it: the cycle is
    // cut once.
    let lines = graph((10..500).map(|id| (id, Some(2))))
        + &graph([(0, None), (1, Some(0)), (2, Some(1))])
        + &line("user", &uuid(1), Some(&uuid(2)), "again");
    let home = check_file(MAIN, lines.as_bytes(), &[("id_reused", 1)]);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 493);
    let lines = tree(&home.open(), SESSION).unwrap();
    assert_eq!(lines.iter().filter(|line| line.parent_node.is_none()).count(), 2);
}

#[test]
fn a56_the_same_entry_in_two_sessions() {
    let id = "00000000-d010-4b20-a591-b7172ef08e66";
    let home = Home::quick();
    home.write(MAIN, line_with_usage(1, SESSION, "shared"));
    home.write(&MAIN.replace(SESSION, id), line_with_usage(1, id, "shared"));
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), 2);
    assert_eq!(
        home.one::<i64>("SELECT count(DISTINCT first_uuid) FROM sessions"),
        1,
        "both sessions begin with the same entry"
    );
    assert_eq!(
        home.one::<i64>("SELECT sum(input_tokens + output_tokens) FROM usage WHERE is_counted"),
        15
    );
}

#[test]
fn a57_many_roots_and_leaves() {
    // 83 roots, each with four leaves.
    let forest = (0..83).flat_map(|tree| {
        let root = tree * 10;
        std::iter::once((root, None)).chain((1..5).map(move |leaf| (root + leaf, Some(root))))
    });
    let home = check_file(MAIN, graph(forest).as_bytes(), &[]);
    assert_eq!(roots(&home), 83);
    let leaf: i64 = home.one("SELECT leaf FROM sessions");
    assert_eq!(leaf, home.one::<i64>("SELECT max(id) FROM entries"), "the leaf is the last entry");
}

#[test]
fn a58_long_chain() {
    let chain = (0..100_000_u32).map(|id| (id, id.checked_sub(1)));
    let home = check_file(MAIN, graph(chain).as_bytes(), &[]);
    assert_eq!(roots(&home), 1);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 100_000);
    // Also from its end to its beginning.
    let chain = (0..20_000_u32).rev().map(|id| (id, id.checked_sub(1)));
    let home = check_file(MAIN, graph(chain).as_bytes(), &[]);
    assert_eq!(roots(&home), 1);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 20_000);
}

#[test]
fn a59_many_children() {
    let children = (1..50_000_u32).map(|id| (id, Some(0)));
    let first = graph([(0, None)]);
    let home = check_file(MAIN, (first.clone() + &graph(children.clone())).as_bytes(), &[]);
    assert_eq!(roots(&home), 1);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 50_000);
    // The parent comes last.
    let home = check_file(MAIN, (graph(children) + &first).as_bytes(), &[]);
    assert_eq!(roots(&home), 1);
    assert_eq!(count_shown_in_few_steps(&home, SESSION), 50_000);
}

#[test]
fn a60_progress_does_not_become_the_main_line() {
    let progress = format!(
        "{{\"type\":\"progress\",\"uuid\":\"{}\",\"parentUuid\":\"{}\",\"sessionId\":\"{SESSION}\",\"isSidechain\":false,\
         \"data\":{{\"type\":\"hook_progress\"}},\"toolUseID\":\"t\",\"parentToolUseID\":\"t\",\"timestamp\":\"2026-01-12T10:30:00.000Z\"}}\n",
        uuid(9),
        uuid(1)
    );
    let lines = graph([(1, None), (2, Some(1))]) + &progress;
    let home = check_file(MAIN, lines.as_bytes(), &[]);
    let leaf = "SELECT e.entry_id FROM sessions s JOIN entries e ON e.id = s.leaf";
    assert!(
        home.one::<String>(leaf).starts_with("00000002"),
        "a hook's progress is not the leaf: {}",
        home.one::<String>(leaf)
    );
}

/// Returns an OpenClaw entry with these calls.
fn call(id: &str, calls: &[&str]) -> String {
    let blocks: Vec<String> = calls
        .iter()
        .map(|call| format!("{{\"type\":\"toolCall\",\"id\":\"{call}\",\"name\":\"read\",\"arguments\":{{\"path\":\"{call}.md\"}}}}"))
        .collect();
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"message\":{{\"role\":\"assistant\",\"content\":[{}]}}}}\n",
        blocks.join(",")
    )
}

fn result(id: &str, call: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"message\":{{\"role\":\"toolResult\",\"toolCallId\":\"{call}\",\"toolName\":\"read\",\"content\":\"output of {id}\"}}}}\n"
    )
}

/// Asserts which calls have a result.
#[track_caller]
fn check_pairs(lines: &[String], pairs: &[&str], problems: &[(&str, i64)]) {
    let bytes = format!("{HEADER}{}", lines.concat());
    let home = check_file(OPENCLAW, bytes.as_bytes(), problems);
    let query = "SELECT call_id || ' ' || (result IS NOT NULL) FROM tool_calls";
    let mut expected: Vec<String> = pairs.iter().map(|pair| format!("'{pair}'")).collect();
    expected.sort();
    assert_eq!(home.all(query), expected);
    // Line by line, the outcome is the same.
    let slow = Home::quick();
    slow.write(OPENCLAW, HEADER);
    for line in lines {
        slow.append(OPENCLAW, line);
        slow.sync();
    }
    assert_eq!(home.projection(), slow.projection());
}

#[test]
fn a61_results_in_any_order() {
    check_pairs(
        &[call("1", &["a", "b"]), result("2", "b"), result("3", "a")],
        &["a 1", "b 1"],
        &[],
    );
    check_pairs(&[result("1", "a"), call("2", &["a"])], &["a 1"], &[]);
    check_pairs(&[call("1", &["a"])], &["a 0"], &[]);
    check_pairs(&[result("1", "a")], &[], &[("orphan_result", 1)]);
    check_pairs(
        &[call("1", &["a"]), result("2", "a"), result("3", "a")],
        &["a 1"],
        &[("repeated_result", 1)],
    );
    check_pairs(
        &[call("1", &["a"]), result("2", "a"), call("3", &["a"])],
        &["a 0", "a 1"],
        &[("call_id_reused", 1)],
    );
    check_pairs(
        &[call("1", &["a", "a"]), result("2", "a")],
        &["a 0", "a 1"],
        &[("call_id_reused", 1)],
    );
    check_pairs(
        &[result("1", "a"), result("2", "a"), call("3", &["a"])],
        &["a 1"],
        &[("orphan_result", 1)],
    );
}

/// A result without an id answers the oldest open call, in one sync or in two.
#[test]
fn a61_a_result_without_an_id() {
    let nameless = "{\"type\":\"message\",\"id\":\"9\",\"message\":{\"role\":\"toolResult\",\"toolName\":\"read\",\"content\":\"x\"}}\n";
    let nameless = || nameless.to_owned();
    check_pairs(&[call("1", &["a", "b"]), nameless()], &["a 1", "b 0"], &[]);
    check_pairs(&[call("1", &["a", "b"]), result("2", "a"), nameless()], &["a 1", "b 1"], &[]);
    check_pairs(&[nameless()], &[], &[("orphan_result", 1)]);
    // A call with a repeated id has no result or this one, but no other.
    let home = Home::quick();
    home.write(OPENCLAW, format!("{HEADER}{}{}", call("1", &["a"]), call("2", &["a"])));
    home.sync();
    home.append(OPENCLAW, nameless());
    home.sync_and_check();
}

#[test]
fn a61_one_id_for_all_calls() {
    // Each answered at once, in one sync and in many.
    let pair = |number: u32| {
        call(&format!("c{number}"), &["call_0"]) + &result(&format!("r{number}"), "call_0")
    };
    let answered = "SELECT count(*) FROM tool_calls c
                      JOIN entries e ON e.id = c.entry JOIN entries r ON r.id = c.result
                     WHERE substr(e.entry_id, 2) = substr(r.entry_id, 2)";
    let home = Home::quick();
    home.write(OPENCLAW, HEADER.to_owned() + &(0..3000).map(pair).collect::<String>());
    home.sync_and_check();
    assert_eq!(home.one::<i64>(answered), 3000);
    for number in 3000..3010 {
        home.append(OPENCLAW, pair(number));
        home.sync();
    }
    home.sync_and_check();
    assert_eq!(home.one::<i64>(answered), 3010);
    // All calls first: the oldest open one is answered.
    let home = Home::quick();
    let calls: String = (0..100).map(|number| call(&format!("c{number}"), &["x"])).collect();
    let results: String = (0..99).map(|number| result(&format!("r{number}"), "x")).collect();
    home.write(OPENCLAW, HEADER.to_owned() + &calls);
    home.sync();
    home.append(OPENCLAW, results);
    home.sync_and_check();
    assert_eq!(home.one::<i64>(answered), 99);
    let waiting =
        "SELECT e.entry_id FROM tool_calls c JOIN entries e ON e.id = c.entry WHERE result IS NULL";
    assert_eq!(home.one::<String>(waiting), "c99");
}

#[test]
fn a61_empty_ids() {
    let home = Home::quick();
    home.write(
        OPENCLAW,
        format!("{HEADER}{}{}{}", call("1", &["", ""]), result("2", ""), result("3", "")),
    );
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tool_calls"), 2);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tool_calls WHERE result IS NOT NULL"), 2);
}

#[test]
fn a62_a_call_that_was_cut_off() {
    let cut = "{\"type\":\"message\",\"id\":\"1\",\"message\":{\"role\":\"assistant\",\"content\":[\
               {\"type\":\"toolCall\",\"id\":\"a\",\"name\":\"read\",\"partialJson\":\"{\\\"pa\"}]}}\n";
    let home = Home::quick();
    home.write(OPENCLAW, format!("{HEADER}{cut}{}", result("2", "a")));
    home.sync_and_check();
    assert_eq!(home.problems()["partial_call"], 1);
    assert_eq!(
        home.one::<i64>("SELECT count(*) FROM tool_calls WHERE is_partial AND result IS NULL"),
        1
    );
}

#[test]
fn a63_compactions() {
    let compaction = |id: &str, kept: &str| {
        format!(
            "{{\"type\":\"compaction\",\"id\":\"{id}\",\"summary\":\"summary{id}\",\"firstKeptEntryId\":\"{kept}\",\"tokensBefore\":9}}\n"
        )
    };
    let bytes = [
        HEADER,
        &(message_line("aaaa0001", None, "history") + "\n"),
        &compaction("c1", "nowhere"),
        &compaction("c2", "aaaa0001"),
        &(message_line("aaaa0002", Some("c2"), "later") + "\n"),
    ]
    .concat();
    let home = Home::quick();
    home.write(OPENCLAW, bytes);
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT compactions FROM sessions"), 2);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM compactions"), 2);
    for word in ["history", "later", "summaryc1", "summaryc2"] {
        assert_eq!(home.hits(word), 1, "{word}");
    }

    // Claude Code's boundary has no parent; the entries before it stay in place.
    let boundary = format!(
        "{{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"uuid\":\"{}\",\"parentUuid\":null,\"logicalParentUuid\":\"{}\",\
         \"sessionId\":\"{SESSION}\",\"isSidechain\":false,\"content\":\"Conversation compacted\",\"compactMetadata\":{{\"trigger\":\"manual\",\"preTokens\":7}},\
         \"timestamp\":\"2026-01-12T10:30:00.000Z\"}}\n",
        uuid(2),
        uuid(1)
    );
    let home =
        check_file(MAIN, (graph([(1, None)]) + &boundary + &graph([(3, Some(2))])).as_bytes(), &[]);
    assert_eq!(home.one::<i64>("SELECT compactions FROM sessions"), 1);
    assert_eq!((home.hits("word1"), home.hits("word3")), (1, 1));
}

#[test]
fn a64_a_summary_of_another_session() {
    let summary = |leaf: u32, title: &str| {
        format!(
            "{{\"type\":\"summary\",\"summary\":\"{title}\",\"leafUuid\":\"{}\"}}\n",
            uuid(leaf)
        )
    };
    let home = check_file(
        MAIN,
        (summary(77, "of another") + &graph([(1, None)]) + &summary(1, "of this one")).as_bytes(),
        &[("dangling_reference", 1)],
    );
    assert_eq!(home.one::<String>("SELECT title FROM sessions"), "of this one");
}

#[test]
fn a65_sub_agents_are_sessions_of_their_own() {
    let beside = MAIN.replace(".jsonl", "");
    let home = Home::quick();
    let paths = [
        MAIN.to_owned(),
        format!("{beside}/subagents/agent-1.jsonl"),
        format!("{beside}/subagents/agent-2.jsonl"),
        format!("{beside}/subagents/workflows/w1/agent-1.jsonl"),
        ".claude/projects/-home-alice-shop/agent-1.jsonl".to_owned(),
        ".claude/projects/-home-alice-other/agent-1.jsonl".to_owned(),
    ];
    for path in &paths {
        home.write(path, graph([(1, None), (2, Some(1))]));
    }
    home.sync_and_check();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), paths.len() as i64);
    assert_eq!(
        home.one::<i64>(&format!(
            "SELECT count(*) FROM sessions WHERE parent_session_id = '{SESSION}'"
        )),
        5
    );
    home.assert_restores_all(&paths.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a66_ids_of_every_kind() {
    let long = "i".repeat(1 << 20);
    let ids = [
        "",
        "/etc/passwd",
        "../../x",
        "%2e%2e",
        "CON",
        "\u{1f99e}",
        "a\\u0000b",
        "a\\nb",
        "'; DROP TABLE records; --",
        &long,
    ];
    let lines: String = ids.iter().map(|id| message_line(id, None, "kept") + "\n").collect();
    let home = Home::quick();
    home.write(OPENCLAW, format!("{HEADER}{lines}"));
    home.sync_and_check();
    assert_eq!(home.hits("kept"), ids.len() as i64);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM messages"), ids.len() as i64);
    // Children find their parents by these ids.
    for (number, id) in ids.iter().enumerate().skip(1) {
        home.append(OPENCLAW, message_line(&format!("child{number}"), Some(id), "child") + "\n");
    }
    home.sync_and_check();
    assert_eq!(
        home.one::<i64>("SELECT count(*) FROM entries WHERE parent IS NOT NULL"),
        ids.len() as i64 - 1
    );
}

#[test]
fn a66_sessions_of_every_name() {
    let names: &[&[u8]] = &[
        b"CON.jsonl",
        b"%2e%2e.jsonl",
        b"a b'\";.jsonl",
        b"\xff\xfe.jsonl",
        b"\xff\xfd.jsonl",
        "\u{1f99e}.jsonl".as_bytes(),
        b"new\nline.jsonl",
        b"x-topic-a%2Fb.jsonl",
        b"x-topic-%zz.jsonl",
        b"-topic-.jsonl",
        b"--all.jsonl",
    ];
    let home = Home::quick();
    let folder = home.path(".openclaw/agents/main/sessions");
    std::fs::create_dir_all(&folder).unwrap();
    for name in names {
        std::fs::write(
            folder.join(OsStr::from_bytes(name)),
            format!("{HEADER}{}\n", message_line("1", None, "named")),
        )
        .unwrap();
    }
    let agent =
        home.path(".openclaw/agents").join(OsStr::from_bytes(b"\xffagent")).join("sessions");
    std::fs::create_dir_all(&agent).unwrap();
    std::fs::write(agent.join("x.jsonl"), HEADER).unwrap();
    home.sync();
    home.assert_sound();
    home.assert_rebuilds();
    assert_eq!(home.one::<i64>("SELECT count(*) FROM sessions"), names.len() as i64 + 1);
    assert_eq!(home.hits("named"), names.len() as i64);

    let to = home.scratch("restored");
    quipu_ledger::restore::restore(
        &home.open(),
        quipu_ledger::restore::RestoreScope::All,
        &to,
        Generations::Newest,
    )
    .unwrap();
    for name in names {
        let path = to.join("openclaw/agents/main/sessions").join(OsStr::from_bytes(name));
        let original = folder.join(OsStr::from_bytes(name));
        assert_eq!(std::fs::read(path).unwrap(), std::fs::read(original).unwrap());
    }
    assert_eq!(home.sync().bytes_read, 0);
}

/// Sums of absurd token counts exceed the range of integers; nothing else is affected.
#[test]
fn a34_absurd_token_counts_in_two_copies() {
    let home = Home::new();
    let most = i64::MAX;
    for number in 1..=2 {
        let path = format!(".claude/projects/-p/{}.jsonl", uuid(number));
        home.write(
            &path,
            format!(
                "{{\"type\":\"assistant\",\"uuid\":\"{}\",\"parentUuid\":null,\"requestId\":\"r\",\"message\":{{\"id\":\"m\",\
                 \"role\":\"assistant\",\"model\":\"x\",\"content\":[],\"usage\":{{\"input_tokens\":{most},\"output_tokens\":{most}}}}}}}\n",
                uuid(number)
            ),
        );
    }
    home.write(MAIN, line("user", &uuid(9), None, "innocent"));
    home.sync();
    assert_eq!(home.hits("innocent"), 1);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM usage WHERE is_counted = 1"), 1);
    home.assert_rebuilds();
}
