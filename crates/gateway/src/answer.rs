//! The body of an answer, built whole before it is sent. A long one is in a file: a client that reads
//! slowly keeps neither memory nor a snapshot.

use std::fs::File;

use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use quipu_ledger::answer::fresh;
use quipu_ledger::freshness::Freshness;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use crate::file_body::FileBody;
use crate::problem::Problem;

/// The largest size of the items of one list, in bytes. A longer list is cut, with a cursor.
pub(crate) const MAX_LIST_BYTES: usize = 8 << 20;

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Answer {
    content_type: &'static str,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    /// A file without a name, for an answer of any length.
    File(File),
}

/// A list as it is answered.
#[derive(Serialize)]
struct List<'a> {
    items: Items<'a>,
    /// The number of all items, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// The cursor of the page after this one; `null` on the last page.
    next: Option<String>,
    /// The cursor of the page before this one, if this one does not begin at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
}

/// Items that are JSON already.
struct Items<'a>(&'a [Box<serde_json::value::RawValue>]);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for item in self.0 {
            list.serialize_element(item)?;
        }
        list.end()
    }
}

impl Answer {
    /// Returns one JSON value.
    pub(crate) fn json(value: &impl Serialize) -> Result<Answer, Problem> {
        // All keys of the shapes are strings, so this cannot fail.
        let body = serde_json::to_vec(value).map_err(|_| Problem::failed())?;
        Ok(Answer { content_type: "application/json", content: Content::Bytes(body) })
    }

    /// Returns the content of a file, from its beginning.
    pub(crate) fn file(content_type: &'static str, file: File) -> Answer {
        Answer { content_type, content: Content::File(file) }
    }

    /// Returns one object, with how current it is.
    pub(crate) fn object(value: &impl Serialize, freshness: &Freshness) -> Result<Answer, Problem> {
        Answer::json(&fresh(value, freshness))
    }

    pub(crate) fn response(self) -> Response<Body> {
        let body = match self.content {
            Content::Bytes(bytes) => Body::from(bytes),
            Content::File(file) => Body::new(FileBody::new(file)),
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        response
    }
}

/// Collects the items of a list, up to a number and a size.
#[derive(Debug)]
pub(crate) struct ListBuilder {
    items: Vec<Box<serde_json::value::RawValue>>,
    bytes: usize,
    limit: usize,
}

impl ListBuilder {
    /// Returns an empty list for at most `limit` items.
    pub(crate) fn new(limit: usize) -> ListBuilder {
        ListBuilder { items: Vec::new(), bytes: 0, limit }
    }

    /// Adds an item, unless the list is full. Returns whether it was added.
    pub(crate) fn add(&mut self, item: &impl Serialize) -> Result<bool, Problem> {
        if self.is_full() {
            return Ok(false);
        }
        self.push(item)?;
        Ok(true)
    }

    /// Adds an item, even if the list is full.
    pub(crate) fn push(&mut self, item: &impl Serialize) -> Result<(), Problem> {
        let item = serde_json::value::to_raw_value(item).map_err(|_| Problem::failed())?;
        self.bytes += item.get().len();
        self.items.push(item);
        Ok(())
    }

    /// Returns whether no further item is added.
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= self.limit || self.bytes >= MAX_LIST_BYTES
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the answer. `next` is the cursor of the next page.
    pub(crate) fn finish(
        self,
        total: Option<u64>,
        next: Option<String>,
        freshness: &Freshness,
    ) -> Result<Answer, Problem> {
        let list = List { items: Items(&self.items), total, next, previous: None };
        Answer::object(&list, freshness)
    }

    /// Returns the answer with the cursors of the pages before and after it.
    pub(crate) fn finish_between(
        self,
        previous: Option<String>,
        next: Option<String>,
        freshness: &Freshness,
    ) -> Result<Answer, Problem> {
        let list = List { items: Items(&self.items), total: None, next, previous };
        Answer::object(&list, freshness)
    }

    /// Returns the answer of a list without pages. `is_cut` is true if items were left out.
    pub(crate) fn finish_cut(self, is_cut: bool, freshness: &Freshness) -> Result<Answer, Problem> {
        #[derive(Serialize)]
        struct Cut<'a> {
            items: Items<'a>,
            is_cut: bool,
        }
        Answer::object(&Cut { items: Items(&self.items), is_cut }, freshness)
    }
}
