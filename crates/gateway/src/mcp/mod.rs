//! The Model Context Protocol: the door through which agents call the tools.
//!
//! Translates between the SDK and `tools`, and does nothing else. No session is kept between two
//! calls, so a server that was restarted answers the next call.

mod handler;
pub(crate) mod http;
mod stdio;

pub use stdio::{Collector, serve_stdio};
