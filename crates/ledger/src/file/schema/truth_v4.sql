-- Truth, version 4: compressed files that cannot be decompressed to their end, as they are; and what
-- of a database is not read.

-- The life of a compressed file (or of an archive in a database) that could not be decompressed to
-- its end. The whole lines before that are its records.
CREATE TABLE damaged (
    generation INTEGER PRIMARY KEY REFERENCES generations (id),
    why        TEXT    NOT NULL,
    length     INTEGER NOT NULL,          -- of the compressed file
    is_kept    INTEGER NOT NULL           -- its bytes are in `damaged_bytes`; 0: it is too large
) STRICT;

-- Its compressed bytes, in pieces.
CREATE TABLE damaged_bytes (
    generation INTEGER NOT NULL REFERENCES generations (id),
    start      INTEGER NOT NULL,
    bytes      BLOB    NOT NULL,
    sum        INTEGER NOT NULL,          -- xxh3 of the bytes
    PRIMARY KEY (generation, start)
) STRICT;

-- What of a database was not read when it was last looked into, one row for each reason.
CREATE TABLE unread (
    source INTEGER NOT NULL REFERENCES sources (id),
    reason TEXT    NOT NULL,
    count  INTEGER NOT NULL,
    paths  TEXT    NOT NULL,              -- JSON list of the first of them
    PRIMARY KEY (source, reason)
) STRICT, WITHOUT ROWID;

-- Compressed files are looked at once more, and so are databases that are not read, or not all of them.
UPDATE generations SET size = 0
 WHERE id IN (SELECT generation FROM sources
               WHERE kind = 'file' AND substr(path, -4) = CAST('.zst' AS BLOB));
UPDATE generations SET ctime_ns = 0
 WHERE id IN (SELECT generation FROM sources WHERE kind = 'rows' AND refused IS NOT NULL);
