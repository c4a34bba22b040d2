//! Checks which address a request names as the server, and which web page sent it.
//!
//! A page of another site can send requests to this machine, and can give its own name an address of
//! this machine. Both are refused here: the names are compared exactly, with the port.

use std::fmt;
use std::net::SocketAddr;

use axum::http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use axum::http::{HeaderMap, Uri};

use crate::problem::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The scheme, host and port that browsers use for a server: `https://quipu.example`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    is_https: bool,
    /// The host in lower case, with the port unless it is the scheme's own.
    host: String,
}

/// A text that is not an origin.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an origin")]
pub struct BadOrigin(String);

impl Origin {
    /// Reads an origin: `http` or `https`, a host, and a port if it is not the usual one.
    pub fn parse(text: &str) -> Result<Origin, BadOrigin> {
        let bad = || BadOrigin(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad()),
        };
        let authority = uri.authority().ok_or_else(bad)?;
        let is_whole = uri.query().is_none()
            && matches!(uri.path(), "" | "/")
            && !authority.as_str().contains('@')
            && !authority.host().is_empty();
        // `Authority` accepts a port that is not a number.
        let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if !is_whole || (!port.is_empty() && authority.port_u16().is_none()) {
            return Err(bad());
        }
        let usual = if is_https { 443 } else { 80 };
        let host = authority.host().to_ascii_lowercase();
        let host = match authority.port_u16().filter(|port| *port != usual) {
            Some(port) => format!("{host}:{port}"),
            None => host,
        };
        Ok(Origin { is_https, host })
    }

    /// Returns whether requests to it are encrypted.
    pub fn is_https(&self) -> bool {
        self.is_https
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)
    }
}

/// The addresses by which a server may be called.
#[derive(Debug)]
pub(crate) struct Origins {
    /// Values of `Host`.
    hosts: Vec<String>,
    /// Values of `Origin`.
    origins: Vec<String>,
}

impl Origins {
    /// Returns the addresses of a server at `address`: those of this machine, and `named`.
    pub(crate) fn of(address: SocketAddr, named: Option<&Origin>) -> Origins {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let local = names.map(|name| match address.port() {
            80 => Origin { is_https: false, host: name.to_owned() },
            port => Origin { is_https: false, host: format!("{name}:{port}") },
        });
        let all = || local.iter().chain(named);
        Origins {
            hosts: all().map(|origin| origin.host.clone()).collect(),
            origins: all().map(Origin::to_string).collect(),
        }
    }

    /// Returns the addresses of a server at a Unix socket. No browser calls it.
    pub(crate) fn of_socket() -> Origins {
        Origins { hosts: vec!["localhost".to_owned()], origins: Vec::new() }
    }

    /// Returns the values of `Host` and of `Origin`.
    pub(crate) fn names(&self) -> (&[String], &[String]) {
        (&self.hosts, &self.origins)
    }

    /// Fails unless the request names one of the addresses, and no foreign page sent it.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let is_known = |host: &str| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
        let host = only(headers, &HOST)
            .ok_or_else(|| Problem::forbidden("a request needs one Host header"))?;
        // A request may name the address in its first line too.
        let named = uri.authority().map(|authority| authority.as_str());
        if !is_known(host) || !named.is_none_or(is_known) {
            return Err(Problem::forbidden("the server is not called by this name"));
        }
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        match only(headers, &ORIGIN) {
            Some(origin) if self.origins.iter().any(|known| known == origin) => Ok(()),
            _ => Err(Problem::forbidden("the request comes from another web page")),
        }
    }
}

/// Fails if a request with a cookie may have been sent by another site. Browsers send cookies to
/// every port of a host. A browser sends `Origin` with every request that writes.
pub(crate) fn check_same_site(headers: &HeaderMap, is_reading: bool) -> Result<(), Problem> {
    let is_own = match headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => true,
        Some(_) => false,
    };
    // The value of the header was compared before.
    match is_own && (is_reading || headers.contains_key(ORIGIN)) {
        true => Ok(()),
        false => Err(Problem::forbidden("the request comes from another web page")),
    }
}

/// Returns the only value of a header.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        let shown = |text| Origin::parse(text).map(|origin| origin.to_string()).ok();
        assert_eq!(shown("https://Quipu.Example").as_deref(), Some("https://quipu.example"));
        assert_eq!(shown("https://quipu.example:443/").as_deref(), Some("https://quipu.example"));
        assert_eq!(shown("http://10.0.0.5:4774").as_deref(), Some("http://10.0.0.5:4774"));
        let bad = [
            "",
            "quipu.example",
            "ftp://a",
            "https://a/b",
            "https://a?b",
            "https://u@a",
            "http://a:99999",
        ];
        for text in bad {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
