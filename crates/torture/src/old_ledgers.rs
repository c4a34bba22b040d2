//! Ledgers of older truth versions. Some were written by a program of that time; the others were
//! made from these with SQL statements of that time. The README next to the fixtures has the
//! details.

use std::path::{Path, PathBuf};

/// A ledger of an older version.
#[derive(Debug)]
pub struct OldLedger {
    /// Its version, and which table layout of that version it has, like `v2-first`.
    pub name: &'static str,
    /// Its truth version.
    pub version: i64,
    /// The number of its records. Those of the journal are not counted.
    pub records: u64,
    /// The folder with the files that `quipu restore` must produce from it.
    files: &'static str,
    /// The ledger, compressed with zstd.
    compressed: &'static [u8],
}

/// The folder of the fixtures.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ledger/tests/fixtures");

macro_rules! old_ledger {
    ($name:literal, $version:literal, $records:literal, $files:literal, $compressed:literal) => {
        OldLedger {
            name: $name,
            version: $version,
            records: $records,
            files: $files,
            compressed: include_bytes!(concat!("../../ledger/tests/fixtures/", $compressed)),
        }
    };
}

/// One ledger for each table layout of each truth version before the newest.
pub const OLD_LEDGERS: &[OldLedger] = &[
    old_ledger!("v1-first", 1, 78, "v1/files", "truth/v1-first.db.zst"),
    old_ledger!("v1", 1, 78, "v1/files", "v1/ledger.db.zst"),
    old_ledger!("v2-first", 2, 78, "v1/files", "truth/v2-first.db.zst"),
    old_ledger!("v2-second", 2, 90, "truth/v2-second", "truth/v2-second.db.zst"),
    old_ledger!("v2", 2, 78, "v1/files", "truth/v2.db.zst"),
    old_ledger!("v3", 3, 78, "v1/files", "truth/v3.db.zst"),
    old_ledger!("v3-second", 3, 90, "truth/v2-second", "truth/v3-second.db.zst"),
    old_ledger!("v4", 4, 52, "truth/v4", "truth/v4.db.zst"),
];

impl OldLedger {
    /// Returns the bytes of the ledger.
    pub fn ledger(&self) -> Vec<u8> {
        zstd::decode_all(self.compressed).expect("the fixture is valid zstd")
    }

    /// Returns the bytes of a backup: the same pages, with the header of a database without a
    /// write-ahead log.
    pub fn backup(&self) -> Vec<u8> {
        let mut bytes = self.ledger();
        // 2 is a write-ahead log, 1 is a rollback journal.
        if let Some(journal_mode) = bytes.get_mut(18..20) {
            journal_mode.fill(1);
        }
        bytes
    }

    /// Returns the folder with the expected files: every generation of every source.
    pub fn files(&self) -> PathBuf {
        Path::new(FIXTURES).join(self.files)
    }
}
