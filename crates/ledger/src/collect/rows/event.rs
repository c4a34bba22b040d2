//! One event in its row: plain, compressed, or in a form that should not occur.
//!
//! Never fails for odd content: the bytes are kept as they are.

use std::io::Read;

use quipu_transcript::record::DECODE_LIMIT;
use rusqlite::Row;
use rusqlite::types::ValueRef;

/// The largest window for decompressing an event, as a power of two.
const MAX_WINDOW_LOG: u32 = 25;

/// An event and its row's columns.
#[derive(Debug)]
pub(super) struct Event {
    /// The event's exact bytes, and the newline that makes it a line.
    pub(super) line: Vec<u8>,
    /// The time it was written, nanoseconds UTC.
    pub(super) written_ns: Option<i64>,
    /// The difference between the event and its row's columns, if there is one.
    pub(super) odd: Option<&'static str>,
}

impl Event {
    /// Reads the first four columns of a row.
    pub(super) fn of(row: &Row<'_>) -> rusqlite::Result<Event> {
        let (line, mut odd) = match (row.get_ref(0)?, row.get_ref(1)?) {
            (ValueRef::Text(bytes) | ValueRef::Blob(bytes), _) => (bytes.to_vec(), None),
            (ValueRef::Integer(number), _) => (number.to_string().into_bytes(), None),
            (ValueRef::Real(number), _) => (number.to_string().into_bytes(), None),
            (ValueRef::Null, ValueRef::Blob(packed) | ValueRef::Text(packed)) => {
                match unpacked(packed) {
                    Some(bytes) => (bytes, None),
                    // The compressed bytes are kept for a later repair. The fold counts a problem.
                    None => return Event::with(packed.to_vec(), None, row),
                }
            }
            (ValueRef::Null, _) => (Vec::new(), None),
        };
        if let (ValueRef::Integer(length), None) = (row.get_ref(2)?, odd)
            && usize::try_from(length) != Ok(line.len())
        {
            odd = Some("an event whose length differs from its row; stored unchanged");
        }
        Event::with(line, odd, row)
    }

    fn with(
        mut line: Vec<u8>,
        odd: Option<&'static str>,
        row: &Row<'_>,
    ) -> rusqlite::Result<Event> {
        line.push(b'\n');
        let written_ns = match row.get_ref(3)? {
            ValueRef::Integer(milliseconds) => milliseconds.checked_mul(1_000_000),
            _ => None,
        };
        Ok(Event { line, written_ns, odd })
    }
}

/// Decompresses an event. `None` if it is damaged, or larger than is decoded whole.
fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed).ok()?;
    decoder.window_log_max(MAX_WINDOW_LOG).ok()?;
    let mut bytes = Vec::new();
    decoder.take(DECODE_LIMIT as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= DECODE_LIMIT).then_some(bytes)
}
