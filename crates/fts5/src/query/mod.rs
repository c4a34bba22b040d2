//! Finds the rows that match a query, and those that rank highest by BM25.
//!
//! Never writes, and reads pages only through `read`.

pub(crate) mod bm25;
mod bounded_heap;
pub(crate) mod matches;
pub(crate) mod top_k;

use crate::RowId;
use crate::read::Occurrences;

/// A row that holds a phrase. It has only 16 bytes, because a frequent term has hundreds of
/// thousands of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// The row.
    pub rowid: RowId,
    pub(crate) occurrences: Occurrences,
}

impl Posting {
    /// Makes the posting of a row that was not found by a phrase.
    pub(crate) fn bare(rowid: RowId, columns: u8) -> Posting {
        Posting { rowid, occurrences: Occurrences::new(0, 0, columns) }
    }

    /// Returns the mask of the columns in which the row was found.
    pub fn columns(&self) -> u8 {
        self.occurrences.columns()
    }

    /// Returns the posting with another count of the first phrase.
    fn with_count(self, count: u32) -> Posting {
        let found = self.occurrences;
        let occurrences = Occurrences::new(count, found.min_length(), found.columns());
        Posting { occurrences, ..self }
    }

    /// Adds the columns and the minimum length of another phrase in the same row.
    pub(crate) fn also(&mut self, other: &Posting) {
        let (one, other) = (self.occurrences, other.occurrences);
        self.occurrences = Occurrences::new(
            one.count(),
            one.min_length().max(other.min_length()),
            one.columns() | other.columns(),
        );
    }
}
