//! The list of copies of a ledger. Each copy is recorded in the journal.
//!
//! Never deletes a copy; that is left to the user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction};

use crate::Result;
use crate::base::clock;
use crate::file::ledger::Ledger;
use crate::truth::journal::{self, Event};

/// A copy of the ledger, recorded when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The path it was written to.
    pub path: PathBuf,
    /// The time when it was written, milliseconds UTC. If a newer copy replaced the file, the time
    /// of the newest.
    pub at: i64,
    /// True if a restore moved the old ledger here.
    pub is_replaced_ledger: bool,
    /// True if something exists at the path.
    pub exists: bool,
}

/// Returns every recorded copy, sorted by path. A copy that was moved later has its old path here.
pub fn backups(ledger: &Ledger) -> Result<Vec<Backup>> {
    recorded(ledger.conn())
}

/// Returns every recorded copy, sorted by path.
pub(super) fn recorded(conn: &Connection) -> Result<Vec<Backup>> {
    let mut found = BTreeMap::new();
    journal::events(conn, &mut |event| {
        if let Event::Backup { at, path, path_hex, put_aside } = event {
            let path = path_hex.as_deref().and_then(from_hex).unwrap_or_else(|| path.into());
            found.insert(path, (at, put_aside));
        }
    })?;
    let copies = found.into_iter().map(|(path, (at, is_replaced_ledger))| Backup {
        exists: path.symlink_metadata().is_ok(),
        path,
        at,
        is_replaced_ledger,
    });
    Ok(copies.collect())
}

/// Records a copy that is about to get its final name.
pub(super) fn record_copy(ledger: &mut Ledger, path: &Path) -> Result<()> {
    ledger.write(|tx| record(tx, path, clock::now_ms(), false))
}

/// Records a copy, or with `put_aside` the old ledger that a restore moves away.
pub(super) fn record(tx: &Transaction<'_>, path: &Path, at: i64, put_aside: bool) -> Result<()> {
    let event = Event::Backup {
        at,
        path: path.to_string_lossy().into_owned(),
        path_hex: path.to_str().is_none().then(|| to_hex(path)),
        put_aside,
    };
    journal::append_aside(tx, &event)?;
    Ok(())
}

fn to_hex(path: &Path) -> String {
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Decodes a path. Returns `None` if `hex` is not hexadecimal.
fn from_hex(hex: &str) -> Option<PathBuf> {
    let digits = hex.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    Some(OsString::from_vec(bytes.collect::<Option<_>>()?).into())
}
