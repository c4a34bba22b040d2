//! Tests what the Claude Code format decodes from the fixtures, and its requirements, one test
//! each. The fixtures are laid out as a home folder: see `fixtures/claude-code/README.md`.

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use quipu_transcript::entry::{
    Block, Entry, Kind, Parent, Role, SessionFact, Stop, TitleRank, Usage,
};
use quipu_transcript::format::{Claim, Format, Node, Origin, Part};
use quipu_transcript::formats::claude_code::ClaudeCode;
use quipu_transcript::problem::{Problem, ProblemKind};
use quipu_transcript::record;

const SHOP: &str = "projects/-home-alice-shop";
const MAIN: &str = "projects/-home-alice-shop/00000001-0000-4000-8000-000000000001.jsonl";

#[test]
fn everyday_session() {
    insta::assert_snapshot!(summary(MAIN));
}

#[test]
fn compacted_session() {
    insta::assert_snapshot!(summary(&session(2)));
}

#[test]
fn envelopes_and_queued_prompts() {
    insta::assert_snapshot!(summary(&session(3)));
}

#[test]
fn session_with_subagents() {
    insta::assert_snapshot!(summary(&session(4)));
}

#[test]
fn resumed_copy() {
    insta::assert_snapshot!(summary(&session(5)));
}

#[test]
fn odd_lines() {
    insta::assert_snapshot!(summary(&session(6)));
}

#[test]
fn files_beside_a_transcript() {
    let beside = format!("{SHOP}/00000004-0000-4000-8000-000000000004/subagents");
    let paths = [
        format!("{beside}/agent-a1b2c3d.jsonl"),
        format!("{beside}/agent-a1b2c3d.meta.json"),
        format!("{beside}/workflows/run-1/agent-w1.jsonl"),
        format!("{beside}/workflows/run-1/agent-w1.meta.json"),
        format!("{SHOP}/00000006-0000-4000-8000-000000000006/tool-results/toolu_061.txt"),
        format!("{SHOP}/agent-0ld1234.jsonl"),
        "projects/-home-alice-gone/00000009-0000-4000-8000-000000000009/subagents/agent-bead.jsonl"
            .to_owned(),
        "history.jsonl".to_owned(),
    ];
    let mut all = String::new();
    for path in paths {
        writeln!(all, "## {path}\n{}", summary(&path)).expect("strings can be written to");
    }
    insta::assert_snapshot!(all);
}

/// R30: which files of a home are collected, and as what.
#[test]
fn claims_over_a_whole_home() {
    let mut claims = Vec::new();
    walk(&fixtures(), "", &mut claims);
    claims.sort();
    insta::assert_snapshot!(claims.join("\n"));
}

/// R13: tool results are in user lines.
#[test]
fn tool_results_inside_user_messages() {
    let line = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}"#;
    check(line, |entry| {
        assert_eq!(entry.role, Some(Role::Tool));
        assert!(!entry.marks.is_prompt);
        assert!(matches!(&entry.blocks[..], [Block::ToolResult(result)] if result.text == "ok"));
    });
}

/// R14: every known block type; unknown ones keep their name.
#[test]
fn blocks_of_every_known_type() {
    let line = r#"{"type":"assistant","message":{"role":"assistant","content":[
        {"type":"text","text":"a"},{"type":"output_text","text":"b"},"c",
        {"type":"thinking","thinking":"d","signature":"s"},{"type":"thinking","text":"e"},
        {"type":"toolCall","id":"1","name":"n","arguments":{"k":1}},
        {"type":"toolUse","toolUseId":"2","name":"n","input":[]},
        {"type":"tool_use","id":"3","name":"n","input":{"command":"ls"},"partialJson":"{"},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="}},
        {"type":"image","source":{"type":"url","url":"https://example.com/x.png"}},
        {"type":"image","data":"eA==","mimeType":"image/webp"},
        {"type":"sculpture"}]}}"#;
    check(line, |entry| {
        let blocks: Vec<String> = entry.blocks.iter().map(block).collect();
        insta::assert_snapshot!(blocks.join("\n"), @r#"
        text "a"
        text "b"
        text "c"
        thinking "d"
        thinking "e"
        call n 1 {"k":1}
        call n 2 []
        call n 3 {"command":"ls"} partial
        image image/png
        image ?
        image image/webp
        other sculpture
        "#);
    });
}

/// R19: results name the call that they answer, and its outcome.
#[test]
fn results_carry_the_id_of_their_call() {
    let line = r#"{"type":"user","message":{"role":"user","content":[
        {"type":"tool_result","tool_use_id":"t1","toolName":"Bash","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}],"is_error":true},
        {"type":"tool_result","tool_use_id":"","content":[]},
        {"type":"tool_result","tool_use_id":"t3"}]}}"#;
    check(line, |entry| {
        let blocks: Vec<String> = entry.blocks.iter().map(block).collect();
        insta::assert_snapshot!(blocks.join("\n"), @r#"
        result t1 Bash error images=1 "a\nb"
        result ? ""
        result t3 ""
        "#);
    });
}

/// R30: a sub-agent is a session of its own, linked to the one it works for.
#[test]
fn subagents_are_linked_to_their_parent() {
    let path = format!("{SHOP}/00000004-0000-4000-8000-000000000004/subagents/agent-a1b2c3d.jsonl");
    let origin = ClaudeCode.origin(path.as_bytes());
    assert_eq!(origin.part, Part::Subagent);
    assert_eq!(origin.parent.as_deref(), Some("00000004-0000-4000-8000-000000000004"));
    assert_eq!(
        origin.session.as_deref(),
        Some("00000004-0000-4000-8000-000000000004/agent-a1b2c3d")
    );
    let mut spawned = Vec::new();
    each_entry(&session(4), |entry| {
        spawned.extend(entry.facts.iter().filter_map(|fact| match fact {
            SessionFact::Spawned { call, agent_id } => Some(format!("{call} {agent_id}")),
            _ => None,
        }));
    });
    assert_eq!(spawned, ["toolu_041 a1b2c3d", "toolu_041 a1b2c3d", "toolu_043 a9f"]);
}

/// R30: a standalone agent is listed, under a name that is unique across projects.
#[test]
fn standalone_agents_name_their_parent() {
    let path = format!("{SHOP}/agent-0ld1234.jsonl");
    assert_eq!(ClaudeCode.origin(path.as_bytes()).part, Part::Agent);
    each_entry(&path, |entry| {
        assert!(
            entry.facts.contains(&SessionFact::ParentSession(
                "00000001-0000-4000-8000-000000000001".into()
            ))
        );
        assert!(!entry.marks.is_sidechain);
    });
}

/// R31: two slugs that decode to the same path stay two projects.
#[test]
fn slugs_are_matched_never_decoded() {
    for slug in ["-home-alice-dev-shop", "-home-alice-dev--shop", "C--Users-alice"] {
        let path = format!("projects/{slug}/00000001-0000-4000-8000-000000000001.jsonl");
        assert_eq!(ClaudeCode.origin(path.as_bytes()).project.as_deref(), Some(slug));
    }
}

/// R32: types that are not part of the conversation are known and are not messages.
#[test]
fn bookkeeping_types_are_notes() {
    for name in [
        "system",
        "progress",
        "file-history-snapshot",
        "summary",
        "attachment",
        "pr-link",
        "worktree-state",
        "bridge-session",
        "content-replacement",
        "cost-state",
    ] {
        check(&format!(r#"{{"type":"{name}"}}"#), |entry| {
            assert!(matches!(entry.kind, Kind::Note), "{name}: {:?}", entry.kind);
            assert!(entry.problems.is_empty());
        });
    }
}

/// R32: any other type is kept as unknown, with its place in the chain.
#[test]
fn unknown_types_are_kept() {
    check(
        r#"{"type":"crystal-ball","uuid":"b","parentUuid":"a","timestamp":"2026-03-02T09:00:00Z"}"#,
        |entry| {
            assert!(matches!(entry.kind, Kind::Unknown));
            assert_eq!(entry.type_name, "crystal-ball");
            assert_eq!(entry.id.as_deref(), Some("b"));
            assert_eq!(entry.parent, Parent::Id("a".into()));
            assert!(entry.time.is_some());
            assert!(entry.problems.is_empty());
        },
    );
}

/// R33: the top-level fields, on all types that have them.
#[test]
fn top_level_fields_are_read() {
    let line = r#"{"parentUuid":"a","isSidechain":true,"cwd":"/home/alice","sessionId":"other","version":"2.1.32","gitBranch":"main","type":"assistant","message":{"role":"assistant","id":"msg_1","model":"claude-opus-4-6","content":[],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_1h_input_tokens":4},"speed":"fast"}},"requestId":"req_1","slug":"x","uuid":"b","timestamp":"2026-01-12T10:30:00.000Z"}"#;
    check(line, |entry| {
        assert_eq!(entry.id.as_deref(), Some("b"));
        assert_eq!(entry.parent, Parent::Id("a".into()));
        assert_eq!(entry.time.map(|time| time.0), Some(1_768_213_800_000));
        assert_eq!(
            entry.facts,
            [
                SessionFact::SessionId("other".into()),
                SessionFact::Cwd("/home/alice".into()),
                SessionFact::ClientVersion("2.1.32".into()),
                SessionFact::GitBranch("main".into()),
            ]
        );
        assert!(entry.marks.is_sidechain);
        assert_eq!(entry.model.as_deref(), Some("claude-opus-4-6"));
        assert_eq!(entry.stop, Some(Stop::ToolUse));
        let response = entry.response.as_ref().expect("it has an id");
        assert_eq!((&*response.id, response.request.as_deref()), ("msg_1", Some("req_1")));
        assert_eq!(
            entry.usage,
            Some(Usage {
                input: 1,
                output: 2,
                cache_read: 3,
                cache_write: 9,
                cache_write_1h: 4,
                cost_usd: None,
                is_fast: true
            })
        );
    });
}

/// R33: a parent that is null, absent, or only logical.
#[test]
fn a_parent_is_given_implicit_or_logical() {
    check(r#"{"type":"user","parentUuid":null}"#, |entry| assert_eq!(entry.parent, Parent::Root));
    check(r#"{"type":"user"}"#, |entry| assert_eq!(entry.parent, Parent::Implicit));
    check(r#"{"type":"system","parentUuid":null,"logicalParentUuid":"z"}"#, |entry| {
        assert_eq!(entry.parent, Parent::After("z".into()));
    });
}

/// R33: no field of the vendor stops the line from being decoded.
#[test]
fn wrong_value_types_are_problems_not_errors() {
    let line = r#"{"type":"user","uuid":7,"timestamp":"soon","cwd":[1],"isMeta":"no","toolUseResult":[{"agentId":3}],"message":{"role":1,"content":[{"type":"text","text":"kept"},5,null,[]]}}"#;
    check(line, |entry| {
        assert_eq!(entry.text(), "kept");
        insta::assert_snapshot!(problems(&entry.problems), @"bad_field uuid; bad_time timestamp; bad_field cwd; bad_field isMeta; bad_field role; bad_field content[]");
    });
    let line = r#"{"type":"user","cwd":"/a","cwd":null,"cwd":"/b","message":{"content":"x"}}"#;
    check(line, |entry| {
        assert_eq!(entry.facts, [SessionFact::Cwd("/b".into())]);
        assert_eq!(problems(&entry.problems), "duplicate_key cwd");
    });
}

/// R34: user content as string, list, object or null.
#[test]
fn user_content_as_string_or_list() {
    for content in [
        r#""hi""#,
        r#"[{"type":"text","text":"hi"}]"#,
        r#"["hi"]"#,
        r#"{"type":"text","text":"hi"}"#,
    ] {
        let line = format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}}}"#);
        check(&line, |entry| {
            assert_eq!(entry.text(), "hi", "{content}");
            assert_eq!(entry.role, Some(Role::User));
            assert!(entry.marks.is_prompt);
        });
    }
    for content in ["null", "[]", r#""""#, r#"" \n""#] {
        let line = format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}}}"#);
        check(&line, |entry| {
            assert!(!entry.marks.is_prompt, "{content}");
            assert!(entry.problems.is_empty());
        });
    }
}

/// R34: `is_error` absent means no.
#[test]
fn errors_are_what_the_record_calls_errors() {
    for (field, expected) in [
        ("", false),
        (r#","is_error":false"#, false),
        (r#","is_error":null"#, false),
        (r#","is_error":true"#, true),
    ] {
        let line = format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":"Error: failed"{field}}}]}}}}"#
        );
        check(&line, |entry| {
            assert!(
                matches!(&entry.blocks[..], [Block::ToolResult(result)] if result.is_error == expected)
            );
        });
    }
}

/// A picture pasted without a word begins a turn; its bytes stay in the record.
#[test]
fn a_picture_alone_is_a_prompt() {
    let line = r#"{"type":"user","message":{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="}}]}}"#;
    check(line, |entry| {
        assert!(entry.marks.is_prompt);
        assert!(
            matches!(&entry.blocks[..], [Block::Image { media_type: Some(name) }] if name == "image/png")
        );
    });
}

/// Streamed lines of one answer share the response, whose usage counts once.
#[test]
fn streamed_lines_share_a_response() {
    let mut responses = Vec::new();
    each_entry(MAIN, |entry| {
        if let (Some(response), Some(usage)) = (&entry.response, &entry.usage) {
            responses.push(format!("{} {}", response.id, usage.output));
        }
    });
    assert_eq!(
        responses,
        ["msg_011 3", "msg_011 3", "msg_011 3", "msg_011 87", "msg_012 1", "msg_012 22"]
    );
}

/// Errors and fillers that Claude Code writes itself have no usage and no model.
#[test]
fn synthetic_messages_have_no_usage() {
    let line = |extra: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"m","model":"<synthetic>","content":[{{"type":"text","text":"x"}}],"usage":{{"input_tokens":0}}}}{extra}}}"#
        )
    };
    check(&line(r#","isApiErrorMessage":true"#), |entry| {
        assert!(entry.usage.is_none() && entry.model.is_none() && entry.response.is_none());
        assert!(entry.marks.is_error && !entry.marks.is_meta);
    });
    check(&line(""), |entry| {
        assert!(entry.usage.is_none() && entry.model.is_none());
        assert!(!entry.marks.is_error && entry.marks.is_meta);
    });
}

#[test]
fn stop_reasons_in_normal_form() {
    for (reason, expected) in [
        (r#""end_turn""#, Some(Stop::Done)),
        (r#""stop_sequence""#, Some(Stop::Done)),
        (r#""max_tokens""#, Some(Stop::Done)),
        (r#""refusal""#, Some(Stop::Done)),
        (r#""tool_use""#, Some(Stop::ToolUse)),
        (r#""brand_new""#, Some(Stop::Other)),
        ("null", None),
    ] {
        let line =
            format!(r#"{{"type":"assistant","message":{{"content":[],"stop_reason":{reason}}}}}"#);
        check(&line, |entry| assert_eq!(entry.stop, expected, "{reason}"));
    }
}

/// Titles by rank; `/rename` equals the line that Claude Code writes for it.
#[test]
fn titles_have_ranks() {
    for (line, expected) in [
        (r#"{"type":"last-prompt","lastPrompt":"t"}"#, TitleRank::LastPrompt),
        (r#"{"type":"ai-title","aiTitle":"t"}"#, TitleRank::Ai),
        (r#"{"type":"custom-title","customTitle":"t"}"#, TitleRank::Custom),
        (
            r#"{"type":"user","message":{"content":"<command-name>/rename</command-name><command-args>t</command-args>"}}"#,
            TitleRank::Custom,
        ),
    ] {
        check(line, |entry| assert_eq!(entry.facts, [SessionFact::Title(expected, "t".into())]));
    }
    check(r#"{"type":"summary","summary":"t","leafUuid":"x"}"#, |entry| {
        assert_eq!(
            entry.facts,
            [SessionFact::Summary { title: "t".into(), leaf: Some("x".into()) }]
        );
    });
}

#[test]
fn arrays_and_scalars_are_left_to_recovery() {
    let origin = ClaudeCode.origin(MAIN.as_bytes());
    for json in [
        "[]",
        r#"[{"type":"user"}]"#,
        "null",
        "7",
        r#""x""#,
        "",
        "{",
        r#"{}{}"#,
        r#"{"type":"user""#,
    ] {
        assert!(ClaudeCode.decode(&origin, json.as_bytes()).is_err(), "{json}");
    }
}

/// Deeply nested input and long runs of odd values end in bounded time and memory.
#[test]
fn hostile_lines_are_survived() {
    let deep = format!(
        r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"t","name":"n","input":{}1{}}}]}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    check(&deep, |entry| assert!(matches!(&entry.blocks[..], [Block::ToolCall(_)])));
    let odd = format!(r#"{{"type":"user","message":{{"content":[{}1]}}}}"#, "[],".repeat(100_000));
    check(&odd, |entry| assert_eq!(problems(&entry.problems), "bad_field content[]"));
}

#[test]
fn a_damaged_description_is_a_document_with_a_problem() {
    let origin = ClaudeCode.origin(b"projects/-a/b/subagents/agent-c.meta.json");
    let entry = ClaudeCode.decode_document(&origin, b"{\"agentType\":");
    assert!(matches!(entry.kind, Kind::Document));
    assert_eq!(entry.problems[0].kind, ProblemKind::Opaque);
}

#[test]
fn tool_output_is_text_whatever_its_bytes() {
    let origin = ClaudeCode.origin(b"projects/-a/b/tool-results/c");
    let entry = ClaudeCode.decode_document(&origin, b"caf\xe9");
    assert!(
        matches!(&entry.blocks[..], [Block::ToolResult(result)] if result.text == "caf\u{fffd}")
    );
    assert_eq!(entry.problems[0].kind, ProblemKind::InvalidUtf8);
    let entry = ClaudeCode.decode_document(&origin, b"\x89PNG\0\0");
    assert!(matches!(&entry.blocks[..], [Block::Other(name)] if name == "binary"));
}

proptest! {
    #[test]
    fn decode_never_panics_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        decode_everywhere(&bytes);
    }

    /// Real lines with a few bytes changed, cut or doubled: closer to what crashes leave behind.
    #[test]
    fn decode_never_panics_on_mutated_lines(
        line in proptest::sample::select(fixture_lines()),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6),
    ) {
        let mut bytes = line;
        for (at, byte, how) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                _ => bytes.insert(at, byte),
            }
        }
        decode_everywhere(&bytes);
    }

    #[test]
    fn paths_of_any_bytes_are_answered(path in proptest::collection::vec(any::<u8>(), 0..60)) {
        ClaudeCode.claim(&path, Node::File);
        ClaudeCode.claim(&path, Node::Directory);
        ClaudeCode.origin(&path);
    }
}

fn decode_everywhere(bytes: &[u8]) {
    for path in [
        MAIN,
        "history.jsonl",
        "projects/-a/agent-b.jsonl",
        "projects/-a/b/subagents/agent-c.meta.json",
        "projects/-a/b/tool-results/c",
    ] {
        let origin = ClaudeCode.origin(path.as_bytes());
        let _ = ClaudeCode.decode(&origin, bytes).map(|entry| summary_of(&entry));
        summary_of(&ClaudeCode.decode_document(&origin, bytes));
    }
}

/// Decodes a line of a session and passes the entry on. The only call of the decoder on literals.
#[track_caller]
fn check(line: &str, look: impl FnOnce(&Entry<'_>)) {
    let origin = ClaudeCode.origin(MAIN.as_bytes());
    look(&ClaudeCode.decode(&origin, line.as_bytes()).expect("it is an object"));
}

fn session(number: u32) -> String {
    format!("{SHOP}/{number:08}-0000-4000-8000-{number:012}.jsonl")
}

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude-code")
}

fn fixture(path: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(path)).expect("the fixture is there")
}

fn fixture_lines() -> Vec<Vec<u8>> {
    (1..=6)
        .flat_map(|number| {
            fixture(&session(number))
                .split(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn walk(directory: &Path, relative: &str, claims: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).expect("it is a folder") {
        let entry = entry.expect("it can be listed");
        let name = entry.file_name().into_string().expect("fixture names are UTF-8");
        let path = if relative.is_empty() { name } else { format!("{relative}/{name}") };
        if entry.path().is_dir() {
            match ClaudeCode.claim(path.as_bytes(), Node::Directory) {
                Claim::Enter => walk(&entry.path(), &path, claims),
                other => claims.push(format!("{path}/ {other:?}")),
            }
        } else {
            claims.push(format!("{path} {:?}", ClaudeCode.claim(path.as_bytes(), Node::File)));
        }
    }
}

#[test]
fn text_of_a_sub_agent_is_no_separate_record() {
    let read = |line: String| {
        let origin = ClaudeCode.origin(b"projects/-p/00000001-0000-4000-8000-000000000000.jsonl");
        let mut ids = Vec::new();
        record::read(&ClaudeCode, &origin, line.as_bytes(), &mut |entry| {
            ids.extend(entry.id.as_deref().map(str::to_owned));
        });
        ids
    };
    let torn = r#"{"type":"progress","uuid":"p","parentUuid":"a","data":{"message":"#;
    let user_line = r#"{"type":"user","message":{"role":"user","content":"x"},"uuid":"n","timestamp":"2026-01-12T10:30:00.000Z"}"#;
    assert_eq!(read(format!("{torn}{user_line}")), [""; 0], "torn behind the nested message");
    assert_eq!(read(format!("{torn}{user_line}}}}}")), ["p"], "not torn");
    // Another record after a torn one names its parent.
    let other = user_line.replace(r#""uuid""#, r#""parentUuid":"a","uuid""#);
    assert_eq!(read(format!("{torn}{other}")), ["n"]);
}

fn each_entry(path: &str, mut look: impl FnMut(&Entry<'_>)) {
    let origin = ClaudeCode.origin(path.as_bytes());
    for record in records(&origin, &fixture(path)) {
        record::read(&ClaudeCode, &origin, record, &mut look);
    }
}

fn records<'b>(origin: &Origin, bytes: &'b [u8]) -> Vec<&'b [u8]> {
    match origin.part.framing() {
        quipu_transcript::format::Framing::Lines => {
            bytes.split_inclusive(|byte| *byte == b'\n').collect()
        }
        _ => vec![bytes],
    }
}

/// Returns one line per entry of a fixture, and one per record that was odd as a whole.
fn summary(path: &str) -> String {
    let origin = ClaudeCode.origin(path.as_bytes());
    let mut all = String::new();
    for record in records(&origin, &fixture(path)) {
        let found = record::read(&ClaudeCode, &origin, record, &mut |entry| {
            all.push_str(&summary_of(entry));
            all.push('\n');
        });
        if !found.is_empty() {
            writeln!(all, "record: {}", problems(&found)).expect("strings can be written to");
        }
    }
    all
}

fn summary_of(entry: &Entry<'_>) -> String {
    let mut words = vec![match &entry.kind {
        Kind::Compaction(compaction) => format!(
            "{}=Compaction({} {:?}->{:?})",
            entry.type_name,
            compaction.trigger.as_deref().unwrap_or("?"),
            compaction.tokens_before,
            compaction.tokens_after
        ),
        kind => format!("{}={kind:?}", entry.type_name),
    }];
    words.extend(entry.id.as_deref().map(|id| format!("id={id}")));
    match &entry.parent {
        Parent::Implicit => {}
        Parent::Root => words.push("root".to_owned()),
        Parent::Id(id) => words.push(format!("<{id}")),
        Parent::After(id) => words.push(format!("after={id}")),
    }
    words.extend(entry.role.map(|role| role.as_str().to_owned()));
    let marks = entry.marks;
    for (is_set, name) in [
        (marks.is_prompt, "PROMPT"),
        (marks.is_meta, "meta"),
        (marks.is_sidechain, "sidechain"),
        (marks.is_compact_summary, "compact-summary"),
        (marks.is_error, "error"),
        (marks.is_side, "side"),
        (marks.is_interrupt, "interrupt"),
        (marks.is_queued, "queued"),
    ] {
        words.extend(is_set.then(|| name.to_owned()));
    }
    words.extend(entry.model.as_deref().map(|model| format!("model={model}")));
    words.extend(entry.stop.map(|stop| format!("stop={stop:?}")));
    words.extend(entry.usage.map(|usage| {
        format!(
            "usage={}+{}+{}+{}({}h){}",
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.cache_write_1h,
            if usage.is_fast { " fast" } else { "" }
        )
    }));
    words.extend(entry.response.as_ref().map(|response| {
        format!("response={}/{}", response.id, response.request.as_deref().unwrap_or("?"))
    }));
    words.extend(entry.blocks.iter().map(|piece| format!("[{}]", block(piece))));
    for fact in &entry.facts {
        match fact {
            // These are on every line and would hide the rest.
            SessionFact::Cwd(_) | SessionFact::ClientVersion(_) | SessionFact::GitBranch(_)
                if !matches!(entry.kind, Kind::Prompt) => {}
            fact => words.push(format!("{fact:?}")),
        }
    }
    words.extend((!entry.problems.is_empty()).then(|| format!("! {}", problems(&entry.problems))));
    words.join(" ")
}

fn block(block: &Block<'_>) -> String {
    match block {
        Block::Text(text) => format!("text {text:?}"),
        Block::Thinking(text) => format!("thinking {text:?}"),
        Block::ToolCall(call) => format!(
            "call {} {} {}{}",
            call.name,
            call.id.as_deref().unwrap_or("?"),
            call.input.as_ref().map_or("", |input| input.get()),
            if call.is_partial { " partial" } else { "" }
        ),
        Block::ToolResult(result) => {
            let mut words = vec![format!("result {}", result.call_id.as_deref().unwrap_or("?"))];
            words.extend(result.name.as_deref().map(str::to_owned));
            words.extend(result.is_error.then(|| "error".to_owned()));
            words.extend((result.images > 0).then(|| format!("images={}", result.images)));
            words.extend(result.output_file.as_deref().map(|name| format!("file={name}")));
            words.push(format!("{:?}", result.text));
            words.join(" ")
        }
        Block::Attached { label, text } => format!("attached {label} {text:?}"),
        Block::Image { media_type } => format!("image {}", media_type.as_deref().unwrap_or("?")),
        Block::Other(name) => format!("other {name}"),
    }
}

fn problems(problems: &[Problem]) -> String {
    let words: Vec<String> =
        problems.iter().map(|problem| format!("{} {}", problem.kind, problem.detail)).collect();
    words.join("; ")
}
