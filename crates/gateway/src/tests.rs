//! Tests of the whole service, without a network: every check before every route.

use std::collections::BTreeSet;
use std::path::Path;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response, StatusCode};
use jiff::tz::TimeZone;
use quipu_ledger::store::CompactionSettings;
use quipu_ledger::{Entry, Store};
use quipu_transcript::prices::Prices;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::ServiceExt;

use crate::access::tokens::{Scope, TokenFolder};
use crate::answer::Answer;
use crate::listener::Listener;
use crate::problem::Problem;
use crate::routes::write::WRITES;
use crate::routes::{Changes, ROUTES, Route};
use crate::server::Server;
use crate::settings::Settings;

mod events;
mod mcp;
mod openapi;
mod scope;
mod write;

/// A service of a small ledger, and who may use it.
struct Fixture {
    folder: TempDir,
    store: Store,
    router: Router,
    port: u16,
    read: String,
    write: String,
    cookie: String,
    link: String,
    runtime: Runtime,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(ROUTES)
    }

    fn with(routes: &'static [Route]) -> Fixture {
        Fixture::of(routes, |settings| settings)
    }

    fn of(routes: &'static [Route], change: impl FnOnce(Settings) -> Settings) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let store = Store::open(&path).unwrap();
        for number in 0..7 {
            let session = store.session_or_new(&format!("agent:main:s{number}")).unwrap();
            session.append(Entry::user(&format!("question {number}"))).unwrap();
            session.append(Entry::assistant("an answer").model("none", "parrot")).unwrap();
        }
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let port = listener.address().unwrap().port();
        let server = Server::new(listener, change(settings(&path)));
        let link = server.sign_in_link().unwrap().unwrap();
        let tokens = TokenFolder::beside(&path);
        Fixture {
            read: tokens.create("reader", Scope::Read, None).unwrap(),
            write: tokens.create("writer", Scope::Write, None).unwrap(),
            cookie: tokens.create_cookie(Scope::Write).unwrap(),
            router: server.router(routes),
            folder,
            store,
            port,
            link,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        }
    }

    fn send(&self, request: Request<Body>) -> Response<Body> {
        self.runtime.block_on(self.router.clone().oneshot(request)).unwrap()
    }

    fn request(&self, method: &Method, path: &str) -> axum::http::request::Builder {
        let host = format!("127.0.0.1:{}", self.port);
        Request::builder().method(method).uri(path).header("host", host)
    }

    /// Sends a GET with the token that may read.
    fn get(&self, path: &str) -> Response<Body> {
        let request = self.request(&Method::GET, path);
        let token = format!("Bearer {}", self.read);
        self.send(request.header("authorization", token).body(Body::empty()).unwrap())
    }

    #[track_caller]
    fn json(&self, path: &str) -> Value {
        let response = self.get(path);
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        body(response)
    }
}

fn settings(ledger: &Path) -> Settings {
    Settings {
        ledger: ledger.to_owned(),
        may_project: true,
        may_write: true,
        routing: Default::default(),
        summariser: Default::default(),
        roots: Vec::new(),
        prices: Prices::default(),
        limits: quipu_ledger::query::WindowLimits::default(),
        compaction: CompactionSettings::default(),
        zone: TimeZone::UTC,
    }
}

fn body(response: Response<Body>) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let bytes = runtime.block_on(to_bytes(response.into_body(), usize::MAX)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// The ways to say who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credential {
    Nothing,
    Wrong,
    Basic,
    Twice,
    Read,
    Write,
    Cookie,
    TokenAsCookie,
    CookieAsToken,
}

use Credential::{Basic, Cookie, CookieAsToken, Nothing, Read, TokenAsCookie, Twice, Write, Wrong};

#[test]
fn every_host_origin_method_and_token_meets_every_route() {
    let fixture = Fixture::new();
    let port = fixture.port;
    let own = format!("127.0.0.1:{port}");
    let hosts = [
        (vec![own.clone()], true),
        (vec![format!("LOCALHOST:{port}")], true),
        (vec![format!("[::1]:{port}")], true),
        (vec![], false),
        (vec![own.clone(), own.clone()], false),
        (vec!["127.0.0.1".to_owned()], false),
        (vec![format!("127.0.0.1:{}", port ^ 1)], false),
        (vec![format!("evil.example:{port}")], false),
        (vec![format!("127.0.0.1.evil.example:{port}")], false),
    ];
    let origins = [
        (vec![], true),
        (vec![format!("http://{own}")], true),
        (vec![format!("http://localhost:{port}")], true),
        (vec![format!("http://{own}"), format!("http://{own}")], false),
        (vec![format!("https://{own}")], false),
        (vec![format!("http://127.0.0.1:{}", port ^ 1)], false),
        (vec!["null".to_owned()], false),
        (vec!["http://evil.example".to_owned()], false),
    ];
    let methods = ["GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS", "PROPFIND"];
    let credentials =
        [Nothing, Wrong, Basic, Twice, Read, Write, Cookie, TokenAsCookie, CookieAsToken];
    let paths = ROUTES.iter().map(|route| route.path).chain(["/", "/v1/nothing"]);
    let paths: BTreeSet<&str> = paths.chain(WRITES.iter().map(|route| route.path)).collect();
    let (mut answered, mut writing) = (0, 0);
    for path in paths {
        let is_route = !matches!(path, "/" | "/v1/nothing");
        let is_read = ROUTES.iter().any(|route| route.path == path);
        let writes = |method: &str| {
            WRITES.iter().any(|route| route.path == path && route.method.as_str() == method)
        };
        let writes = methods.map(writes);
        let path = path.replace("{id}", "last").replace("{name}", "n").replace("{job}", "j");
        // Each host with no origin, and each origin with the first host.
        let pairs = hosts.iter().map(|host| (host, &origins[0]));
        let pairs = pairs.chain(origins.iter().map(|origin| (&hosts[0], origin)));
        for ((host, is_host), (origin, is_origin)) in pairs {
            for ((method, writes), credential) in methods
                .into_iter()
                .zip(writes)
                .flat_map(|method| credentials.map(|credential| (method, credential)))
            {
                let mut request = Request::builder().method(method).uri(&path);
                for host in host {
                    request = request.header("host", host);
                }
                for origin in origin {
                    request = request.header("origin", origin);
                }
                let bearer = |token: &str| format!("Bearer {token}");
                let cookie = |value: &str| format!("other=1; quipu_{port}={value}");
                request = match credential {
                    Nothing => request,
                    Wrong => request.header("authorization", bearer(&fixture.read[..60])),
                    Basic => request.header("authorization", format!("Basic {}", fixture.read)),
                    Twice => request
                        .header("authorization", bearer(&fixture.read))
                        .header("authorization", bearer(&fixture.read)),
                    Read => request.header("authorization", bearer(&fixture.read)),
                    Write => request.header("authorization", bearer(&fixture.write)),
                    Cookie => request.header("cookie", cookie(&fixture.cookie)),
                    TokenAsCookie => request.header("cookie", cookie(&fixture.write)),
                    CookieAsToken => request.header("authorization", bearer(&fixture.cookie)),
                };
                let status = fixture.send(request.body(Body::empty()).unwrap()).status().as_u16();
                let reads = matches!(method, "GET" | "HEAD");
                let expected = match credential {
                    _ if !is_host || !is_origin => 403,
                    // A request with a cookie that writes has to say where it is from.
                    Cookie | TokenAsCookie if !reads && origin.is_empty() => 403,
                    Nothing | Wrong | Basic | Twice | TokenAsCookie | CookieAsToken => 401,
                    Read if !reads => 403,
                    _ if !is_route => 404,
                    // The route is there, and wants JSON.
                    _ if writes => {
                        writing += 1;
                        415
                    }
                    _ if !reads || !is_read => 405,
                    // The route itself decides.
                    _ => {
                        answered += 1;
                        assert!(matches!(status, 200 | 400 | 404), "{method} {path}: {status}");
                        continue;
                    }
                };
                assert_eq!(status, expected, "{method} {path} {host:?} {origin:?} {credential:?}");
            }
        }
    }
    assert!(answered > 0 && writing > 0);
}

#[test]
fn pages_of_the_same_machine_cannot_use_the_cookie() {
    let fixture = Fixture::new();
    let cookie = format!("quipu_{}={}", fixture.port, fixture.cookie);
    for (site, expected) in
        [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)]
    {
        let request = fixture.request(&Method::GET, "/v1/sessions").header("cookie", &cookie);
        let request = request.header("sec-fetch-site", site).body(Body::empty()).unwrap();
        assert_eq!(fixture.send(request).status(), expected, "{site}");
    }
    // A name in the first line counts too.
    let uri = format!("http://evil.example:{}/v1/sessions", fixture.port);
    let request = fixture.request(&Method::GET, &uri).header("cookie", &cookie);
    assert_eq!(fixture.send(request.body(Body::empty()).unwrap()).status(), 403);
}

#[test]
fn every_answer_has_the_headers_that_protect_it() {
    let fixture = Fixture::new();
    let no_token = fixture.request(&Method::GET, "/v1/status").body(Body::empty()).unwrap();
    let answers = [
        (fixture.get("/v1/sessions"), 200),
        (fixture.get("/v1/sessions/nothing"), 404),
        (fixture.get("/v1/sessions?colour=red"), 400),
        (fixture.send(no_token), 401),
        (fixture.get("/sign-in?code=wrong"), 403),
    ];
    for (response, status) in answers {
        assert_eq!(response.status(), status);
        let header =
            |name: &str| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
        assert!(header("content-security-policy").contains("frame-ancestors 'none'"));
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("x-frame-options"), "DENY");
        assert_eq!(header("referrer-policy"), "no-referrer");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
        if status != 200 {
            assert_eq!(header("content-type"), "application/problem+json");
            let problem = body(response);
            assert_eq!(problem["status"], status);
            assert!(problem["type"].as_str().unwrap().starts_with("quipu:"), "{problem}");
            assert!(problem["title"].is_string() && problem["detail"].is_string());
        }
    }
}

#[test]
fn a_browser_signs_in_once() {
    let fixture = Fixture::new();
    let (_, path) = fixture.link.split_once(&fixture.port.to_string()).unwrap();
    let open = || fixture.send(fixture.request(&Method::GET, path).body(Body::empty()).unwrap());
    let response = open();
    assert_eq!(response.status(), 200);
    let cookie = response.headers().get("set-cookie").unwrap().to_str().unwrap();
    let (value, rest) = cookie.split_once(';').unwrap();
    assert_eq!(rest, " Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
    let request = fixture.request(&Method::GET, "/v1/sessions").header("cookie", value);
    assert_eq!(fixture.send(request.body(Body::empty()).unwrap()).status(), 200);
    assert_eq!(open().status(), 403);
}

#[test]
fn a_large_body_is_refused() {
    let fixture = Fixture::new();
    let request = fixture.request(&Method::GET, "/v1/sessions");
    let request = request
        .header("authorization", format!("Bearer {}", fixture.read))
        .header("content-length", (16 << 20) + 1);
    assert_eq!(fixture.send(request.body(Body::empty()).unwrap()).status(), 413);
}

#[test]
fn a_panic_is_one_failed_request() {
    fn panics(call: &crate::call::Call<'_>) -> Result<Answer, Problem> {
        assert!(!call.asked.names.is_empty(), "a defect");
        Err(Problem::too_large())
    }
    static BROKEN: &[Route] = &[Route {
        path: "/v1/broken",
        changes: Changes::Always,
        is_unlimited: false,
        answer: panics,
    }];
    let fixture = Fixture::with(BROKEN);
    for _ in 0..8 {
        let response = fixture.get("/v1/broken");
        assert_eq!(response.status(), 500);
        assert_eq!(body(response)["type"], "quipu:failed");
    }
}

#[test]
fn an_unchanged_answer_is_not_sent_again() {
    let fixture = Fixture::new();
    let tag = |path: &str, known: Option<&str>| {
        let mut request = fixture.request(&Method::GET, path);
        request = request.header("authorization", format!("Bearer {}", fixture.read));
        if let Some(known) = known {
            request = request.header("if-none-match", known);
        }
        let response = fixture.send(request.body(Body::empty()).unwrap());
        let tag = response.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned());
        (response.status().as_u16(), tag)
    };
    let path = "/v1/sessions/agent:main:s1/entries";
    let (status, first) = tag(path, None);
    assert_eq!(status, 200);
    assert_eq!(tag(path, first.as_deref()), (304, first.clone()));
    // The tag of another answer is of no use.
    assert_eq!(tag(&format!("{path}?full=true"), first.as_deref()).0, 200);
    fixture.store.session("agent:main:s1").unwrap().append(Entry::user("more")).unwrap();
    let (status, second) = tag(path, first.as_deref());
    assert_eq!(status, 200);
    assert_ne!(first, second);
    // What depends on the clock has no tag.
    assert_eq!(tag("/v1/sessions", None), (200, None));
}

#[test]
fn pages_are_the_whole_list_without_gaps_or_doubles() {
    let fixture = Fixture::new();
    let whole = fixture.json("/v1/sessions");
    assert_eq!((whole["total"].as_u64(), whole["next"].as_str()), (Some(7), None));
    let mut items = Vec::new();
    let mut path = "/v1/sessions?limit=3".to_owned();
    loop {
        let page = fixture.json(&path);
        items.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sessions?limit=3&cursor={next}");
    }
    assert_eq!(Value::from(items), whole["items"]);
    // A cursor of another list.
    assert_eq!(fixture.get(&path.replace("?", "?human=true&")).status(), 400);
}

#[test]
fn entries_are_paged_in_both_directions() {
    let fixture = Fixture::new();
    let session = fixture.store.session("agent:main:s0").unwrap();
    for number in 0..20 {
        session.append(Entry::user(&format!("more {number}"))).unwrap();
    }
    let route = "/v1/sessions/agent:main:s0/entries";
    let ids = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["entry_id"].as_str().unwrap().to_owned()).collect()
    };
    let whole = ids(&fixture.json(route));
    assert_eq!(whole.len(), 22);
    let (mut forward, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let cursor_option = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = fixture.json(&format!("{route}?limit=5{cursor_option}"));
        forward.extend(ids(&page));
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(forward, whole);
    // From the end to the beginning.
    let mut page = fixture.json(&format!("{route}?limit=5&last=5"));
    let mut backward = ids(&page);
    while let Some(previous) = page["previous"].as_str().map(str::to_owned) {
        page = fixture.json(&format!("{route}?limit=5&last=5&cursor={previous}"));
        backward.splice(0..0, ids(&page));
    }
    assert_eq!(backward, whole);
    // Around one entry.
    let around = fixture.json(&format!("{route}?around={}&context=2", whole[10]));
    assert_eq!(ids(&around), whole[8..13]);
    let next = around["next"].as_str().unwrap();
    let after = fixture.json(&format!("{route}?around={}&context=2&cursor={next}", whole[10]));
    assert_eq!(ids(&after), whole[13..]);
}

#[test]
fn what_was_appended_a_moment_ago_is_answered() {
    let fixture = Fixture::new();
    for number in 0..5 {
        let session = fixture.store.session_or_new(&format!("agent:main:new{number}")).unwrap();
        session.append(Entry::user("hello")).unwrap();
        let entries = fixture.json(&format!("/v1/sessions/agent:main:new{number}/entries"));
        assert_eq!(entries["items"][0]["text"], "hello");
        assert_eq!(entries["unprojected_records"], Value::Null);
    }
}

#[test]
fn a_replaced_ledger_is_read_instead() {
    let fixture = Fixture::new();
    assert_eq!(fixture.json("/v1/sessions")["total"], 7);
    let other = fixture.folder.path().join("other.db");
    let store = Store::open(&other).unwrap();
    store.session_or_new("agent:main:only").unwrap().append(Entry::user("hello")).unwrap();
    drop(store);
    std::fs::rename(&other, fixture.folder.path().join("ledger.db")).unwrap();
    for name in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = std::fs::remove_file(fixture.folder.path().join(name));
    }
    assert_eq!(fixture.json("/v1/sessions")["total"], 1);
}

#[test]
fn odd_paths_name_nothing() {
    let fixture = Fixture::new();
    for path in ["..%2f..%2fetc", "%00", "%2e%2e", "a%0ab", &"a".repeat(8000)] {
        let response = fixture.get(&format!("/v1/sessions/{path}/entries"));
        assert_eq!(response.status(), 404, "{path}");
    }
    assert_eq!(fixture.get("/v1/sessions/%ff/entries").status(), 400);
    assert_eq!(fixture.get("/v1/sessions/s/entries?turn=x").status(), 400);
}

#[test]
fn a77_forged_options_and_cursors_are_mistakes_of_the_caller() {
    let fixture = Fixture::new();
    let forged = [
        "limit=-1",
        "limit=1e99",
        "limit=abc",
        "cursor=",
        "cursor=0",
        "cursor=0.0000000000000000",
        "cursor=%27%3B%20DROP%20TABLE%20records",
        "colour=red",
        "limit=1&limit=2",
    ];
    for route in ROUTES {
        let path = route.path.replace("{id}", "last").replace("{name}", "n").replace("{job}", "j");
        let needed = if route.path.ends_with("sql") { "&q=SELECT+1" } else { "" };
        for options in forged {
            let status = fixture.get(&format!("{path}?{options}{needed}")).status().as_u16();
            // Of these, the ledger has none.
            let is_unknown = matches!(route.path, "/v1/notes/{name}" | "/v1/cron/{job}");
            assert!(status == 400 || (is_unknown && status == 404), "{path}?{options}: {status}");
        }
    }
}
