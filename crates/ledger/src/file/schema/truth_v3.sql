-- Truth, version 3: where and when was collected into this file.

-- A name for the machine; NULL until one says so.
ALTER TABLE ledger ADD COLUMN collector TEXT;
-- When something was last collected, milliseconds UTC by the collector's clock.
ALTER TABLE ledger ADD COLUMN collected_at INTEGER;
