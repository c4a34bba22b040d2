//! `GET /v1/events` of a server that collects: what agents and other processes write.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::home::Home;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

fn path() -> String {
    format!(".claude/projects/-work/{SESSION}.jsonl")
}

fn line(role: &str, number: u8) -> String {
    format!(
        r#"{{"type":"{role}","uuid":"abcdef{number:02}-1111-4111-8111-111111111111","sessionId":"{SESSION}","timestamp":"2026-02-04T10:30:{number:02}.000Z","message":{{"role":"{role}","content":"walrus"}}}}"#
    ) + "\n"
}

/// Starts a server that collects. Returns it with its address and a token.
fn serve(home: &Home) -> (Child, String, String) {
    let token = home.run("token new reader").stdout.trim().to_owned();
    let mut command = home.command(["serve", "--json", "--addr", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut started = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut started).unwrap();
    let started: Value = serde_json::from_str(&started).unwrap();
    (child, started["address"].as_str().unwrap().to_owned(), token)
}

/// A stream of server-sent events.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(address: &str, token: &str, options: &str) -> Events {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "GET /v1/events{options} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        .unwrap();
        Events(BufReader::new(stream))
    }

    #[track_caller]
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
            let Some(json) = line.strip_prefix("data: ") else { continue };
            let event: Value = serde_json::from_str(json).unwrap();
            if is_it(&event) {
                return event;
            }
        }
    }
}

#[test]
fn what_agents_and_other_processes_write_is_told() {
    let home = Home::empty();
    home.write(path(), line("user", 1));
    home.run("sync -q");
    let (mut child, address, token) = serve(&home);
    let mut events = Events::open(&address, &token, "");
    events.until(|event| event["type"] == "hello");
    // A line that Claude Code writes.
    let mut file = OpenOptions::new().append(true).open(home.path(path())).unwrap();
    file.write_all(line("assistant", 2).as_bytes()).unwrap();
    let frame = events.until(|event| event["session_id"] == SESSION);
    assert_eq!(frame["changes"][0]["role"], "assistant");
    // Another process appends.
    home.run("session new --id example");
    home.feed(&["session", "append", "example"], "{\"role\":\"user\",\"content\":\"hello\"}\n");
    let is_message = |event: &Value| event["changes"][0]["kind"] == "message";
    let appended = events.until(|event| event["session_id"] == "example" && is_message(event));
    // The same from the start, and of one session.
    let mut again = Events::open(&address, &token, "?after=start&session=example");
    assert_eq!(again.until(is_message), appended);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(events.until(|event| event["type"] == "end")["reason"], "shutdown");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
