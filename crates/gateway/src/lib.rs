//! Serves a ledger over HTTP, to other programs and to browsers on this machine.
//!
//! A request passes `server` (connections and their limits), `access` (is it from where it may come
//! from, and whose is it?) and `router` (which route is it, within which time?). A route is a plain
//! function in `routes`: it gets a `call::Call` with a ledger to read from, and returns an answer
//! or a problem. A route that writes (`routes::write`) gets a `write::given::Given` instead, and
//! `write` brings its work to the one thread that owns the store. The shapes of answers are those of [`quipu_ledger::wire`], as `--json` prints them.
//!
//! This is the only crate with asynchronous code, and only `server`, `router`, `write` and `live` have any. It has no
//! SQL, and it never logs a text of a transcript, a token or a query.

mod access;
mod answer;
mod call;
mod file_body;
mod listener;
mod live;
mod mcp;
mod openapi;
mod outflow;
mod page;
mod problem;
mod readers;
mod router;
mod routes;
mod secret;
mod server;
mod settings;
#[cfg(test)]
mod tests;
mod tools;
mod write;

pub use access::origin::{BadOrigin, Origin};
pub use access::tokens::{Scope, Token, TokenError, TokenFolder};
pub use listener::{BindError, Listener};
pub use mcp::{Collector, serve_stdio};
pub use server::{Server, Stop};
pub use settings::{Settings, Summarisers};
