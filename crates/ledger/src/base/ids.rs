//! Ids and numbers, each a type of its own so that they cannot be confused.
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
    /// A record's number in the ledger, in commit order. Also the event cursor.
    Seq;
    /// A collected file, database session or native session, or the journal.
    SourceId;
    /// A source's contents between two rewrites.
    GenerationId;
    /// A session's row: the number of the first entry that names it.
    SessionRow;
    /// An entry: the seq of its record. Further entries of a welded line have ids above 2^40.
    EntryId;
}

impl From<EntryId> for quipu_fts5::RowId {
    fn from(id: EntryId) -> quipu_fts5::RowId {
        quipu_fts5::RowId(id.0)
    }
}

/// The distance between ids of entries that come from one record.
const WELDED_STEP: i64 = 1 << 40;

impl EntryId {
    /// Returns the id of the `ordinal`-th entry of a record.
    pub fn of(seq: Seq, ordinal: usize) -> EntryId {
        EntryId(seq.0 + WELDED_STEP * i64::try_from(ordinal).unwrap_or(i64::MAX >> 41))
    }

    /// Returns the id of the provisional entry of a generation's unterminated tail.
    pub fn provisional(generation: GenerationId) -> EntryId {
        EntryId(-generation.0)
    }

    /// Returns the entry's position within its record.
    pub fn ordinal(self) -> i64 {
        self.0.max(0) / WELDED_STEP
    }

    /// Returns the record that the entry was read from; `None` for a provisional entry.
    pub fn seq(self) -> Option<Seq> {
        (self.0 > 0).then_some(Seq(self.0 % WELDED_STEP))
    }
}

/// An agent's id for an entry, packed. Most are UUIDs or eight hex digits, and a ledger holds
/// hundreds of thousands of them twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PackedId {
    /// A UUID in its usual form: 16 bytes.
    Uuid([u8; 16]),
    /// Eight lower-case hex digits: 4 bytes.
    Short([u8; 4]),
    /// Longer than `LONGEST_TEXT_ID`: its hash, 32 bytes.
    Hashed(Box<[u8; 32]>),
    /// Anything else, as written.
    Text(Box<str>),
}

/// The longest id, in bytes, that is stored as text. Longer ids are hashed, so that no id makes the
/// indexes large.
const LONGEST_TEXT_ID: usize = 256;

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
        if id.len() > LONGEST_TEXT_ID {
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
    fn ids_come_back_as_written() {
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
    fn entries_know_their_record() {
        assert_eq!(EntryId::of(Seq(7), 0), EntryId(7));
        assert_eq!(EntryId::of(Seq(7), 2).seq(), Some(Seq(7)));
        assert_eq!(EntryId::provisional(GenerationId(3)).seq(), None);
    }
}
