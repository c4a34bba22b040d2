//! Writing over HTTP while servers end, are killed and have no space: what was acknowledged is there,
//! and a retry finds the rest.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::home::Home;
use crate::serve::{Server, json_request};

const ENTRIES: &str = "/v1/sessions/crowd/entries";

/// The number of clients that write at the same time.
const CLIENTS: usize = 4;

fn message(text: &str) -> String {
    json!({"role": "user", "content": text}).to_string()
}

fn start(home: &Home) -> Server<'_> {
    Server::start(home, &["--addr", "127.0.0.1:0", "--no-collect"])
}

/// Appends under a key. `None` if the connection broke off.
fn append(server: (&str, &str), key: &str) -> Option<(u16, Value)> {
    let (address, token) = server;
    let headers = [("Idempotency-Key", key)];
    let request = json_request(token, address, ("POST", ENTRIES), &headers, &message(key));
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.get(9..12)?.parse().ok()?, serde_json::from_str(body).ok()?))
}

/// What one client knows when the server is gone.
struct Client {
    acknowledged: Vec<String>,
    /// The append without an answer.
    unknown: String,
}

/// Appends from several clients until the server ends after `enough` answers.
fn write_until_it_ends(
    server: &mut Server<'_>,
    round: usize,
    enough: usize,
    signal: Signal,
) -> Vec<Client> {
    let (address, token) = (server.address().to_owned(), server.token.clone());
    let answers = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (address, token, answers) = (&address, &token, &answers);
                scope.spawn(move || {
                    let mut acknowledged = Vec::new();
                    for number in 0.. {
                        let key = format!("round {round} client {client} number {number}");
                        match append((address, token), &key) {
                            Some((200, _)) => acknowledged.push(key),
                            _ => return Client { acknowledged, unknown: key },
                        }
                        answers.fetch_add(1, Ordering::SeqCst);
                    }
                    unreachable!("the numbers end");
                })
            })
            .collect();
        while answers.load(Ordering::SeqCst) < enough {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (code, errors) = server.end(signal);
        assert!(
            signal == Signal::KILL || (code == Some(0) && errors.is_empty()),
            "{code:?} {errors}"
        );
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

/// Returns how often each text is in the session.
fn stored(home: &Home) -> BTreeMap<String, usize> {
    let seen = home.run("session context crowd --json").json();
    let mut texts = BTreeMap::new();
    for message in seen["messages"].as_array().unwrap() {
        *texts.entry(message["content"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    texts
}

#[test]
fn a_server_that_ends_keeps_what_it_acknowledged() {
    let home = Home::small();
    home.run("session new --id crowd");
    let mut server = start(&home);
    let clients = write_until_it_ends(&mut server, 0, 40, Signal::TERM);
    let stored = stored(&home);
    for client in &clients {
        for key in &client.acknowledged {
            assert_eq!(stored.get(key), Some(&1), "{key}");
        }
        assert!(stored.get(&client.unknown).is_none_or(|times| *times == 1));
    }
    let found = home.run("doctor --json").json();
    assert_eq!(found["is_ok"], true, "{found}");
}

#[test]
fn a_killed_server_keeps_what_it_acknowledged_and_a_retry_finds_the_rest() {
    let home = Home::small();
    home.run("session new --id crowd");
    let mut all = Vec::new();
    let mut repeated = 0;
    for round in 0..4 {
        let mut server = start(&home);
        let clients = write_until_it_ends(&mut server, round, 10 + 7 * round, Signal::KILL);
        let again = start(&home);
        for client in clients {
            all.extend(client.acknowledged);
            let retry = append((again.address(), &again.token), &client.unknown);
            let (status, answer) = retry.unwrap();
            assert_eq!(status, 200, "{answer}");
            repeated += usize::from(answer["repeated"] == true);
            all.push(client.unknown);
        }
    }
    let stored = stored(&home);
    assert_eq!(stored.len(), all.len());
    for key in all {
        assert_eq!(stored.get(&key), Some(&1), "{key}");
    }
    // Whether an append was stored before its answer was lost is chance.
    println!("{repeated} appends were stored without an answer");
}

#[test]
fn a_server_may_only_read() {
    let home = Home::small();
    home.run("session new --id crowd");
    let server = Server::start(&home, &["--addr", "127.0.0.1:0", "--no-collect", "--read-only"]);
    let (status, body) = server.send("POST", ENTRIES, &[], &message("no"));
    assert_eq!(status, 403, "{body}");
    assert_eq!(server.get("/v1/sessions/crowd").0, 200);
    assert!(stored(&home).is_empty());
    // A ledger of another machine is not written to either.
    let backup = home.path("backup.db");
    home.run(&format!("backup {}", backup.display()));
    let option = format!("--ledger {}", backup.display());
    let arguments = ["--addr", "127.0.0.1:0", "--ledger", backup.to_str().unwrap()];
    let server = Server::with_token(&home, &arguments, &option);
    assert_eq!(server.send("POST", ENTRIES, &[], &message("no")).0, 403);
}

/// A small disk in memory. It is unmounted at the end.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: PathBuf) -> Option<Disk> {
        fs::create_dir_all(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(&folder);
        if mount.output().is_ok_and(|mount| mount.status.success()) {
            return Some(Disk(folder));
        }
        quipu_torture::skip("nothing can be mounted here");
        None
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("fill")).unwrap();
        let _ = std::io::copy(&mut std::io::repeat(7), &mut file);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    let home = Home::small();
    let Some(disk) = Disk::mount(home.path("disk")) else { return };
    let ledger = disk.0.join("ledger.db");
    let option = format!("--ledger {}", ledger.display());
    home.run(&format!("session new --id crowd {option}"));
    let arguments = ["--addr", "127.0.0.1:0", "--no-collect", "--ledger", ledger.to_str().unwrap()];
    let mut server = Server::with_token(&home, &arguments, &option);
    let send = |text: &str, key: &str| {
        server.send("POST", ENTRIES, &[("Idempotency-Key", key)], &message(text))
    };
    assert_eq!(send("before", "1").0, 200);
    disk.fill();
    let long = "does not fit ".repeat(20_000);
    let (status, body) = send(&long, "2");
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &problem["type"]), (503, &json!("quipu:disk-full")), "{problem}");
    fs::remove_file(disk.0.join("fill")).unwrap();
    let (status, body) = send(&long, "2");
    assert_eq!(status, 200, "{body}");
    assert!(!body.contains("repeated"), "nothing was stored before: {body}");
    assert_eq!(send("after", "3").0, 200);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let found = home.run(&format!("doctor --json {option}")).json();
    assert_eq!(found["is_ok"], true, "{found}");
    let seen = home.run(&format!("session context crowd --json {option}")).json();
    assert_eq!(seen["messages"].as_array().unwrap().len(), 3);
}
