-- Truth, version 2: indexes, rows of other programs' databases, and checksums of what waits to be
-- compressed.

-- The newest bytes of an index. What changed in it before is in the journal.
CREATE TABLE indexes (
    source INTEGER PRIMARY KEY REFERENCES sources (id),
    length INTEGER NOT NULL,              -- of the bytes
    data   BLOB    NOT NULL               -- zstd of them
) STRICT;

-- How far the rows of a database session were read.
CREATE TABLE row_cursors (
    generation INTEGER PRIMARY KEY REFERENCES generations (id),
    rewrite    TEXT    NOT NULL,          -- the other program's own name for this life of the session
    last_row   INTEGER NOT NULL,          -- its number; of a database itself: its schema version
    rows       INTEGER NOT NULL           -- how many there were up to it; of a database itself: sessions
) STRICT;

-- The number of the row that a record was.
CREATE TABLE record_rows (
    seq    INTEGER PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT;

-- xxh3 of the bytes; NULL for what version 1 stored.
ALTER TABLE pending ADD COLUMN sum INTEGER;
ALTER TABLE tails ADD COLUMN sum INTEGER;
