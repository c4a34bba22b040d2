//! Decides whether a request is answered: where it comes from (`origin`), whose it is (`tokens`,
//! `sign_in`), and whether that is enough for the route.
//!
//! The order of the checks is that of [`Access::admit`]: nothing about a route is revealed to a
//! request without a token.

pub(crate) mod origin;
pub(crate) mod sign_in;
pub(crate) mod tokens;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::header::{AUTHORIZATION, COOKIE, UPGRADE};
use axum::http::{HeaderMap, Method, Uri};

use crate::problem::Problem;
use origin::Origins;
use tokens::{Scope, Token, TokenFolder};

/// The largest number of requests of one token that are answered at the same time. The rest of the
/// connections stay free for other tokens.
const MAX_REQUESTS_OF_TOKEN: usize = 1024;

/// The rules of one server.
#[derive(Debug)]
pub(crate) struct Access {
    /// The addresses by which the server may be called.
    pub(crate) origins: Origins,
    /// The tokens; `None` on a Unix socket, whose mode is the check.
    pub(crate) tokens: Option<TokenFolder>,
    /// The name of the cookie of this server. Browsers send cookies to every port of a host, so the
    /// name has the port.
    pub(crate) cookie: String,
    /// The number of requests that are being answered, by name of the token.
    pub(crate) running: Arc<Mutex<HashMap<String, usize>>>,
}

/// The holder of an admitted request.
#[derive(Debug)]
pub(crate) struct Caller {
    /// What the caller may do.
    pub(crate) scope: Scope,
    /// The only agent whose sessions the caller may see; `None` for all agents.
    pub(crate) agent: Option<String>,
    /// The token; `None` on a Unix socket.
    token: Option<Token>,
    /// The value of the cookie, if it has to be sent again to stay valid.
    pub(crate) renewed: Option<String>,
    /// Counts the request until it is answered.
    pub(crate) _running: Option<Running>,
}

/// Counts a request of a token until it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    all: Arc<Mutex<HashMap<String, usize>>>,
}

impl Access {
    /// Returns the caller, or the reason why the request is refused.
    pub(crate) fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Caller, Problem> {
        self.origins.check(uri, headers)?;
        let Some(tokens) = &self.tokens else {
            // Only the owner of the ledger can open the socket.
            let scope = Scope::Write;
            return Ok(Caller { scope, agent: None, token: None, renewed: None, _running: None });
        };
        let is_reading = method == Method::GET || method == Method::HEAD;
        let (token, renewed) = match bearer(headers)? {
            Some(text) => (tokens.find(text), None),
            None => {
                let text = self.cookie(headers).ok_or_else(Problem::no_token)?;
                // Browsers name the page that opens a WebSocket, whatever site it is of.
                origin::check_same_site(headers, is_reading && !headers.contains_key(UPGRADE))?;
                let found = tokens.find_cookie(text);
                let renewed = found.as_ref().filter(|(_, is_due)| *is_due);
                let renewed = renewed.map(|_| text.to_owned());
                (found.map(|(token, _)| token), renewed)
            }
        };
        let token = token.ok_or_else(Problem::no_token)?;
        // Calls of tools are posted; those that write are refused by themselves.
        let is_for_tools = uri.path() == crate::mcp::http::PATH;
        if !is_reading && !is_for_tools && token.scope != Scope::Write {
            return Err(Problem::forbidden("this token may only read"));
        }
        let running = self.count(token.name.clone())?;
        let (scope, agent) = (token.scope, token.agent.clone());
        Ok(Caller { scope, agent, token: Some(token), renewed, _running: Some(running) })
    }

    /// Returns whether the token of a caller that was admitted is still valid.
    pub(crate) fn is_current(&self, caller: &Caller) -> bool {
        match (&self.tokens, &caller.token) {
            (Some(tokens), Some(token)) => tokens.is_current(token),
            _ => true,
        }
    }

    /// Returns the value of this server's cookie.
    fn cookie<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        });
        pairs.next()
    }

    fn count(&self, name: String) -> Result<Running, Problem> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let number = running.entry(name.clone()).or_default();
        if *number >= MAX_REQUESTS_OF_TOKEN {
            return Err(Problem::too_many());
        }
        *number += 1;
        Ok(Running { name, all: Arc::clone(&self.running) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = all.get_mut(&self.name) {
            *number -= 1;
            if *number == 0 {
                all.remove(&self.name);
            }
        }
    }
}

/// Returns the token of an `Authorization: Bearer` header. Any other use of that header is refused.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let (scheme, token) =
        text.and_then(|text| text.split_once(' ')).ok_or_else(Problem::no_token)?;
    match scheme.eq_ignore_ascii_case("bearer") {
        true => Ok(Some(token.trim())),
        false => Err(Problem::no_token()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_limited_number_of_requests() {
        let access = Access {
            origins: Origins::of_socket(),
            tokens: None,
            cookie: String::new(),
            running: Arc::default(),
        };
        let all: Vec<_> =
            (0..MAX_REQUESTS_OF_TOKEN).map(|_| access.count("one".to_owned()).unwrap()).collect();
        assert_eq!(access.count("one".to_owned()).unwrap_err().status(), 429);
        // Other tokens are not affected.
        access.count("other".to_owned()).unwrap();
        drop(all);
        access.count("one".to_owned()).unwrap();
        assert!(access.running.lock().unwrap().is_empty());
    }
}
