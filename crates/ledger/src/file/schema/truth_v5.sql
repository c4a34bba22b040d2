-- Truth, version 5: the bytes after the last newline are compressed where that is worth it.

-- The length of a piece whose `bytes` are zstd of it; NULL: `bytes` is the piece. `sum` is of the piece.
ALTER TABLE tails ADD COLUMN length INTEGER;
