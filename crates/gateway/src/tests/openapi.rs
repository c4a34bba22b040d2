//! The description of the routes is about the routes as they are.

use std::collections::BTreeSet;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use serde_json::Value;

use super::Fixture;
use crate::openapi::listed;

/// Sends a request with the token that may write. Returns the sentence of the problem.
fn refused(fixture: &Fixture, method: &str, path: &str, body: &str) -> String {
    let method: Method = method.to_uppercase().parse().unwrap();
    let request: Request<Body> = fixture
        .request(&method, path)
        .header("authorization", format!("Bearer {}", fixture.write))
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap();
    let response = fixture.send(request);
    assert_eq!(response.status(), 400, "{method} {path}");
    let bytes = fixture.runtime.block_on(to_bytes(response.into_body(), usize::MAX)).unwrap();
    let problem: Value = serde_json::from_slice(&bytes).unwrap();
    problem["detail"].as_str().unwrap().to_owned()
}

/// Returns the names that a refusal of the name `zzz` says are known.
fn known(sentence: &str) -> BTreeSet<&str> {
    assert!(sentence.contains("unknown field `zzz`"), "{sentence}");
    let (_, expected) = sentence.split_once("`zzz`").unwrap();
    expected.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_listed_options_are_those_that_a_route_accepts() {
    let fixture = Fixture::new();
    for (method, path, options, fields) in listed() {
        let asked = path.replace("{id}", "last").replace("{name}", "n").replace("{job}", "j");
        let body = if method == "get" { "" } else { "{}" };
        let sentence = refused(&fixture, method, &format!("{asked}?zzz=1"), body);
        assert_eq!(known(&sentence), options, "{method} {path}");
        if let Some(fields) = fields {
            let sentence = refused(&fixture, method, &asked, r#"{"zzz":1}"#);
            assert_eq!(known(&sentence), fields, "{method} {path}");
        }
    }
}
