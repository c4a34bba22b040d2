//! Repair: finds the errors in the path that a model would see and in a session's lines, and makes
//! the lines of a continuation without them.
//!
//! ```text
//! find          RepairPlan, Repair   what is wrong, and where
//! parents       PathStart            where the path to the leaf begins
//! continuation  Continuation         the lines of the mended path
//! ```
//!
//! Results are paired with their calls by [`crate::context::pairing`], so a repaired session has
//! the context that the broken one had. Never changes a line: the repaired path is written beside
//! the original, or into a new session.

mod continuation;
mod find;
mod parents;

pub use continuation::{Continuation, Copies, NewId};
pub use find::{BAD_HEADER, Change, ChangeKind, Repair, RepairPlan};

/// The field of a copied entry that names the original, in the same session. Usage is counted
/// once for both.
pub const COPY_FIELD: &str = "quipuCopyOf";
