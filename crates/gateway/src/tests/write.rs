//! Writing over HTTP, without a network: every route, its conditions and its refusals.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

use super::{Fixture, ROUTES, body};
use crate::access::tokens::{Scope, TokenFolder};
use crate::settings::Settings;

/// Sends JSON with a token. Returns the status and the answer.
fn send_with(
    fixture: &Fixture,
    token: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    sent: &str,
) -> (u16, Value) {
    let mut request = fixture.request(&method, path);
    request = request.header("authorization", format!("Bearer {token}"));
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = fixture.send(request.body(Body::from(sent.to_owned())).unwrap());
    (response.status().as_u16(), body(response))
}

fn post(fixture: &Fixture, path: &str, headers: &[(&str, &str)], sent: &Value) -> (u16, Value) {
    send_with(fixture, &fixture.write, Method::POST, path, headers, &sent.to_string())
}

/// Posts what has to succeed.
#[track_caller]
fn done(fixture: &Fixture, path: &str, sent: &Value) -> Value {
    let (status, answer) = post(fixture, path, &[], sent);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

fn message(role: &str, text: &str) -> Value {
    match role {
        "assistant" => json!({"role": role, "content": [{"type": "text", "text": text}],
                              "provider": "none", "model": "parrot"}),
        role => json!({"role": role, "content": text}),
    }
}

fn texts(fixture: &Fixture, session: &str) -> Vec<String> {
    let seen = fixture.json(&format!("/v1/sessions/{session}/context"));
    let text = |message: &Value| {
        let content = &message["content"];
        content.as_str().or(content[0]["text"].as_str()).unwrap_or_default().to_owned()
    };
    seen["messages"].as_array().unwrap().iter().map(text).collect()
}

const SESSION: &str = "/v1/sessions/agent:main:new";

/// Creates a session with a question and an answer. Returns their ids.
fn conversation(fixture: &Fixture) -> (String, String) {
    done(fixture, "/v1/sessions", &json!({"key": "agent:main:new", "id": "new"}));
    let asked = done(fixture, &format!("{SESSION}/begin"), &message("user", "one"));
    let asked = asked["id"].as_str().unwrap().to_owned();
    let answer = message("assistant", "two");
    let path = format!("{SESSION}/entries");
    let (status, answered) = post(fixture, &path, &[("expected-leaf", &asked)], &answer);
    assert_eq!(status, 200, "{answered}");
    (asked, answered["id"].as_str().unwrap().to_owned())
}

#[test]
fn a_session_is_created_once() {
    let fixture = Fixture::new();
    let new = json!({"key": "agent:main:new", "id": "new", "cwd": "/work"});
    let made = done(&fixture, "/v1/sessions", &new);
    let shape = json!({"session_id": "new", "agent": "main", "session_key": "agent:main:new"});
    assert_eq!(made, shape);
    let (status, problem) = post(&fixture, "/v1/sessions", &[], &new);
    assert_eq!((status, problem["type"].as_str()), (409, Some("quipu:exists")));
    let again = json!({"key": "agent:main:new", "or_existing": true});
    assert_eq!(done(&fixture, "/v1/sessions", &again), shape);
    let other = json!({"key": "agent:main:other", "or_existing": true});
    assert_eq!(done(&fixture, "/v1/sessions", &other)["session_key"], "agent:main:other");
    // Refusals in the words of the store.
    let foreign = json!({"key": "agent:main:x", "agent": "work"});
    let (status, problem) = post(&fixture, "/v1/sessions", &[], &foreign);
    assert_eq!(status, 422, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("does not belong to agent work"));
}

#[test]
fn a_second_writer_gets_the_leaf() {
    let fixture = Fixture::new();
    let (asked, answered) = conversation(&fixture);
    assert_eq!(texts(&fixture, "new"), ["one", "two"]);
    let path = format!("{SESSION}/entries");
    let late = message("assistant", "late");
    let (status, problem) = post(&fixture, &path, &[("expected-leaf", &asked)], &late);
    assert_eq!(status, 409);
    assert_eq!((&problem["type"], &problem["leaf"]), (&json!("quipu:conflict"), &json!(answered)));
    let (status, problem) = post(&fixture, &path, &[("expected-leaf", "root")], &late);
    assert_eq!((status, &problem["leaf"]), (409, &json!(answered)));
    // A writer that does not use the server counts too.
    let other = fixture.store.session("new").unwrap().append(quipu_ledger::Entry::user("beside"));
    let (status, problem) = post(&fixture, &path, &[("expected-leaf", &answered)], &late);
    assert_eq!((status, &problem["leaf"]), (409, &json!(other.unwrap().id)));
    // Before the first entry, the leaf is `null`.
    done(&fixture, "/v1/sessions", &json!({"id": "empty"}));
    let path = "/v1/sessions/empty/entries";
    let (status, problem) = post(&fixture, path, &[("expected-leaf", &asked)], &late);
    assert_eq!((status, problem.get("leaf")), (409, Some(&Value::Null)));
    assert_eq!(post(&fixture, path, &[("expected-leaf", "root")], &late).0, 200);
}

#[test]
fn a_retry_finds_what_the_first_try_has_stored() {
    let fixture = Fixture::new();
    conversation(&fixture);
    let path = format!("{SESSION}/entries");
    let key = [("idempotency-key", "run-7")];
    let list = json!([message("user", "three"), message("assistant", "four")]);
    let (status, first) = post(&fixture, &path, &key, &list);
    assert_eq!((status, first["items"].as_array().unwrap().len()), (200, 2));
    let (status, second) = post(&fixture, &path, &key, &list);
    assert_eq!(status, 200);
    let items = |answer: &Value| answer["items"].as_array().unwrap().clone();
    for (first, second) in items(&first).iter().zip(&items(&second)) {
        assert_eq!((&first["id"], &first["seq"]), (&second["id"], &second["seq"]));
        assert_eq!((first.get("repeated"), &second["repeated"]), (None, &json!(true)));
    }
    let other = message("user", "other");
    let (status, problem) = post(&fixture, &path, &key, &other);
    assert_eq!((status, &problem["type"]), (422, &json!("quipu:key-used")));
    assert_eq!(problem["entry_id"], first["items"][0]["id"]);
    assert_eq!(texts(&fixture, "new"), ["one", "two", "three", "four"]);
    // All entries of a request, or none of them.
    let half = json!([message("user", "five"), {"type": "unheard of"}]);
    let (status, problem) = post(&fixture, &path, &[], &half);
    assert_eq!((status, &problem["type"]), (422, &json!("quipu:refused")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().starts_with("entry 2 of the list: "));
    assert_eq!(texts(&fixture, "new").len(), 4);
}

#[test]
fn everything_that_a_runtime_does_has_a_route() {
    let fixture = Fixture::new();
    let (asked, answered) = conversation(&fixture);
    // Branches.
    let moved = done(&fixture, &format!("{SESSION}/leaf"), &json!({"entry_id": asked}));
    assert_eq!(moved["leaf"], json!(asked));
    assert_eq!(texts(&fixture, "new"), ["one"]);
    let branch = json!({"from": answered, "summary": "tried nothing"});
    done(&fixture, &format!("{SESSION}/branch"), &branch);
    assert_eq!(texts(&fixture, "new").len(), 3);
    done(&fixture, &format!("{SESSION}/branch"), &json!({"from": answered}));
    done(&fixture, &format!("{SESSION}/label"), &json!({"entry_id": asked, "label": "start"}));
    let session = fixture.store.session("new").unwrap();
    assert_eq!(session.labels().unwrap()[0].label, "start");
    done(&fixture, &format!("{SESSION}/label"), &json!({"entry_id": asked, "label": null}));
    assert!(session.labels().unwrap().is_empty());
    done(&fixture, &format!("{SESSION}/mirror"), &json!({"text": "sent"}));
    assert_eq!(texts(&fixture, "new"), ["one", "two", "sent"]);
    // Metadata.
    let path = format!("{SESSION}/meta");
    let patch = r#"{"label":"release","contextTokens":200000}"#;
    let (status, meta) = send_with(&fixture, &fixture.write, Method::PATCH, &path, &[], patch);
    assert_eq!((status, &meta["label"]), (200, &json!("release")), "{meta}");
    assert_eq!(fixture.json(&path)["label"], "release");
    // Forks, compactions and repairs.
    let fork = json!({"at": asked, "key": "agent:main:fork", "id": "forked"});
    let forked = done(&fixture, &format!("{SESSION}/fork"), &fork);
    assert_eq!(forked["session_id"], "forked");
    assert_eq!(texts(&fixture, "forked"), ["one"]);
    let compacted = done(&fixture, &format!("{SESSION}/compact"), &json!({"keep": 1}));
    assert_eq!(compacted["is_compacted"], true, "{compacted}");
    let repair = done(&fixture, &format!("{SESSION}/repair"), &json!({}));
    assert_eq!((&repair["repaired"], &repair["isNeeded"]), (&json!(false), &json!(false)));
    done(&fixture, &format!("{SESSION}/reset"), &json!({}));
    assert!(texts(&fixture, "new").is_empty());
    // Messages and senders.
    let inbound = json!({"channel": "telegram", "peer": "821071206", "text": "hello"});
    let routed = done(&fixture, "/v1/route", &inbound);
    assert_eq!((&routed["is_admitted"], &routed["session_id"]), (&json!(false), &Value::Null));
    let asking = fixture.json("/v1/senders");
    let pair = json!({"action": "pair", "code": asking["items"][0]["code"]});
    assert_eq!(done(&fixture, "/v1/senders", &pair)["state"], "allowed");
    let routed = done(&fixture, "/v1/route", &inbound);
    assert_eq!((&routed["is_created"], &routed["text"]), (&json!(true), &json!("hello")));
    let deny = json!({"action": "deny", "channel": "telegram", "sender_id": "5"});
    assert_eq!(done(&fixture, "/v1/senders", &deny)["state"], "denied");
    let revoke = json!({"action": "revoke", "channel": "telegram", "sender_id": "5"});
    assert_eq!(done(&fixture, "/v1/senders", &revoke)["state"], "revoked");
    assert_eq!(post(&fixture, "/v1/senders", &[], &revoke).0, 404);
}

#[test]
fn mistakes_in_a_request_are_named_and_nothing_is_written() {
    let fixture = Fixture::new();
    let (asked, _) = conversation(&fixture);
    let entries = format!("{SESSION}/entries");
    let cases: Vec<(String, &str, u16)> = vec![
        (entries.clone(), "{", 422),
        (entries.clone(), "[{}", 400),
        (entries.clone(), "[]", 422),
        (entries.clone(), "\"text\"", 422),
        (entries.clone(), r#"{"type":"label","targetId":"?","label":"x"}"#, 422),
        (format!("{entries}?colour=red"), "{}", 400),
        (format!("{SESSION}/begin"), r#"{"role":"assistant","content":"x"}"#, 422),
        (format!("{SESSION}/begin?x=1"), r#"{"role":"user","content":"x"}"#, 400),
        (format!("{SESSION}/leaf"), "{}", 400),
        (format!("{SESSION}/leaf"), r#"{"entry_id":"?"}"#, 422),
        (format!("{SESSION}/leaf"), r#"{"entry_id":null,"more":1}"#, 400),
        (format!("{SESSION}/mirror"), r#"{"text":"  "}"#, 422),
        (format!("{SESSION}/reset"), r#"{"keep":"?"}"#, 422),
        (format!("{SESSION}/fork"), r#"{"at":"?"}"#, 422),
        (format!("{SESSION}/meta"), "{}", 405),
        ("/v1/sessions/nothing/entries".to_owned(), r#"{"role":"user","content":"x"}"#, 404),
        ("/v1/sessions".to_owned(), r#"{"or_existing":true}"#, 400),
        ("/v1/route".to_owned(), r#"{"channel":"telegram"}"#, 400),
        ("/v1/senders".to_owned(), r#"{"action":"pair"}"#, 400),
        ("/v1/senders".to_owned(), r#"{"action":"pair","code":"?"}"#, 404),
    ];
    for (path, sent, expected) in cases {
        let (status, problem) = send_with(&fixture, &fixture.write, Method::POST, &path, &[], sent);
        assert_eq!(status, expected, "{path} {sent}: {problem}");
        assert!(problem["detail"].is_string());
    }
    // Conditions, where there are none.
    for header in ["expected-leaf", "idempotency-key"] {
        assert_eq!(post(&fixture, "/v1/sessions", &[(header, "x")], &json!({})).0, 400);
        let twice = [(header, "a"), (header, "b")];
        assert_eq!(post(&fixture, &entries, &twice, &message("user", "x")).0, 400);
    }
    // Too many entries, and a body that is too long for its length.
    let many = Value::from(vec![message("user", "x"); 1001]);
    assert_eq!(post(&fixture, &entries, &[], &many).0, 400);
    let long = format!("{}{{}}", " ".repeat(17 << 20));
    let (status, _) = send_with(&fixture, &fixture.write, Method::POST, &entries, &[], &long);
    assert_eq!(status, 413);
    let plain = fixture.request(&Method::POST, &entries);
    let plain = plain.header("authorization", format!("Bearer {}", fixture.write));
    let plain = plain.header("content-type", "text/plain").body(Body::from("{}")).unwrap();
    let response = fixture.send(plain);
    assert_eq!(
        (response.status().as_u16(), &body(response)["type"]),
        (415, &json!("quipu:not-json"))
    );
    assert_eq!(texts(&fixture, "new"), ["one", "two"]);
    assert_eq!(fixture.store.session("new").unwrap().leaf().unwrap().unwrap().parent, Some(asked));
}

#[test]
fn a_cookie_writes_from_the_servers_own_page_only() {
    let fixture = Fixture::new();
    conversation(&fixture);
    let own = format!("http://127.0.0.1:{}", fixture.port);
    let foreign = format!("http://127.0.0.1:{}", fixture.port ^ 1);
    for (origin, expected) in [(Some(&own), 200), (Some(&foreign), 403), (None, 403)] {
        let mut request = fixture.request(&Method::POST, &format!("{SESSION}/entries"));
        request = request.header("cookie", format!("quipu_{}={}", fixture.port, fixture.cookie));
        request = request.header("content-type", "application/json");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let request = request.body(Body::from(message("user", "three").to_string())).unwrap();
        assert_eq!(fixture.send(request).status(), expected, "{origin:?}");
    }
    assert_eq!(texts(&fixture, "new").len(), 3);
}

#[test]
fn r63_a_bound_token_writes_to_its_agent_only() {
    let fixture = Fixture::new();
    conversation(&fixture);
    let tokens = TokenFolder::beside(&fixture.folder.path().join("ledger.db"));
    let token = tokens.create("bound", Scope::Write, Some("work")).unwrap();
    let send = |method: Method, path: &str, sent: Value| {
        send_with(&fixture, &token, method, path, &[], &sent.to_string())
    };
    let own = send(Method::POST, "/v1/sessions", json!({"id": "own"}));
    assert_eq!((own.0, &own.1["agent"]), (200, &json!("work")));
    let question = message("user", "mine");
    assert_eq!(send(Method::POST, "/v1/sessions/own/entries", question.clone()).0, 200);
    let fork = send(Method::POST, "/v1/sessions/own/fork", json!({}));
    assert_eq!((fork.0, &fork.1["agent"]), (200, &json!("work")));
    let refused = [
        ("/v1/sessions", json!({"agent": "main"})),
        ("/v1/sessions", json!({"key": "agent:main:x"})),
        ("/v1/sessions", json!({"key": "agent:main:new", "or_existing": true})),
        ("/v1/sessions/own/fork", json!({"key": "agent:main:x"})),
        ("/v1/route", json!({"agent": "main", "channel": "cli", "peer": "1", "text": "x"})),
        (
            "/v1/senders",
            json!({"action": "allow", "agent": "main", "channel": "cli",
                                "sender_id": "1"}),
        ),
    ];
    for (path, sent) in refused {
        assert_eq!(send(Method::POST, path, sent.clone()).0, 403, "{path} {sent}");
    }
    let bodies = [
        ("entries", question.clone()),
        ("begin", question),
        ("leaf", json!({"entry_id": null})),
        ("branch", json!({"from": null, "summary": "x"})),
        ("label", json!({"entry_id": "x"})),
        ("mirror", json!({"text": "x"})),
        ("reset", json!({})),
        ("fork", json!({})),
        ("compact", json!({})),
        ("repair", json!({"apply": true})),
    ];
    for id in ["new", "ne", "agent:main:new", "main/new"] {
        for (route, sent) in &bodies {
            let path = format!("/v1/sessions/{}/{route}", id.replace('/', "%2F"));
            let (status, problem) = send(Method::POST, &path, sent.clone());
            assert_eq!(status, 404, "{path}: {problem}");
        }
        let path = format!("/v1/sessions/{}/meta", id.replace('/', "%2F"));
        assert_eq!(send(Method::PATCH, &path, json!({"label": "x"})).0, 404);
    }
    assert_eq!(texts(&fixture, "new"), ["one", "two"]);
    // A handle that another token has opened is not used.
    assert_eq!(post(&fixture, "/v1/sessions/new/entries", &[], &message("user", "x")).0, 200);
    assert_eq!(send(Method::POST, "/v1/sessions/new/entries", message("user", "x")).0, 404);
}

#[test]
fn a_server_that_only_reads_refuses_every_write() {
    let fixture = Fixture::of(ROUTES, |settings| Settings { may_write: false, ..settings });
    let (status, problem) = post(&fixture, "/v1/sessions", &[], &json!({}));
    assert_eq!((status, &problem["type"]), (403, &json!("quipu:forbidden")), "{problem}");
    assert_eq!(fixture.get("/v1/sessions").status(), 200);
}

#[test]
fn a_due_compaction_runs_beside_the_answer() {
    let fixture = Fixture::of(ROUTES, |mut settings| {
        settings.compaction.window = Some(30_000);
        settings
    });
    conversation(&fixture);
    let path = format!("{SESSION}/entries");
    let long = message("user", &"many words ".repeat(4_000));
    // Without `auto_compact`, no answer says that one is due.
    for _ in 0..3 {
        assert_eq!(done(&fixture, &path, &long).get("compaction_due"), None);
    }
    let answer = done(&fixture, &format!("{path}?auto_compact=true"), &long);
    assert_eq!(answer["compaction_due"], true, "{answer}");
    // It runs on the runtime of the server.
    let began = std::time::Instant::now();
    let session = fixture.store.session("new").unwrap();
    loop {
        let leaf = session.leaf().unwrap().unwrap();
        if leaf.type_name == "compaction" {
            return;
        }
        assert!(began.elapsed().as_secs() < 60, "the leaf is {leaf:?}");
        let pause = std::time::Duration::from_millis(5);
        fixture.runtime.block_on(async { tokio::time::sleep(pause).await });
    }
}
