//! The tools for agents over HTTP: the same checks as for every route, and no sessions.

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use quipu_ledger::Entry;
use serde_json::{Value, json};

use super::Fixture;
use crate::access::tokens::{Scope, TokenFolder};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Returns a request of a version of the protocol.
fn request(fixture: &Fixture, version: &str, method: &str, mut params: Value) -> Request<Body> {
    let mut builder = fixture
        .request(&Method::POST, "/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", version);
    if version == MODERN {
        builder = builder.header("mcp-method", method);
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str);
        if let Some(name) = name {
            builder = builder.header("mcp-name", name);
        }
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    builder.body(Body::from(body.to_string())).unwrap()
}

/// Sends a request with a token. Returns the status and the body.
fn ask(fixture: &Fixture, token: &str, mut request: Request<Body>) -> (u16, Value) {
    let value = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", value);
    let response = fixture.send(request);
    assert!(response.headers().get("mcp-session-id").is_none());
    let status = response.status().as_u16();
    let bytes = fixture.runtime.block_on(to_bytes(response.into_body(), usize::MAX)).unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Calls a tool. Returns its text, and whether it is an error.
fn call(fixture: &Fixture, token: &str, tool: &str, arguments: Value) -> (String, bool) {
    let params = json!({"name": tool, "arguments": arguments});
    let (status, answer) = ask(fixture, token, request(fixture, MODERN, "tools/call", params));
    assert_eq!(status, 200, "{answer}");
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (text.to_owned(), result["isError"].as_bool().unwrap_or_default())
}

/// Returns the names of the tools that a token may use.
fn tools(fixture: &Fixture, token: &str, version: &str) -> Vec<String> {
    let (status, answer) = ask(fixture, token, request(fixture, version, "tools/list", json!({})));
    assert_eq!(status, 200, "{answer}");
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tools_answer_in_both_eras_without_a_session() {
    let fixture = Fixture::new();
    for version in [LEGACY, MODERN] {
        let reading = tools(&fixture, &fixture.read, version);
        assert_eq!(reading, ["recall", "sessions", "read", "files", "usage"]);
        assert!(tools(&fixture, &fixture.write, version).contains(&"note".to_owned()));
        let params = json!({"name": "recall", "arguments": {"words": "question 3"}});
        let request = request(&fixture, version, "tools/call", params);
        let (status, answer) = ask(&fixture, &fixture.read, request);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(status == 200 && text.contains("question 3"), "{answer}");
    }
    let hello = json!({
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    });
    let (status, answer) =
        ask(&fixture, &fixture.read, request(&fixture, LEGACY, "initialize", hello));
    assert_eq!((status, &answer["result"]["protocolVersion"]), (200, &json!(LEGACY)), "{answer}");
}

#[test]
fn a_note_needs_a_token_that_may_write() {
    let fixture = Fixture::new();
    let params = json!({"name": "note", "arguments": {"text": "walrus"}});
    let refused = request(&fixture, MODERN, "tools/call", params);
    let (_, answer) = ask(&fixture, &fixture.read, refused);
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    let (text, is_error) = call(&fixture, &fixture.write, "note", json!({"text": "walrus"}));
    assert!(!is_error && text.starts_with("Kept as entry"), "{text}");
    let (text, _) = call(&fixture, &fixture.read, "recall", json!({"words": "walrus"}));
    assert!(text.contains("agent:main") || text.contains("walrus\n"), "{text}");
}

#[test]
fn every_host_origin_and_token_is_checked() {
    let fixture = Fixture::new();
    let port = fixture.port;
    let own = format!("http://127.0.0.1:{port}");
    let cases = [
        (None, None, None, 401),
        (None, None, Some("quipu_reader.0000"), 401),
        (Some("evil.example"), None, Some(fixture.read.as_str()), 403),
        (None, Some("http://evil.example"), Some(fixture.read.as_str()), 403),
        (None, Some("null"), Some(fixture.read.as_str()), 403),
        (None, Some(own.as_str()), Some(fixture.read.as_str()), 200),
        (None, None, Some(fixture.read.as_str()), 200),
    ];
    for (host, origin, token, expected) in cases {
        let mut request = request(&fixture, LEGACY, "tools/list", json!({}));
        let headers = request.headers_mut();
        if let Some(host) = host {
            headers.insert("host", host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert("origin", origin.parse().unwrap());
        }
        if let Some(token) = token {
            headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let response = fixture.send(request);
        assert_eq!(response.status(), expected, "{host:?} {origin:?} {token:?}");
        assert_eq!(response.headers().get("cache-control").unwrap(), "no-store");
    }
    // A page cannot use the cookie of a browser.
    let cookie = format!("quipu_{port}={}", fixture.cookie);
    for (origin, site, expected) in
        [(None, None, 403), (Some(&own), Some("cross-site"), 403), (Some(&own), None, 200)]
    {
        let mut request = request(&fixture, LEGACY, "tools/list", json!({}));
        let headers = request.headers_mut();
        headers.insert("cookie", cookie.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert("origin", origin.parse().unwrap());
        }
        if let Some(site) = site {
            headers.insert("sec-fetch-site", site.parse().unwrap());
        }
        assert_eq!(fixture.send(request).status(), expected, "{origin:?} {site:?}");
    }
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let request = fixture.request(&method, "/mcp");
        let request = request.header("authorization", format!("Bearer {}", fixture.write));
        let request = request.header("accept", "application/json, text/event-stream");
        let status = fixture.send(request.body(Body::empty()).unwrap()).status().as_u16();
        assert!((400..500).contains(&status), "{method}: {status}");
    }
}

#[test]
fn r63_a_bound_token_sees_one_agent() {
    let fixture = Fixture::new();
    let own = fixture.store.session_or_new("agent:work:one").unwrap();
    own.append(Entry::user("an own question")).unwrap();
    let hidden = fixture.store.session("agent:main:s1").unwrap().id().to_owned();
    let tokens = TokenFolder::beside(&fixture.folder.path().join("ledger.db"));
    let token = tokens.create("bound", Scope::Write, Some("work")).unwrap();
    for words in ["question", "question agent:main", "answer", "why question walrus"] {
        let (text, _) = call(&fixture, &token, "recall", json!({"words": words}));
        assert!(!text.contains("question 1") && !text.contains(&hidden), "{words}: {text}");
        assert!(!text.contains("7 passages") && !text.contains("8 passages"), "{words}: {text}");
    }
    let (text, _) = call(&fixture, &token, "recall", json!({"words": "own question"}));
    assert!(text.contains("an own question"), "{text}");
    let (text, _) = call(&fixture, &token, "sessions", json!({}));
    assert!(text.contains("1 sessions") && text.contains(own.id()), "{text}");
    for name in [hidden.as_str(), "agent:main:s1"] {
        let (text, is_error) = call(&fixture, &token, "read", json!({"session": name}));
        assert!(is_error && text.contains("Nothing has this name"), "{text}");
    }
    let (text, _) = call(&fixture, &token, "read", json!({"session": "last"}));
    assert!(text.contains("an own question"), "{text}");
    let (text, is_error) = call(&fixture, &token, "sessions", json!({"agent": "main"}));
    assert!(is_error, "{text}");
    let (_, answer) = ask(&fixture, &token, request(&fixture, MODERN, "resources/list", json!({})));
    assert_eq!(answer["result"]["resources"].as_array().map(Vec::len), Some(1), "{answer}");
    let uri = json!({"uri": format!("quipu://session/{hidden}")});
    let (_, answer) = ask(&fixture, &token, request(&fixture, MODERN, "resources/read", uri));
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    // Its notes are its agent's.
    let (_, is_error) = call(&fixture, &token, "note", json!({"text": "walrus"}));
    assert!(!is_error);
    assert!(fixture.store.session("agent:work:explicit:notes").is_ok());
}
