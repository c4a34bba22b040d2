//! Tokens that are bound to one agent see no session of another.

use axum::http::Method;
use quipu_ledger::Entry;
use serde_json::Value;

use super::{Fixture, body};
use crate::access::tokens::{Scope, TokenFolder};
use crate::routes::ROUTES;

/// A word that only sessions of the other agent have.
const SECRET: &str = "xylophone";

/// Returns a fixture with sessions of a second agent, and a token that is bound to that agent.
fn fixture() -> (Fixture, String) {
    let fixture = Fixture::new();
    for name in ["one", "two"] {
        let session = fixture.store.session_or_new(&format!("agent:work:{name}")).unwrap();
        session.append(Entry::user("an own question")).unwrap();
    }
    let hidden = fixture.store.session("agent:main:s1").unwrap();
    hidden.append(Entry::user(SECRET)).unwrap();
    fixture.store.catch_up().unwrap();
    let tokens = TokenFolder::beside(&fixture.folder.path().join("ledger.db"));
    let token = tokens.create("bound", Scope::Write, Some("work")).unwrap();
    (fixture, token)
}

fn get(fixture: &Fixture, token: &str, path: &str) -> (u16, Value) {
    let request =
        fixture.request(&Method::GET, path).header("authorization", format!("Bearer {token}"));
    let response = fixture.send(request.body(axum::body::Body::empty()).unwrap());
    let status = response.status().as_u16();
    let is_json = |value: &axum::http::HeaderValue| value.as_bytes().ends_with(b"json");
    let has_json = response.headers().get("content-type").is_some_and(is_json);
    (status, if has_json { body(response) } else { Value::Null })
}

#[test]
fn r63_a_bound_token_sees_one_agent_on_every_route() {
    let (fixture, token) = fixture();
    let hidden = fixture.store.session("agent:main:s1").unwrap().id().to_owned();
    for route in ROUTES {
        for id in ["agent:main:s1", &hidden, &hidden[..13]] {
            let path = route.path.replace("{id}", id).replace("{name}", "n").replace("{job}", "j");
            let options = match route.path {
                "/v1/sql" => format!("?q=SELECT+'{SECRET}'"),
                "/v1/search" => format!("?q={SECRET}"),
                _ => String::new(),
            };
            let (status, answer) = get(&fixture, &token, &format!("{path}{options}"));
            let expected = match route.path {
                "/v1/status" | "/v1/sql" => status == 403,
                path if path.contains('{') => status == 404,
                // A list without the agent's own things.
                _ => matches!(status, 200 | 404),
            };
            assert!(expected, "{path}: {status} {answer}");
            let text = answer.to_string();
            // A problem may repeat the name that was asked for.
            let leaks = text.contains(SECRET) || (status == 200 && text.contains(&hidden));
            assert!(!leaks, "{path}: {text}");
        }
    }
    // It sees everything of its own.
    let (status, sessions) = get(&fixture, &token, "/v1/sessions");
    assert_eq!((status, sessions["total"].as_u64()), (200, Some(2)));
    let (status, last) = get(&fixture, &token, "/v1/sessions/last");
    assert_eq!((status, last["agent"].as_str()), (200, Some("work")));
    assert_eq!(get(&fixture, &token, "/v1/search?q=own").1["total"], 2);
    assert_eq!(get(&fixture, &token, "/v1/sessions/agent:work:one/entries").0, 200);
    // Words of the search language cannot widen it.
    for query in ["own+agent:main", "question+agent:main", "agent:main", "-agent:work"] {
        let (status, found) = get(&fixture, &token, &format!("/v1/search?q={query}"));
        assert_eq!((status, found["total"].as_u64()), (200, Some(0)), "{query}");
    }
    assert_eq!(get(&fixture, &token, "/v1/sessions?agent=main").0, 403);
    assert_eq!(get(&fixture, &token, "/v1/usage?agent=main").0, 403);
    assert_eq!(get(&fixture, &token, "/v1/senders?agent=main").0, 403);
}

#[test]
fn r63_an_answer_of_one_token_is_not_unchanged_for_another() {
    let (fixture, token) = fixture();
    let request = |token: &str, known: Option<&str>| {
        let mut request = fixture.request(&Method::GET, "/v1/projects");
        request = request.header("authorization", format!("Bearer {token}"));
        if let Some(known) = known {
            request = request.header("if-none-match", known);
        }
        let response = fixture.send(request.body(axum::body::Body::empty()).unwrap());
        let tag = response.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned());
        (response.status().as_u16(), tag)
    };
    let (status, tag) = request(&fixture.read, None);
    assert_eq!(status, 200);
    assert_eq!(request(&fixture.read, tag.as_deref()).0, 304);
    assert_eq!(request(&token, tag.as_deref()).0, 200);
}
