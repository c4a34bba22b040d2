//! Routes an inbound message to the key of its session, and decides if its sender may speak.
//!
//! Everything here is pure: the caller passes in settings, the sender's state and the time. Read in
//! this order: [`inbound`] (a message and its origin), [`settings`] (what people configure),
//! [`admission`] (who may speak), [`address`] (the key), [`command`] (chat commands), [`reset`]
//! (when a conversation starts over), [`bootstrap`] (the files in a new session's prompt).

pub mod inbound;
pub mod names;
pub mod settings;

pub mod address;
pub mod admission;
pub mod bootstrap;
pub mod command;
pub mod openclaw;
pub mod reset;

pub use address::key_for;
pub use admission::{Admission, PairingCode};
pub use bootstrap::bootstrap_files;
pub use command::Command;
pub use inbound::{Chat, Inbound, Thread};
pub use names::{AgentId, Channel};
pub use reset::is_due;
pub use settings::Settings;
