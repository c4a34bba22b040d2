//! The SQL functions `raw(entry)`, the line that an entry was read from, and `text(entry)`, its text
//! with that of tool results.
//!
//! The records are read on a thread and a connection of their own, because a function of SQLite
//! cannot use the connection that calls it. The thread starts with the first call and ends with the
//! statement.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;

use crate::base::ids::EntryId;
use crate::file::ledger::Ledger;
use crate::read::search::texts::Texts;
use crate::truth::chunks::RecordReader;
use crate::{Error, Result};

/// Adds the functions to a connection. `path` is the path of the ledger.
pub(super) fn add(conn: &Connection, path: PathBuf) -> Result<()> {
    let reader = Arc::new(Mutex::new(None::<Reader>));
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for (name, part) in [("raw", Part::Line), ("text", Part::Text)] {
        let (reader, path) = (Arc::clone(&reader), path.clone());
        conn.create_scalar_function(name, 1, flags, move |context| {
            let entry: Option<i64> = context.get(0)?;
            let (Some(entry), Ok(mut reader)) = (entry, reader.lock()) else {
                return Ok(Value::Null);
            };
            let reader = match &mut *reader {
                Some(reader) => reader,
                none => none.insert(Reader::start(path.clone()).map_err(failed)?),
            };
            let found = reader.read(part, EntryId(entry)).map_err(failed)?;
            Ok(match found.map(String::from_utf8) {
                None => Value::Null,
                Some(Ok(text)) => Value::Text(text),
                Some(Err(error)) => Value::Blob(error.into_bytes()),
            })
        })?;
    }
    Ok(())
}

/// The part of an entry that is read.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The line that it was read from.
    Line,
    /// Its prose, or else the text of its tool results.
    Text,
}

fn failed(error: Error) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(Box::new(error))
}

/// A thread that reads records.
struct Reader {
    wanted: Sender<(Part, EntryId)>,
    found: Receiver<Result<Option<Vec<u8>>>>,
}

impl Reader {
    fn start(path: PathBuf) -> Result<Reader> {
        let (wanted, requests) = mpsc::channel::<(Part, EntryId)>();
        let (answers, found) = mpsc::channel();
        let work = move || {
            let ledger = match Ledger::open_read_only(&path) {
                Ok(ledger) => ledger,
                Err(error) => return drop(answers.send(Err(error))),
            };
            let mut lines = RecordReader::new(ledger.conn());
            let mut texts = Texts::new(ledger.conn());
            for (part, entry) in requests {
                let found = match (part, entry.seq()) {
                    (Part::Line, Some(seq)) => {
                        lines.read(seq).map(|line| Some(line.trim_ascii_end().to_vec()))
                    }
                    (Part::Line, None) => Ok(None),
                    (Part::Text, _) => texts.of(entry).map(|text| {
                        let columns = [text.prose.as_str(), text.tool_result.as_str()];
                        let text = columns.into_iter().find(|text| !text.is_empty());
                        text.map(|text| text.as_bytes().to_vec())
                    }),
                };
                if answers.send(found).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("raw".to_owned())
            .spawn(work)
            .map_err(Error::io("start a thread for", "the records"))?;
        Ok(Reader { wanted, found })
    }

    fn read(&self, part: Part, entry: EntryId) -> Result<Option<Vec<u8>>> {
        let ended = || Error::Sql { message: "the records cannot be read".to_owned() };
        // A thread that could not open the ledger has left its error.
        let _ = self.wanted.send((part, entry));
        self.found.recv().map_err(|_| ended())?
    }
}
