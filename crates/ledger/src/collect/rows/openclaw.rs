//! Every statement that is sent to OpenClaw's database, and the tables and columns they may read.
//!
//! Schema versions 4 to 23 are known. Columns and tables were added over time, so statements are
//! built from those that exist. The only required table is `transcript_events` with a session, a
//! number and an event, plain or compressed.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// The newest schema version that this build knows.
pub(crate) const NEWEST_SCHEMA: i64 = 23;

const EVENTS: &str = "transcript_events";
const WATERMARKS: &str = "transcript_rewrite_watermarks";
const ARCHIVES: &str = "session_transcript_archives";
const COLD: &str = "session_transcript_cold_archives";
pub(super) const NODES: &str = "session_nodes";
pub(super) const WINDOWS: &str = "session_windows";
/// The table of keys before there were nodes and windows.
pub(super) const SESSIONS: &str = "sessions";

/// The tables and columns that may be read. Other tables of the same file hold keys and tokens.
const READABLE: &[(&str, &[&str])] = &[
    (EVENTS, &["session_id", "seq", "event_json", "event_zstd", "event_utf8_bytes", "created_at"]),
    (WATERMARKS, &["session_id", "generation"]),
    (
        ARCHIVES,
        &[
            "session_id",
            "generation",
            "reason",
            "encoding",
            "archive_blob",
            "archive_sha256",
            "archive_name",
            "created_at",
        ],
    ),
    (
        COLD,
        &[
            "session_id",
            "generation",
            "archive_name",
            "archive_sha256",
            "archived_at",
            "storage",
            "archive_blob",
        ],
    ),
    (NODES, KEY_COLUMNS),
    (SESSIONS, KEY_COLUMNS),
    (
        WINDOWS,
        &[
            "session_id",
            "session_key",
            "previous_session_id",
            "reason",
            "started_at",
            "ended_at",
            "created_at",
        ],
    ),
];

const KEY_COLUMNS: &[&str] = &[
    "session_key",
    "current_session_id",
    "session_id",
    "entry_json",
    "updated_at",
    "status",
    "label",
    "display_name",
    "category",
    "parent_session_key",
    "spawned_by",
    "archived_at",
    "pinned_at",
    "created_at",
];

/// The SQL functions that our statements use.
const FUNCTIONS: &[&str] = &["count", "max", "typeof", "octet_length"];

/// Allows reading [`READABLE`], and listing tables and columns. Denies everything else.
pub(super) fn authorize(context: AuthContext<'_>) -> Authorization {
    let is_allowed = match context.action {
        AuthAction::Select | AuthAction::Transaction { .. } => true,
        AuthAction::Read { table_name: "sqlite_master" | "sqlite_schema", .. } => true,
        // Reached through a view or a trigger, which our statements do not name.
        AuthAction::Read { .. } if context.accessor.is_some() => false,
        AuthAction::Read { table_name, column_name } => {
            columns_of(table_name).is_some_and(|columns| {
                // Counting rows reads no column.
                column_name.is_empty()
                    || column_name.eq_ignore_ascii_case("rowid")
                    || columns.contains(&column_name)
            })
        }
        AuthAction::Function { function_name } => FUNCTIONS.contains(&function_name),
        AuthAction::Pragma { pragma_name: "user_version", pragma_value: None } => true,
        AuthAction::Pragma { pragma_name: "table_info", pragma_value: Some(table) } => {
            columns_of(table).is_some()
        }
        _ => false,
    };
    if is_allowed { Authorization::Allow } else { Authorization::Deny }
}

fn columns_of(table: &str) -> Option<&'static [&'static str]> {
    READABLE.iter().find(|(name, _)| *name == table).map(|(_, columns)| *columns)
}

/// The readable tables and columns of a database.
#[derive(Debug)]
pub(super) struct Tables {
    /// The schema version in the database's header.
    pub(super) schema: i64,
    columns: HashMap<&'static str, BTreeSet<&'static str>>,
    has_rowid: bool,
}

impl Tables {
    /// Finds the tables and columns that exist.
    pub(super) fn of(conn: &Connection) -> rusqlite::Result<Tables> {
        let schema = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let mut columns = HashMap::new();
        let mut has_rowid = true;
        for (table, readable) in READABLE {
            // Plain tables only: a view or a virtual table could run other code.
            let mut statement = conn.prepare_cached(
                "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            )?;
            let Some(sql) =
                statement.query_map([table], |row| row.get::<_, Option<String>>(0))?.next()
            else {
                continue;
            };
            let sql = sql?.unwrap_or_default().to_ascii_uppercase();
            if sql.starts_with("CREATE VIRTUAL") {
                continue;
            }
            if *table == EVENTS {
                has_rowid = !sql.contains("WITHOUT ROWID");
            }
            let mut info = conn.prepare(&format!("PRAGMA table_info({table})"))?;
            let found: Vec<String> =
                info.query_map([], |row| row.get(1))?.collect::<rusqlite::Result<_>>()?;
            let found: BTreeSet<&'static str> =
                readable.iter().copied().filter(|name| found.iter().any(|f| f == name)).collect();
            columns.insert(*table, found);
        }
        Ok(Tables { schema, columns, has_rowid })
    }

    pub(super) fn has(&self, table: &str, column: &str) -> bool {
        self.columns.get(table).is_some_and(|columns| columns.contains(column))
    }

    fn has_all(&self, table: &str, columns: &[&str]) -> bool {
        columns.iter().all(|column| self.has(table, column))
    }

    /// Returns what the required table lacks, if anything.
    pub(super) fn missing(&self) -> Option<&'static str> {
        if !self.columns.contains_key(EVENTS) {
            return Some("it has no transcripts table");
        }
        let has_event = self.has(EVENTS, "event_json") || self.has(EVENTS, "event_zstd");
        let is_enough = self.has_all(EVENTS, &["session_id", "seq"]) && has_event;
        (!is_enough).then_some("its transcripts table lacks a required column")
    }

    pub(super) fn has_watermarks(&self) -> bool {
        self.has_all(WATERMARKS, &["session_id", "generation"])
    }

    /// Returns the column, or NULL if it does not exist.
    pub(super) fn or_null<'c>(&self, table: &str, column: &'c str) -> &'c str {
        if self.has(table, column) { column } else { "NULL" }
    }

    /// Returns the column that distinguishes rows with equal numbers, and the order of rows.
    fn rowid(&self) -> (&'static str, &'static str) {
        if self.has_rowid { ("rowid", "seq, rowid") } else { ("1", "seq") }
    }

    /// Selects for each session its id, the number of its last row, the number of rows with an
    /// integer number, and the number of rows. Reads only the primary key.
    pub(super) fn sessions(&self) -> String {
        format!(
            "SELECT session_id,
                    max(CASE WHEN typeof(seq) = 'integer' THEN seq END),
                    count(CASE WHEN typeof(seq) = 'integer' THEN 1 END),
                    count(*)
               FROM {EVENTS} GROUP BY session_id"
        )
    }

    /// Counts the rows of a session up to a number.
    pub(super) fn count_to(&self) -> String {
        format!(
            "SELECT count(*) FROM {EVENTS}
              WHERE session_id = ?1 AND seq <= ?2 AND typeof(seq) = 'integer'"
        )
    }

    /// Selects the events of a session after a position, in order. Loose tables may repeat a
    /// number.
    pub(super) fn page(&self) -> String {
        let (rowid, order) = self.rowid();
        format!(
            "SELECT {}, seq, {rowid} FROM {EVENTS}
              WHERE session_id = ?1 AND typeof(seq) = 'integer' AND (seq, {rowid}) > (?2, ?3)
              ORDER BY {order} LIMIT ?4",
            self.event()
        )
    }

    /// Selects the last event of a session with a number.
    pub(super) fn last(&self) -> String {
        let order = if self.has_rowid { "rowid" } else { "seq" };
        format!(
            "SELECT {} FROM {EVENTS} WHERE session_id = ?1 AND seq = ?2
              ORDER BY {order} DESC LIMIT 1",
            self.event()
        )
    }

    /// Returns the columns of an event: plain, compressed, its length, its time.
    fn event(&self) -> String {
        ["event_json", "event_zstd", "event_utf8_bytes", "created_at"]
            .map(|column| self.or_null(EVENTS, column))
            .join(", ")
    }

    /// Selects the current generation of each session.
    pub(super) fn watermarks(&self) -> String {
        format!("SELECT session_id, generation FROM {WATERMARKS}")
    }

    /// Selects the current generation of a session.
    pub(super) fn watermark(&self) -> String {
        format!("SELECT generation FROM {WATERMARKS} WHERE session_id = ?1")
    }

    /// Selects archived transcripts: session, generation, name, reason, hash, time, length, rowid.
    pub(super) fn archives(&self) -> Vec<(ArchiveTable, String)> {
        let mut statements = Vec::new();
        if self.has_all(ARCHIVES, &["session_id", "archive_blob"]) {
            let or_null = |column| self.or_null(ARCHIVES, column);
            let statement = format!(
                "SELECT session_id, {}, {}, {}, {}, {}, octet_length(archive_blob), rowid
                   FROM {ARCHIVES} ORDER BY rowid",
                or_null("generation"),
                or_null("archive_name"),
                or_null("reason"),
                or_null("archive_sha256"),
                or_null("created_at")
            );
            statements.push((ArchiveTable::PutAside, statement));
        }
        if self.has_all(COLD, &["session_id", "archive_blob"]) {
            let or_null = |column| self.or_null(COLD, column);
            let statement = format!(
                "SELECT session_id, {}, {}, 'cold', {}, {}, octet_length(archive_blob), rowid
                   FROM {COLD} WHERE archive_blob IS NOT NULL ORDER BY rowid",
                or_null("generation"),
                or_null("archive_name"),
                or_null("archive_sha256"),
                or_null("archived_at")
            );
            statements.push((ArchiveTable::Cold, statement));
        }
        statements
    }
}

/// The table of an archived transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveTable {
    PutAside,
    Cold,
}

impl ArchiveTable {
    /// Selects the bytes of an archive.
    pub(super) fn blob(self) -> String {
        let table = match self {
            ArchiveTable::PutAside => ARCHIVES,
            ArchiveTable::Cold => COLD,
        };
        format!("SELECT archive_blob FROM {table} WHERE rowid = ?1")
    }
}

/// Selects the keys with their fields: the columns of [`KEY_COLUMNS`] in order.
pub(super) fn keys(tables: &Tables) -> Option<String> {
    let table = [NODES, SESSIONS].into_iter().find(|table| tables.has(table, "session_key"))?;
    let columns: Vec<&str> =
        KEY_COLUMNS.iter().map(|column| tables.or_null(table, column)).collect();
    Some(format!("SELECT {} FROM {table} ORDER BY session_key", columns.join(", ")))
}

/// Selects the transcripts that each key has led to: key, session, the one before, reason, start,
/// end.
pub(super) fn windows(tables: &Tables) -> Option<String> {
    if !tables.has_all(WINDOWS, &["session_key", "session_id"]) {
        return None;
    }
    let or_null = |column| tables.or_null(WINDOWS, column);
    Some(format!(
        "SELECT session_key, session_id, {}, {}, {}, {} FROM {WINDOWS} ORDER BY {}, session_id",
        or_null("previous_session_id"),
        or_null("reason"),
        or_null("started_at"),
        or_null("ended_at"),
        or_null("created_at"),
    ))
}
