//! Tests the decoding of OpenClaw's and pi's transcripts, one line per entry.
//!
//! Fixtures are laid out as a state root. `oc71`, `pi73` and `pi87` were written by those releases'
//! session managers, `main` by a real gateway, `pi` by a real run; `spec` is invented and
//! follows the documents.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be read fails the test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use quipu_transcript::entry::{Block, Entry, Kind, Parent, Role, SessionFact};
use quipu_transcript::format::{Archive, Claim, Format, Framing, Node, Part};
use quipu_transcript::formats::openclaw::OpenClaw;
use quipu_transcript::problem::{Problem, ProblemKind};
use quipu_transcript::record;

#[test]
fn r10_to_r19_every_fixture() {
    for path in fixtures() {
        let relative = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let origin = OpenClaw.origin(relative.as_bytes());
        let Claim::Collect(part) = OpenClaw.claim(relative.as_bytes(), Node::File) else {
            continue;
        };
        let mut bytes = std::fs::read(&path).unwrap();
        if OpenClaw.is_compressed(relative.as_bytes()) {
            bytes = zstd::decode_all(&bytes[..]).unwrap();
        }
        let mut story = format!("{origin:?}\n");
        let records: Vec<&[u8]> = match part.framing() {
            Framing::Document => vec![&bytes],
            Framing::Lines => bytes.split_inclusive(|byte| *byte == b'\n').collect(),
            // The ledger reads it whole, not record by record.
            Framing::Index | Framing::Rows => continue,
        };
        for line in records {
            let problems = record::read(&OpenClaw, &origin, line, &mut |entry| {
                story.push_str(&compact(entry))
            });
            if !problems.is_empty() {
                writeln!(story, "! {}", described(&problems)).unwrap();
            }
        }
        let name = format!("{}__{}", origin.agent.as_deref().unwrap_or("cron"), origin.name)
            .replace(['%', '/'], "_");
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, story) });
    }
}

#[test]
fn r4_archives_read_like_transcripts_and_are_marked() {
    let of = |name: &str| OpenClaw.origin(format!("agents/main/sessions/{name}").as_bytes());
    let live = of("a.jsonl");
    assert_eq!((live.part, live.archive), (Part::Transcript, None));
    let reset = of("a.jsonl.reset.2026-02-04T10-30-00.000Z");
    assert_eq!((reset.session, reset.archive), (live.session, Some(Archive::Reset)));
    assert_eq!(Archive::Deleted.as_str(), "deleted");
}

#[test]
fn r5_a_transcript_needs_no_index() {
    // The claim depends on the name only: `sessions.json` is not consulted.
    assert!(
        fixtures().iter().any(|path| path.to_str().unwrap().contains("/oc71/sessions/01-simple_"))
    );
    assert!(!root().join("agents/oc71/sessions/sessions.json").exists());
}

#[test]
fn r10_header_version_as_number_or_string() {
    for (written, expected) in [("3", "3"), ("9", "9"), (r#""0.50.1""#, "0.50.1"), ("999", "999")] {
        let line = format!(r#"{{"type":"session","version":{written},"id":"s","cwd":"/a"}}"#);
        check(&line, |entry| {
            assert!(matches!(entry.kind, Kind::Header));
            assert!(entry.facts.contains(&SessionFact::HeaderVersion(expected.into())));
            assert_eq!(has(&entry.problems, ProblemKind::NewerVersion), expected == "999");
        });
    }
}

#[test]
fn r12_a_missing_parent_is_not_a_null_parent() {
    check(r#"{"type":"message","id":"a","message":{"role":"user","content":"x"}}"#, |entry| {
        assert_eq!(entry.parent, Parent::Implicit);
    });
    check(r#"{"type":"message","parentId":null,"message":{"role":"user"}}"#, |entry| {
        assert_eq!((entry.parent.clone(), entry.id.clone()), (Parent::Root, None));
    });
    check(r#"{"type":"message","parentId":"p","message":{"role":"user"}}"#, |entry| {
        assert_eq!(entry.parent, Parent::Id("p".into()));
    });
}

#[test]
fn r12_time_of_the_entry_then_of_the_message() {
    let time = |line: &str| {
        let mut time = None;
        check(line, |entry| time = entry.time.map(|time| time.0));
        time
    };
    let message = r#""message":{"role":"user","content":"x","timestamp":1706976000001}"#;
    assert_eq!(
        time(&format!(r#"{{"type":"message","timestamp":1706976000000,{message}}}"#)),
        Some(1_706_976_000_000)
    );
    assert_eq!(time(&format!(r#"{{"type":"message",{message}}}"#)), Some(1_706_976_000_001));
    assert_eq!(
        time(&format!(r#"{{"type":"message","timestamp":"soon",{message}}}"#)),
        Some(1_706_976_000_001)
    );
}

#[test]
fn r13_tool_results_inside_user_messages_are_no_prompt() {
    let result = r#"{"type":"tool_result","tool_use_id":"t","content":"22"}"#;
    check(&format!(r#"{{"role":"user","content":[{result}]}}"#), |entry| {
        assert_eq!((entry.role, entry.marks.is_prompt), (Some(Role::Tool), false));
    });
    let text = r#"{"type":"text","text":"go on"}"#;
    check(&format!(r#"{{"role":"user","content":[{result},{text}]}}"#), |entry| {
        assert_eq!((entry.role, entry.marks.is_prompt), (Some(Role::User), true));
    });
}

#[test]
fn r15_a_response_is_named_by_its_response_id_only() {
    let usage = r#""usage":{"inputTokens":5,"outputTokens":2}"#;
    check(&format!(r#"{{"role":"assistant","id":"x","responseId":"msg_1",{usage}}}"#), |entry| {
        assert_eq!(entry.response.as_ref().map(|response| response.id.as_ref()), Some("msg_1"));
        assert_eq!(entry.usage.map(|usage| usage.total()), Some(7));
    });
    check(&format!(r#"{{"role":"assistant","id":"x",{usage}}}"#), |entry| {
        assert!(entry.response.is_none())
    });
}

#[test]
fn r16_mirrors_have_no_usage() {
    for (model, provider, is_mirror) in [
        ("delivery-mirror", "openclaw", true),
        ("gateway-injected", "openai-responses", true),
        ("delivery-mirror", "anthropic", false),
        ("gpt-5", "openai-responses", false),
    ] {
        let line = format!(
            r#"{{"type":"message","message":{{"role":"assistant","model":"{model}","provider":"{provider}",
               "content":"sent","usage":{{"input":1,"output":1}},"responseId":"r","stopReason":"stop"}}}}"#
        );
        check(&line, |entry| {
            assert_eq!(entry.marks.is_mirror, is_mirror, "{model} {provider}");
            assert_eq!(entry.usage.is_none(), is_mirror);
            assert_eq!(entry.model.is_none(), is_mirror);
            assert_eq!(entry.response.is_none(), is_mirror);
            assert_eq!(entry.text(), "sent");
        });
    }
}

#[test]
fn r17_file_lists_stay_in_the_summary() {
    let line = r#"{"type":"compaction","summary":"S\n<read-files>\n- a\n</read-files>","details":{"modifiedFiles":["b"]}}"#;
    check(line, |entry| {
        let Kind::Compaction(compaction) = &entry.kind else { panic!("{:?}", entry.kind) };
        assert_eq!(compaction.summary, "S\n<read-files>\n- a\n</read-files>");
        assert_eq!(
            (&*compaction.read_files, &*compaction.modified_files),
            (&["a".to_owned()][..], &["b".to_owned()][..])
        );
    });
}

#[test]
fn r19_a_call_that_arrived_whole_is_not_partial() {
    let call = r#"{"type":"toolCall","id":"c","name":"exec","arguments":{"a":1},"partialArgs":"{\"a\":1}"}"#;
    for (stop, is_partial) in [("toolUse", false), ("aborted", true), ("error", true)] {
        let line = format!(r#"{{"role":"assistant","content":[{call}],"stopReason":"{stop}"}}"#);
        check(&line, |entry| {
            let Some(Block::ToolCall(call)) = entry.blocks.first() else { panic!("no call") };
            assert_eq!(call.is_partial, is_partial, "{stop}");
        });
    }
}

/// Decodes one line that must hold exactly one entry.
#[track_caller]
fn check(line: &str, look: impl FnOnce(&Entry<'_>)) {
    let origin = OpenClaw.origin(b"agents/main/sessions/s.jsonl");
    let mut look = Some(look);
    let problems = record::read(&OpenClaw, &origin, line.as_bytes(), &mut |entry| {
        look.take().expect("one entry")(entry);
    });
    assert_eq!(problems, []);
    assert!(look.is_none(), "no entry");
}

fn has(problems: &[Problem], kind: ProblemKind) -> bool {
    problems.iter().any(|problem| problem.kind == kind)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/openclaw")
}

fn fixtures() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

fn described(problems: &[Problem]) -> String {
    let all: Vec<_> =
        problems.iter().map(|problem| format!("{}({})", problem.kind, problem.detail)).collect();
    all.join(" ")
}

/// Returns one line with all fields that are not empty.
fn compact(entry: &Entry<'_>) -> String {
    let mut line = format!("{}", entry.type_name);
    let kind = format!("{:?}", entry.kind);
    write!(line, " {}", kind.replace("Borrowed(RawValue(", "(").replace("))", ")")).unwrap();
    write!(line, " {}", entry.id.as_deref().unwrap_or("-")).unwrap();
    match &entry.parent {
        Parent::Implicit => {}
        Parent::Root => line.push_str("<-root"),
        Parent::Id(id) => write!(line, "<-{id}").unwrap(),
        Parent::After(id) => write!(line, "<~{id}").unwrap(),
    }
    match entry.time {
        Some(time) => write!(line, " @{}", time.0).unwrap(),
        None => line.push_str(" @-"),
    }
    if let Some(role) = entry.role {
        write!(line, " {}", role.as_str()).unwrap();
    }
    let marks = &entry.marks;
    for (mark, name) in [
        (marks.is_prompt, "prompt"),
        (marks.is_meta, "meta"),
        (marks.is_mirror, "mirror"),
        (marks.is_error, "error"),
        (marks.is_side, "side"),
        (marks.is_compact_summary, "compact"),
    ] {
        if mark {
            write!(line, " +{name}").unwrap();
        }
    }
    for block in &entry.blocks {
        match block {
            Block::Text(text) => write!(line, " text:{text:?}"),
            Block::Thinking(text) => write!(line, " thinking:{text:?}"),
            Block::ToolCall(call) => write!(
                line,
                " call:{}:{}({}){}",
                call.id.as_deref().unwrap_or("-"),
                call.name,
                call.input.as_ref().map_or("", |input| input.get()),
                if call.is_partial { "~" } else { "" }
            ),
            Block::ToolResult(result) => write!(
                line,
                " result:{}:{}:{:?}{}{}",
                result.call_id.as_deref().unwrap_or("-"),
                result.name.as_deref().unwrap_or("-"),
                result.text,
                if result.is_error { " failed" } else { "" },
                if result.images > 0 {
                    format!(" +{} images", result.images)
                } else {
                    String::new()
                }
            ),
            Block::Attached { label, text } => write!(line, " attached {label}:{text:?}"),
            Block::Image { media_type } => {
                write!(line, " image:{}", media_type.as_deref().unwrap_or("-"))
            }
            Block::Other(name) => write!(line, " other:{name}"),
        }
        .unwrap();
    }
    for (name, value) in
        [("model", &entry.model), ("provider", &entry.provider), ("api", &entry.api)]
    {
        if let Some(value) = value {
            write!(line, " {name}={value}").unwrap();
        }
    }
    if let Some(stop) = entry.stop {
        write!(line, " stop={stop:?}").unwrap();
    }
    if let Some(usage) = entry.usage {
        write!(
            line,
            " usage={}/{}/{}/{}{}",
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.cost_usd.map_or(String::new(), |cost| format!("/${cost:.6}"))
        )
        .unwrap();
    }
    if let Some(response) = &entry.response {
        write!(line, " response={}", response.id).unwrap();
    }
    for fact in &entry.facts {
        write!(line, " says:{fact:?}").unwrap();
    }
    if !entry.problems.is_empty() {
        write!(line, " ! {}", described(&entry.problems)).unwrap();
    }
    line.push('\n');
    line
}
