//! Reads the body of a request that writes.
//!
//! All bodies together are bounded, so that many large requests cannot take all memory.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

/// The largest size of a body, in bytes.
pub(crate) const MAX_BODY_BYTES: u64 = 16 << 20;

/// The largest size of all bodies that are in memory, in KiB.
const MAX_KIB: u32 = 128 << 10;

/// The memory for bodies.
#[derive(Debug)]
pub(crate) struct Bodies(Arc<Semaphore>);

/// A body in memory.
#[derive(Debug)]
pub(crate) struct ReadBody {
    pub(crate) bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl Bodies {
    pub(crate) fn new() -> Bodies {
        Bodies(Arc::new(Semaphore::new(MAX_KIB as usize)))
    }

    /// Reads a body of JSON.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<ReadBody, Problem> {
        check_is_json(headers)?;
        let length =
            headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        // A body without a length may have the largest size.
        let most: u64 = length.unwrap_or(MAX_BODY_BYTES).min(MAX_BODY_BYTES);
        let kib = u32::try_from(most.div_ceil(1 << 10)).unwrap_or(MAX_KIB).max(1);
        let room = Arc::clone(&self.0).try_acquire_many_owned(kib);
        let room =
            room.map_err(|_| Problem::busy("other requests with large bodies have to end"))?;
        let bytes = to_bytes(body, usize::try_from(most).unwrap_or(usize::MAX)).await;
        let bytes = bytes.map_err(|error| match is_too_long(&error) {
            true => Problem::too_large(),
            false => Problem::bad_request("the body broke off"),
        })?;
        Ok(ReadBody { bytes: bytes.into(), _room: room })
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("length limit") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Fails unless the body is JSON. A form on a page of another site cannot send that.
fn check_is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap_or("?").to_ascii_lowercase();
    let kind = headers.get(CONTENT_TYPE).map(text).unwrap_or_default();
    let (kind, parameters) = kind.split_once(';').unwrap_or((&kind, ""));
    let is_utf_8 = matches!(parameters.trim().replace('"', "").as_str(), "" | "charset=utf-8");
    let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|value| value == "identity");
    match kind.trim() == "application/json" && is_utf_8 && is_plain {
        true => Ok(()),
        false => Err(Problem::not_json()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json_and_nothing_else() {
        let check = |headers: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            check_is_json(&map).is_ok()
        };
        assert!(check(&[("content-type", "application/json")]));
        assert!(check(&[("content-type", "Application/JSON; charset=\"UTF-8\"")]));
        assert!(!check(&[]));
        for other in ["text/plain", "application/jsonx", "application/json; charset=latin1", ";"] {
            assert!(!check(&[("content-type", other)]), "{other}");
        }
        let zipped = [("content-type", "application/json"), ("content-encoding", "gzip")];
        assert!(!check(&zipped));
    }
}
