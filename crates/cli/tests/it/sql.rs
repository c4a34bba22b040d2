//! `quipu sql`.

use std::io::{Read, Write};
use std::process::Stdio;

use crate::home::{Home, Run, snapshot};

fn home() -> Home {
    let home = Home::empty();
    home.write(
        ".openclaw/agents/main/sessions/s1.jsonl",
        "{\"role\":\"user\",\"content\":\"=1+1, \\\"tea\\\"\\tand \\u001b[2J\"}\n{\"role\":\"user\",\"content\":\"two\\nlines\"}\n",
    );
    home.run("sync -q");
    home
}

fn ask(home: &Home, options: &str, statement: &str) -> Run {
    let arguments = ["sql"].into_iter().chain(options.split_whitespace()).chain([statement]);
    home.finish(home.command(arguments))
}

const TEXTS: &str = "SELECT id, text, x'0aff' AS bytes, NULL AS missing FROM messages";

#[test]
fn rows_are_printed_in_every_format() {
    let home = home();
    snapshot!(ask(&home, "", TEXTS), @r#"
    exit 0
    --- stdout
    id	text	bytes	missing
    1	=1+1, "tea"\tand \u{1b}[2J	0aff	
    2	two\nlines	0aff
    "#);
    snapshot!(ask(&home, "--csv", TEXTS), @r#"
    exit 0
    --- stdout
    id,text,bytes,missing
    1,"'=1+1, ""tea""\tand \u{1b}[2J",0aff,
    2,two\nlines,0aff,
    "#);
    snapshot!(ask(&home, "--json", TEXTS), @r#"
    exit 0
    --- stdout
    {"id":1,"text":"=1+1, \"tea\"\tand \u001b[2J","bytes":"0aff","missing":null,"fresh_as_of":"[TIME]","pending_bytes":0}
    {"id":2,"text":"two\nlines","bytes":"0aff","missing":null,"fresh_as_of":"[TIME]","pending_bytes":0}
    "#);
    snapshot!(ask(&home, "--json", "SELECT 1 AS a, 2 AS a, 3 AS a"), @r#"
    exit 0
    --- stdout
    {"a":1,"a_2":2,"a_3":3,"fresh_as_of":"[TIME]","pending_bytes":0}
    "#);
    // A column with the name of such a field replaces it.
    snapshot!(ask(&home, "--json", "SELECT 'x' AS fresh_as_of, 7 AS pending_bytes"), @r#"
    exit 0
    --- stdout
    {"fresh_as_of":"x","pending_bytes":7}
    "#);
    snapshot!(ask(&home, "--csv", "SELECT '' AS a"), @r#"
    exit 0
    --- stdout
    a
    ""
    "#);
    snapshot!(ask(&home, "", "SELECT 1 WHERE 0"), @"
    exit 0
    --- stdout
    1
    ");
}

#[test]
fn a_failed_query_is_an_error_with_a_reason() {
    let home = home();
    snapshot!(ask(&home, "", "DELETE FROM sessions"), @"
    exit 2
    --- stderr
    error: the query is not read-only
    ");
    snapshot!(ask(&home, "", "SELECT * FROM nowhere"), @"
    exit 2
    --- stderr
    error: no such table: nowhere
    hint: docs/schema.md describes the tables; `SELECT name, sql FROM sqlite_schema` lists them
    ");
    for endless in [
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
        "SELECT instr(printf('%.*c', 4000000, 'a'), printf('%.*c', 2000000, 'a') || 'b')",
    ] {
        let run = ask(&home, "--timeout 0", endless);
        assert_eq!(
            (run.code, run.stderr.as_str()),
            (2, "error: the query reached its time limit\n"),
            "{run}"
        );
    }
}

#[test]
fn a_statement_is_read_from_standard_input() {
    let home = home();
    let mut child =
        home.command(["sql", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 6 * 7 AS answer\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"answer\n42\n");
}

/// SQLite cannot be interrupted inside a function; the process ends anyway.
#[test]
fn ctrl_c_ends_a_query_inside_a_function() {
    let home = home();
    // The first row is too long for a batch and for the pipe, and is printed while the second one,
    // which never comes, is computed.
    let statement = "SELECT CASE value WHEN 1 THEN printf('%.*c', 300000, 'x')
                     ELSE instr(printf('%.*c', 4000000 + value, 'a'),
                                printf('%.*c', 2000000, 'a') || 'b') END
                     FROM json_each('[1, 2]')";
    let mut child = home
        .command(["sql", statement])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut row = vec![0; 300_000];
    child.stdout.as_mut().unwrap().read_exact(&mut row).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // The function itself would run far too long to wait for it.
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!((ended.status.code(), said.as_str()), (Some(130), "error: interrupted\n"));
    assert_eq!(home.run("doctor --deep").code, 0);
}

/// A closed pipe ends the query without an error message.
#[test]
fn a_closed_pipe_ends_the_query() {
    let home = home();
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c";
    let mut child = home
        .command(["sql", endless])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()));
}
