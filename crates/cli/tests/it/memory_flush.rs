//! `quipu session flush`, and the memory flush of `compact` and `append --auto-compact`.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::home::Home;

/// Configures a program that answers questions for notes with the text of a file, and summaries with
/// a word.
fn with_program(home: &Home, notes: &str, more: &str) {
    home.write("notes.txt", notes);
    home.write(
        "script.sh",
        "cat > \"$HOME/prompt\"\nif grep -q 'appended to memory/' \"$HOME/prompt\"; then\n\
         cp \"$HOME/prompt\" \"$HOME/question\"; echo x >> \"$HOME/asked\"; cat \"$HOME/notes.txt\"\n\
         else echo summary; fi\n",
    );
    let config = format!(
        "[store.compaction]\nsummariser = 'command'\ncommand = ['sh', '{}']\n{more}\n",
        home.path("script.sh").display()
    );
    home.write(".config/quipu/config.toml", config);
}

fn append(home: &Home, characters: usize) -> serde_json::Value {
    let line = json!({"role": "user", "content": "k".repeat(characters)}).to_string();
    let arguments = ["session", "append", "example", "--auto-compact", "--window", "1000"];
    home.feed(&arguments, &line).json()
}

fn asked(home: &Home) -> usize {
    fs::read_to_string(home.path("asked")).unwrap_or_default().lines().count()
}

/// Returns the only file of notes below a workspace.
fn notes_in(home: &Home, workspace: &str) -> (PathBuf, String) {
    let mut files = fs::read_dir(home.path(workspace).join("memory")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    let text = fs::read_to_string(&file).unwrap();
    (file, text)
}

#[test]
fn r83_an_agent_keeps_notes() {
    let home = Home::empty();
    home.run("session new --id example");
    with_program(&home, "- knots\n", "");
    // The limit is 500 tokens, and notes are asked for from 375 on.
    assert!(append(&home, 1000)["memory_flush"].is_null());
    let flushed = append(&home, 600);
    assert_eq!(flushed["memory_flush"]["outcome"], "stored", "{flushed}");
    assert!(flushed["compaction"].is_null() && flushed["flush_due"].is_null());
    let (file, text) = notes_in(&home, ".local/share/quipu/workspaces/main");
    let day = file.file_stem().unwrap().to_str().unwrap().to_owned();
    let name = format!("/workspaces/main/memory/{day}.md");
    assert!(flushed["memory_flush"]["path"].as_str().unwrap().ends_with(&name), "{flushed}");
    assert_eq!(text, "- knots\n");
    let question = fs::read_to_string(home.path("question")).unwrap();
    assert!(question.contains(&format!("memory/{day}.md; reply NO_REPLY")), "{question}");
    // Once in a cycle: neither the next append nor the compaction asks again.
    assert!(append(&home, 10)["memory_flush"].is_null());
    let compacted = append(&home, 800);
    assert_eq!(compacted["compaction"]["memory_flush"]["outcome"], "done", "{compacted}");
    assert_eq!(asked(&home), 1);
    let meta = home.run("session meta example --json").json();
    assert_eq!(meta["memoryFlushCompactionCount"], 0);
    assert!(meta["memoryFlushAt"].is_i64());
    let dry = home.run("session flush example --dry-run --json").json();
    assert_eq!(dry["was_asked"], false);
    assert!(dry["path"].as_str().unwrap().ends_with(&name), "{dry}");
    let shown = home.run("session flush example --dry-run").stdout;
    assert!(
        shown.contains("summariser  command") && shown.contains("Write any lasting"),
        "{shown}"
    );
    assert_eq!(asked(&home), 1);
    let done = home.run("session flush example").stdout;
    assert!(done.contains("8 bytes of notes in ") && done.contains(&day), "{done}");
    let again = home.run("session flush example --json").json();
    assert_eq!(again, json!({"outcome": "done"}));
    assert_eq!(notes_in(&home, ".local/share/quipu/workspaces/main").1, "- knots\n- knots\n");
}

#[test]
fn r83_the_flush_is_configured() {
    let home = Home::empty();
    home.run("session new --id example");
    home.write("openclaw.json", "{agents: {defaults: {compaction: {memoryFlush: {softThresholdTokens: 100, prompt: 'Any news for YYYY-MM-DD?'}}}}}");
    let named = "[store]\nopenclaw_config = '~/openclaw.json'\nworkspaces = { main = '~/agent' }";
    with_program(&home, "NO_REPLY\n", named);
    // The limit is now 400.
    assert!(append(&home, 1560)["memory_flush"].is_null());
    assert_eq!(append(&home, 80)["memory_flush"], json!({"outcome": "nothing"}));
    let question = fs::read_to_string(home.path("question")).unwrap();
    assert!(question.contains("\nAny news for 2"), "{question}");
    assert!(!home.path("agent").exists());
    let shown = home.run("config show --json").json_lines();
    let key = "store.compaction.memory_flush.soft_threshold_tokens";
    let line = shown.iter().find(|line| line["setting"] == key).unwrap();
    assert_eq!(line["value"], 100);
    assert!(line["from"].as_str().unwrap().ends_with("openclaw.json"), "{line}");
    let dry = home.run("session flush example --dry-run --json").json();
    assert!(dry["path"].as_str().unwrap().contains("/agent/memory/2"), "{dry}");
    // Switched off: only the command of its own asks.
    let off = format!("{named}\n[store.compaction.memory_flush]\nenabled = false");
    with_program(&home, "- on request\n", &off);
    let done = append(&home, 1200);
    assert!(done["compaction"].is_object() && done["compaction"]["memory_flush"].is_null());
    assert_eq!(asked(&home), 1);
    assert_eq!(home.run("session flush example").code, 0);
    assert_eq!(notes_in(&home, "agent").1, "- on request\n");
    for (config, why) in [
        ("[store.compaction.memory_flush]\nprompt = ' '", "leave the line out"),
        ("[store.compaction.memory_flush]\nenabled = 1", "true or false"),
        ("[store.compaction.memory_flush]\nsoft_threshold_tokens = -1", "at least 0"),
        ("[store.compaction]\nmode = 'fast'", "use one of \"default\", \"safeguard\""),
        ("[store.compaction]\nredact = 'no'", "true or false"),
        ("[store]\nworkspaces = ['a']", "a table"),
    ] {
        home.write(".config/quipu/config.toml", config);
        let refused = home.run("session keys");
        assert!(refused.code == 2 && refused.stderr.contains(why), "{config}: {refused}");
    }
}

/// Without a model nothing is asked, and a flush that fails stops no compaction.
#[test]
fn r83_a_flush_that_cannot_be_made() {
    let home = Home::empty();
    home.run("session new --id example");
    let arguments = ["session", "append", "example"];
    let line = json!({"role": "user", "content": "k".repeat(900)}).to_string();
    for _ in 0..4 {
        home.feed(&arguments, &line);
    }
    let skipped = home.run("session flush example");
    let expected = "session example: skipped: the summariser `digest` has no model\n";
    assert_eq!((skipped.code, skipped.stdout.as_str()), (0, expected));
    with_program(&home, "\u{7}\n", "");
    let failed = home.run("session flush example");
    assert_eq!(failed.code, 2, "{failed}");
    assert!(failed.stderr.contains("no notes were stored: the summariser `command` failed: it"));
    let compacted = home.run("session compact example --window 1000 --json");
    assert_eq!(compacted.json()["memory_flush"]["outcome"], "failed");
    assert!(compacted.stderr.contains("warning: no notes were stored"), "{compacted}");
    assert_eq!(home.run("session meta example --json").json()["memoryFlushFailureCount"], 2);
    assert_eq!(home.run("session flush absent").code, 1);
}

/// Notes are stored before a compaction that then fails: they are reported with its error.
#[test]
fn r83_notes_before_a_compaction_that_fails() {
    let home = Home::empty();
    with_program(&home, "- knots\n", "");
    let script = fs::read_to_string(home.path("script.sh")).unwrap();
    home.write("script.sh", script.replace("echo summary", "exit 3"));
    home.run("session new --id example");
    append(&home, 1000);
    let failed = append(&home, 1400);
    assert_eq!(failed["memory_flush"]["outcome"], "stored", "{failed}");
    assert!(failed["compaction"].is_null() && failed["compaction_due"] == true, "{failed}");
    let again = append(&home, 10);
    assert!(again["memory_flush"].is_null() && again["compaction_due"] == true, "{again}");
    home.run("session new --id other");
    let line = json!({"role": "user", "content": "k".repeat(1200)}).to_string();
    for _ in 0..2 {
        home.feed(&["session", "append", "other"], &line);
    }
    let failed = home.run("session compact other --window 1000 --keep 10");
    assert_eq!(failed.code, 2, "{failed}");
    for said in ["no compaction was written", "asked for notes: 8 bytes of notes in "] {
        assert!(failed.stderr.contains(said), "{failed}");
    }
    assert!(!failed.stderr.contains("nothing was written"), "{failed}");
}
