//! The copies of a ledger that it knows of. They are recorded in the journal.
//!
//! Never deletes a copy: only a person does.

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

/// A copy of the ledger, which does not change with the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The path it was written to.
    pub path: PathBuf,
    /// The time it was written, milliseconds UTC; the last time if it was replaced.
    pub at: i64,
    /// True if it is the former ledger that a restore moved away.
    pub put_aside: bool,
    /// True if a file is still there.
    pub exists: bool,
}

/// Returns every copy that was ever made of this ledger, by path. A copy that was moved later is
/// listed with its original path.
pub fn backups(ledger: &Ledger) -> Result<Vec<Backup>> {
    of(ledger.conn())
}

pub(super) fn of(conn: &Connection) -> Result<Vec<Backup>> {
    let mut found = BTreeMap::new();
    journal::events(conn, &mut |event| {
        if let Event::Backup { at, path, path_hex, put_aside } = event {
            let path = path_hex.as_deref().and_then(from_hex).unwrap_or_else(|| path.into());
            found.insert(path, (at, put_aside));
        }
    })?;
    let copies = found.into_iter().map(|(path, (at, put_aside))| Backup {
        exists: path.symlink_metadata().is_ok(),
        path,
        at,
        put_aside,
    });
    Ok(copies.collect())
}

/// Records a copy before it gets its name.
pub(super) fn remember(ledger: &mut Ledger, path: &Path) -> Result<()> {
    ledger.write(|tx| note(tx, path, clock::now_ms(), false))
}

pub(super) fn note(tx: &Transaction<'_>, path: &Path, at: i64, put_aside: bool) -> Result<()> {
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

fn from_hex(hex: &str) -> Option<PathBuf> {
    let digits = hex.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    Some(OsString::from_vec(bytes.collect::<Option<_>>()?).into())
}
