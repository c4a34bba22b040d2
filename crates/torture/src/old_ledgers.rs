//! Ledgers of older versions: some were written by an old release, some were made from those by its
//! SQL statements. The README next to the fixtures has the details.

use std::path::{Path, PathBuf};

/// A ledger of an older version.
#[derive(Debug)]
pub struct Old {
    /// Its version and shape.
    pub name: &'static str,
    /// Its truth version.
    pub version: i64,
    /// The number of records in it, without those of the journal.
    pub records: u64,
    /// The folder of the files that it restores.
    files: &'static str,
    packed: &'static [u8],
}

/// The folder of the fixtures.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ledger/tests/fixtures");

macro_rules! old {
    ($name:literal, $version:literal, $records:literal, $files:literal, $packed:literal) => {
        Old {
            name: $name,
            version: $version,
            records: $records,
            files: $files,
            packed: include_bytes!(concat!("../../ledger/tests/fixtures/", $packed)),
        }
    };
}

/// Every shape of every version of truth before the newest.
pub const OLD: &[Old] = &[
    old!("v1-first", 1, 78, "v1/files", "truth/v1-first.db.zst"),
    old!("v1", 1, 78, "v1/files", "v1/ledger.db.zst"),
    old!("v2-first", 2, 78, "v1/files", "truth/v2-first.db.zst"),
    old!("v2-second", 2, 90, "truth/v2-second", "truth/v2-second.db.zst"),
    old!("v2", 2, 78, "v1/files", "truth/v2.db.zst"),
    old!("v3", 3, 78, "v1/files", "truth/v3.db.zst"),
    old!("v3-second", 3, 90, "truth/v2-second", "truth/v3-second.db.zst"),
    old!("v4", 4, 52, "truth/v4", "truth/v4.db.zst"),
];

impl Old {
    /// Returns the bytes of the ledger.
    pub fn ledger(&self) -> Vec<u8> {
        zstd::decode_all(self.packed).unwrap_or_default()
    }

    /// Returns the bytes of a backup of it: the same pages, marked as written without a log.
    pub fn backup(&self) -> Vec<u8> {
        let mut bytes = self.ledger();
        if let Some(versions) = bytes.get_mut(18..20) {
            versions.fill(1);
        }
        bytes
    }

    /// Returns the folder of the files that it restores, every generation of every file.
    pub fn files(&self) -> PathBuf {
        Path::new(FIXTURES).join(self.files)
    }
}
