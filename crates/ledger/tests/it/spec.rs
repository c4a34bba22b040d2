//! The requirements of the specification that the ledger itself meets, by their numbers. The
//! transcript crate tests single lines; here they are collected and queried with SQL.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quipu_ledger::query::Choice;
use quipu_ledger::wire::{FormatStatus, SyncReport};
use quipu_transcript::story::{Folded, StoryDetail};
use serde_json::{Value, json};

use crate::child;
use crate::home::*;

/// Collects these files, and runs all checks that hold for any home.
#[track_caller]
fn collected(files: &[(&str, &str)]) -> Home {
    let home = Home::quick();
    for (path, text) in files {
        home.write(path, text);
    }
    home.sync_and_check();
    home
}

const CLAW: &str = ".openclaw/agents/main/sessions/s1.jsonl";
const HEADER: &str =
    r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-02-04T10:30:00.000Z","cwd":"/p"}"#;

/// Collects one transcript of OpenClaw.
#[track_caller]
fn openclaw(lines: &[&str]) -> Home {
    collected(&[(CLAW, &text(lines))])
}

/// Returns the bytes of a file with these lines.
fn text(lines: &[&str]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

const BESIDE: &str = ".claude/projects/-home-alice-shop/640ab4c7-d010-4b20-a591-b7172ef08e66";

/// Returns a line of Claude Code with other content.
fn with_content(role: &str, number: u32, content: &str) -> String {
    line_of(role, &uuid(number), None, content)
}

/// Returns a line of Claude Code that is not part of the conversation: these fields, besides those
/// that all lines have.
fn noted(number: u32, fields: &str) -> String {
    format!(
        "{{\"uuid\":\"{}\",\"parentUuid\":null,\"sessionId\":\"{SESSION}\",\"isSidechain\":false,\
         \"timestamp\":\"2026-01-12T10:30:00.000Z\",{fields}}}\n",
        uuid(number)
    )
}

fn status(home: &Home, format: &str) -> FormatStatus {
    let status = quipu_ledger::status::status(&home.open(), &home.roots()).unwrap();
    status.formats.into_iter().find(|found| found.format == format).unwrap()
}

/// Returns the number of entries with a word in one column of the search index.
#[track_caller]
fn hits_in(home: &Home, column: &str, word: &str) -> i64 {
    home.one(&format!("SELECT count(*) FROM search WHERE search MATCH '{column} : {word}'"))
}

// --- R1

#[test]
fn r1_every_agent_has_sessions_of_its_own() {
    let line = "{\"role\":\"user\",\"content\":\"hello\"}\n";
    let home = collected(&[
        (CLAW, line),
        (".openclaw/agents/ops/sessions/s1.jsonl", line),
        (".openclaw/agents/ops/sessions/s2.jsonl", line),
    ]);
    assert_eq!(
        home.all("SELECT agent, session_id FROM sessions"),
        ["'main'|'s1'", "'ops'|'s1'", "'ops'|'s2'"]
    );
}

// --- R4

#[test]
fn r4_threads_of_one_id_are_sessions_of_their_own() {
    let files = ["s1", "s1-topic-7", "s1-topic-a%2Fb"]
        .map(|stem| format!(".openclaw/agents/main/sessions/{stem}.jsonl"));
    let lines = text(&[HEADER, r#"{"role":"user","content":"hello"}"#]);
    let home = collected(&files.each_ref().map(|path| (path.as_str(), lines.as_str())));
    assert_eq!(
        home.all("SELECT session_id FROM sessions"),
        ["'s1'", "'s1-topic-7'", "'s1-topic-a/b'"]
    );
    assert!(home.problems().is_empty(), "the header of a thread names the id without the thread");
}

#[test]
fn r4_an_archive_is_the_same_session_marked() {
    for (suffix, state) in [
        (".deleted.2026-02-04T10:30:00.000Z", "deleted"),
        (".deleted.2026-02-04T10-30-00.000Z", "deleted"),
        (".reset.2026-02-04T10-30-00.000Z", "archived"),
        (".bak-4711-1770193116233", "archived"),
    ] {
        let archive = format!("{CLAW}{suffix}");
        let home =
            collected(&[(&archive, &text(&[HEADER, r#"{"role":"user","content":"before"}"#]))]);
        assert_eq!(home.all("SELECT session_id, state FROM sessions"), [format!("'s1'|'{state}'")]);

        home.write(CLAW, text(&[HEADER, r#"{"role":"user","content":"afterwards"}"#]));
        home.sync_and_check();
        assert_eq!(home.all("SELECT session_id, state FROM sessions"), ["'s1'|'live'"], "{suffix}");
        assert_eq!((home.hits("before"), home.hits("afterwards")), (1, 1), "{suffix}");
        home.assert_restores_all(&[CLAW, &archive]);
    }
}

#[test]
fn r4_a_transcript_that_is_put_aside_is_not_read_again() {
    let home = openclaw(&[HEADER, r#"{"role":"user","content":"hello"}"#]);
    home.rename(CLAW, &format!("{CLAW}.deleted.2026-02-04T10:30:00.000Z"));
    let report = home.sync_and_check();
    assert_eq!((report.renamed_sources, report.bytes_read, report.records_added), (1, 0, 0));
    assert_eq!(home.all("SELECT session_id, state FROM sessions"), ["'s1'|'deleted'"]);
}

/// A backup of a few bare lines adds nothing to the transcript.
#[test]
fn r4_a_small_backup_is_not_counted_again() {
    let lines = text(&[
        r#"{"role":"user","content":"hello"}"#,
        r#"{"role":"assistant","content":"world","usage":{"input":1,"output":2}}"#,
    ]);
    let home = collected(&[(CLAW, &lines), (&format!("{CLAW}.bak-4711-1770193116233"), &lines)]);
    assert_eq!(home.all("SELECT messages FROM sessions"), ["2"]);
    assert_eq!(home.all("SELECT sum(output_tokens) FROM usage WHERE is_counted"), ["2"]);
}

// --- R5

#[test]
fn r5_a_transcript_that_no_index_names_is_a_session() {
    let index = ".openclaw/agents/main/sessions/sessions.json";
    let line = "{\"role\":\"user\",\"content\":\"hello\"}\n";
    let other = r#"{"agent:main:main":{"sessionId":"another","updatedAt":1770193116233}}"#;
    for files in
        [vec![(CLAW, line)], vec![(CLAW, line), (index, other)], vec![(CLAW, line), (index, "{")]]
    {
        let home = collected(&files);
        assert_eq!(home.all("SELECT session_id, state FROM sessions"), ["'s1'|'live'"]);
    }
}

// --- R10

#[test]
fn r10_a_header_has_a_number_or_a_string_as_its_version() {
    for (version, stored) in [("3", "3"), ("9", "9"), (r#""0.50.1""#, "0.50.1")] {
        let header = format!(
            r#"{{"type":"session","version":{version},"id":"s1","timestamp":"2026-02-04T10:30:00.000Z","cwd":"/p","parentSession":"/elsewhere/s0.jsonl"}}"#
        );
        let home = openclaw(&[&header]);
        assert_eq!(
            home.all("SELECT header_version, cwd, fork_of, started_at FROM sessions"),
            [format!("'{stored}'|'/p'|'s0'|1770201000000")]
        );
        assert!(home.problems().is_empty(), "{:?}", home.problems());
    }
}

#[test]
fn r10_bare_lines_need_no_header() {
    let home = openclaw(&[
        r#"{"role":"user","content":"ping","timestamp":1770201000000}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"pong"}],"timestamp":1770201001000}"#,
    ]);
    assert_eq!(
        home.all("SELECT role, time, text FROM messages"),
        ["'assistant'|1770201001000|'pong'", "'user'|1770201000000|'ping'"]
    );
    assert_eq!(
        home.all("SELECT header_version, started_at, updated_at, turns FROM sessions"),
        ["NULL|1770201000000|1770201001000|1"]
    );
    assert!(home.problems().is_empty(), "{:?}", home.problems());
}

// --- R11

#[test]
fn r11_every_known_type_is_known() {
    let types = [
        r#""type":"message","message":{"role":"user","content":"x"}"#,
        r#""type":"model_change","provider":"anthropic","modelId":"m""#,
        r#""type":"thinking_level_change","thinkingLevel":"high""#,
        r#""type":"compaction","summary":"x""#,
        r#""type":"branch_summary","summary":"x","fromId":"1""#,
        r#""type":"custom","customType":"x""#,
        r#""type":"custom:x""#,
        r#""type":"custom_message","customType":"x","content":"x","display":true"#,
        r#""type":"label","targetId":"1","label":"x""#,
        r#""type":"session_info","name":"x""#,
        r#""type":"usage","kind":"x","model":"m","usage":{"input":1,"output":1}"#,
        r#""type":"context_edit","targetId":"1","replacement":null"#,
        r#""type":"reset","reason":"new""#,
        r#""type":"leaf","targetId":"1""#,
    ];
    let mut lines = HEADER.to_owned() + "\n";
    for (number, fields) in types.iter().enumerate() {
        writeln!(lines, "{{\"id\":\"{}\",{fields}}}", number + 1).unwrap();
    }
    let home = collected(&[(CLAW, &lines)]);
    assert_eq!(home.all("SELECT type FROM entries WHERE NOT is_known"), [""; 0]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM entries"), types.len() as i64 + 1);
    assert!(home.problems().is_empty(), "{:?}", home.problems());
}

#[test]
fn r11_custom_entries_are_read_in_both_shapes() {
    let home = openclaw(&[
        r#"{"type":"custom","customType":"model-snapshot","data":{"model":"m"},"id":"1"}"#,
        r#"{"type":"custom:cache-ttl","data":[5],"id":"2"}"#,
    ]);
    assert_eq!(
        home.all("SELECT custom_type, data FROM custom_entries"),
        ["'cache-ttl'|'[5]'", r#"'model-snapshot'|'{"model":"m"}'"#]
    );
}

/// Any other type is kept in its place, shown as unknown and counted.
#[test]
fn r11_unknown_types_are_kept_and_counted() {
    let home = openclaw(&[
        HEADER,
        r#"{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"x"}}"#,
        r#"{"type":"hologram","id":"2","parentId":"1","beam":{"colour":"blue"}}"#,
        r#"{"type":"hologram","id":"3","parentId":"2"}"#,
        r#"{"type":"message","id":"4","parentId":"3","message":{"role":"user","content":"y"}}"#,
    ]);
    assert_eq!(
        home.all("SELECT id, parent, type, is_known FROM entries WHERE id > 2"),
        ["3|2|'hologram'|0", "4|3|'hologram'|0", "5|4|'message'|1"]
    );
    let unknown = status(&home, "openclaw").records_by_unknown_type;
    assert_eq!(unknown.into_iter().collect::<Vec<_>>(), [("hologram".to_owned(), 2)]);
    // They are shown only with everything.
    let shown = |detail| {
        let choice = Choice { detail, ..Choice::default() };
        home.items_of("s", &choice, |item| (item.type_name.to_string(), item.folded))
    };
    let message = || ("message".to_owned(), None);
    let hologram = || ("hologram".to_owned(), Some(Folded::Unknown));
    let header = ("session".to_owned(), Some(Folded::Bookkeeping));
    assert_eq!(shown(StoryDetail::FULL), [header, message(), hologram(), hologram(), message()]);
    assert_eq!(shown(StoryDetail::DEFAULT), [message(), message()]);
    assert!(home.problems().is_empty(), "{:?}", home.problems());
    home.assert_restores_all(&[CLAW]);
}

// --- R12

/// An entry without a parent field follows the one before it, whatever its type.
#[test]
fn r12_entries_of_every_type_follow_the_one_before() {
    let lines = [
        HEADER,
        r#"{"role":"user","content":"first"}"#,
        r#"{"type":"model_change","provider":"anthropic","modelId":"m"}"#,
        r#"{"type":"thinking_level_change","thinkingLevel":"high"}"#,
        r#"{"type":"custom","customType":"x","data":1}"#,
        r#"{"type":"branch_summary","summary":"left","fromId":"x"}"#,
        r#"{"type":"compaction","summary":"short"}"#,
        r#"{"role":"assistant","content":"last"}"#,
    ];
    let home = openclaw(&lines);
    assert_eq!(
        home.all("SELECT id, parent FROM entries"),
        ["1|NULL", "2|NULL", "3|2", "4|3", "5|4", "6|5", "7|6", "8|7"]
    );
}

/// An entry without an id is named by its position: the same bytes always give the same entries,
/// also if they repeat.
#[test]
fn r12_entries_without_an_id_are_distinguished() {
    let line = r#"{"role":"user","content":"again"}"#;
    let home = openclaw(&[line, line, line]);
    assert_eq!(
        home.all("SELECT id, entry_id, parent FROM entries"),
        ["1|NULL|NULL", "2|NULL|1", "3|NULL|2"]
    );
    home.sync_and_check();
    assert_eq!(home.hits("again"), 3);
}

/// A parent of `null` is a root; no parent field means the entry before, in the next sync too.
#[test]
fn r12_a_null_parent_differs_from_a_missing_field() {
    let home = openclaw(&[
        r#"{"type":"message","id":"a","message":{"role":"user","content":"x"}}"#,
        r#"{"type":"message","id":"b","parentId":null,"message":{"role":"user","content":"x"}}"#,
    ]);
    home.append(CLAW, "{\"type\":\"message\",\"id\":\"c\",\"message\":{\"role\":\"user\"}}\n");
    home.sync_and_check();
    assert_eq!(home.all("SELECT entry_id, parent FROM entries"), ["'a'|NULL", "'b'|NULL", "'c'|2"]);
}

/// A line that is changed in a file follows the entry before it there: not the header, not a note,
/// and not nothing because the line between them cannot be read.
#[test]
fn r12_a_changed_line_follows_the_entry_before_it() {
    let text_line =
        |text: &str| format!(r#"{{"type":"user","message":{{"role":"user","content":"{text}"}}}}"#);
    let bare = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let note = r#"{"type":"ai-title","aiTitle":"Title"}"#;
    for (path, before, old, new, parent) in [
        (CLAW, vec![HEADER], bare("old"), bare("new"), "NULL"),
        (CLAW, vec![&bare("first"), "damaged"], bare("old"), bare("new"), "1"),
        (MAIN, vec![&text_line("first"), note], text_line("old"), text_line("new"), "1"),
    ] {
        let home = collected(&[(path, &text(&[&before[..], &[&old]].concat()))]);
        home.write(path, text(&[&before[..], &[&new]].concat()));
        home.sync_and_check();
        let newest = "SELECT parent FROM entries WHERE id = (SELECT max(id) FROM entries)";
        assert_eq!(home.all(newest), [parent], "after {before:?}");
    }
}

#[test]
fn r12_times_are_text_or_milliseconds() {
    let times =
        [r#""2026-02-04T10:30:00.250Z""#, r#""2026-02-04T11:30:00.250+01:00""#, "1770201000250"];
    let lines: String = times
        .iter()
        .map(|time| format!("{{\"role\":\"user\",\"content\":\"x\",\"timestamp\":{time}}}\n"))
        .collect();
    let home = collected(&[(CLAW, &lines)]);
    assert_eq!(home.all("SELECT DISTINCT time FROM entries"), ["1770201000250"]);
}

// --- R13

#[test]
fn r13_results_have_the_role_tool_in_both_shapes() {
    let home = openclaw(&[
        r#"{"role":"user","content":"go"}"#,
        r#"{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"read","arguments":{}},{"type":"toolCall","id":"c2","name":"read","arguments":{}}]}"#,
        r#"{"role":"toolResult","toolCallId":"c1","toolName":"read","content":"first"}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","content":"second"}]}"#,
    ]);
    assert_eq!(
        home.all("SELECT id, role, turn FROM entries"),
        ["1|'user'|1", "2|'assistant'|1", "3|'tool'|1", "4|'tool'|1"]
    );
    assert_eq!(home.all("SELECT call_id, result FROM tool_calls"), ["'c1'|3", "'c2'|4"]);
    assert_eq!(home.all("SELECT text FROM messages"), ["'go'"], "tool results are not messages");
}

// --- R14

#[test]
fn r14_blocks_are_found_where_they_belong() {
    let home = openclaw(&[
        r#"{"role":"user","content":"plain"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"typed"},{"type":"image","data":"aGVsbG8=","mimeType":"image/png"},{"type":"image","source":{"type":"url","url":"https://example.com/x.png"}}]}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"pondered","thinkingSignature":"s"},{"type":"thinking","text":"mused","signature":"s"},{"type":"output_text","text":"answered"}]}"#,
        r#"{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"read","arguments":{"path":"a.md"}},{"type":"toolUse","id":"2","name":"read","input":{"path":"b.md"}},{"type":"tool_use","id":"3","name":"exec","input":{"command":"ls"}}]}"#,
        r#"{"role":"toolResult","toolCallId":"1","content":[{"type":"text","text":"printed"}]}"#,
    ]);
    for (column, word) in [
        ("prose", "plain"),
        ("prose", "typed"),
        ("prose", "answered"),
        ("thinking", "pondered"),
        ("thinking", "mused"),
        ("tool_input", "ls"),
        ("tool_result", "printed"),
    ] {
        assert_eq!((hits_in(&home, column, word), home.hits(word)), (1, 1), "{word}");
    }
    assert_eq!(home.hits("aGVsbG8"), 0, "pictures are not text");
    assert_eq!(
        home.all("SELECT call_id, tool, target FROM tool_calls"),
        ["'1'|'read'|'a.md'", "'2'|'read'|'b.md'", "'3'|'exec'|'ls'"]
    );
    assert_eq!(
        home.all("SELECT text FROM messages WHERE role = 'assistant'"),
        ["'answered'"],
        "thinking is not part of the message"
    );
}

// --- R15

const USAGE: &str =
    "SELECT m.model, m.provider, m.api, u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens, u.cost_usd
                       FROM usage u JOIN models m ON m.id = u.model WHERE u.is_counted";

#[test]
fn r15_usage_is_read_in_both_shapes() {
    let home = openclaw(&[
        r#"{"type":"message","id":"1","message":{"role":"assistant","content":"x","api":"anthropic-messages","provider":"anthropic","model":"opus","stopReason":"stop","usage":{"input":5,"output":6,"cacheRead":7,"cacheWrite":8,"totalTokens":26,"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0,"total":0.25}}}}"#,
        r#"{"type":"message","id":"2","message":{"role":"assistant","content":"x","model":"gpt","usage":{"inputTokens":3,"outputTokens":4}}}"#,
    ]);
    assert_eq!(
        home.all(USAGE),
        ["'gpt'|''|''|3|4|0|0|NULL", "'opus'|'anthropic'|'anthropic-messages'|5|6|7|8|0.25"]
    );
    assert_eq!(home.one::<String>("SELECT model FROM sessions"), "gpt", "the last one");
}

/// The copy of a response that counts does not depend on the order of collecting.
#[test]
fn the_counted_copy_does_not_depend_on_the_order() {
    let usage_line = |input: u32, output: u32| {
        line("assistant", &uuid(1), None, "answer").replacen(
            "\"message\":{",
            &format!(
                "\"requestId\":\"req_1\",\"message\":{{\"id\":\"msg_1\",\"usage\":{{\"input_tokens\":{input},\"output_tokens\":{output}}},"
            ),
            1,
        )
    };
    let other = MAIN.replace(SESSION, "00000000-d010-4b20-a591-b7172ef08e66");
    let counted = |first: &str, second: &str| {
        let home = Home::quick();
        for path in [first, second] {
            let text = if path == MAIN { usage_line(10, 20) } else { usage_line(20, 10) };
            home.write(path, text);
            home.sync();
        }
        home.assert_rebuilds();
        home.all("SELECT input_tokens, output_tokens FROM usage WHERE is_counted")
    };
    assert_eq!(counted(MAIN, &other), counted(&other, MAIN));
}

/// A fork repeats the entries of its parent under another name.
#[test]
fn r15_the_usage_of_a_fork_is_not_counted_again() {
    let answer = r#"{"type":"message","id":"0a0b0c0d","parentId":null,"timestamp":"2026-02-04T10:30:01.000Z","message":{"role":"assistant","content":"x","model":"m","usage":{"input":1,"output":2}}}"#;
    let fork = HEADER.replace("\"s1\"", "\"s2\",\"parentSession\":\"/x/s1.jsonl\"");
    let home = collected(&[
        (CLAW, &text(&[HEADER, answer])),
        (".openclaw/agents/main/sessions/s2.jsonl", &text(&[&fork, answer])),
    ]);
    assert_eq!(
        home.all("SELECT session_id, fork_of, messages FROM sessions"),
        ["'s1'|NULL|1", "'s2'|'s1'|1"]
    );
    assert_eq!(
        home.all("SELECT sum(input_tokens), sum(output_tokens) FROM usage WHERE is_counted"),
        ["1|2"]
    );
}

// --- R16

/// A mirror repeats an answer of the model in a chat channel: it has no usage, ends no turn, and is
/// not a model.
#[test]
fn r16_mirrors_are_marked_and_have_no_usage() {
    let mut lines = vec![
        r#"{"role":"user","content":"go"}"#.to_owned(),
        r#"{"role":"assistant","content":"said","model":"opus","provider":"anthropic","stopReason":"error","usage":{"input":1,"output":2}}"#.to_owned(),
    ];
    for model in ["delivery-mirror", "gateway-injected"] {
        for provider in ["openai-responses", "openclaw"] {
            lines.push(format!(
                r#"{{"role":"assistant","content":[{{"type":"output_text","text":"mirrored"}}],"model":"{model}","provider":"{provider}","stopReason":"stop","usage":{{"input":9,"output":9}}}}"#
            ));
        }
    }
    let home = openclaw(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(home.all("SELECT id FROM entries WHERE is_mirror"), ["3", "4", "5", "6"]);
    assert_eq!(home.all(USAGE), ["'opus'|'anthropic'|''|1|2|0|0|NULL"]);
    assert_eq!(home.all("SELECT model FROM sessions"), ["'opus'"]);
    assert_eq!(home.all("SELECT status, output_tokens FROM turns"), ["'error'|2"]);
    assert_eq!(home.hits("mirrored"), 4, "mirrored messages are searchable");
}

// --- R17

#[test]
fn r17_a_compaction_is_a_row() {
    let home = openclaw(&[
        HEADER,
        r#"{"type":"message","id":"kept","parentId":null,"message":{"role":"user","content":"x"}}"#,
        r#"{"type":"compaction","id":"c","parentId":"kept","summary":"condensed\n<read-files>\n- a.md\n- b.md\n</read-files>\n<modified-files>\nc.md\n</modified-files>","compactedCount":12,"tokensBefore":900,"tokensAfter":100,"firstKeptEntryId":"kept"}"#,
    ]);
    assert_eq!(
        home.all(
            "SELECT id, first_kept_entry_id, compacted_messages, tokens_before, tokens_after FROM compactions"
        ),
        ["3|'kept'|12|900|100"]
    );
    assert_eq!(
        home.all("SELECT read_files, modified_files FROM compactions"),
        [r#"'["a.md","b.md"]'|'["c.md"]'"#]
    );
    assert!(home.one::<String>("SELECT summary FROM compactions").starts_with("condensed\n"));
    assert_eq!((home.hits("condensed"), home.hits("x")), (1, 1));
    assert_eq!(home.one::<i64>("SELECT compactions FROM sessions"), 1);
}

/// Fields that a compaction lacks stay empty: it may replace everything before it.
#[test]
fn r17_a_compaction_may_lack_fields() {
    let home = openclaw(&[
        r#"{"type":"compaction","summary":"condensed","details":{"readFiles":["a.md"],"modifiedFiles":[]}}"#,
    ]);
    assert_eq!(
        home.all("SELECT first_kept_entry_id, compacted_messages, tokens_before, read_files, modified_files FROM compactions"),
        [r#"NULL|NULL|NULL|'["a.md"]'|'[]'"#]
    );
}

// --- R18

#[test]
fn r18_branch_summaries_are_found() {
    let home = openclaw(&[
        HEADER,
        r#"{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"x"}}"#,
        r#"{"type":"branch_summary","id":"2","parentId":"1","summary":"abandoned","fromId":"1"}"#,
        r#"{"type":"branch_summary","id":"3","parentId":"2","summary":"diverged","parentSession":"s0","branchPoint":"9"}"#,
    ]);
    for word in ["abandoned", "diverged"] {
        assert_eq!(hits_in(&home, "prose", word), 1, "{word}");
    }
    assert_eq!(home.one::<String>("SELECT fork_of FROM sessions"), "s0");
    assert!(home.problems().is_empty(), "{:?}", home.problems());
}

// --- R19

const PAIRS: &str = "SELECT tool, call_id, result, is_error, mentions_error FROM tool_calls";

#[test]
fn r19_results_pair_by_id() {
    let home = openclaw(&[
        r#"{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"read","arguments":{}},{"type":"toolCall","id":"c2","name":"exec","arguments":{}},{"type":"toolCall","id":"c3","name":"wait","arguments":{}}]}"#,
        r#"{"role":"toolResult","toolCallId":"c2","toolName":"exec","content":"exit 1","isError":true}"#,
        r#"{"role":"toolResult","toolCallId":"c1","toolName":"read","content":"no Error here","isError":false}"#,
    ]);
    assert_eq!(
        home.all(PAIRS),
        ["'exec'|'c2'|2|1|0", "'read'|'c1'|3|0|1", "'wait'|'c3'|NULL|NULL|NULL"]
    );
}

#[test]
fn r19_results_without_an_id_pair_in_order() {
    let home = openclaw(&[
        r#"{"role":"assistant","content":[{"type":"toolCall","name":"old","arguments":{}}]}"#,
        r#"{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"first","arguments":{}},{"type":"toolCall","name":"second","arguments":{}}]}"#,
        r#"{"role":"toolResult","content":"one"}"#,
        r#"{"role":"toolResult","content":"two"}"#,
        r#"{"role":"toolResult","content":"three"}"#,
    ]);
    assert_eq!(
        home.all(PAIRS),
        ["'first'|'c1'|3|0|0", "'old'|NULL|NULL|NULL|NULL", "'second'|NULL|4|0|0"],
        "only calls of the preceding message are paired"
    );
    assert_eq!(home.problems().into_iter().collect::<Vec<_>>(), [("orphan_result".to_owned(), 1)]);
}

/// Some providers number the calls of each answer from the start.
#[test]
fn r19_a_reused_id_pairs_with_the_nearest_call() {
    let call = r#"{"role":"assistant","content":[{"type":"toolCall","id":"call_0","name":"read","arguments":{}}]}"#;
    let result = r#"{"role":"toolResult","toolCallId":"call_0","content":"text"}"#;
    let home = openclaw(&[call, result, call, result]);
    assert_eq!(home.all("SELECT entry, result FROM tool_calls"), ["1|2", "3|4"]);
}

/// Asserts that the call that a result without an id answers does not depend on the order of
/// arrival.
#[track_caller]
fn pairs_alike(lines: &[&str]) {
    let at_once = openclaw(lines);
    let one_by_one = Home::quick();
    one_by_one.write(CLAW, "");
    for line in lines {
        one_by_one.append(CLAW, format!("{line}\n"));
        one_by_one.sync();
    }
    let pairs = "SELECT entry, ordinal, tool, result FROM tool_calls";
    assert_eq!(at_once.all(pairs), one_by_one.all(pairs));
    one_by_one.assert_rebuilds();
}

#[test]
fn r19_a_call_on_a_welded_line_pairs_in_any_order() {
    pairs_alike(&[
        r#"{"role":"user","content":"go"}{"role":"assistant","content":[{"type":"toolCall","name":"read","arguments":{"path":"a"}}]}"#,
        r#"{"role":"toolResult","toolName":"read","content":"text of a"}"#,
    ]);
}

#[test]
fn r19_a_call_that_a_newer_version_drops_pairs_in_any_order() {
    pairs_alike(&[
        r#"{"type":"message","id":"1","parentId":null,"message":{"role":"assistant","content":[{"type":"toolCall","name":"read","arguments":{"path":"a"}}]}}"#,
        r#"{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"toolCall","name":"read","arguments":{"path":"b"}}]}}"#,
        r#"{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":"changed my mind"}}"#,
        r#"{"role":"toolResult","toolName":"read","content":"text"}"#,
    ]);
}

// --- R30

#[test]
fn r30_sub_agents_are_separate_sessions_with_a_parent() {
    let agent = format!("{BESIDE}/subagents/agent-a1.jsonl");
    let description = format!("{BESIDE}/subagents/agent-a1.meta.json");
    let older = ".claude/projects/-home-alice-shop/agent-b2.jsonl";
    let home = collected(&[
        (MAIN, &line("user", &uuid(1), None, "go")),
        (&agent, &line("user", &uuid(2), None, "look around")),
        (&description, r#"{"agentType":"Explore","toolUseId":"toolu_1"}"#),
        (older, &line("user", &uuid(3), None, "look beside")),
    ]);
    assert_eq!(
        home.all(
            "SELECT session_id, part, parent_session_id, parent_call, agent_type FROM sessions"
        ),
        [
            format!("'-home-alice-shop/agent-b2'|'agent'|'{SESSION}'|NULL|NULL"),
            format!("'{SESSION}'|'transcript'|NULL|NULL|NULL"),
            format!("'{SESSION}/agent-a1'|'subagent'|'{SESSION}'|'toolu_1'|'Explore'"),
        ]
    );
    let status = status(&home, "claude-code");
    assert_eq!((status.sessions, status.subagents), (1, 2));
}

/// A sub-agent's usage is counted once, even if its parent's transcript repeats it.
#[test]
fn r30_sub_agents_count_in_usage() {
    let usage_line = r#""message":{"id":"msg_1","usage":{"input_tokens":10,"output_tokens":20},"#;
    let answer =
        line("assistant", &uuid(2), None, "found").replacen("\"message\":{", usage_line, 1);
    let progress = noted(
        3,
        r#""type":"progress","parentToolUseID":"toolu_1","toolUseID":"agent_msg_1","data":{"type":"agent_progress","agentId":"a1","message":{"message":{"id":"msg_1","model":"opus","usage":{"input_tokens":10,"output_tokens":20}}}}"#,
    );
    let agent = format!("{BESIDE}/subagents/agent-a1.jsonl");
    let home = collected(&[(MAIN, &progress), (&agent, &answer)]);
    assert_eq!(
        home.all("SELECT sum(input_tokens), sum(output_tokens) FROM usage WHERE is_counted"),
        ["10|20"]
    );
    assert_eq!(home.all("SELECT agent_id, call_id FROM spawned_agents"), ["'a1'|'toolu_1'"]);
}

#[test]
fn r30_memory_is_no_transcript_and_other_names_are_tried() {
    let folder = ".claude/projects/-home-alice-shop";
    let (memory, notes, odd) = (
        format!("{folder}/memory/log.jsonl"),
        format!("{folder}/notes.jsonl"),
        format!("{folder}/odd.jsonl"),
    );
    let text_line = line("user", &uuid(1), None, "hello");
    let home = collected(&[(&memory, &text_line), (&notes, &text_line), (&odd, "no record\n")]);
    assert_eq!(home.all("SELECT session_id FROM sessions"), ["'-home-alice-shop/notes'"]);
    let mut skipped: Vec<String> = status(&home, "claude-code")
        .skipped
        .iter()
        .map(|skipped| format!("{} {} {}", skipped.files, skipped.folders, skipped.paths[0]))
        .collect();
    skipped.sort();
    assert_eq!(
        skipped,
        ["0 1 projects/-home-alice-shop/memory/", "1 0 projects/-home-alice-shop/odd.jsonl"]
    );
}

fn persisted(number: u32) -> String {
    let call = r#"[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]"#;
    let result = r#"[{"type":"tool_result","tool_use_id":"toolu_1","content":"<persisted-output>\nOutput too large. Full output saved to: /elsewhere/tool-results/b1.txt\n\nPreview"}]"#;
    with_content("assistant", number, call) + &with_content("user", number + 1, result)
}

/// Output that a tool wrote into a file is found as the result of its call.
#[test]
fn r30_tool_output_belongs_to_its_call() {
    let output = format!("{BESIDE}/tool-results/b1.txt");
    let home = collected(&[(MAIN, &persisted(1)), (&output, "needle in the output")]);
    assert_eq!(hits_in(&home, "tool_result", "needle"), 1);
    let call =
        "SELECT t.tool, d.name, d.part FROM tool_calls t JOIN documents d ON d.id = t.output";
    assert_eq!(home.all(call), ["'Bash'|'b1.txt'|'tool_output'"]);
}

/// All tool output of a session is in one folder, including that of its sub-agents.
#[test]
fn r30_tool_output_of_a_sub_agent_belongs_to_its_call() {
    let agent = format!("{BESIDE}/subagents/agent-a1.jsonl");
    let output = format!("{BESIDE}/tool-results/b1.txt");
    let home = collected(&[
        (MAIN, &line("user", &uuid(1), None, "go")),
        (&agent, &persisted(10)),
        (&output, "needle in the output"),
    ]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM tool_calls WHERE output IS NOT NULL"), 1);
}

/// A file that was refused as no transcript at first had no generation before it became one.
#[test]
fn r30_a_file_that_becomes_a_transcript_has_one_generation() {
    let home = Home::quick();
    let notes = ".claude/projects/-home-alice-shop/notes.jsonl";
    home.write(notes, "not yet\n");
    home.sync();
    home.append(notes, line("user", &uuid(1), None, "hello"));
    let report = home.sync_and_check();
    home.assert_restores_all(&[notes]);
    let restored: Vec<String> =
        home.restored(quipu_ledger::restore::Generations::All).into_keys().collect();
    assert_eq!(restored, [notes.replace(".claude/", "claude-code/")]);
    assert_eq!(report.rewritten_sources, 0);
}

/// A session that only the prompt list has is lost, until its transcript appears.
#[test]
fn r30_a_prompt_list_is_no_session() {
    let prompt = format!(
        "{{\"display\":\"remember me\",\"timestamp\":1768213800000,\"project\":\"/home/alice/shop\",\"sessionId\":\"{SESSION}\"}}\n"
    );
    let home = collected(&[(".claude/history.jsonl", &prompt)]);
    let sessions = "SELECT session_id, state, part, entries, messages FROM sessions";
    assert_eq!(home.all(sessions), [format!("'{SESSION}'|'lost'|'prompt_history'|0|0")]);
    assert_eq!(home.all("SELECT slug, text FROM prompts"), ["'/home/alice/shop'|'remember me'"]);

    home.write(MAIN, line("user", &uuid(1), None, "remember me"));
    home.sync_and_check();
    assert_eq!(home.all(sessions), [format!("'{SESSION}'|'live'|'transcript'|1|1")]);

    // Once it was collected it is never lost again.
    home.remove(MAIN);
    home.sync_and_check();
    assert_eq!(home.all("SELECT state FROM sessions"), ["'gone'"]);
}

// --- R31

/// One codebase may have several slugs, and two codebases the same one.
#[test]
fn r31_a_slug_is_kept_and_never_decoded() {
    let path = |slug: &str, number| format!(".claude/projects/{slug}/{}.jsonl", uuid(number));
    let at =
        |number, cwd: &str| line("user", &uuid(number), None, "x").replace("/home/alice/shop", cwd);
    let home = collected(&[
        (&path("-home-alice-my-shop", 1), &at(1, "/home/alice/my-shop")),
        (&path("-home-alice-my-shop", 2), &at(2, "/home/alice/my/shop")),
        (&path("-home-alice-my--shop", 3), &at(3, "/home/alice/my-shop")),
    ]);
    assert_eq!(
        home.all("SELECT slug, cwd FROM sessions"),
        [
            "'-home-alice-my--shop'|'/home/alice/my-shop'",
            "'-home-alice-my-shop'|'/home/alice/my-shop'",
            "'-home-alice-my-shop'|'/home/alice/my/shop'",
        ]
    );
}

/// A session that was resumed in another folder is still one session.
#[test]
fn r31_a_session_under_two_slugs_is_one_session() {
    let moved = MAIN.replace("-home-alice-shop", "-home-alice-shop--worktree");
    let first = line("user", &uuid(1), None, "here");
    let second = line("user", &uuid(2), Some(&uuid(1)), "there");
    let home = collected(&[(MAIN, &first), (&moved, &(first.clone() + &second))]);
    assert_eq!(home.all("SELECT session_id, messages FROM sessions"), [format!("'{SESSION}'|2")]);
    assert_eq!(home.one::<i64>("SELECT count(*) FROM session_sources"), 2);
}

/// The working directory of a session comes from its transcript, in any order of collecting.
#[test]
fn r31_a_prompt_list_does_not_set_the_folder_of_a_session() {
    let history = ".claude/history.jsonl";
    let prompt = format!(
        "{{\"display\":\"x\",\"timestamp\":1768213800000,\"project\":\"/elsewhere\",\"sessionId\":\"{SESSION}\"}}\n"
    );
    let text_line = line("user", &uuid(1), None, "x");
    for [first, second] in
        [[(history, &prompt), (MAIN, &text_line)], [(MAIN, &text_line), (history, &prompt)]]
    {
        let home = collected(&[(first.0, first.1)]);
        home.write(second.0, second.1);
        home.sync_and_check();
        assert_eq!(
            home.all("SELECT cwd FROM sessions"),
            ["'/home/alice/shop'"],
            "{} first",
            first.0
        );
    }
}

// --- R32

#[test]
fn r32_only_user_and_assistant_lines_are_messages() {
    let mut lines = line("user", &uuid(1), None, "asked")
        + &line("assistant", &uuid(2), Some(&uuid(1)), "answered");
    for (number, fields) in [
        r#""type":"system","subtype":"turn_duration","durationMs":5,"isMeta":false"#,
        r#""type":"progress","data":{"type":"hook_progress"},"toolUseID":"t","parentToolUseID":"t""#,
        r#""type":"file-history-snapshot","messageId":"m","snapshot":{}"#,
        r#""type":"summary","summary":"Asked and answered""#,
        r#""type":"crystal-ball","future":"bright""#,
    ]
    .iter()
    .enumerate()
    {
        lines += &noted(10 + number as u32, fields);
    }
    let home = collected(&[(MAIN, &lines)]);
    assert_eq!(home.all("SELECT text FROM messages"), ["'answered'", "'asked'"]);
    assert_eq!(
        home.all("SELECT entries, messages, turns, title FROM sessions"),
        ["7|2|1|'Asked and answered'"]
    );
    assert_eq!(home.all("SELECT type FROM entries WHERE NOT is_known"), ["'crystal-ball'"]);
    assert_eq!(status(&home, "claude-code").records_by_unknown_type["crystal-ball"], 1);
    home.assert_restores_all(&[MAIN]);
}

// --- R33

#[test]
fn r33_fields_of_lines_describe_their_session() {
    let first =
        line("user", &uuid(1), None, "asked").replace("\"cwd\"", "\"gitBranch\":\"main\",\"cwd\"");
    let second = line("assistant", &uuid(2), Some(&uuid(1)), "answered")
        .replace(
            "\"cwd\":\"/home/alice/shop\"",
            "\"gitBranch\":\"fix\",\"cwd\":\"/home/alice/shop/src\"",
        )
        .replace("2.1.0", "2.1.1")
        .replace("10:30:00", "10:31:00");
    let home = collected(&[(MAIN, &(first + &second))]);
    assert_eq!(
        home.all("SELECT cwd, git_branch, client_version, started_at, updated_at FROM sessions"),
        ["'/home/alice/shop'|'fix'|'2.1.1'|1768213800000|1768213860000"]
    );
    assert_eq!(
        home.all("SELECT entry_id, parent, is_sidechain FROM entries"),
        [
            "'00000001-0000-4000-8000-000000000000'|NULL|0",
            "'00000002-0000-4000-8000-000000000000'|1|0",
        ]
    );
}

/// The extra fields of each type of line are stored, shown with the entry, and no problem.
#[test]
fn r33_extra_fields_are_kept_and_shown() {
    let extended = |role: &str, number: u32, extras: &str| {
        line(role, &uuid(number), None, "words").replacen('{', &format!("{{{extras},"), 1)
    };
    let user = extended(
        "user",
        1,
        r#""thinkingMetadata":{"level":"deep-thought"},"todos":[{"content":"todo-one"}],"permissionMode":"plan-mode","toolUseResult":"result-words","sourceToolAssistantUUID":"source-uuid""#,
    );
    let assistant = extended("assistant", 2, r#""requestId":"req-33","slug":"sleepy-cat""#);
    let system = format!(
        "{{\"type\":\"system\",\"uuid\":\"{}\",\"parentUuid\":null,\"subtype\":\"turn-duration\",\"durationMs\":1234,\"isMeta\":true,\"content\":\"words\"}}\n",
        uuid(3)
    );
    let progress = format!(
        "{{\"type\":\"progress\",\"uuid\":\"{}\",\"parentUuid\":null,\"data\":{{\"type\":\"hook_progress\",\"hookName\":\"hook-name\"}},\"parentToolUseID\":\"toolu-parent\",\"toolUseID\":\"toolu-own\"}}\n",
        uuid(4)
    );
    let home = collected(&[(MAIN, &(user + &assistant + &system + &progress))]);
    assert_eq!(home.problems(), BTreeMap::new());
    assert_eq!(
        home.all("SELECT role, text FROM messages"),
        ["'assistant'|'words'", "'user'|'words'"]
    );
    for (number, values) in [
        (1, &["deep-thought", "todo-one", "plan-mode", "result-words", "source-uuid"][..]),
        (2, &["req-33", "sleepy-cat"]),
        (3, &["turn-duration", "1234"]),
        (4, &["hook_progress", "hook-name", "toolu-parent", "toolu-own"]),
    ] {
        let choice =
            Choice { entry: Some(uuid(number)), detail: StoryDetail::FULL, ..Choice::default() };
        let shown = home.items_of(SESSION, &choice, |item| format!("{item:?}")).concat();
        for value in values {
            assert!(shown.contains(value), "{value} of line {number}: {shown}");
        }
    }
    home.assert_restores_all(&[MAIN]);
}

// --- R34

#[test]
fn r34_content_is_text_or_a_list() {
    let call = r#"[{"type":"text","text":"running"},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}},{"type":"tool_use","id":"t2","name":"Read","input":{"file_path":"/p/a"}}]"#;
    let results = r#"[{"type":"tool_result","tool_use_id":"t1","content":"broken","is_error":true},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"failed is only a word"}]}]"#;
    let lines = with_content("user", 1, "\"as text\"")
        + &with_content("user", 2, r#"[{"type":"text","text":"as list"}]"#)
        + &with_content("assistant", 3, call)
        + &with_content("user", 4, results);
    let home = collected(&[(MAIN, &lines)]);
    assert_eq!(home.all("SELECT text FROM messages"), ["'as list'", "'as text'", "'running'"]);
    assert_eq!(
        home.all("SELECT call_id, tool, target, result, is_error, mentions_error FROM tool_calls"),
        ["'t1'|'Bash'|'make'|4|1|0", "'t2'|'Read'|'/p/a'|4|0|1"]
    );
}

/// Text and results may be in one line; the text counts as a person's.
#[test]
fn r34_text_beside_a_result_is_a_persons() {
    let content = r#"[{"type":"tool_result","tool_use_id":"t1","content":"rejected","is_error":true},{"type":"text","text":"try it otherwise"}]"#;
    let home = collected(&[(MAIN, &with_content("user", 1, content))]);
    assert_eq!(home.all("SELECT text FROM messages"), ["'try it otherwise'"]);
}

// --- R51, R52, R53

/// Returns the counts of a sync's work.
fn work(report: &SyncReport) -> [u64; 4] {
    [report.sources_changed, report.bytes_read, report.bytes_verified, report.lines_parsed]
}

#[test]
fn r51_only_new_bytes_are_read() {
    let agent = format!("{BESIDE}/subagents/agent-a1.jsonl");
    let output = format!("{BESIDE}/tool-results/b1.txt");
    let text_line = line("user", &uuid(1), None, "hello");
    let home = collected(&[
        (MAIN, &text_line),
        (&agent, &text_line),
        (&output, "some output"),
        (".claude/history.jsonl", "{\"display\":\"hello\",\"timestamp\":1768213800000}\n"),
        (CLAW, "{\"role\":\"user\",\"content\":\"hello\"}\n"),
    ]);
    assert_eq!(work(&home.sync()), [0; 4]);
    let more = "{\"role\":\"assistant\",\"content\":\"world\"}\n";
    home.append(CLAW, more);
    let report = home.sync();
    assert_eq!((report.sources_changed, report.lines_parsed), (1, 1));
    assert_eq!(report.bytes_read, more.len() as u64);
    assert_eq!(work(&home.sync()), [0; 4]);
}

#[test]
fn r52_cursors_are_the_scan_state() {
    let home = Home::quick();
    let (whole, torn) = ("{\"role\":\"user\",\"content\":\"hello\"}\n", "{\"role\":");
    home.write(CLAW, format!("{whole}{torn}"));
    home.sync();
    let [cursor] = &quipu_ledger::query::cursors(&home.open()).unwrap()[..] else {
        panic!("one file")
    };
    let on_disk = std::fs::metadata(home.path(CLAW)).unwrap();
    let since = on_disk.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(cursor.path, "agents/main/sessions/s1.jsonl");
    assert_eq!((cursor.offset, cursor.tail_bytes), (whole.len() as u64, torn.len() as u64));
    assert_eq!(
        (cursor.bytes, i128::from(cursor.modified_at)),
        (on_disk.len(), since.as_millis() as i128)
    );
}

/// No state file is written, neither beside the sources nor beside the ledger.
#[test]
fn r52_nothing_is_written_but_the_ledger() {
    let home = Home::quick();
    home.write(MAIN, line("user", &uuid(1), None, "hello"));
    home.write(CLAW, "{\"role\":\"user\",\"content\":\"hello\"}\n");
    let before = files(&home.path(""));
    home.sync();
    home.sync();
    assert_eq!(files(&home.path("")), before);
    for name in home.ledger_bytes().into_keys() {
        assert!(name.starts_with("ledger.db"), "{name}");
    }
}

#[test]
fn r53_files_from_six_kilobytes_to_sixteen_megabytes_are_collected() {
    let text_line =
        "{\"role\":\"user\",\"content\":\"hello hello hello hello hello hello hello\"}\n";
    for bytes in [6 << 10, 16 << 20] {
        let lines = bytes / text_line.len() + 1;
        let home = Home::quick();
        home.write(CLAW, text_line.repeat(lines));
        let report = home.sync();
        assert_eq!(
            (report.records_added, report.bytes_read),
            (lines as u64, (lines * text_line.len()) as u64)
        );
        home.assert_restores_all(&[CLAW]);
        assert_eq!(work(&home.sync()), [0; 4]);
    }
}

/// A file of 240 MB with a line of 20 MB, in a process that may use 220 MB.
#[test]
fn r53_memory_does_not_grow_with_the_file() {
    let line =
        |words| format!("{{\"role\":\"user\",\"content\":\"{}\"}}\n", "hello ".repeat(words));
    let home = Home::new();
    let half = line(500).repeat(110_000_000 / line(500).len());
    home.write(CLAW, [&half, &line(20_000_000 / 6), &half].map(String::as_str).concat());
    let limited = ["-c", "ulimit -d 220000 && exec \"$@\"", "sh"];
    let mut collecting = child::command_under("sh", &limited, &home, "collect").spawn().unwrap();
    drop(collecting.stdin.take());
    child::assert_success(&collecting.wait_with_output().unwrap());
    assert_eq!(work(&home.sync()), [0; 4], "all of it was collected");
}

// --- R110

#[test]
fn r110_the_tables_hold_the_fixtures() {
    let home = Home::quick();
    home.copy_fixtures();
    home.sync();
    for table in [
        "sessions",
        "turns",
        "messages",
        "tool_calls",
        "custom_entries",
        "compactions",
        "labels",
        "documents",
        "prompts",
        "usage",
        "models",
    ] {
        assert!(home.one::<i64>(&format!("SELECT count(*) FROM {table}")) > 0, "{table}");
    }
    let databases: Vec<String> =
        home.ledger_bytes().into_keys().filter(|name| name.ends_with(".db")).collect();
    assert_eq!(databases, ["ledger.db"]);
    // The counts in a session's row equal those of the tables.
    let odd = "SELECT session_id FROM sessions s
                WHERE turns <> (SELECT count(*) FROM turns WHERE session = s.id)
                   OR messages <> (SELECT count(*) FROM messages WHERE session = s.id)
                   OR tool_calls <> (SELECT count(*) FROM tool_calls WHERE session = s.id)
                   OR compactions <> (SELECT count(*) FROM compactions WHERE session = s.id)";
    assert_eq!(home.all(odd), [""; 0]);
}

/// Each line of a transcript and each field of its index is in the table of its kind, and every
/// reference between them leads to a row.
#[test]
fn r110_each_kind_of_line_has_its_table() {
    let home = Home::new();
    let folder = ".openclaw/agents/main/sessions";
    let lines = [
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-02-04T10:30:00.000Z","cwd":"/w"}"#,
        r#"{"type":"message","id":"00000001","parentId":null,"timestamp":"2026-02-04T10:30:01.000Z","message":{"role":"user","content":"read it"}}"#,
        r#"{"type":"message","id":"00000002","parentId":"00000001","timestamp":"2026-02-04T10:30:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"reading"},{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"/w/a.md"}}],"provider":"p","model":"m","usage":{"input":5,"output":7},"stopReason":"toolUse"}}"#,
        r#"{"type":"message","id":"00000003","parentId":"00000002","timestamp":"2026-02-04T10:30:03.000Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"otters"}],"isError":false}}"#,
        r#"{"type":"custom","customType":"mark","data":{"n":1},"id":"00000004","parentId":"00000003","timestamp":"2026-02-04T10:30:04.000Z"}"#,
        r#"{"type":"compaction","id":"00000005","parentId":"00000004","timestamp":"2026-02-04T10:30:05.000Z","summary":"short","firstKeptEntryId":"00000002","tokensBefore":9}"#,
        r#"{"type":"message","id":"00000006","parentId":"00000005","timestamp":"2026-02-04T10:30:06.000Z","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"provider":"p","model":"m","usage":{"input":1,"output":2},"stopReason":"stop"}}"#,
    ];
    home.write(&format!("{folder}/s1.jsonl"), lines.join("\n") + "\n");
    home.write(
        &format!("{folder}/sessions.json"),
        r#"{"agent:main:telegram:dm:7": {"sessionId": "s1", "updatedAt": 1770193116233,
            "chatType": "direct", "label": "Ada", "totalTokens": 15}}"#,
    );
    home.sync_and_check();
    for (query, rows) in [
        (
            "SELECT session_id, session_key, cwd, model, entries, turns, messages, tool_calls, compactions FROM sessions",
            &["'s1'|'agent:main:telegram:dm:7'|'/w'|'m'|7|1|3|1|1"][..],
        ),
        (
            "SELECT key, session_id, channel, chat_type, title, total_tokens FROM session_keys",
            &["'agent:main:telegram:dm:7'|'s1'|'telegram'|'direct'|'Ada'|15"],
        ),
        (
            "SELECT status, model, input_tokens, output_tokens, started_at, ended_at FROM turns",
            &["'done'|'m'|6|9|1770201001000|1770201006000"],
        ),
        (
            "SELECT role, text, turn = (SELECT id FROM turns) FROM messages",
            &["'assistant'|'done'|1", "'assistant'|'reading'|1", "'user'|'read it'|1"],
        ),
        (
            "SELECT c.call_id, c.tool, c.target, c.is_error, e.entry_id, r.entry_id
               FROM tool_calls c JOIN entries e ON e.id = c.entry JOIN entries r ON r.id = c.result",
            &["'c1'|'read'|'/w/a.md'|0|'00000002'|'00000003'"],
        ),
        (
            "SELECT c.custom_type, c.data, e.entry_id
               FROM custom_entries c JOIN entries e ON e.id = c.id",
            &["'mark'|'{\"n\":1}'|'00000004'"],
        ),
        (
            "SELECT summary, first_kept_entry_id, tokens_before FROM compactions",
            &["'short'|'00000002'|9"],
        ),
        ("SELECT sum(input_tokens), sum(output_tokens) FROM usage WHERE is_counted", &["6|9"]),
        // A path of foreign keys from the last entry to the root.
        (
            "WITH RECURSIVE path (id) AS (
                SELECT leaf FROM sessions UNION ALL
                SELECT e.parent FROM path JOIN entries e ON e.id = path.id
                 WHERE e.parent IS NOT NULL)
             SELECT count(*) FROM path",
            &["6"],
        ),
    ] {
        assert_eq!(home.all(query), rows, "{query}");
    }
    let databases = home.ledger_bytes().into_keys().filter(|name| name.ends_with(".db"));
    assert_eq!(databases.collect::<Vec<_>>(), ["ledger.db"]);
}

// --- R112

#[test]
fn r112_a_turn_is_open_done_failed_or_aborted() {
    let prompt = r#"{"role":"user","content":"go"}"#;
    let call = r#"{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"read","arguments":{}}],"stopReason":"toolUse"}"#;
    let result = r#"{"role":"toolResult","toolCallId":"c","content":"text"}"#;
    let stopped = |reason: &str| {
        format!(r#"{{"role":"assistant","content":"words","stopReason":"{reason}"}}"#)
    };
    let check = |answers: &[&str], status: &str| {
        let home = openclaw(&[&[prompt], answers].concat());
        assert_eq!(home.all("SELECT status FROM turns"), [format!("'{status}'")], "{answers:?}");
    };
    check(&[], "open");
    check(&[call], "open");
    check(&[call, result], "open");
    check(&[call, result, &stopped("stop")], "done");
    check(&[&stopped("error")], "error");
    check(&[&stopped("aborted")], "aborted");
    check(&[&stopped("error"), &stopped("stop")], "done");
}

#[test]
fn r112_an_interrupted_turn_is_aborted() {
    let lines = line("user", &uuid(1), None, "go")
        + &line("assistant", &uuid(2), Some(&uuid(1)), "on it")
        + &line("user", &uuid(3), Some(&uuid(2)), "[Request interrupted by user]");
    let home = collected(&[(MAIN, &lines)]);
    assert_eq!(home.all("SELECT id, status FROM turns"), ["1|'aborted'"]);
}

/// An event between an answer and the next prompt belongs to neither: a hook that runs when a
/// session is resumed the next day does not make the last answer take a day.
#[test]
fn r112_a_turn_ends_with_its_last_answer() {
    let resumed = noted(3, r#""type":"progress","data":{"type":"hook_progress"}"#)
        .replace("\"parentUuid\":null", &format!("\"parentUuid\":\"{}\"", uuid(2)))
        .replace("01-12", "01-13");
    let lines = line("user", &uuid(1), None, "go")
        + &line("assistant", &uuid(2), Some(&uuid(1)), "done").replace("10:30:00", "10:31:00")
        + &resumed;
    let home = collected(&[(MAIN, &lines)]);
    assert_eq!(home.all("SELECT ended_at - started_at FROM turns"), ["60000"]);
}

#[test]
fn r112_a_turn_has_the_model_that_answered() {
    let home = openclaw(&[
        r#"{"role":"user","content":"go"}"#,
        r#"{"role":"assistant","content":"done","model":"opus","stopReason":"stop"}"#,
        r#"{"type":"model_change","provider":"openai","modelId":"gpt"}"#,
    ]);
    assert_eq!(home.all("SELECT model FROM turns"), ["'opus'"]);
}

/// A streamed answer is several lines with one usage; the last line is the most complete.
#[test]
fn r112_a_response_counts_once() {
    let part = |number: u32, output: u32| {
        let usage_line = format!(
            "\"requestId\":\"req_1\",\"message\":{{\"id\":\"msg_1\",\"model\":\"opus\",\
             \"usage\":{{\"input_tokens\":10,\"output_tokens\":{output},\"cache_read_input_tokens\":5,\"cache_creation_input_tokens\":3}},"
        );
        line("assistant", &uuid(number), Some(&uuid(number - 1)), "part").replacen(
            "\"message\":{",
            &usage_line,
            1,
        )
    };
    let lines = line("user", &uuid(1), None, "go") + &part(2, 1) + &part(3, 1) + &part(4, 42);
    let turns = "SELECT model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens FROM turns";
    let home = collected(&[(MAIN, &lines)]);
    assert_eq!(home.all(turns), ["'opus'|10|42|5|3"]);
    assert_eq!(home.all("SELECT input_tokens, output_tokens FROM usage"), ["10|42"]);

    let slowly = Home::quick();
    slowly.write(MAIN, "");
    for line in lines.split_inclusive('\n') {
        slowly.append(MAIN, line);
        slowly.sync();
    }
    assert_eq!(slowly.all(turns), home.all(turns));
}

/// Two prompts that follow the same answer are two branches of the tree.
#[test]
fn r112_turns_form_a_tree() {
    let text_line = |id: u32, parent: Option<u32>, role: &str| {
        let parent = parent.map_or("null".to_owned(), |parent| format!("\"e{parent}\""));
        format!(
            "{{\"type\":\"message\",\"id\":\"e{id}\",\"parentId\":{parent},\"timestamp\":\"2026-02-04T10:30:{id:02}.000Z\",\
             \"message\":{{\"role\":\"{role}\",\"content\":\"x\",\"stopReason\":\"stop\"}}}}\n"
        )
    };
    let lines = text_line(1, None, "user")
        + &text_line(2, Some(1), "assistant")
        + &text_line(3, Some(2), "user")
        + &text_line(4, Some(3), "assistant")
        + &text_line(5, Some(2), "user")
        + &text_line(6, Some(5), "assistant")
        + &text_line(7, Some(4), "assistant");
    let home = collected(&[(CLAW, &lines)]);
    let since = |seconds: i64| 1_770_201_000_000 + seconds * 1000;
    assert_eq!(
        home.all("SELECT id, parent, started_at, ended_at FROM turns"),
        [
            format!("1|NULL|{}|{}", since(1), since(2)),
            format!("3|1|{}|{}", since(3), since(7)),
            format!("5|1|{}|{}", since(5), since(6)),
        ]
    );
    assert_eq!(home.all("SELECT id, turn FROM entries WHERE id > 5"), ["6|5", "7|3"]);
}

/// All fields of a session entry in the ledger document.
fn session_entry() -> serde_json::Map<String, Value> {
    let entry = r##"{
        "sessionId": "s1", "updatedAt": 1770193116233, "sessionFile": "s1.jsonl",
        "systemSent": true, "abortedLastRun": false, "compactionCount": 3,
        "inputTokens": 11, "outputTokens": 12, "totalTokens": 13, "contextTokens": 14,
        "modelProvider": "anthropic", "model": "claude-opus-4-5", "modelOverride": "m",
        "providerOverride": "p", "thinkingLevel": "high", "verboseLevel": "on",
        "reasoningLevel": "off", "elevatedLevel": "ask", "channel": "telegram",
        "lastChannel": "discord", "lastTo": "7", "lastAccountId": "default", "lastThreadId": 42,
        "deliveryContext": {"channel": "telegram", "to": "7"}, "chatType": "group",
        "groupId": "-100", "subject": "s", "groupChannel": "#g", "space": "w",
        "displayName": "d", "label": "l", "origin": {"provider": "telegram"},
        "queueMode": "steer", "queueDebounceMs": 5, "queueCap": 6, "queueDrop": "old",
        "ttsAuto": "always", "responseUsage": "full", "sendPolicy": "allow",
        "memoryFlushAt": 1770193116000, "memoryFlushCompactionCount": 2,
        "spawnedBy": "agent:main:main", "lastHeartbeatText": "h",
        "lastHeartbeatSentAt": 1770193115000,
        "skillsSnapshot": {"prompt": "PROMPT", "skills": [{"name": "notes"}]},
        "systemPromptReport": {"source": "run", "injectedWorkspaceFiles": ["AGENTS.md"]}
    }"##;
    let entry = entry.replace("PROMPT", &"p".repeat(20_000));
    serde_json::from_str(&entry).unwrap()
}

#[test]
fn r3_every_field_of_a_collected_index_is_metadata() {
    let entry = session_entry();
    assert_eq!(entry.len(), 46);
    let index = json!({"agent:main:telegram:group:-100": &entry}).to_string();
    let folder = ".openclaw/agents/main/sessions";
    let path = format!("{folder}/sessions.json");
    let home = collected(&[(CLAW, &text(&[HEADER])), (&path, &index)]);
    let ledger = home.open();
    let row = quipu_ledger::query::find_session(&ledger, "s1").unwrap();
    let meta = quipu_ledger::store::meta_of(&ledger, row).unwrap().to_map();
    for (name, value) in &entry {
        assert_eq!(meta.get(name), Some(value), "{name}");
    }
    drop(ledger);
    // The same after an import; only the name of the file adds nothing.
    let store = quipu_ledger::Store::open(home.ledger_path()).unwrap();
    store.import(&home.path(".openclaw"), &mut |file| assert!(!file.has_failed)).unwrap();
    let meta = store.session("agent:main:telegram:group:-100").unwrap().meta().unwrap();
    for (name, value) in entry.iter().filter(|(name, _)| *name != "sessionFile") {
        assert_eq!(meta.get(name), Some(value), "{name}");
    }
}

// --- R122

#[test]
fn r122_messages_are_rows_under_the_names_of_the_spec() {
    let home = openclaw(&[
        HEADER,
        r#"{"type":"model_change","id":"m1","parentId":null,"provider":"anthropic","modelId":"opus"}"#,
        r#"{"type":"thinking_level_change","id":"t1","parentId":"m1","thinkingLevel":"high"}"#,
        r#"{"type":"message","id":"0b6e6fb5-8d4f-4f38-9a7c-2f3a1f6f6f01","parentId":"t1","message":{"role":"user","content":"ask"}}"#,
        r#"{"type":"message","id":"a1b2c3d4","parentId":"0b6e6fb5-8d4f-4f38-9a7c-2f3a1f6f6f01","message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"exec","arguments":{}}],"provider":"anthropic","api":"anthropic-messages","model":"opus","stopReason":"toolUse"}}"#,
        r#"{"type":"message","id":"r1","parentId":"a1b2c3d4","message":{"role":"toolResult","toolCallId":"c1","isError":true,"content":"no such file"}}"#,
        r#"{"type":"message","id":"a2","parentId":"r1","message":{"role":"assistant","content":"done","stopReason":"stop"}}"#,
    ]);
    assert_eq!(
        home.all(
            "SELECT entry_id, parent_id, role, text, model, provider, api, stop_reason, is_error
               FROM transcript ORDER BY entry"
        ),
        [
            "'0b6e6fb5-8d4f-4f38-9a7c-2f3a1f6f6f01'|'t1'|'user'|'ask'|NULL|NULL|NULL|NULL|0",
            "'a1b2c3d4'|'0b6e6fb5-8d4f-4f38-9a7c-2f3a1f6f6f01'|'assistant'|NULL|'opus'|'anthropic'|'anthropic-messages'|'toolUse'|0",
            "'a2'|'r1'|'assistant'|'done'|'opus'|'anthropic'|NULL|'stop'|0",
            "'r1'|'a1b2c3d4'|'toolResult'|NULL|NULL|NULL|NULL|NULL|1",
        ],
        "an answer without a model has the model in effect"
    );
    assert_eq!(home.all("SELECT id, model, provider FROM model_changes"), ["2|'opus'|'anthropic'"]);
    assert_eq!(home.all("SELECT id, level FROM thinking_levels"), ["3|'high'"]);
    assert_eq!(
        home.all("SELECT entry_id FROM entries WHERE form = 'message' ORDER BY id LIMIT 2"),
        ["'0b6e6fb5-8d4f-4f38-9a7c-2f3a1f6f6f01'", "'a1b2c3d4'"]
    );
}

#[test]
fn r122_the_index_is_a_view_under_the_names_of_the_spec() {
    let index = r#"{"agent:main:telegram:dm:7":{"sessionId":"s1","updatedAt":1770201000000,"sessionStartedAt":1770200000000,"channel":"telegram","chatType":"direct","inputTokens":11,"outputTokens":12,"totalTokens":23,"contextTokens":99,"compactionCount":2,"lastTo":"telegram:7"}}"#;
    let home = collected(&[
        (".openclaw/agents/main/sessions/s1.jsonl", &text(&[HEADER])),
        (".openclaw/agents/main/sessions/sessions.json", index),
    ]);
    assert_eq!(
        home.all(
            "SELECT session_key, session_id, agent_id, updated_at, created_at, channel, chat_type,
                    input_tokens, output_tokens, total_tokens, context_tokens, compaction_count,
                    last_to FROM session_index"
        ),
        [
            "'agent:main:telegram:dm:7'|'s1'|'main'|1770201000000|1770200000000|'telegram'|'direct'|11|12|23|99|2|'telegram:7'"
        ]
    );
    let paths = home.all("SELECT path FROM files WHERE format = 'openclaw' ORDER BY path");
    assert!(paths.iter().any(|path| path.contains("sessions/s1.jsonl")), "{paths:?}");
}

#[test]
fn r122_references_lead_to_rows() {
    let home = openclaw(&[HEADER]);
    let tables =
        "SELECT DISTINCT r.\"table\" FROM sqlite_schema t, pragma_foreign_key_list(t.name) r
                   WHERE t.name IN ('entry_rows', 'tool_call_rows', 'usage_rows') ORDER BY 1";
    assert_eq!(
        home.all(tables),
        ["'entry_rows'", "'kinds'", "'models'", "'sessions'", "'tools'", "'turns'"]
    );
}
