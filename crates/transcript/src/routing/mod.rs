//! Where a message goes: from an inbound message to the key of its session, and whether it may.
//!
//! All of it is pure: settings, what is known of the sender and the time are handed in. Read in this
//! order: [`inbound`] (what a message says about itself), [`settings`] (what people choose),
//! [`admission`] (who may speak), [`address`] (the key), [`command`] (what is no message at all),
//! [`reset`] (when a conversation starts over), [`bootstrap`] (what a new one starts with).

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
pub use admission::{Admission, PairingCode, admit};
pub use bootstrap::bootstrap_files;
pub use command::Command;
pub use inbound::{Chat, Inbound, Thread};
pub use names::{AgentId, Channel};
pub use reset::is_due;
pub use settings::Settings;
