//! Cursors of pages: opaque to the caller, and bound to the list that they came from.

use crate::problem::Problem;

/// The number of bytes of the checksum in a cursor.
const CHECK_BYTES: usize = 8;

/// The list that a cursor belongs to: a route with its options.
#[derive(Debug, Clone)]
pub(crate) struct List(blake3::Hasher);

impl List {
    /// Returns the list of a path and a query. The options that select the page are left out.
    pub(crate) fn of(path: &str, query: &str) -> List {
        let mut hasher = blake3::Hasher::new_derive_key("quipu 2026 cursor of a page");
        hasher.update(path.as_bytes());
        let is_of_page =
            |pair: &&str| ["cursor=", "limit="].iter().any(|name| pair.starts_with(name));
        for pair in query.split('&').filter(|pair| !is_of_page(pair) && !pair.is_empty()) {
            hasher.update(b"&").update(pair.as_bytes());
        }
        List(hasher)
    }

    /// Returns the cursor of a position in the list.
    pub(crate) fn cursor(&self, position: &str) -> String {
        format!("{position}.{}", self.check(position))
    }

    /// Returns the position of a cursor.
    pub(crate) fn position<'c>(&self, cursor: &'c str) -> Result<&'c str, Problem> {
        match cursor.rsplit_once('.') {
            Some((position, check)) if check == self.check(position) => Ok(position),
            _ => Err(Problem::bad_cursor()),
        }
    }

    fn check(&self, position: &str) -> String {
        let hash = self.0.clone().update(b"\n").update(position.as_bytes()).finalize();
        hash.to_hex().chars().take(2 * CHECK_BYTES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_list() {
        let list = List::of("/v1/sessions", "project=shop&limit=5");
        let cursor = list.cursor("a17");
        assert_eq!(list.position(&cursor).unwrap(), "a17");
        let next = List::of("/v1/sessions", &format!("project=shop&limit=9&cursor={cursor}"));
        assert_eq!(next.position(&cursor).unwrap(), "a17");
        for other in [List::of("/v1/sessions", ""), List::of("/v1/projects", "project=shop")] {
            assert_eq!(other.position(&cursor).unwrap_err().status(), 400);
        }
        for wrong in ["", "a17", ".", "a18.0000", &cursor.replacen("17", "18", 1)] {
            assert!(list.position(wrong).is_err(), "{wrong}");
        }
    }
}
