//! Ids and numbers, each a separate type, so that they cannot be confused.
//!
//! Conversion to and from SQL is here as well. Never queries anything.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};

macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.0))
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                value.as_i64().map($name)
            }
        }
    )+};
}

numbers! {
    /// The number of a record, in commit order.
    Seq;
    /// The number of a source: a collected file, a database session, a native session or the
    /// journal.
    SourceId;
    /// The number of a generation: what a source held between two rewrites.
    GenerationId;
    /// The number of a session's row: the id of the first entry that names the session.
    SessionRow;
    /// The number of an entry: the seq of its record. A welded line holds several records without a
    /// newline between them. Its entries after the first have ids above 2^40, so ids are not in the
    /// order of lines.
    EntryId;
}

impl From<EntryId> for quipu_fts5::RowId {
    fn from(id: EntryId) -> quipu_fts5::RowId {
        quipu_fts5::RowId(id.0)
    }
}

impl From<quipu_fts5::RowId> for EntryId {
    fn from(rowid: quipu_fts5::RowId) -> EntryId {
        EntryId(rowid.0)
    }
}

/// The difference between the ids of two consecutive entries of one line.
const WELDED_STEP: i64 = 1 << 40;

// The same arithmetic in SQL. These are fragments of text and not SQL functions: a function would
// be called back for each row of a session, would hide ranges of ids from the query planner, and
// would be missing in `sqlite3`. A test below compares them with the methods of `EntryId`.

/// Expands to an SQL expression: the seq of the line that an entry was read from. A provisional
/// entry keeps its negative id.
macro_rules! seq_of_entry {
    ($id:literal) => {
        concat!($id, " % (1 << 40)")
    };
}

/// Expands to SQL terms for `ORDER BY`: by line, then by position within the line. The second
/// argument is `""` or `" DESC"`.
macro_rules! order_by_line {
    ($id:literal, $direction:literal) => {
        concat!($id, " % (1 << 40)", $direction, ", ", $id, $direction)
    };
}

/// Expands to an SQL condition: the entry is the first of its line. The ids of these entries are in
/// the order of lines.
macro_rules! is_first_of_line {
    ($id:literal) => {
        concat!($id, " < (1 << 40)")
    };
}

/// Expands to an SQL condition: the entry is not the first of its line. Not written with `NOT`,
/// which would hide the range of ids from the query planner.
macro_rules! is_further_of_line {
    ($id:literal) => {
        concat!($id, " >= (1 << 40)")
    };
}

pub(crate) use {is_first_of_line, is_further_of_line, order_by_line, seq_of_entry};

impl EntryId {
    /// An id that sorts before all others by [`EntryId::by_line`].
    pub const LOWEST_BY_LINE: EntryId = EntryId(1 - WELDED_STEP);

    /// Returns the id of the entry at position `ordinal` of a record; 0 is the first.
    pub fn of(seq: Seq, ordinal: usize) -> EntryId {
        EntryId(seq.0 + WELDED_STEP * i64::try_from(ordinal).unwrap_or(i64::MAX >> 41))
    }

    /// Returns the id of the provisional entry of a generation's unterminated tail.
    pub fn provisional(generation: GenerationId) -> EntryId {
        EntryId(-generation.0)
    }

    /// Returns the entry's position within its line; 0 is the first.
    pub fn ordinal(self) -> i64 {
        self.0.max(0) / WELDED_STEP
    }

    /// Returns the record that the entry was read from; `None` for a provisional entry.
    pub fn seq(self) -> Option<Seq> {
        (self.0 > 0).then_some(Seq(self.0 % WELDED_STEP))
    }

    /// Returns a key that sorts entries by line, and the entries of one line by position.
    /// Provisional entries come first.
    pub fn by_line(self) -> (i64, i64) {
        (self.0 % WELDED_STEP, self.0)
    }

    /// Returns the ledger's name for an entry to which its agent gave no id: `#7`, `#7.2` for a
    /// further entry of a line, `#tail3` for a provisional one.
    pub fn name(self) -> String {
        match (self.seq(), self.ordinal()) {
            (Some(seq), 0) => format!("#{}", seq.0),
            (Some(seq), ordinal) => format!("#{}.{ordinal}", seq.0),
            (None, _) => format!("#tail{}", self.0.unsigned_abs()),
        }
    }

    /// Returns the entry with a name that [`EntryId::name`] returned.
    pub fn from_name(name: &str) -> Option<EntryId> {
        let number = name.strip_prefix('#')?;
        if let Some(generation) = number.strip_prefix("tail") {
            return generation.parse().ok().map(|id| EntryId::provisional(GenerationId(id)));
        }
        let (seq, ordinal) = number.split_once('.').unwrap_or((number, "0"));
        let seq: u32 = seq.parse().ok()?;
        let ordinal: u16 = ordinal.parse().ok()?;
        Some(EntryId::of(Seq(seq.into()), ordinal.into()))
    }
}

/// An agent's id for an entry, packed to save space. Most are UUIDs or eight hex digits, and a
/// ledger stores hundreds of thousands of them, each in a row and in an index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PackedId {
    /// A UUID in its usual form: 16 bytes.
    Uuid([u8; 16]),
    /// Eight lower-case hex digits: 4 bytes.
    Short([u8; 4]),
    /// The hash of an id longer than 256 bytes: 32 bytes.
    Hashed(Box<[u8; 32]>),
    /// Anything else, as written.
    Text(Box<str>),
}

/// The longest id, in bytes, that is stored as text. Longer ids are hashed, so that no id makes the
/// indexes large.
const MAX_TEXT_ID_BYTES: usize = 256;

impl PackedId {
    /// Packs an id. [`PackedId::unpack`] reverses it, except for hashed ids.
    pub fn pack(id: &str) -> PackedId {
        if id.len() == 36
            && let Ok(uuid) = uuid::Uuid::try_parse(id)
            && !id.bytes().any(|byte| byte.is_ascii_uppercase())
        {
            return PackedId::Uuid(*uuid.as_bytes());
        }
        if id.len() == 8
            && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && let Ok(number) = u32::from_str_radix(id, 16)
        {
            return PackedId::Short(number.to_be_bytes());
        }
        if id.len() > MAX_TEXT_ID_BYTES {
            return PackedId::Hashed(Box::new(blake3::hash(id.as_bytes()).into()));
        }
        PackedId::Text(id.into())
    }

    /// Returns the id as the agent wrote it; for a hashed id, its hash.
    pub fn unpack(&self) -> String {
        match self {
            PackedId::Uuid(bytes) => uuid::Uuid::from_bytes(*bytes).to_string(),
            PackedId::Short(bytes) => format!("{:08x}", u32::from_be_bytes(*bytes)),
            PackedId::Hashed(bytes) => format!("blake3:{}", blake3::Hash::from_bytes(**bytes)),
            PackedId::Text(text) => text.to_string(),
        }
    }
}

impl ToSql for PackedId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            PackedId::Uuid(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes.as_slice())),
            PackedId::Short(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes.as_slice())),
            PackedId::Hashed(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes.as_slice())),
            PackedId::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

impl FromSql for PackedId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        use rusqlite::types::FromSqlError;
        match value {
            ValueRef::Blob(bytes) => {
                if let Ok(bytes) = bytes.try_into() {
                    Ok(PackedId::Uuid(bytes))
                } else if let Ok(bytes) = bytes.try_into() {
                    Ok(PackedId::Short(bytes))
                } else if let Ok(bytes) = bytes.try_into() {
                    Ok(PackedId::Hashed(Box::new(bytes)))
                } else {
                    Err(FromSqlError::InvalidType)
                }
            }
            _ => value.as_str().map(|text| PackedId::Text(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_written() {
        for id in [
            "640ab4c7-d010-4b20-a591-b7172ef08e66",
            "640AB4C7-d010-4b20-a591-b7172ef08e66",
            "640ab4c7d0104b20a591b7172ef08e66",
            "71443552",
            "7144355Z",
            "",
            "ses_abc123",
            "a/../b\0c",
        ] {
            assert_eq!(PackedId::pack(id).unpack(), id);
        }
    }

    #[test]
    fn entry_ids_contain_seq_and_ordinal() {
        assert_eq!(EntryId::of(Seq(7), 0), EntryId(7));
        assert_eq!(EntryId::of(Seq(7), 2).seq(), Some(Seq(7)));
        assert_eq!(EntryId::of(Seq(7), 2).ordinal(), 2);
        assert_eq!(EntryId::provisional(GenerationId(3)).seq(), None);
        assert_eq!(EntryId::provisional(GenerationId(3)).ordinal(), 0);
    }

    #[test]
    fn a_name_leads_back_to_its_entry() {
        let named = [
            (EntryId::of(Seq(7), 0), "#7"),
            (EntryId::of(Seq(7), 2), "#7.2"),
            (EntryId::provisional(GenerationId(3)), "#tail3"),
        ];
        for (entry, name) in named {
            assert_eq!(entry.name(), name);
            assert_eq!(EntryId::from_name(name), Some(entry));
        }
        for name in ["7", "#", "#-7", "#7.", "#tail", "#seven"] {
            assert_eq!(EntryId::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn entries_sort_by_line() {
        let mut entries = [
            EntryId::of(Seq(7), 1),
            EntryId::of(Seq(8), 0),
            EntryId::of(Seq(7), 0),
            EntryId::provisional(GenerationId(3)),
            EntryId::of(Seq(6), 4095),
            EntryId::LOWEST_BY_LINE,
        ];
        entries.sort_by_key(|entry| entry.by_line());
        let expected = [
            EntryId::LOWEST_BY_LINE,
            EntryId::provisional(GenerationId(3)),
            EntryId::of(Seq(6), 4095),
            EntryId::of(Seq(7), 0),
            EntryId::of(Seq(7), 1),
            EntryId::of(Seq(8), 0),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn sql_fragments_agree_with_the_methods_of_entry_ids() {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE entries (id INTEGER PRIMARY KEY) STRICT").unwrap();
        let mut entries: Vec<EntryId> = [1, 2, (1 << 40) - 1]
            .into_iter()
            .flat_map(|seq| [0, 1, 4095].map(|ordinal| EntryId::of(Seq(seq), ordinal)))
            .chain([1, 5].map(|generation| EntryId::provisional(GenerationId(generation))))
            .collect();
        for entry in &entries {
            conn.execute("INSERT INTO entries VALUES (?1)", [entry]).unwrap();
        }
        let read = |order: &str| -> Vec<(EntryId, Seq, bool, bool)> {
            let sql = format!(
                "SELECT id, {}, {}, {} FROM entries ORDER BY {order}",
                seq_of_entry!("id"),
                is_first_of_line!("id"),
                is_further_of_line!("id")
            );
            let mut statement = conn.prepare(&sql).unwrap();
            let rows = statement
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
            rows.unwrap().collect::<Result<_, _>>().unwrap()
        };
        entries.sort_by_key(|entry| entry.by_line());
        let expected: Vec<(EntryId, Seq, bool, bool)> = entries
            .iter()
            .map(|entry| {
                let is_first = entry.ordinal() == 0;
                (*entry, entry.seq().unwrap_or(Seq(entry.0)), is_first, !is_first)
            })
            .collect();
        assert_eq!(read(order_by_line!("id", "")), expected);
        let reversed: Vec<_> = expected.into_iter().rev().collect();
        assert_eq!(read(order_by_line!("id", " DESC")), reversed);
    }
}
