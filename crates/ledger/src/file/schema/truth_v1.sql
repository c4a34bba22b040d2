-- Truth, version 1. Migrated, never dropped; rows of `records` are never updated, except by forgetting.

CREATE TABLE ledger (
    id                 INTEGER PRIMARY KEY CHECK (id = 1),
    ledger_id          TEXT    NOT NULL,  -- UUID; the same for the whole life of the ledger
    epoch              TEXT    NOT NULL,  -- UUID; new after a restore from backup, so old cursors are refused
    created_at         INTEGER NOT NULL,  -- milliseconds UTC
    projection_version INTEGER NOT NULL,  -- shape of the projection tables and of every decoder
    projected_to       INTEGER NOT NULL   -- every record up to this seq is in the projection
) STRICT;

-- One followed file, database session, native session, or the journal.
CREATE TABLE sources (
    id         INTEGER PRIMARY KEY,
    kind       TEXT    NOT NULL CHECK (kind IN ('file', 'rows', 'native', 'journal')),
    format     TEXT    NOT NULL,
    root       BLOB    NOT NULL,          -- bytes: paths need not be UTF-8
    path       BLOB    NOT NULL,          -- relative to root, where it was last seen
    first_path BLOB    NOT NULL,          -- where it was first seen; names the session for ever
    generation INTEGER,                   -- the newest one
    is_gone    INTEGER NOT NULL DEFAULT 0,
    refused    TEXT                       -- why nothing is collected from it although it is known
) STRICT;

-- A path leads to one source; discovery looks sources up by it.
CREATE UNIQUE INDEX sources_by_path ON sources (format, root, path);

-- Where a source was before it was renamed.
CREATE TABLE source_paths (
    source INTEGER NOT NULL REFERENCES sources (id),
    seq    INTEGER NOT NULL,              -- the journal record that tells of the move
    path   BLOB    NOT NULL,
    PRIMARY KEY (source, seq)
) STRICT, WITHOUT ROWID;

-- One life of a source between rewrites.
CREATE TABLE generations (
    id          INTEGER PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES sources (id),
    number      INTEGER NOT NULL,         -- 1, 2, … within the source
    began       TEXT    NOT NULL,         -- first, truncated, replaced, rewritten, returned, version
    device      INTEGER NOT NULL,
    inode       INTEGER NOT NULL,
    size        INTEGER NOT NULL,         -- as of the last look
    mtime_ns    INTEGER NOT NULL,
    ctime_ns    INTEGER NOT NULL,
    cursor      INTEGER NOT NULL,         -- bytes that are records
    tail_length INTEGER NOT NULL,         -- bytes after them without a newline, in `tails`
    tail_stands INTEGER NOT NULL,         -- the tail was seen twice, or long after it was written
    head        BLOB    NOT NULL,         -- hash of the first bytes (at most 1024)
    head_length INTEGER NOT NULL,
    marker      BLOB    NOT NULL,         -- hash of the last bytes read (at most 256)
    records     INTEGER NOT NULL,         -- how many of its own
    UNIQUE (source, number)
) STRICT;

-- A new file may be a copy of a known one: candidates share the first kilobyte, or all if it is less.
CREATE INDEX generations_by_head ON generations (head, head_length);

-- The bytes after the last newline, in the pieces they arrived in.
CREATE TABLE tails (
    generation INTEGER NOT NULL REFERENCES generations (id),
    start      INTEGER NOT NULL,
    bytes      BLOB    NOT NULL,
    PRIMARY KEY (generation, start)
) STRICT;

-- A generation's bytes in order: a run of its own records, or the same bytes as an earlier generation.
CREATE TABLE spans (
    generation      INTEGER NOT NULL REFERENCES generations (id),
    start           INTEGER NOT NULL,
    length          INTEGER NOT NULL,
    first_seq       INTEGER,              -- own records, consecutive from this seq …
    last_seq        INTEGER,              -- … to this one
    from_generation INTEGER,              -- or the same bytes as there …
    from_start      INTEGER,              -- … from this offset on
    PRIMARY KEY (generation, start),
    CHECK ((first_seq IS NULL) = (from_generation IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- One raw line, document or row. seq order is commit order.
CREATE TABLE records (
    seq        INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    start      INTEGER NOT NULL,
    length     INTEGER NOT NULL,
    same_as    INTEGER,                   -- the record that holds the same bytes: a copy's are not stored again
    key        TEXT                       -- idempotency key of a native append
) STRICT;

-- A retry of a native append finds its first try.
CREATE UNIQUE INDEX records_by_key ON records (generation, key) WHERE key IS NOT NULL;

-- Bytes of records that are not in a chunk yet.
CREATE TABLE pending (
    seq      INTEGER PRIMARY KEY,
    added_at INTEGER NOT NULL,            -- milliseconds UTC; a run that is left alone is sealed
    bytes    BLOB    NOT NULL
) STRICT;

-- zstd of a run of consecutive records. May be repacked; the bytes in it never change. Records that
-- were forgotten leave holes in the run.
CREATE TABLE chunks (
    id           INTEGER PRIMARY KEY,
    first_seq    INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,        -- where in record first_seq the chunk starts: a record may span chunks
    last_seq     INTEGER NOT NULL,
    raw_length   INTEGER NOT NULL,
    data         BLOB    NOT NULL,
    UNIQUE (first_seq, first_offset)
) STRICT;

-- Sessions that were forgotten and must not be collected again.
CREATE TABLE forgotten (
    format     TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    seq        INTEGER NOT NULL,          -- the journal record that tells of it; negative: the file has to be cleaned
    PRIMARY KEY (format, agent, session_id)
) STRICT, WITHOUT ROWID;
