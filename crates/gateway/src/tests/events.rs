//! Streams of events over real connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quipu_ledger::events::{self, Start};
use quipu_ledger::store::{NewSession, Phase, StoreEvent};
use quipu_ledger::wire::Reason;
use quipu_ledger::{Entry, Ledger, Session, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::settings;
use crate::access::tokens::{Scope, TokenFolder};
use crate::listener::Listener;
use crate::router::Shared;
use crate::server::{Server, Stop};

/// The longest time that a test waits for something that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs, and a ledger to write to.
struct Running {
    folder: TempDir,
    store: Store,
    session: Session,
    address: String,
    token: String,
    stop: Stop,
    shared: std::sync::Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Running {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let store = Store::open(&path).unwrap();
        let session = store.session_or_new("agent:main:main").unwrap();
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = listener.address().unwrap().to_string();
        let server = Server::new(listener, settings(&path));
        let shared = server.shared();
        let token = TokenFolder::beside(&path).create("reader", Scope::Read, None).unwrap();
        let stop = Stop::new();
        let stops = stop.clone();
        let thread = Some(std::thread::spawn(move || server.run(&stops).unwrap()));
        Running { folder, store, session, address, token, stop, shared, thread }
    }

    fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    fn say(&self, text: &str) {
        self.session.append(Entry::user(text)).unwrap();
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn request(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = self.connect();
        let (address, token) = (&self.address, &self.token);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n"
        )
        .unwrap();
        stream
    }

    /// Opens a stream of server-sent events.
    fn sse(&self, options: &str, headers: &str) -> Sse {
        let stream = self.request(&format!("/v1/events{options}"), headers);
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        Sse { reader, head, id: None }
    }

    /// Opens a WebSocket.
    fn socket(&self, options: &str, headers: &str) -> Socket {
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let mut stream =
            self.request(&format!("/v1/events{options}"), &format!("{upgrade}{headers}"));
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        Socket { stream, head }
    }

    /// Returns all frames of the ledger, as JSON.
    fn own(&self) -> Vec<Value> {
        self.store.catch_up().unwrap();
        own(&Ledger::open_read_only(&self.ledger()).unwrap())
    }
}

fn own(ledger: &Ledger) -> Vec<Value> {
    let mut cursor = events::begin(ledger, &Start::Beginning).unwrap().unwrap();
    let mut frames = Vec::new();
    loop {
        let found = events::frames_after(ledger, &cursor, false).unwrap().unwrap();
        frames.extend(found.frames.iter().map(|it| serde_json::to_value(&it.wire).unwrap()));
        cursor = found.after;
        if !found.has_more {
            return frames;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A stream of server-sent events.
struct Sse {
    reader: BufReader<TcpStream>,
    head: String,
    /// The last id, as a browser keeps it.
    id: Option<String>,
}

impl Sse {
    /// Reads one line; `None` at the end. Chunks of the transfer are taken apart: each has lines.
    fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            // The line with the length of a chunk ends with \r\n; those of the stream do not.
            match line.strip_suffix("\r\n") {
                Some("0") => return None,
                Some(_) => {}
                None => return Some(line.trim_end_matches('\n').to_owned()),
            }
        }
    }

    /// Reads one event: its name and its data. `None` at the end.
    fn event(&mut self) -> Option<(String, Value)> {
        let (mut name, mut data) = (String::new(), None);
        loop {
            let line = self.line()?;
            if let Some(id) = line.strip_prefix("id: ").or(line.strip_prefix("id:")) {
                self.id = Some(id.to_owned());
            } else if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(json) = line.strip_prefix("data: ") {
                // The last event of a connection that was cut may be cut too.
                data = Some(serde_json::from_str(json).ok()?);
            } else if line.is_empty()
                && let Some(data) = data.take()
            {
                return Some((name, data));
            }
        }
    }

    fn frame(&mut self) -> Value {
        let (name, data) = self.event().expect("the stream ended");
        assert_eq!(name, "", "{data}");
        assert_eq!(data["cursor"].as_str(), self.id.as_deref());
        data
    }

    fn hello(&mut self) -> Value {
        assert!(self.head.starts_with("HTTP/1.1 200"), "{}", self.head);
        let (name, data) = self.event().unwrap();
        assert_eq!((name.as_str(), &data["type"]), ("hello", &json!("hello")));
        data
    }
}

/// A WebSocket, as a client sees it.
struct Socket {
    stream: TcpStream,
    head: String,
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

impl Socket {
    /// Reads one message: its kind and its bytes. `None` at the end.
    fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).ok()?;
        assert_eq!(head[0] & 0x80, 0x80, "servers here send whole messages");
        assert_eq!(head[1] & 0x80, 0, "servers do not mask");
        let length = match head[1] {
            126 => {
                let mut bytes = [0; 2];
                self.stream.read_exact(&mut bytes).ok()?;
                u16::from_be_bytes(bytes).into()
            }
            127 => {
                let mut bytes = [0; 8];
                self.stream.read_exact(&mut bytes).ok()?;
                u64::from_be_bytes(bytes)
            }
            length => length.into(),
        };
        let mut bytes = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut bytes).ok()?;
        Some((head[0] & 0x0f, bytes))
    }

    fn json(&mut self) -> Value {
        let (kind, bytes) = self.message().expect("the socket ended");
        assert_eq!(kind, TEXT, "{}", String::from_utf8_lossy(&bytes));
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Reads until the socket is closed. Returns the code.
    fn close_code(&mut self) -> Option<u16> {
        while let Some((kind, bytes)) = self.message() {
            if kind == CLOSE {
                return Some(u16::from_be_bytes([bytes[0], bytes[1]]));
            }
        }
        None
    }

    /// Sends one frame. `first` has the kind, and 0x80 if it is the last of its message.
    fn send(&mut self, first: u8, bytes: &[u8], is_masked: bool) {
        let mask = if is_masked { 0x80 } else { 0 };
        let mut frame = vec![first];
        match bytes.len() {
            short @ 0..=125 => frame.push(mask | u8::try_from(short).unwrap()),
            long => {
                frame.push(mask | 127);
                frame.extend((long as u64).to_be_bytes());
            }
        }
        if is_masked {
            let key = [7, 11, 13, 17];
            frame.extend(key);
            frame.extend(bytes.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
        } else {
            frame.extend(bytes);
        }
        // The server may have closed the socket.
        let _ = self.stream.write_all(&frame);
    }
}

#[test]
fn a_stream_has_what_was_and_what_comes() {
    let server = Running::start();
    server.say("before");
    let mut sse = server.sse("?after=start", "");
    let mut socket = server.socket("?after=start&include=entry", "");
    sse.hello();
    assert_eq!(socket.json()["type"], "hello");
    let mut now = server.sse("", "");
    let began = now.hello();
    for number in 0..5 {
        server.say(&format!("number {number}"));
    }
    let own = server.own();
    for frame in &own {
        assert_eq!(sse.frame(), *frame);
        let mut full = socket.json();
        for change in full["changes"].as_array_mut().unwrap() {
            change.as_object_mut().unwrap().remove("entry");
        }
        assert_eq!(full, *frame);
    }
    for frame in &own[own.len() - 5..] {
        assert_eq!(now.frame(), *frame);
    }
    // A browser connects again with the last id, or with that of the beginning.
    let mut again = server
        .sse("?after=start", &format!("Last-Event-ID: {}\r\n", began["after"].as_str().unwrap()));
    again.hello();
    assert_eq!(again.frame(), own[own.len() - 5]);
    // The entry is there on request, and only if it is short.
    let mut full = server.socket("?include=entry&type=entry.", "");
    full.json();
    server.say("short");
    server.say(&"long ".repeat(5000));
    assert_eq!(full.json()["changes"][0]["entry"]["text"], "short");
    assert_eq!(full.json()["changes"][0].get("entry"), None);
}

#[test]
fn subscribers_that_come_and_go_miss_nothing() {
    let server = Running::start();
    // One follows all the time; one connects again after every few frames, over either transport.
    let mut steady = server.sse("?after=start", "");
    steady.hello();
    let mut seen: Vec<Value> = Vec::new();
    for round in 0..12 {
        for number in 0..round % 5 {
            match number {
                0 => drop(server.session.begin_turn(Entry::user("hello"))),
                1 => drop(server.session.append(Entry::assistant("yes").model("none", "parrot"))),
                2 => drop(server.session.reset("new", None).unwrap()),
                _ => drop(server.store.create(&NewSession::default()).unwrap()),
            }
        }
        let after = seen.last().map_or("start", |frame| frame["cursor"].as_str().unwrap());
        let options = format!("?after={after}");
        let missing = server.own().len() - seen.len();
        let wanted = missing.div_ceil(2);
        if round % 2 == 0 {
            let mut sse = server.sse(&options, "");
            sse.hello();
            seen.extend((0..wanted).map(|_| sse.frame()));
        } else {
            let mut socket = server.socket(&options, "");
            socket.json();
            seen.extend((0..wanted).map(|_| socket.json()));
        }
    }
    let own = server.own();
    assert_eq!(seen, own[..seen.len()]);
    for frame in own {
        assert_eq!(steady.frame(), frame);
    }
}

#[test]
fn a_cursor_that_is_not_of_this_ledger_starts_over() {
    let server = Running::start();
    server.say("hello");
    let ahead = {
        let after = server.own().last().unwrap()["cursor"].as_str().unwrap().to_owned();
        let (epoch, _) = after.split_once('.').unwrap();
        format!("{epoch}.999")
    };
    for cursor in ["0123456789ab.1", &ahead] {
        let mut sse = server.sse(&format!("?after={cursor}"), "");
        assert_eq!(sse.event().unwrap().0, "start_over");
        assert_eq!(sse.event(), None);
        assert_eq!(sse.id.as_deref(), Some(""));
        let mut socket = server.socket(&format!("?after={cursor}"), "");
        assert_eq!(socket.json(), json!({"type": "start_over"}));
        assert_eq!(socket.close_code(), Some(1013));
    }
    for (options, status) in [
        ("?after=yesterday", 400),
        ("?type=leaf", 400),
        ("?include=all", 400),
        ("?colour=red", 400),
        ("?session=nothing", 404),
    ] {
        let answer = server.sse(options, "").head;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{options}: {answer}");
    }
}

#[test]
fn a_replaced_ledger_ends_all_streams() {
    let server = Running::start();
    server.say("hello");
    let (mut sse, mut socket) = (server.sse("", ""), server.socket("", ""));
    sse.hello();
    socket.json();
    let other = server.folder.path().join("other.db");
    let store = Store::open(&other).unwrap();
    store.session_or_new("agent:main:only").unwrap().append(Entry::user("hello")).unwrap();
    drop(store);
    for name in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = std::fs::remove_file(server.folder.path().join(name));
    }
    std::fs::rename(&other, server.ledger()).unwrap();
    assert_eq!(sse.event().unwrap().0, "start_over");
    assert_eq!(socket.json(), json!({"type": "start_over"}));
}

#[test]
fn a_token_of_one_agent_sees_its_events_alone() {
    let mut server = Running::start();
    let tokens = TokenFolder::beside(&server.ledger());
    server.token = tokens.create("ops", Scope::Read, Some("ops")).unwrap();
    let mut sse = server.sse("?after=start", "");
    sse.hello();
    server.say("not for ops");
    let ops = server.store.session_or_new("agent:ops:main").unwrap();
    server.say("nor this");
    ops.append(Entry::user("for ops")).unwrap();
    for _ in 0..3 {
        assert_eq!(sse.frame()["agent"], "ops");
    }
    let answer = server.sse("?session=agent:main:main", "").head;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    // A revoked token ends its streams with the next event.
    tokens.revoke("ops").unwrap();
    ops.append(Entry::user("too late")).unwrap();
    let (name, end) = sse.event().unwrap();
    assert_eq!((name.as_str(), &end["reason"]), ("end", &json!("revoked")));
    assert_eq!(sse.event(), None);
}

#[test]
fn a_foreign_page_opens_no_socket() {
    let server = Running::start();
    for origin in ["http://evil.example", "null"] {
        let head = server.socket("", &format!("Origin: {origin}\r\n")).head;
        assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    }
    let own = format!("Origin: http://{}\r\n", server.address);
    assert!(server.socket("", &own).head.starts_with("HTTP/1.1 101"));
    // A socket by cookie has to say which page opens it.
    let cookie = TokenFolder::beside(&server.ledger()).create_cookie(Scope::Write).unwrap();
    let (_, port) = server.address.rsplit_once(':').unwrap();
    for (origin, expected) in [("", "403"), (own.as_str(), "101")] {
        let mut stream = server.connect();
        write!(
            stream,
            "GET /v1/events HTTP/1.1\r\nHost: {}\r\nCookie: quipu_{port}={cookie}\r\n{origin}\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            server.address
        )
        .unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.contains(expected), "{origin}: {line}");
    }
}

#[test]
fn a_client_that_breaks_the_protocol_is_closed() {
    let server = Running::start();
    let socket = || {
        let mut socket = server.socket("", "");
        assert_eq!(socket.json()["type"], "hello");
        socket
    };
    // A ping is answered, and messages in pieces are read and dropped.
    let mut fine = socket();
    fine.send(0x80 | PING, b"are you there", true);
    assert_eq!(fine.message(), Some((PONG, b"are you there".to_vec())));
    fine.send(TEXT, b"one ", true);
    fine.send(0x80 | PING, b"", true);
    fine.send(0x80, b"two", true);
    assert_eq!(fine.message(), Some((PONG, Vec::new())));
    server.say("hello");
    assert_eq!(fine.json()["changes"][0]["kind"], "message");
    // Unmasked, reserved, a continuation of nothing, a long control frame.
    for (first, bytes, is_masked) in [
        (0x80 | TEXT, &b"plain"[..], false),
        (0x80 | 3, b"", true),
        (0x80, b"of nothing", true),
        (0x80 | PING, &[0; 200], true),
    ] {
        let mut broken = socket();
        broken.send(first, bytes, is_masked);
        broken.close_code();
        assert_eq!(broken.message(), None);
    }
    // Above 1 MiB.
    let mut large = socket();
    large.send(0x80 | TEXT, &vec![b'a'; (1 << 20) + 1], true);
    large.close_code();
    assert_eq!(large.message(), None);
    // A flood.
    let mut flood = socket();
    for _ in 0..2000 {
        flood.send(0x80 | PING, b"", true);
    }
    let code = flood.close_code();
    assert!(matches!(code, Some(1008) | None), "{code:?}");
    // The others are still served.
    server.say("still here");
    assert_eq!(fine.json()["changes"][0]["kind"], "message");
}

#[test]
fn a_client_that_does_not_read_delays_nobody_and_is_closed() {
    let server = Running::start();
    let stalled = [server.sse("?include=entry", ""), server.sse("?include=entry", "")];
    let mut half_open = server.sse("", "");
    half_open.hello();
    half_open.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    let mut reader = server.sse("?type=entry.appended", "");
    reader.hello();
    // More than the system's buffers hold.
    let long = "word ".repeat(3000);
    for number in 0..800 {
        server.say(&format!("{number} {long}"));
        if number % 50 == 49 {
            (0..50).for_each(|_| drop(reader.frame()));
        }
    }
    // The server waits for them no longer.
    let running = || *server.shared.access.running.lock().unwrap().get("reader").unwrap();
    let began = Instant::now();
    while running() > 1 {
        assert!(began.elapsed() < PATIENCE, "{}", running());
        std::thread::sleep(Duration::from_millis(20));
    }
    // Both end before their last frame.
    for mut sse in stalled {
        sse.hello();
        let mut frames = 0;
        while sse.event().is_some() {
            frames += 1;
        }
        assert!(frames < 800, "{frames}");
    }
    // A client that has closed its side gets no more either.
    while half_open.event().is_some() {}
}

#[test]
fn a_server_that_ends_says_so() {
    let server = Running::start();
    let (mut sse, mut socket) = (server.sse("", ""), server.socket("", ""));
    let after = sse.hello()["after"].clone();
    socket.json();
    server.stop.stop();
    let end = json!({"type": "end", "reason": "shutdown", "after": after});
    assert_eq!(sse.event(), Some(("end".to_owned(), end.clone())));
    assert_eq!(socket.json(), end);
    assert_eq!(socket.close_code(), Some(1001));
    assert_eq!(sse.event(), None);
}

#[test]
fn r84_a_compaction_is_told_from_its_start() {
    let server = Running::start();
    let mut sse = server.sse("?type=compaction", "");
    sse.hello();
    for phase in [Phase::Start, Phase::End, Phase::Failed] {
        server.shared.live.pass(&StoreEvent::Compaction {
            session_id: server.session.id().to_owned(),
            phase,
            reason: Reason::Manual,
            tokens_before: 9000,
            tokens_after: None,
            entry_id: None,
        });
    }
    for phase in ["start", "failed"] {
        let (_, frame) = sse.event().unwrap();
        assert_eq!(frame.get("cursor"), None);
        assert_eq!(frame["session_id"], server.session.id());
        let change = &frame["changes"][0];
        assert_eq!((&change["phase"], &change["reason"]), (&json!(phase), &json!("manual")));
    }
    let _: &Path = server.folder.path();
}
