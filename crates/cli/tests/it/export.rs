//! `quipu export`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use quipu_transcript::redact::{RULES, Rule};
use serde_json::{Value, json};

use crate::home::{Home, files, snapshot};

fn synced() -> Home {
    let home = Home::full();
    home.run("sync");
    home
}

#[test]
fn one_session_is_printed_as_markdown() {
    let home = synced();
    snapshot!(home.run("export 00000001"), @"
    exit 0
    --- stdout
    # Two decimals

    - Project: shop
    - Folder: /home/alice/shop
    - Branch: main
    - Agent: Claude Code
    - Models: claude-sonnet-4-5
    - Began: [MINUTE] UTC
    - Last activity: [MINUTE] UTC
    - Turns: 1
    - Tool calls: 2
    - Tokens: 423
    - Session: 00000001-0000-4000-8000-000000000001

    ## Turn 1 · [MINUTE] UTC

    > Show prices with two decimals.

    Let me look at the formatter and its test.

    - `Read` `/home/alice/shop/src/price.ts`
    - `Bash` `npm test -- price` — *failed*

    Prices now read `4.50`.
    ");
    // With --full it has everything.
    let full = home.run("export 00000001 --full").stdout;
    assert!(full.contains("<details>") && full.contains("```json"), "{full}");
}

#[test]
fn jsonl_is_the_agents_file_byte_for_byte() {
    let home = synced();
    let folder = home.path(".claude/projects/-home-alice-shop");
    let mut seen = 0;
    for (path, bytes) in files(&folder) {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let is_session = stem.starts_with("0000") && path.extension() == Some("jsonl".as_ref());
        if path.components().count() > 1 || !is_session {
            continue;
        }
        seen += 1;
        let output = home.command(["export", stem, "--format", "jsonl"]).output().unwrap();
        assert!(output.status.success());
        assert!(output.stdout == bytes, "{stem} differs");
    }
    assert!(seen > 4);
    // The same for all sessions: each of a session's files is in the export, byte for byte.
    let run = home.run("export --all --format jsonl --to out --json").json();
    let written: BTreeSet<Vec<u8>> =
        files(&home.path("out")).into_iter().map(|(_, bytes)| bytes).collect();
    let count = |kind: &str| run[kind].as_u64().unwrap();
    assert_eq!(count("sessions") + count("subagents"), all_sessions(&home).len() as u64);
    assert!(count("subagents") > 0, "they are counted apart: {run}");
    for agent in ["main", "oc71", "pi87"] {
        for (path, bytes) in files(&home.path(format!(".openclaw/agents/{agent}/sessions"))) {
            if path.extension() == Some("jsonl".as_ref()) && !bytes.is_empty() {
                assert!(written.contains(&bytes), "{agent}: {} is missing", path.display());
            }
        }
    }
}

fn all_sessions(home: &Home) -> Vec<Value> {
    home.run("sessions --all --json").json_lines()
}

#[test]
fn json_has_every_entry() {
    let home = synced();
    for id in ["00000001", "00000003", "00000004"] {
        let document: Value =
            serde_json::from_str(&home.run(&format!("export {id} --format json")).stdout).unwrap();
        let mut shown = home.run(&format!("show {id} --full --json")).json_lines();
        // An export has once what a list repeats in every object.
        for entry in shown.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("fresh_as_of");
            entry.remove("pending_bytes");
        }
        assert_eq!(document["entries"].as_array().unwrap(), &shown);
        assert!(document["session"]["session_id"].as_str().unwrap().starts_with(id));
        assert_eq!(document["redacted"], false);
        // --json prints the same.
        let same: Value =
            serde_json::from_str(&home.run(&format!("export {id} --json")).stdout).unwrap();
        assert_eq!(same, document);
    }
}

#[test]
fn csv_has_one_row_per_session() {
    let home = synced();
    let run = home.run("export --all --format csv");
    let mut reader = csv::Reader::from_reader(run.stdout.as_bytes());
    let names = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let sessions = all_sessions(&home);
    assert_eq!(rows.len(), sessions.len());
    for (row, session) in rows.iter().zip(&sessions) {
        for (name, cell) in names.iter().zip(row) {
            let cell = cell.strip_prefix('\'').unwrap_or(cell);
            match &session[name] {
                Value::String(text) => assert_eq!(cell, text.replace('\n', "\\n"), "{name}"),
                Value::Number(number) if number.is_f64() => {
                    assert_eq!(cell.parse().ok(), number.as_f64(), "{name}")
                }
                Value::Number(number) if !name.ends_with("_at") => {
                    assert_eq!(cell, number.to_string())
                }
                Value::Null => assert_eq!(cell, "", "{name}"),
                _ => {}
            }
        }
    }
}

#[test]
fn several_sessions_are_files_in_a_folder() {
    let home = synced();
    let report = home.run("export --all --format html --to out --json").json();
    let sessions = all_sessions(&home).len();
    let written = files(&home.path("out"));
    assert_eq!(written.len(), sessions + 1);
    assert_eq!(report["written"].as_array().unwrap().len(), sessions + 1);
    for (path, bytes) in &written {
        let path = home.path("out").join(path);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{name}");
        assert!(bytes.starts_with(b"<!doctype html>") && bytes.ends_with(b"</html>\n"));
    }
    // The index links every file.
    let list = fs::read_to_string(home.path("out/index.html")).unwrap();
    for (path, _) in written.iter().filter(|(path, _)| path != Path::new("index.html")) {
        assert!(list.contains(&format!("href=\"{}\"", path.display())), "{}", path.display());
    }
    // Nothing is overwritten without --force.
    snapshot!(home.run("export --project gone --format md --to gone"), @"
    exit 0
    --- stdout
    1 sub-agent written to ~/gone: 2 files (527 B)
    ");
    snapshot!(home.run("export --project gone --format md --to gone"), @"
    exit 2
    --- stderr
    error: [HOME]/gone/2026-03-02-00000009-0000-4000-8000-000000000009-agent-bead.md exists, and 1 more
    hint: use --force to overwrite, or name another place with --to
    ");
    fs::write(home.path("gone/index.md"), "mine").unwrap();
    assert_eq!(home.run("export --project gone --format md --to gone --force").code, 0);
    assert!(
        fs::read_to_string(home.path("gone/index.md")).unwrap().starts_with("# Sessions of gone")
    );
}

#[test]
fn one_session_is_a_file() {
    let home = synced();
    snapshot!(home.run("export 00000001 --to report.html"), @"
    exit 0
    --- stdout
    1 session written to ~/report.html: 1 file (10.8 kB)
    ");
    let html = fs::read_to_string(home.path("report.html")).unwrap();
    assert!(html.contains("default-src 'none'"));
    snapshot!(home.run("export 00000001 --to folder/ --format json"), @"
    exit 0
    --- stdout
    1 session written to ~/folder/2026-03-02-00000001-0000-4000-8000-000000000001.json: 1 file (6.66 kB)
    ");
    assert_eq!(files(&home.path("folder")).len(), 1);
}

#[test]
fn a_single_file_in_a_folder_is_named() {
    let home = synced();
    let run = home.run("export 00000001 --format html -o pages/");
    let written = run.stdout.split(" written to ").nth(1).unwrap();
    let path = written.split(": 1 file").next().unwrap().replace('~', "");
    assert!(home.path(path.trim_start_matches('/')).is_file(), "{run}");
}

#[test]
fn a_name_without_a_slash_at_its_end_is_a_file_whatever_its_ending() {
    let home = synced();
    let markdown = home.run("export 00000001").stdout;
    for name in ["x.txt", "y.MD", "z"] {
        assert_eq!(home.run(&format!("export 00000001 --to {name}")).code, 0);
        assert_eq!(fs::read_to_string(home.path(name)).unwrap(), markdown, "{name}");
    }
    assert_eq!(home.run("export 00000001 --to page.HTM").code, 0);
    let page = fs::read_to_string(home.path("page.HTM")).unwrap();
    assert!(page.starts_with("<!"), "the ending names the format: {page}");
    assert_eq!(home.run("export 00000001 --to -").stdout, markdown);
    assert!(!home.path("-").exists());
    // An existing folder is used as one.
    fs::create_dir(home.path("here")).unwrap();
    assert_eq!(home.run("export 00000001 --to here").code, 0);
    assert_eq!(files(&home.path("here")).len(), 1);
}

#[test]
fn what_cannot_be_exported_is_an_error_with_a_hint() {
    let home = synced();
    snapshot!(home.run("export"), @"
    exit 2
    --- stderr
    error: no sessions chosen
    hint: name a session, a project with --project, or everything with --all
    ");
    snapshot!(home.run("export nobody"), @"
    exit 1
    --- stderr
    error: no session matches `nobody`
    hint: use an id or the beginning of one, a session key, or `last`; `quipu sessions --all` lists all sessions
    ");
    snapshot!(home.run("export --all"), @"
    exit 2
    --- stderr
    error: 50 sessions need a folder to write to
    hint: name a folder with --to, or use `--format csv` for one table of all sessions
    ");
    snapshot!(home.run("export --project workspace --to x"), @"
    exit 1
    --- stderr
    error: `workspace` matches several projects
    hint: give more of the name, or the path; these match:
          /home/demo/openclaw/st71b/workspace
          /Users/tyler/workspace
    ");
    snapshot!(home.run("export --all --since 2099-01-01 --to x"), @"
    exit 1
    --- stderr
    error: no sessions match these filters
    hint: `quipu sessions --all` lists all sessions
    ");
    snapshot!(home.run("export 00000001 --format md --json"), @r#"
    exit 2
    --- stderr
    {"error":"failed","message":"--json reports files that were written, and needs --to","hint":"name a folder with --to, or use `--format json` for the session itself"}
    "#);
    home.write("file", "");
    snapshot!(home.run("export --all --to file"), @"
    exit 2
    --- stderr
    error: cannot create the folder [HOME]/file
      caused by: file exists (os error 17)
    hint: name another place with --to
    ");
}

/// Writes a session with a secret in every possible place, even where texts are cut.
fn leak(home: &Home, number: usize, rule: &Rule) -> String {
    let (text, secret) = rule.sample();
    let id = format!("{number:08}-0000-4000-8000-000000000000");
    let entry = |uuid: usize, parent: Option<usize>, role: &str, content: Value| {
        json!({
            "type": role, "uuid": format!("{id}-{uuid}"),
            "parentUuid": parent.map(|parent| format!("{id}-{parent}")),
            "sessionId": id, "timestamp": format!("2026-03-02T09:00:{uuid:02}Z"),
            "cwd": format!("/home/alice/{}", text.replace('\n', " ")),
            "gitBranch": text, "version": "2.0.0", "isSidechain": false, "userType": "external",
            "message": { "role": role, "model": "m", "id": format!("msg{uuid}"), "content": content },
        })
    };
    let far = "x ".repeat(95 - rule.sample.0.len() / 2);
    let call = json!([
        { "type": "text", "text": format!("I found {text} there.") },
        { "type": "thinking", "thinking": text, "signature": "" },
        { "type": "tool_use", "id": "t1", "name": "Bash",
          "input": { "command": format!("{}{text}", "y ".repeat(45)), &text: [text] } },
    ]);
    let result = json!([{ "type": "tool_result", "tool_use_id": "t1", "content": text }]);
    let lines = [
        entry(1, None, "user", json!(format!("{far}{text}"))),
        entry(2, Some(1), "assistant", call),
        entry(3, Some(2), "user", result),
        // Nothing but the secret.
        entry(4, Some(3), "user", json!(format!("alone: {secret}"))),
    ];
    let mut file: String = lines.iter().map(|line| format!("{line}\n")).collect();
    // Also in an unfinished line.
    let torn = entry(5, Some(4), "user", json!(text)).to_string();
    file.push_str(&torn[..torn.len() - 3]);
    file.push('\n');
    home.write(format!(".claude/projects/-home-alice-{number}/{id}.jsonl"), file);
    secret
}

#[test]
fn no_secret_is_left_in_any_kind() {
    let home = Home::empty();
    let secrets: Vec<String> =
        RULES.iter().enumerate().map(|(number, rule)| leak(&home, number, rule)).collect();
    home.run("sync");
    for kind in ["md", "html", "json", "jsonl", "csv"] {
        let full = if ["csv", "jsonl"].contains(&kind) { "" } else { "--full" };
        let run =
            home.run(&format!("export --all --redact --format {kind} --to {kind} {full} --json"));
        let report = run.json();
        for rule in RULES {
            let met = report["masked_secrets"][rule.name].as_u64();
            assert!(met.is_some(), "{kind}: {} was not met", rule.name);
        }
        let mut written = String::new();
        for (path, bytes) in files(&home.path(kind)) {
            let text = String::from_utf8(bytes).unwrap();
            if kind == "jsonl" {
                let whole = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok());
                assert_eq!((whole.count(), text.lines().count()), (4, 5), "{text}");
            }
            written.push_str(&format!("{}\n{text}\n", path.display()));
        }
        // The name of a kind may look like the beginning of a secret.
        for rule in RULES {
            written = written.replace(&format!("[redacted:{}", rule.name), "▮");
        }
        for (rule, secret) in RULES.iter().zip(&secrets) {
            let letters: Vec<char> = secret.chars().collect();
            for part in letters.windows(letters.len().min(10)) {
                let part: String = part.iter().collect();
                let at = written.find(&part);
                let around = at.map(|at| {
                    let start =
                        (0..=at.saturating_sub(60)).rev().find(|at| written.is_char_boundary(*at));
                    written[start.unwrap_or(0)..].chars().take(160).collect::<String>()
                });
                assert_eq!(around, None, "{kind}: {part:?} of {} is left", rule.name);
            }
        }
    }
}

#[test]
fn the_same_secret_has_the_same_number_everywhere() {
    let home = Home::empty();
    let rule = RULES.iter().find(|rule| rule.name == "password").unwrap();
    leak(&home, 1, rule);
    home.run("sync");
    let run = home.run("export 00000001 --redact --tools full");
    assert!(
        run.stdout.contains("alone: \\[redacted:password:1\\]")
            || run.stdout.contains("alone: [redacted:password:1]"),
        "{run}"
    );
    assert!(!run.stdout.contains("password:2"), "{run}");
    snapshot!(run.stderr, @"1 secret masked: 1 password");
}

#[test]
fn ids_never_become_paths() {
    let home = Home::empty();
    let header = |id: &str| json!({ "type": "session", "version": 3, "id": id, "timestamp": "2026-02-04T10:30:00.000Z", "cwd": "/" });
    let message = r#"{"type":"message","id":"a","parentId":null,"timestamp":"2026-02-04T10:30:00.000Z","message":{"role":"user","content":"hello"}}"#;
    for name in ["..", "-rf ~", "a\nb", "a\u{202e}b", "$(touch x)", "index"] {
        let path = format!(".openclaw/agents/main/sessions/{name}x.jsonl");
        home.write(path, format!("{}\n{message}\n", header("../../../evil")));
    }
    home.run("sync");
    let run = home.run("export --all --format html --to deep/out");
    assert_eq!(run.code, 0, "{run}");
    let written = files(&home.path("deep"));
    // A file whose name begins with a dot is not a session.
    assert_eq!(written.len(), 6);
    for (path, _) in written {
        let name = path.strip_prefix("out").unwrap().to_str().unwrap();
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{name}");
    }
}

/// Links planted in the target folder of an export.
#[test]
fn no_format_writes_through_a_link() {
    let home = synced();
    let outside = home.path("outside");
    home.write("outside/theirs", "theirs");
    let link = std::os::unix::fs::symlink;
    for format in ["md", "html", "json", "jsonl", "csv", "openclaw", "claude-code"] {
        let plain = format!("export --all --format {format} --to {format}-plain");
        assert_eq!(home.run(&plain).code, 0, "{format}");
        let hostile = home.path(format!("{format}-hostile"));
        fs::create_dir(&hostile).unwrap();
        // Every file that it writes, and every folder on the way.
        let mut names = BTreeSet::new();
        for (path, _) in files(&home.path(format!("{format}-plain"))) {
            names.extend(
                path.ancestors().filter(|name| name.parent().is_some()).map(Path::to_owned),
            );
        }
        for name in names {
            let planted = hostile.join(&name);
            fs::create_dir_all(planted.parent().unwrap()).unwrap();
            let is_folder = home.path(format!("{format}-plain")).join(&name).is_dir();
            link(if is_folder { outside.clone() } else { outside.join("theirs") }, planted.clone())
                .unwrap();
            for force in ["", "--force"] {
                let line = format!("export --all --format {format} --to {format}-hostile {force}");
                let run = home.run(&line);
                // An existing file of Claude Code is not changed.
                let is_fine = format == "claude-code" && !is_folder;
                assert!(run.code == 2 || is_fine, "{line}: {}: {run}", name.display());
                let found = files(&outside);
                assert_eq!(
                    found,
                    [("theirs".into(), b"theirs".to_vec())],
                    "{line}: {}",
                    name.display()
                );
            }
            fs::remove_dir_all(&hostile).unwrap();
            fs::create_dir(&hostile).unwrap();
        }
    }
}

/// Text of a transcript cannot act on the program that reads the table.
#[test]
fn csv_has_no_control_characters() {
    let home = Home::empty();
    home.write(
        ".openclaw/agents/main/sessions/s1.jsonl",
        "{\"role\":\"user\",\"content\":\"one\\ntwo\\u001b[2J\\u0000\\u009b\\u202e,\\r=1\"}\n",
    );
    home.run("sync");
    for line in [
        "export --all --format csv",
        "sql --csv SELECT*FROM(sessions)",
        "sql --csv SELECT*FROM(messages)",
    ] {
        let run = home.run(line);
        assert_eq!(run.code, 0, "{run}");
        assert!(run.stdout.contains("two\\u{1b}[2J") || line.contains("sessions"), "{run}");
        for row in run.stdout.split_terminator("\r\n") {
            let odd = |character: char| character.is_control() || character == '\u{202e}';
            assert!(!row.contains(odd), "{line}: {row:?}");
        }
    }
}

/// The JSON of an entry has every field of its record about the answer, custom state and changes.
#[test]
fn json_has_everything_that_is_known_of_an_entry() {
    let home = Home::empty();
    home.write(
        ".openclaw/agents/main/sessions/s1.jsonl",
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-02-04T10:30:00.000Z","cwd":"/p"}
{"type":"model_change","id":"m1","parentId":null,"provider":"anthropic","modelId":"opus"}
{"type":"thinking_level_change","id":"t1","parentId":"m1","thinkingLevel":"high"}
{"type":"message","id":"u1","parentId":"t1","message":{"role":"user","content":"ask"}}
{"type":"message","id":"a1","parentId":"u1","message":{"role":"assistant","content":"done","provider":"anthropic","api":"anthropic-messages","model":"opus","stopReason":"stop","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cost":{"total":0.5}}}}
{"type":"custom","id":"c1","parentId":"a1","customType":"todo","data":{"left":2}}
{"type":"message","id":"a2","parentId":"c1","message":{"role":"assistant","content":"step","responseId":"r","usage":{"input":10,"output":2}}}
{"type":"message","id":"a3","parentId":"a2","message":{"role":"assistant","content":"end","responseId":"r","usage":{"input":10,"output":20}}}
{"type":"label","id":"l1","parentId":"a3","targetId":"u1","label":"start"}
{"type":"reset","id":"r1","parentId":"l1","reason":"new"}
"#,
    );
    home.run("sync -q");
    let run = home.run("export s1 --format json");
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let entry = |id: &str| {
        let entries = document["entries"].as_array().unwrap();
        entries.iter().find(|entry| entry["entry_id"] == id).unwrap().clone()
    };
    let answer = entry("a1");
    assert_eq!(answer["provider"], "anthropic");
    assert_eq!(answer["api"], "anthropic-messages");
    assert_eq!(answer["stop_reason"], "stop");
    let usage = serde_json::json!(
        {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4, "cost_usd": 0.5}
    );
    assert_eq!(answer["usage"], usage);
    assert_eq!(entry("m1")["model"], "opus");
    assert_eq!(entry("m1")["provider"], "anthropic");
    assert_eq!(entry("t1")["thinking_level"], "high");
    assert_eq!(entry("c1")["custom"], serde_json::json!({"type": "todo", "data": {"left": 2}}));
    assert_eq!(entry("l1")["label"], serde_json::json!({"entry_id": "u1", "label": "start"}));
    assert_eq!(entry("r1")["reason"], "new");
    // One line of each response has what counts, which is the response's last usage.
    assert_eq!(answer["counted"], usage);
    assert_eq!(entry("a2")["counted"]["output_tokens"], 20);
    assert_eq!(entry("a3")["counted"], serde_json::Value::Null);
    // An answer without a model has the one in effect.
    assert_eq!(
        (&entry("a2")["model"], &entry("a2")["provider"]),
        (&"opus".into(), &"anthropic".into())
    );
}
