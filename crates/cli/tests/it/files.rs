//! `quipu export --format openclaw|claude-code`, and `quipu import`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::home::{Home, snapshot};

const ID: &str = "01a1e05d-0000-4000-8000-000000000001";

/// Creates a home with a native session that was reset.
fn own() -> Home {
    let home = Home::empty();
    home.run(&format!("session new --id {ID} --key agent:main:main"));
    for said in ["before", "and before"] {
        let line = json!({"role": "user", "content": said}).to_string();
        home.feed(&["session", "append", ID], &line);
    }
    home.run(&format!("session reset {ID}"));
    let line = json!({"role": "user", "content": "after"}).to_string();
    home.feed(&["session", "append", ID], &line);
    home
}

/// Returns the path of a file in a report.
fn absolute(home: &Home, path: &Value) -> PathBuf {
    home.path(path.as_str().unwrap().trim_start_matches("[HOME]/"))
}

#[test]
fn r100_an_agents_folder_is_written_whole_and_for_its_owner() {
    let home = own();
    let run = home.run("export --all --format openclaw --to state --json");
    let report = run.json();
    assert_eq!(report["sessions"], 1);
    assert_eq!(report["format"], "openclaw");
    let files = report["written"].as_array().unwrap();
    assert_eq!(files.len(), 3, "{report}");
    for file in files {
        let path = absolute(&home, &file["path"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&path).unwrap().len(), file["bytes"].as_u64().unwrap());
    }
    let folder = home.path("state/agents/main/sessions");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names[0], format!("{ID}.jsonl"));
    assert!(names[1].starts_with(&format!("{ID}.jsonl.reset.2")) && !names[1].contains(':'));
    assert_eq!(names[2], "sessions.json");
    let index = fs::read_to_string(folder.join("sessions.json")).unwrap();
    assert!(index.starts_with("{\n  \"agent:main:main\": {\n    \""), "{index}");
    let index: Value = serde_json::from_str(&index).unwrap();
    assert_eq!(index["agent:main:main"]["sessionId"], ID);
    assert!(index["agent:main:main"]["updatedAt"].as_i64().unwrap() > 1_700_000_000_000);

    // Nothing is overwritten without --force; keys of other sessions stay.
    let again = home.run("export --all --format openclaw --to state").to_string();
    assert!(again.starts_with("exit 2") && again.contains("exists, and 2 more"), "{again}");
    let other = json!({"agent:main:x": {"sessionId": "x", "updatedAt": 1}});
    fs::write(folder.join("sessions.json"), other.to_string()).unwrap();
    let forced = home.run("export --all --format openclaw --to state --force").to_string();
    assert!(forced.starts_with("exit 0"), "{forced}");
    let index: Value =
        serde_json::from_slice(&fs::read(folder.join("sessions.json")).unwrap()).unwrap();
    assert_eq!(index.as_object().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_exported_is_named() {
    let home = Home::small();
    home.run("sync");
    let left = home.run("export --all --format openclaw --to out").to_string();
    assert!(left.contains("left out: written by another agent"), "{left}");
    let none = home.run("export 00000001 --format openclaw --to out2").to_string();
    assert!(none.starts_with("exit 1") && none.contains("nothing to write"), "{none}");
    for (arguments, why) in [
        ("export --all --format openclaw", "needs a folder"),
        ("export --all --format openclaw --to x --redact", "--redact cannot be used"),
        ("export --all --format claude-code --to x --force", "--force cannot be used"),
    ] {
        let run = home.run(arguments).to_string();
        assert!(run.starts_with("exit 2") && run.contains(why), "{run}");
    }
}

#[test]
fn files_of_claude_code_are_written_byte_for_byte() {
    let home = Home::full();
    home.run("sync");
    let run = home.run("export --all --format claude-code --to back --json").json();
    assert!(run["sessions"].as_u64().unwrap() > 1, "{run}");
    let files = run["written"].as_array().unwrap();
    assert!(files.len() > 2);
    for file in files {
        let path = absolute(&home, &file["path"]);
        let name = path.strip_prefix(home.path("back")).unwrap();
        assert!(name.starts_with("projects"), "{name:?}");
        let original = home.path(".claude").join(name);
        assert_eq!(fs::read(&path).unwrap(), fs::read(&original).unwrap(), "{name:?}");
    }
    let again = home.run("export --all --format claude-code --to back --json").json();
    assert_eq!(again["written"], json!([]));
    assert_eq!(again["existing_paths"].as_array().unwrap().len(), files.len());
}

#[test]
fn an_import_lists_every_file() {
    let home = Home::empty();
    let folder = "state/agents/main/sessions";
    let header = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#;
    let line = r#"{"type":"message","id":"1","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"one"}}"#;
    home.write(format!("{folder}/s.jsonl"), format!("{header}\nbad\n{line}\n"));
    home.write(
        format!("{folder}/sessions.json"),
        r#"{"agent:main:main":{"sessionId":"s","updatedAt":1}}"#,
    );
    home.write(format!("{folder}/s.jsonl.lock"), "{}");
    snapshot!(home.run("import state"), @"
    exit 0
    --- stdout
    rows  stored  new  file
       3       3    3  agents/main/sessions/s.jsonl
       1       1    1  agents/main/sessions/sessions.json
    left out  agents/main/sessions/s.jsonl.lock: lock file
    1 session: 3 new lines
    ");
    snapshot!(home.run("import state --json"), @r#"
    exit 0
    --- stdout
    {"path":"agents/main/sessions/s.jsonl","kind":"transcript","agent":"main","session_id":"s","rows":3,"stored":3,"added":0}
    {"path":"agents/main/sessions/sessions.json","kind":"index","agent":"main","rows":1,"stored":1,"added":0}
    {"path":"agents/main/sessions/s.jsonl.lock","kind":"other","agent":"main","rows":0,"stored":0,"added":0,"reason":"lock file"}
    "#);
    home.write(format!("{folder}/s.jsonl"), format!("{header}\nother\n"));
    home.write(format!("{folder}/t.jsonl"), format!("{header}\n{line}\n"));
    snapshot!(home.run("import state/agents"), @"
    exit 2
    --- stdout
    rows  stored  new  file
       2       0    0  main/sessions/s.jsonl: session s already exists with other lines
       2       2    2  main/sessions/t.jsonl
       1       0    0  main/sessions/sessions.json
    left out  main/sessions/s.jsonl.lock: lock file
    1 session: 2 new lines
    --- stderr
    error: 1 file was not imported
    hint: all other files were imported; the list has the reason for each file
    ");
    snapshot!(home.run("import nowhere"), @"
    exit 2
    --- stderr
    error: ~/nowhere is not a folder
    hint: name OpenClaw's state folder, usually ~/.openclaw
    ");
    snapshot!(home.run("import state/agents/main/sessions --json"), @r#"
    exit 2
    --- stdout
    {"path":"s.jsonl","kind":"transcript","agent":"main","session_id":"s","rows":2,"stored":0,"added":0,"reason":"session s already exists with other lines","has_failed":true}
    {"path":"t.jsonl","kind":"transcript","agent":"main","session_id":"t","rows":2,"stored":2,"added":0}
    {"path":"sessions.json","kind":"index","agent":"main","rows":1,"stored":0,"added":0}
    {"path":"s.jsonl.lock","kind":"other","agent":"main","rows":0,"stored":0,"added":0,"reason":"lock file"}
    --- stderr
    {"error":"failed","message":"1 file was not imported","hint":"all other files were imported; the list has the reason for each file"}
    "#);
    snapshot!(home.run("import state --quiet"), @"
    exit 2
    --- stderr
    error: 1 file was not imported
    hint: all other files were imported; without --quiet the reasons are listed
    ");
    let context = home.run("session context agent:main:main --json").json();
    assert_eq!(context["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn an_import_lists_the_reason_for_each_key_left_out() {
    let home = Home::empty();
    let folder = "state/agents/main/sessions";
    home.write(format!("{folder}/e.jsonl"), "");
    home.write(
        format!("{folder}/sessions.json"),
        r#"{"agent:main:main":{"sessionId":"s"},"agent:main:odd":7,"agent:main:lost":{"label":"x"}}"#,
    );
    snapshot!(home.run("import state"), @"
    exit 0
    --- stdout
    rows  stored  new  file
       0       0    0  agents/main/sessions/e.jsonl: it is empty
       3       1    1  agents/main/sessions/sessions.json
    left out  agents/main/sessions/sessions.json: agent:main:odd: an entry that is not an object
    left out  agents/main/sessions/sessions.json: agent:main:lost: it names no session
    0 sessions: nothing new
    ");
}
