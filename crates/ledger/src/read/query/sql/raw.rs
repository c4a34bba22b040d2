//! The SQL function `raw(entry)`: the line that an entry was read from.
//!
//! The records are read on a thread and a connection of their own, because a function of SQLite
//! cannot use the connection that calls it. The thread starts with the first call and ends with the
//! statement.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;

use crate::base::ids::{EntryId, Seq};
use crate::file::ledger::Ledger;
use crate::truth::chunks::RecordReader;
use crate::{Error, Result};

/// Adds the function to a connection. `path` is the path of the ledger.
pub(super) fn add(conn: &Connection, path: PathBuf) -> Result<()> {
    let reader = Mutex::new(None::<Reader>);
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("raw", 1, flags, move |context| {
        let entry: Option<i64> = context.get(0)?;
        let Some(seq) = entry.and_then(|entry| EntryId(entry).seq()) else {
            return Ok(Value::Null);
        };
        let Ok(mut reader) = reader.lock() else { return Ok(Value::Null) };
        let reader = match &mut *reader {
            Some(reader) => reader,
            none => none.insert(Reader::start(path.clone()).map_err(failed)?),
        };
        let bytes = reader.read(seq).map_err(failed)?;
        Ok(match String::from_utf8(bytes.trim_ascii_end().to_vec()) {
            Ok(line) => Value::Text(line),
            Err(error) => Value::Blob(error.into_bytes()),
        })
    })?;
    Ok(())
}

fn failed(error: Error) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(Box::new(error))
}

/// A thread that reads records.
struct Reader {
    wanted: Sender<Seq>,
    found: Receiver<Result<Vec<u8>>>,
}

impl Reader {
    fn start(path: PathBuf) -> Result<Reader> {
        let (wanted, requests) = mpsc::channel();
        let (answers, found) = mpsc::channel();
        let work = move || {
            let ledger = match Ledger::open_read_only(&path) {
                Ok(ledger) => ledger,
                Err(error) => return drop(answers.send(Err(error))),
            };
            let mut reader = RecordReader::new(ledger.conn());
            for seq in requests {
                if answers.send(reader.read(seq)).is_err() {
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

    fn read(&self, seq: Seq) -> Result<Vec<u8>> {
        let ended = || Error::Sql { message: "the records cannot be read".to_owned() };
        // A thread that could not open the ledger has left its error.
        let _ = self.wanted.send(seq);
        self.found.recv().map_err(|_| ended())?
    }
}
