//! Walks over the terms with a prefix, without their doclists.
//!
//! `search_idx` names the first term of each leaf page on which a term begins. Pages that hold only
//! the rest of a long doclist are never read.

use rusqlite::OptionalExtension;

use super::leaf::Layout;
use super::{Reader, key};
use crate::Result;
use crate::table::malformed;
use crate::varint::Bytes;

impl Reader<'_> {
    /// Calls `visit` with the terms that begin with `prefix`, segment by segment, until `limit`
    /// terms were read. Returns how many were.
    pub(crate) fn each_term(
        &self,
        prefix: &str,
        limit: usize,
        visit: &mut dyn FnMut(&str),
    ) -> Result<usize> {
        let key = key(prefix);
        let mut seen = 0;
        let mut first = self.conn.prepare_cached(
            "SELECT pgno FROM search_idx WHERE segid = ?1 AND term <= ?2
              ORDER BY term DESC LIMIT 1",
        )?;
        let mut others = self.conn.prepare_cached(
            "SELECT pgno FROM search_idx WHERE segid = ?1 AND term > ?2 ORDER BY term",
        )?;
        let mut block = self.conn.prepare_cached("SELECT block FROM search_data WHERE id = ?1")?;
        for segment in &self.segments {
            let page: Option<i64> =
                first.query_row((segment.id, &key), |row| row.get(0)).optional()?;
            // The lowest bit is the flag for a doclist index.
            let mut page = Some(page.map_or(1, |page| page >> 1).max(segment.first_page));
            let mut pages = others.query((segment.id, &key))?;
            while let Some(number) = page {
                let bytes: Option<Vec<u8>> =
                    block.query_row([segment.page_id(number)], |row| row.get(0)).optional()?;
                let mut is_past = false;
                each_on_page(&bytes.ok_or_else(malformed)?, &mut |term| {
                    seen += 1;
                    match term.strip_prefix(key.as_slice()) {
                        // A long token may be cut inside a character.
                        Some(_) => std::str::from_utf8(term.get(1..).unwrap_or_default())
                            .into_iter()
                            .for_each(&mut *visit),
                        None => is_past |= term > key.as_slice(),
                    }
                    !is_past && seen < limit
                })
                .ok_or_else(malformed)?;
                if seen >= limit {
                    return Ok(seen);
                }
                page = match pages.next()?.filter(|_| !is_past) {
                    Some(row) => Some(row.get::<_, i64>(0)? >> 1),
                    None => None,
                };
            }
        }
        Ok(seen)
    }
}

/// Calls `visit` with the terms that begin on a page, until it returns false. Returns `None` if the
/// page is malformed.
fn each_on_page(page: &[u8], visit: &mut dyn FnMut(&[u8]) -> bool) -> Option<()> {
    let layout = Layout::of(page)?;
    let mut offsets = Bytes::new(page.get(layout.end..).unwrap_or_default());
    let (mut at, mut term) = (0_usize, Vec::new());
    let mut is_first = true;
    while !offsets.is_empty() {
        at = at.checked_add(offsets.size()?)?;
        let mut bytes = Bytes::new(page.get(at..layout.end)?);
        let shared = if is_first { 0 } else { bytes.size()? };
        is_first = false;
        let length = bytes.size()?;
        let added = bytes.take(length)?;
        if shared > term.len() {
            return None;
        }
        term.truncate(shared);
        term.extend_from_slice(added);
        if !visit(&term) {
            break;
        }
    }
    Some(())
}
