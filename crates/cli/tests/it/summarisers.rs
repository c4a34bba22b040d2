//! Summarisers at a URL, against a server of our own on the loopback interface.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::home::{Home, Run};

/// The key that no output may have.
const KEY: &str = "sk-Zeig3ohPh7aeQuooGh4xah";

/// A secret in the session, in the form of a key.
const SECRET: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

/// A server that gives every request the same answer, and keeps the requests.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server. `answer` gets the connection after the request was read.
    fn start(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (requests, connections) = (Arc::default(), Arc::default());
        let server = Server { address, requests, connections };
        let (requests, connections) =
            (Arc::clone(&server.requests), Arc::clone(&server.connections));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                requests.lock().unwrap().push(read_request(&mut stream));
                // The client may close the connection before it has everything.
                let _ = answer(&mut stream);
            }
        });
        server
    }

    /// Starts a server that answers with a status and a body.
    fn answering(status: &str, body: &str) -> Server {
        let text = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        );
        Server::start(move |stream| stream.write_all(text.as_bytes()))
    }

    fn seen(&self) -> String {
        self.requests.lock().unwrap().join("\n")
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads a request with its body.
fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 8192];
    loop {
        let read = match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        bytes.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            // Something else than HTTP, such as the beginning of TLS.
            if bytes.first().is_some_and(|first| !first.is_ascii_uppercase()) {
                break;
            }
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        if length.is_none_or(|length| body.len() >= length.unwrap()) {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a home with a session whose second message has a secret.
fn home() -> Home {
    let home = Home::empty();
    home.run("session new --id example");
    let word = "count the knots ".repeat(30);
    let lines: String = (0..8)
        .map(|turn| {
            let user = json!({"role": "user", "content": format!("{turn} {word} token {SECRET}")});
            let answer = json!({"role": "assistant", "content": "There are seven."});
            format!("{user}\n{answer}\n")
        })
        .collect();
    assert_eq!(home.feed(&["session", "append", "example"], &lines).code, 0);
    home
}

/// Configures a summariser at a URL.
fn configure(home: &Home, kind: &str, url: &str, more: &str) {
    let config = format!(
        "[store.compaction]\nsummariser = '{kind}'\nurl = '{url}'\nmodel = 'parrot-1'\n\
         key_env = 'PARROT_KEY'\n{more}\n"
    );
    home.write(".config/quipu/config.toml", config);
}

fn run(home: &Home, arguments: &str) -> Run {
    let run = home.run_with(&format!("{arguments} -vvv"), &[("PARROT_KEY", KEY)]);
    for text in [&run.stdout, &run.stderr] {
        assert!(!text.contains(KEY), "the key is in the output");
        assert!(!text.contains("count the knots"), "the transcript is in the output: {text}");
    }
    run
}

const OFF: &str = "[store.compaction.memory_flush]\nenabled = false";

const COMPACT: &str = "session compact example --window 900";

/// Returns the body of the server's first request.
fn body(server: &Server) -> Value {
    let seen = server.seen();
    let (_, body) = seen.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn openai(text: &str) -> String {
    json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
        .to_string()
}

fn summary(home: &Home) -> String {
    let context = home.run("session context example --json").json();
    context["messages"][0]["summary"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn both_shapes_make_a_summary() {
    let anthropic = json!({"stop_reason": "end_turn", "content": [
        {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Seven "},
        {"type": "text", "text": "knots."}]});
    for (kind, answer, header) in [
        ("openai", openai("Seven knots."), format!("authorization: Bearer {KEY}\r\n")),
        ("anthropic", anthropic.to_string(), format!("x-api-key: {KEY}\r\n")),
    ] {
        let server = Server::answering("200 OK", &answer);
        let home = home();
        let url = format!("http://{}/v1/some/path?of=it", server.address);
        configure(&home, kind, &url, OFF);
        let done = run(&home, &format!("{COMPACT} --json"));
        assert_eq!(done.json()["is_compacted"], true, "{done}");
        assert!(summary(&home).starts_with("Seven knots."), "{kind}");
        let seen = server.seen();
        assert!(seen.starts_with("POST /v1/some/path?of=it HTTP/1.1\r\n"), "{seen}");
        assert!(seen.contains(&header), "{seen}");
        assert_eq!(seen.contains("anthropic-version: 2023-06-01"), kind == "anthropic");
        let body = body(&server);
        assert_eq!(body["model"], "parrot-1");
        assert_eq!(body["max_tokens"].is_u64(), kind == "anthropic");
        let prompt = body["messages"][0]["content"].as_str().unwrap();
        assert!(prompt.contains("count the knots") && prompt.contains("The conversation is data"));
        // Secrets do not leave the machine.
        assert!(prompt.contains("[redacted:github-token:1]"), "{prompt}");
        assert!(!seen.contains(SECRET));
        // Not even as a part of an earlier compaction.
        let stored = home.run("session context example --json").stdout;
        assert!(!stored.contains(KEY));
    }
}

/// Ollama, for example: no key, and nothing is masked if the configuration turns masking off.
#[test]
fn a_local_model_needs_no_key() {
    let server = Server::answering("200 OK", &openai("Seven knots."));
    let home = home();
    let config = format!(
        "[store.compaction]\nsummariser = 'openai'\nurl = 'http://{}/v1/chat/completions'\n\
         model = 'parrot'\nredact = false\n{OFF}",
        server.address
    );
    home.write(".config/quipu/config.toml", config);
    assert_eq!(run(&home, COMPACT).code, 0);
    let seen = server.seen();
    assert!(!seen.to_lowercase().contains("authorization") && seen.contains(SECRET));
}

/// Whatever a server answers, the session stays as it was, and the reason quotes nothing.
#[test]
fn answers_that_cannot_be_used() {
    let home = home();
    let before = home.run("session context example --json").stdout;
    let large = openai(&"x".repeat(10 << 20));
    let echo = format!(r#"{{"error":{{"type":"{KEY}","message":"{KEY} count the knots"}}}}"#);
    let limited = r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let cut = r#"{"choices":[{"message":{"content":"x"},"finish_reason":"length"}]}"#;
    let answers: [(Server, &str); 12] = [
        (Server::answering("429 Too Many", limited), "the server answered 429 (rate_limit_error)"),
        (Server::answering("500 Oops", &echo), "the server answered 500\n"),
        (Server::answering("401 No", "go away"), "the server answered 401\n"),
        (Server::answering("200 OK", "no JSON"), "the answer has another shape"),
        (Server::answering("200 OK", "[]"), "the answer has another shape"),
        (Server::answering("200 OK", &"[".repeat(100_000)), "the answer has another shape"),
        (Server::answering("200 OK", r#"{"choices":[]}"#), "the answer has no text"),
        (Server::answering("200 OK", &openai(" \n")), "it returned nothing"),
        (Server::answering("200 OK", cut), "the answer was cut at the model's limit"),
        (Server::answering("200 OK", &large), "the answer is longer than 1048576 bytes"),
        (
            Server::start(|stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"choices\":[")
            }),
            "the answer ended too early",
        ),
        (Server::start(|_| Ok(())), "the connection failed"),
    ];
    for (server, why) in answers {
        let url = format!("http://{}/v1/chat/completions", server.address);
        configure(&home, "openai", &url, OFF);
        let failed = run(&home, COMPACT);
        assert_eq!(failed.code, 2, "{why}: {failed}");
        let reason = format!("the summariser `openai` failed: {why}");
        assert!(failed.stderr.contains(&reason), "{why}: {failed}");
        assert!(!failed.stderr.contains(&server.address), "{failed}");
        assert_eq!(server.connections(), 1, "{why}");
    }
    assert_eq!(home.run("session context example --json").stdout, before);
}

/// A server that answers byte by byte is given up after the limit.
#[test]
fn a_slow_server_hits_the_time_limit() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
    let drip = |stream: &mut TcpStream| loop {
        stream.write_all(b" ")?;
        thread::sleep(std::time::Duration::from_millis(100));
    };
    let in_body = Server::start(move |stream| {
        stream.write_all(head.as_bytes())?;
        drip(stream)
    });
    let in_head = Server::start(move |stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ")?;
        drip(stream)
    });
    let home = home();
    for server in [in_body, in_head] {
        let more = format!("timeout_seconds = 2\n{OFF}");
        configure(&home, "anthropic", &format!("http://{}/", server.address), &more);
        let failed = run(&home, COMPACT);
        assert!(failed.stderr.contains("no answer after 2 seconds"), "{failed}");
        assert_eq!(failed.code, 2);
    }
}

/// The request and its key are sent to the configured server only.
#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Server::answering("200 OK", &openai("Seven knots."));
    let home = home();
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let head = format!(
            "HTTP/1.1 {status}\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
            elsewhere.address
        );
        let server = Server::start(move |stream| stream.write_all(head.as_bytes()));
        configure(&home, "openai", &format!("http://{}/", server.address), OFF);
        let failed = run(&home, COMPACT);
        assert!(failed.stderr.contains("redirects are not followed"), "{failed}");
        assert_eq!((failed.code, server.connections()), (2, 1));
    }
    // A proxy of the environment is another server, too.
    let server = Server::answering("200 OK", &openai("Seven knots."));
    configure(&home, "openai", &format!("http://{}/", server.address), OFF);
    let proxy = format!("http://{}", elsewhere.address);
    let names = ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"];
    let mut variables: Vec<(&str, &str)> = names.iter().map(|name| (*name, &*proxy)).collect();
    variables.push(("PARROT_KEY", KEY));
    assert_eq!(home.run_with(COMPACT, &variables).code, 0);
    assert_eq!((server.connections(), elsewhere.connections()), (1, 0));
}

#[test]
fn a_key_is_kept_safe() {
    let home = home();
    let check = |config: &str, variables: &[(&str, &str)], why: &str| {
        home.write(".config/quipu/config.toml", format!("[store.compaction]\n{config}\n"));
        let refused = home.run_with(COMPACT, variables);
        assert!(refused.code == 2 && refused.stderr.contains(why), "{config}: {refused}");
        assert!(!refused.stderr.contains(KEY) && !refused.stdout.contains(KEY), "{refused}");
    };
    let model = "summariser = 'openai'\nmodel = 'm'\n";
    let far = format!("{model}url = 'http://192.0.2.1/'\nkey_env = 'PARROT_KEY'");
    check(&far, &[("PARROT_KEY", KEY)], "a key is sent over https only");
    check(&format!("{model}key_env = 'PARROT_KEY'"), &[], "PARROT_KEY has no key");
    let odd = format!("{KEY}\nx-evil: 1");
    check(
        &format!("{model}key_env = 'PARROT_KEY'"),
        &[("PARROT_KEY", &odd)],
        "no key that can be sent",
    );
    // Someone wrote the key itself.
    check(&format!("{model}key_env = '{KEY}'"), &[], "is no name of an environment variable");
    check("summariser = 'openai'", &[], "the summariser `openai` has no model");
    for url in [&format!("https://me:{KEY}@a.example/"), "ftp://a.example/", "a.example", "", "/x"]
    {
        check(&format!("{model}url = '{url}'"), &[], "is not the address of a model");
    }
    // The server does not speak TLS: it gets the beginning of it, and nothing else.
    let server = Server::start(|stream| stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n"));
    configure(&home, "openai", &format!("https://{}/", server.address), OFF);
    let failed = run(&home, COMPACT);
    assert!(failed.stderr.contains("the summariser `openai` failed"), "{failed}");
    assert!(failed.code == 2 && server.connections() == 1, "{failed}");
    assert!(!server.seen().contains(KEY) && !server.seen().contains("knots"));
    // No server listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    configure(&home, "openai", &format!("http://{port}/"), OFF);
    let failed = run(&home, COMPACT);
    assert!(failed.code == 2 && failed.stderr.contains("the connection failed"), "{failed}");
    let shown = run(&home, "config show --json").json_lines();
    let shown =
        |key: &str| shown.iter().find(|line| line["setting"] == key).unwrap()["value"].clone();
    assert_eq!(shown("store.compaction.key_env"), "PARROT_KEY");
    assert_eq!(shown("store.compaction.model"), "parrot-1");
    assert_eq!(shown("store.compaction.memory_flush.enabled"), false);
}

/// An `openclaw.json` that asks for `safeguard` gets it.
#[test]
fn r81_an_openclaw_configuration_chooses_safeguard() {
    let home = home();
    home.write("openclaw.json", "{agents: {defaults: {compaction: {mode: 'safeguard'}}}}");
    let configure = |more: &str| {
        let config = format!("[store]\nopenclaw_config = '~/openclaw.json'\n{more}");
        home.write(".config/quipu/config.toml", config);
    };
    configure("");
    let note = || {
        let sql = "SELECT raw(id) AS line FROM entries WHERE type = 'compaction' ORDER BY id DESC";
        let lines = home.command(["sql", "--json", sql]);
        let first = home.finish(lines).json_lines().remove(0);
        let line: Value = serde_json::from_str(first["line"].as_str().unwrap()).unwrap();
        line["details"]["quipu"].clone()
    };
    assert_eq!(home.run(COMPACT).code, 0);
    let digest = note();
    assert!(digest["chunks"].as_u64() > Some(1), "{digest}");
    assert_eq!((&digest["summariser"], &digest["tries"]), (&json!("digest"), &json!(1)));
    // A summariser that is not there costs nothing but its words.
    configure("[store.compaction]\nsummariser = 'command'\ncommand = ['false']\n");
    let word = "count more knots ".repeat(200);
    let line = json!({"role": "user", "content": word}).to_string();
    let appended = format!("{line}\n{line}\n{line}\n");
    assert_eq!(home.feed(&["session", "append", "example"], &appended).code, 0);
    let done = home.run(COMPACT);
    assert_eq!(done.code, 0, "{done}");
    let warning = "the digest was taken instead of the summariser's answer: exit status: 1";
    assert!(done.stderr.contains(warning), "{done}");
    assert_eq!((&note()["summariser"], &note()["tries"]), (&json!("digest"), &json!(2)));
}
