//! One request to a model at a URL: JSON in both directions.
//!
//! Follows no redirect and uses no proxy of the environment: what is sent goes to the configured
//! address, or nowhere. No error quotes the key, the address, the question or the answer.

use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;

use quipu_ledger::store::MAX_SUMMARY_BYTES;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::http::{HeaderValue, Uri};

use crate::config::SummariserConfig;
use crate::error::{CommandError, Result};
use crate::settings::variable;

/// The time for a whole answer, unless configured.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// The time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The length, in bytes, up to which a server's word for an error is repeated.
const MAX_WORD_BYTES: usize = 40;

/// The header that has the key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    /// `Authorization: Bearer …`.
    Bearer,
    /// A header of this name.
    Header(&'static str),
}

/// An address with everything that a request to it needs.
pub(super) struct Endpoint {
    pub(super) model: String,
    uri: Uri,
    /// The environment variable that holds the key, and the header for it.
    key: Option<(String, Key)>,
    timeout: Duration,
    agent: Agent,
}

impl Endpoint {
    /// Reads the configuration. The key is read when it is used.
    pub(super) fn new(
        kind: &str,
        url: &str,
        header: Key,
        config: &SummariserConfig,
    ) -> Result<Endpoint> {
        let Some(model) = config.model.clone() else {
            return Err(CommandError::new(format!("the summariser `{kind}` has no model"))
                .hint("write `model = \"name\"` below `[store.compaction]`"));
        };
        let uri = address(config.url.as_deref().unwrap_or(url))?;
        let key = config.key_env.clone().map(|name| (name, header));
        if key.is_some() && uri.scheme_str() != Some("https") && !is_this_machine(&uri) {
            return Err(CommandError::new("a key is sent over https only")
                .hint("use an `https://` address in `url`, or remove `key_env`"));
        }
        let timeout = config.timeout_seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let agent = Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT.min(timeout)))
            .timeout_global(Some(timeout))
            .user_agent(concat!("quipu/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Ok(Endpoint { model, uri, key, timeout, agent })
    }

    /// Sends a question and returns the answer, or the reason why there is none.
    pub(super) fn post<T: DeserializeOwned>(
        &self,
        question: &Value,
        headers: &[(&str, &str)],
    ) -> Result<T, String> {
        let mut request = self.agent.post(&self.uri).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some((name, header)) = &self.key {
            let (header, value) = key(name, *header)?;
            request = request.header(header, value);
        }
        let body = question.to_string();
        let mut response = request.send(body.as_bytes()).map_err(|error| self.reason(error))?;
        let status = response.status().as_u16();
        let mut answer = Vec::new();
        let most = MAX_SUMMARY_BYTES as u64;
        let read = response.body_mut().as_reader().take(most + 1).read_to_end(&mut answer);
        if !(200..300).contains(&status) {
            return Err(refusal(status, &answer));
        }
        read.map_err(|error| match ureq::Error::from(error) {
            ureq::Error::Io(_) => "the answer ended too early".to_owned(),
            error => self.reason(error),
        })?;
        if answer.len() > MAX_SUMMARY_BYTES {
            return Err(format!("the answer is longer than {MAX_SUMMARY_BYTES} bytes"));
        }
        serde_json::from_slice(&answer).map_err(|_| "the answer has another shape".to_owned())
    }

    /// Returns the reason for a failed request, without anything that was sent or received.
    fn reason(&self, error: ureq::Error) -> String {
        match error {
            ureq::Error::Timeout(_) => {
                format!("no answer after {} seconds", self.timeout.as_secs())
            }
            ureq::Error::Io(error) => format!("the connection failed: {}", error.kind()),
            ureq::Error::HostNotFound => "its host was not found".to_owned(),
            ureq::Error::ConnectionFailed => "it cannot be reached".to_owned(),
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => {
                "there is no trusted connection to it".to_owned()
            }
            _ => "the request failed".to_owned(),
        }
    }
}

/// Returns the address; one with a password in it is refused, because `config show` prints it.
fn address(url: &str) -> Result<Uri> {
    let uri: Option<Uri> = url.parse().ok();
    let is_good = |uri: &Uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        is_http && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    };
    uri.filter(is_good).ok_or_else(|| {
        CommandError::new("`store.compaction.url` is not the address of a model")
            .hint("write the whole address, such as `http://127.0.0.1:11434/v1/chat/completions`")
    })
}

/// Returns whether the host of an address is this machine.
fn is_this_machine(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns a header with the key from the environment.
fn key(name: &str, header: Key) -> Result<(&'static str, HeaderValue), String> {
    let Some(key) = variable(name) else {
        return Err(format!("the environment variable {name} has no key"));
    };
    let key = key.to_str().map(str::trim).unwrap_or_default();
    let (header, text) = match header {
        Key::Bearer => ("authorization", format!("Bearer {key}")),
        Key::Header(header) => (header, key.to_owned()),
    };
    match HeaderValue::from_str(&text) {
        Ok(mut value) if !key.is_empty() => {
            value.set_sensitive(true);
            Ok((header, value))
        }
        _ => Err(format!("the environment variable {name} has no key that can be sent")),
    }
}

/// Returns the reason in an answer that is an error. Of its text, only the word for the kind of
/// error is repeated.
fn refusal(status: u16, answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let is_plain = |word: &&str| {
        (1..=MAX_WORD_BYTES).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let error = &answer["error"];
    let word = [&error["code"], &error["type"]].into_iter().find_map(|word| word.as_str());
    match (status, word.filter(is_plain)) {
        (300..400, _) => format!("the server answered {status}: redirects are not followed"),
        (_, Some(word)) => format!("the server answered {status} ({word})"),
        (_, None) => format!("the server answered {status}"),
    }
}
