//! `quipu serve` and `quipu token`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value};

use crate::home::{Home, Run};

/// A server that runs in a home. Its token is for writing.
pub(crate) struct Server<'h> {
    home: &'h Home,
    child: Option<Child>,
    started: Value,
    pub(crate) token: String,
}

impl<'h> Server<'h> {
    pub(crate) fn start(home: &'h Home, arguments: &[&str]) -> Server<'h> {
        Server::with_token(home, arguments, "")
    }

    /// Starts a server, with a token of the ledger that these options name.
    pub(crate) fn with_token(home: &'h Home, arguments: &[&str], ledger: &str) -> Server<'h> {
        let token = home.run(&format!("token new t{} --scope write {ledger}", fresh()));
        let all = ["serve", "--json"].iter().chain(arguments);
        let mut command = home.command(all);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut error = String::new();
            child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            panic!("{error}");
        });
        Server { home, child: Some(child), started, token: token.stdout.trim().to_owned() }
    }

    pub(crate) fn address(&self) -> &str {
        self.started["address"].as_str().unwrap()
    }

    /// Sends a GET with the token. Returns the status and the body, with `[HOME]` for the home.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let address = self.address();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\n\r\n",
            self.token
        );
        let (status, body) = exchange(TcpStream::connect(address).unwrap(), &request);
        let home = self.home.path("").display().to_string();
        (status, body.replace(home.trim_end_matches('/'), "[HOME]"))
    }

    /// Sends JSON with the token. Returns the status and the body.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let request = json_request(&self.token, self.address(), (method, path), headers, body);
        exchange(TcpStream::connect(self.address()).unwrap(), &request)
    }

    /// Sends what `curl` sends with these arguments: `--json 'BODY'`, `-H 'NAME: VALUE'`, `-X METHOD`.
    fn send_as_curl(&self, arguments: &str, path: &str) -> (u16, String) {
        let (mut method, mut body, mut headers) = ("POST", "", Vec::new());
        let mut rest = arguments.trim();
        while let Some((option, after)) = rest.split_once(' ') {
            let (value, after) = match after.strip_prefix('\'') {
                Some(quoted) => quoted.split_once('\'').unwrap(),
                None => after.split_once(' ').unwrap_or((after, "")),
            };
            match option {
                "--json" => body = value,
                "-H" => headers.push(value.split_once(": ").unwrap()),
                "-X" => method = value,
                other => panic!("{other}"),
            }
            rest = after.trim();
        }
        self.send(method, path, &headers, body)
    }

    #[track_caller]
    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Sends a signal and returns the exit status and what was printed on stderr.
    pub(crate) fn end(&mut self, signal: Signal) -> (Option<i32>, String) {
        let child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A home is used by one server at a time.
        let _ = self.home;
    }
}

/// Returns a request with JSON, after which the connection is closed.
pub(crate) fn json_request(
    token: &str,
    address: &str,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n{headers}Connection: close\r\n\r\n\
         {body}",
        body.len()
    )
}

/// Returns a number that no other call returns.
fn fresh() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Sends a request and reads everything until the server closes the connection.
fn exchange(mut stream: impl Read + Write, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A refused request may close the connection before everything was sent.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

/// Returns a home with collected sessions of both agents and one native session.
fn home() -> Home {
    let home = Home::full();
    home.run("sync");
    let id = "--key agent:main:main --id native";
    home.run(&format!("session new {id}"));
    home.run("session begin native --text hello");
    home
}

/// Removes and returns the fields for how current an object is.
fn freshness(object: &mut Map<String, Value>) -> Map<String, Value> {
    let names = ["fresh_as_of", "pending_bytes", "unprojected_records", "unreadable_files"];
    names.iter().filter_map(|name| object.remove_entry(*name)).collect()
}

/// Compares a route with a command that prints the same.
#[track_caller]
fn check(server: &Server<'_>, path: &str, command: &str) {
    let run: Run = server.home.run(&format!("{command} --json"));
    let mut lines = run.json_lines();
    let mut answer = server.json(path);
    let answer = answer.as_object_mut().unwrap();
    let answered = freshness(answer);
    if let Some(items) = answer.remove("items") {
        for line in &mut lines {
            let line = line.as_object_mut().unwrap();
            assert_eq!(freshness(line), answered, "{path}");
            // Every line of a search has the number of all hits.
            if path.starts_with("/v1/search") {
                assert_eq!(line.remove("total_hits"), answer.get("total").cloned(), "{path}");
            }
        }
        let mut items = items.as_array().unwrap().clone();
        if path.starts_with("/v1/usage") {
            items.push(answer["total"].clone());
        }
        assert!(!items.is_empty(), "{path} has no items");
        assert_eq!(items, lines, "{path}");
        assert!(answer.get("next").is_none_or(Value::is_null), "{path} is cut");
        return;
    }
    assert_eq!(lines.len(), 1, "{run}");
    let line = lines[0].as_object_mut().unwrap();
    // Commands of runtimes do not say how current they are.
    let printed = freshness(line);
    if !printed.is_empty() {
        assert_eq!(printed, answered, "{path}");
    }
    for object in [&mut *line, answer] {
        if let Some(ledger) = object.get_mut("ledger").and_then(Value::as_object_mut) {
            // The log grows and shrinks with the connections.
            ledger.remove("log_bytes");
        }
    }
    assert_eq!(answer, line, "{path}");
}

#[test]
fn a_route_answers_what_its_command_prints() {
    let home = home();
    let server = Server::start(&home, &["--addr", "127.0.0.1:0", "--no-collect"]);
    let sessions = home.run("sessions --no-sync --json --all").json_lines();
    let claude = sessions.iter().find(|session| session["format"] == "claude-code").unwrap();
    let claude = claude["session_id"].as_str().unwrap();
    let encoded = claude.replace('/', "%2F");
    let pairs = [
        ("/v1/status", "status".to_owned()),
        ("/v1/projects", "projects --no-sync".to_owned()),
        ("/v1/files", "files --no-sync".to_owned()),
        ("/v1/files?changed=true&since=2020", "files --changed --since 2020 --no-sync".to_owned()),
        ("/v1/files?path=src", "files src --no-sync".to_owned()),
        ("/v1/sessions", "sessions --no-sync".to_owned()),
        ("/v1/sessions?all=true&limit=1000", "sessions --no-sync --all".to_owned()),
        ("/v1/sessions?format=openc", "sessions --no-sync --format openc".to_owned()),
        ("/v1/sessions?since=2020&until=2030", "sessions --no-sync --since 2020..2030".to_owned()),
        ("/v1/sessions/agent:main:main/entries", "show agent:main:main --no-sync".to_owned()),
        (&format!("/v1/sessions/{encoded}/entries?limit=1000"), format!("show {claude} --no-sync")),
        (
            &format!("/v1/sessions/{encoded}/entries?full=true&limit=1000"),
            format!("show {claude} --no-sync --full"),
        ),
        (
            &format!("/v1/sessions/{encoded}/entries?prompts=true&turn=1"),
            format!("show {claude} --no-sync --prompts --turn 1"),
        ),
        (
            &format!("/v1/sessions/{encoded}/entries?role=user&last=2"),
            format!("show {claude} --no-sync --role user --last 2"),
        ),
        (&format!("/v1/sessions/{encoded}/tree"), format!("tree {claude} --no-sync")),
        (&format!("/v1/sessions/{encoded}/context"), format!("session context {claude}")),
        ("/v1/sessions/native/context?budget=5", "session context native --budget 5".to_owned()),
        ("/v1/sessions/native/headroom", "session headroom native".to_owned()),
        (
            "/v1/sessions/native/headroom?window=9000",
            "session headroom native --window 9000".to_owned(),
        ),
        ("/v1/sessions/native/meta", "session meta native".to_owned()),
        ("/v1/search?q=the&limit=1000", "search the --no-sync".to_owned()),
        (
            "/v1/search?q=role:user&recent=true&limit=1000",
            "search role:user --recent --no-sync".to_owned(),
        ),
        ("/v1/search?exact=hello", "search --exact hello --no-sync".to_owned()),
        ("/v1/usage", "usage --no-sync".to_owned()),
        ("/v1/usage?by=session", "usage session --no-sync".to_owned()),
        (
            "/v1/usage?by=model&format=claude-code",
            "usage model --format claude-code --no-sync".to_owned(),
        ),
        ("/v1/usage?by=block&since=2020", "usage blocks --since 2020 --no-sync".to_owned()),
        ("/v1/notes", "notes --no-sync".to_owned()),
        ("/v1/notes/MEMORY.md", "notes MEMORY.md --no-sync".to_owned()),
        ("/v1/cron", "cron --no-sync".to_owned()),
    ];
    for (path, command) in pairs {
        check(&server, path, &command);
    }
    // One session as the list has it.
    let mut one = server.json(&format!("/v1/sessions/{encoded}"));
    freshness(one.as_object_mut().unwrap());
    let mut listed = claude_row(&sessions, claude);
    freshness(listed.as_object_mut().unwrap());
    assert_eq!(one, listed);
    for format in ["md", "html", "json", "jsonl"] {
        let exported = home.run(&format!("export {claude} --no-sync --format {format}"));
        let (status, body) = server.get(&format!("/v1/sessions/{encoded}/export?format={format}"));
        assert_eq!((status, body), (200, exported.stdout), "{format}");
    }
    // Rows have what their query selects.
    let rows = server.json("/v1/sql?q=SELECT%201%20AS%20a%2C%20'x'%20AS%20a");
    assert_eq!(rows["items"], serde_json::json!([{"a": 1, "a_2": "x"}]));
    assert_eq!(rows["is_cut"], false);
    assert_eq!(server.get("/v1/sql?q=DELETE%20FROM%20ledger").0, 422);
}

fn claude_row(sessions: &[Value], id: &str) -> Value {
    sessions.iter().find(|session| session["session_id"] == id).unwrap().clone()
}

#[test]
fn a_ctrl_c_ends_it_and_the_ledger_is_whole() {
    let home = Home::small();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 0)] {
        let mut server = Server::start(&home, &["--addr", "127.0.0.1:0"]);
        // A connection that sends nothing does not hold it up.
        let _idle = TcpStream::connect(server.address()).unwrap();
        assert_eq!(server.get("/v1/sessions").0, 200);
        assert_eq!(server.end(signal), (Some(code), String::new()));
        let found = home.run("doctor --json").json();
        assert_eq!(found["is_ok"], true, "{found}");
    }
}

#[test]
fn it_collects_what_agents_write() {
    let home = Home::small();
    let server = Server::start(&home, &["--addr", "127.0.0.1:0"]);
    let began = std::time::Instant::now();
    while server.json("/v1/status")["ledger"]["records"] != 55 {
        assert!(began.elapsed().as_secs() < 60, "nothing was collected");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_token_is_shown_once_and_can_be_revoked() {
    let home = Home::small();
    home.run("sync");
    let server = Server::start(&home, &["--addr", "127.0.0.1:0", "--no-collect"]);
    assert_eq!(server.get("/v1/projects").0, 200);
    let tokens = home.run("token list --json").json_lines();
    assert_eq!(tokens.len(), 1);
    let name = tokens[0]["name"].as_str().unwrap().to_owned();
    let again = home.run(&format!("token new {name}"));
    assert_eq!(again.code, 2, "{again}");
    home.run(&format!("token revoke {name}"));
    let (status, problem) = server.get("/v1/projects");
    assert_eq!(status, 401, "{problem}");
    assert_eq!(home.run(&format!("token revoke {name}")).code, 1);
    assert_eq!(home.run("token new ../x").code, 2);
}

#[test]
fn a_socket_is_for_this_user_only() {
    let home = Home::small();
    home.run("sync");
    let path = home.path("quipu.sock");
    let socket = path.to_str().unwrap().to_owned();
    let mut server = Server::start(&home, &["--no-collect", "--socket", &socket]);
    assert_eq!(server.started["link"], Value::Null);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let request = "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (status, body) = exchange(UnixStream::connect(&path).unwrap(), request);
    assert_eq!(status, 200, "{body}");
    // A second server does not take it over.
    let second = home.run(&format!("serve --no-collect --socket {socket}"));
    assert_eq!(second.code, 2, "{second}");
    assert!(second.stderr.contains("another program listens"), "{second}");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    assert!(!path.exists());
}

#[test]
fn hostile_requests_are_refused_before_any_route() {
    let home = Home::small();
    home.run("sync");
    let server = Server::start(&home, &["--addr", "127.0.0.1:0", "--no-collect"]);
    let send = |head: String| {
        let stream = TcpStream::connect(server.address()).unwrap();
        exchange(stream, &format!("{head}Connection: close\r\n\r\n")).0
    };
    let start = format!(
        "GET /v1/sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n",
        server.address(),
        server.token
    );
    assert_eq!(send(start.clone()), 200);
    assert_eq!(send(format!("{start}X: {}\r\n", "a".repeat(17 << 10))), 431);
    assert_eq!(send(format!("{start}{}", "X: a\r\n".repeat(10_000))), 431);
    assert_eq!(send(start.replace("HTTP/1.1\r\nHost", "HTTP/1.1\r\nX-Host")), 403);
    assert_eq!(send(format!("{start}Host: {}\r\n", server.address())), 403);
    let both = format!("{start}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
    assert!(matches!(send(both), 200 | 400));
    assert_eq!(send(start.replace("Authorization", "X-Authorization")), 401);
    // Other browsers and tokens are not affected.
    assert_eq!(server.get("/v1/sessions").0, 200);
}

#[test]
fn an_address_of_other_machines_has_to_be_meant() {
    let home = Home::small();
    home.run("sync");
    let run = home.run("serve --no-collect --addr 0.0.0.0:0");
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("can be reached from other machines"), "{run}");
    let run = home.run("serve --no-collect --addr 0.0.0.0:0 --origin quipu.example");
    assert_eq!(run.code, 2, "{run}");
    let run = home.run("serve --ledger nothing.db");
    assert_eq!(run.code, 2, "{run}");
    assert!(run.stderr.contains("there is no ledger"), "{run}");
}

/// Returns whether a value is as a document shows it: `…` matches any value, and what is left out
/// is not compared.
fn is_shown(shown: &Value, value: &Value) -> bool {
    match (shown, value) {
        (Value::String(shown), _) if shown == "…" => true,
        (Value::Object(shown), Value::Object(value)) => shown
            .iter()
            .all(|(key, shown)| value.get(key).is_some_and(|value| is_shown(shown, value))),
        (Value::Array(shown), Value::Array(value)) => {
            shown.len() <= value.len()
                && shown.iter().zip(value).all(|(shown, value)| is_shown(shown, value))
        }
        _ => shown == value,
    }
}

#[test]
fn the_examples_of_the_docs_are_true() {
    let home = Home::empty();
    let made = home.run("demo --to demo");
    assert_eq!(made.code, 0, "{made}");
    let ledger = home.path("demo/ledger.db");
    let arguments = ["--addr", "127.0.0.1:0", "--no-collect", "--ledger"];
    let arguments: Vec<&str> = arguments.into_iter().chain(ledger.to_str()).collect();
    // Tokens are beside the ledger that they open.
    let server = Server::with_token(&home, &arguments, &format!("--ledger {}", ledger.display()));
    let page = include_str!("../../../../docs/http.md");
    let mut examples = 0;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let request =
            line.strip_prefix("$ curl ").and_then(|line| line.split_once("localhost:4774"));
        let is_whole = |request: &str| request.is_empty() || request.starts_with("--json");
        let Some((request, path)) = request.filter(|(request, _)| is_whole(request)) else {
            continue;
        };
        let shown = lines.next().unwrap().replace(":…", ":\"…\"");
        let shown: Value = serde_json::from_str(&shown).expect(path);
        let (status, body) = match request {
            "" => server.get(path),
            request => server.send_as_curl(request, path),
        };
        let body: Value = serde_json::from_str(&body).expect(path);
        assert_eq!(status, shown["status"].as_u64().map_or(200, |status| status as u16), "{path}");
        assert!(is_shown(&shown, &body), "{path}: {body}");
        examples += 1;
    }
    assert_eq!(examples, 12);
    // Every route of the table is there, and no other.
    let routes: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `/v1/")?.split('`').next()).collect();
    for route in &routes {
        let path = route.replace("{id}", "last").replace("{name}", "none").replace("{job}", "none");
        let (status, body) = server.get(&format!("/v1/{path}"));
        // A route without what it needs, or with a name that nothing has, is not an unknown one.
        assert!(!body.contains("no route has this path"), "{route}: {status}");
    }
    assert_eq!(routes.len(), 20);
    let written: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" `/v1/"))
        .filter_map(|(method, rest)| Some((method, rest.split('`').next()?)))
        .filter(|(method, _)| matches!(*method, "POST" | "PATCH"))
        .collect();
    for (method, route) in &written {
        // The route is there, and says what is wrong with the body.
        let path = format!("/v1/{}", route.replace("{id}", "none"));
        let (status, body) = server.send(method, &path, &[], "[7]");
        assert!(matches!(status, 400 | 404 | 422), "{method} {route}: {status} {body}");
        assert!(!body.contains("no route has this path"), "{method} {route}");
    }
    assert_eq!(written.len(), 14);
}
