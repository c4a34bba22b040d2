//! Keeps sessions in one SQLite file: every collected byte, and everything derived from it.
//!
//! ```
//! use quipu_ledger::search::{SearchRequest, search};
//! use quipu_ledger::{Entry, Store};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     # let folder = tempfile::tempdir()?;
//!     # let path = folder.path().join("ledger.db");
//!     let store = Store::open(&path)?;
//!     let session = store.session_or_new("agent:main:main")?;
//!
//!     // A turn: the prompt, what the model sees, its answer.
//!     let turn = session.begin_turn(Entry::user("Who knots numbers into strings?"))?;
//!     assert_eq!(session.context()?.messages.len(), 1);
//!     let answer = Entry::assistant("The Inca did: a quipu.").model("none", "example");
//!     session.at(&turn.id).append(answer)?;
//!     assert_eq!(session.context()?.messages.len(), 2);
//!
//!     // Everything that was appended or collected is found.
//!     let request = SearchRequest { exact: Some("quipu".to_owned()), ..SearchRequest::default() };
//!     let found = search(&store.reader()?, &request)?;
//!     assert_eq!(found.hits.len(), 1);
//!     Ok(())
//! }
//! ```
//!
//! This crate holds all SQL. It never prints, never exits and never reads the environment; it is
//! synchronous.
//!
//! The root has the types that most programs use. A program that reads uses [`query`] and
//! [`search`], and one that follows what happens uses [`events`]; one that collects agents' files uses [`collect`]; a runtime that writes sessions
//! uses [`store`]. [`freshness`], [`answer`], [`status`], [`doctor`], [`backup`], [`restore`], [`export`],
//! [`forget`] and [`rebuild`] work on a whole ledger. [`wire`] has the shapes of JSON output,
//! [`ids`] the numbers of rows, [`files`] the access to files that a person named.
//!
//! Each folder of the source is a layer that uses only the layers before it. Read them in this
//! order: `base`, `file` (the SQLite file), `truth` (raw bytes), `wire`, `project` (rows derived
//! from raw bytes), `read` (`query`, `search` and `events`), `collect`, `store`, `ops` (work on a whole
//! ledger).

mod base;
pub mod collect;
mod file;
mod ops;
mod project;
mod read;
pub mod store;
mod truth;
pub mod wire;

pub use base::error::{Error, Holder, Result, Trouble};
pub use base::{files, ids};
pub use file::commits::{Commits, CommitsEnd, Woken};
pub use file::ledger::{Interrupter, Ledger};
pub use ops::{answer, backup, doctor, export, forget, freshness, restore, status};
pub use project::rebuild;
pub use read::{events, query, search};
pub use store::{Append, Appended, Context, Entry, Message, Session, Store};

/// Servers and async runtimes keep these in tasks that move between threads.
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_sync<T: Sync>() {}
    is_send::<Ledger>();
    is_send::<Store>();
    is_send::<Session>();
    is_sync::<Store>();
    is_sync::<Session>();
};
