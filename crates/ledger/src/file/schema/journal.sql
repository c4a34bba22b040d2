-- Rows that a new ledger starts with: the journal, its own source, with its only generation.

INSERT INTO sources (id, kind, format, root, path, first_path, generation)
VALUES (1, 'journal', 'journal', x'', x'', x'', 1);

INSERT INTO generations
    (id, source, number, began, device, inode, size, mtime_ns, ctime_ns, cursor, tail_length,
     tail_stands, head, head_length, marker, records)
VALUES (1, 1, 1, 'first', 0, 0, 0, 0, 0, 0, 0, 0, x'', 0, x'', 0);
