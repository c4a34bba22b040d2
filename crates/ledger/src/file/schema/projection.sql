-- Projection: everything understood from truth. Dropped and derived again by `quipu rebuild`.
-- Documented for SQL users in docs/schema.md. References are declared for tools that follow them;
-- `quipu doctor` checks them, because checking at each write would slow an import down.
-- Times are milliseconds UTC, by the agents' clocks.

-- Conversations.
CREATE TABLE sessions (
    id             INTEGER PRIMARY KEY,   -- the first entry that names it
    format         TEXT    NOT NULL,
    agent          TEXT    NOT NULL,      -- '' where the format has no agents
    session_id     TEXT    NOT NULL,      -- the agent's id; sub-agents: <parent>/<agent file>
    part           TEXT    NOT NULL,      -- transcript, agent, subagent, trajectory, prompt_history
    state          TEXT    NOT NULL,      -- live, archived, deleted, gone, lost
    parent_session_id TEXT,               -- the session that it works for
    parent_call    TEXT,                  -- the tool call that started it
    agent_type     TEXT,
    fork_of        TEXT,                  -- session that it continues; as written if it names none
    continued_in   TEXT,
    slug           TEXT,                  -- Claude Code's name of the project's folder; never decoded
    cwd            TEXT,                  -- the first one
    git_branch     TEXT,                  -- the last one
    client_version TEXT,                  -- the last one
    header_version TEXT,
    title          TEXT,
    title_rank     INTEGER,
    first_prompt   TEXT,
    first_turn     INTEGER REFERENCES turns (id), -- the turn that it begins
    pull_request   TEXT,
    model          TEXT,                  -- the last one
    started_at     INTEGER,
    updated_at     INTEGER,               -- last activity: the last entry, or later by the agent's index
    last_entry_at  INTEGER,               -- the last entry
    entries        INTEGER NOT NULL,
    turns          INTEGER NOT NULL,
    automatic_turns INTEGER NOT NULL,     -- those that no person began
    messages       INTEGER NOT NULL,
    tool_calls     INTEGER NOT NULL,
    compactions    INTEGER NOT NULL,
    leaf           INTEGER REFERENCES entry_rows (id), -- entry that the next one attaches to
    first_uuid     TEXT,                  -- first entry id: copies and forks share it
    session_key    TEXT,                  -- the session key that last led to it
    parent_agent   TEXT,                  -- the parent's agent, where it is another
    opened_at      INTEGER,               -- time of the first line, if it has no entry id
    is_copy        INTEGER NOT NULL,      -- its first entry is older than opened_at, or names an original
    UNIQUE (format, agent, session_id)
) STRICT;

-- Finds the sub-agents of a session.
CREATE INDEX sessions_by_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
-- Finds resumed and forked copies of a session.
CREATE INDEX sessions_by_first_uuid ON sessions (first_uuid) WHERE first_uuid IS NOT NULL;
-- Finds a session by its id alone.
CREATE INDEX sessions_by_id ON sessions (session_id);
-- Lists sessions newest first without reading all of them.
CREATE INDEX sessions_by_time ON sessions (updated_at);

-- The sources that a session is made of.
CREATE TABLE session_sources (
    session INTEGER NOT NULL REFERENCES sessions (id),
    source  INTEGER NOT NULL REFERENCES sources (id),
    part    TEXT    NOT NULL,
    PRIMARY KEY (source, session)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_sources_by_session ON session_sources (session);

-- Entries as they are stored. Read them through the view `entries`.
CREATE TABLE entry_rows (
    id            INTEGER PRIMARY KEY,
    session       INTEGER REFERENCES sessions (id),
    kind          INTEGER NOT NULL REFERENCES kinds (id), -- in kinds
    uuid          ANY,                    -- the agent's id: UUIDs as 16 bytes, 8 hex digits as 4, others as text
    parent        INTEGER REFERENCES entry_rows (id), -- entry
    parent_uuid   ANY,                    -- only while no such entry is in the session
    turn          INTEGER REFERENCES turns (id),
    time          INTEGER,
    superseded_by INTEGER REFERENCES entry_rows (id), -- newer version with the same uuid
    content       INTEGER NOT NULL        -- hash that distinguishes a repeated entry from a new version
) STRICT;

-- Finds the entries of a session, and an entry by the agent's id. The whole id is indexed, so that
-- ids with equal beginnings or ends cannot make a ledger slow.
CREATE INDEX entries_by_session ON entry_rows (session, uuid);
-- Finds children whose parent was not seen yet.
CREATE INDEX entries_by_missing_parent ON entry_rows (session, parent_uuid) WHERE parent_uuid IS NOT NULL;
-- Finds older versions, which search shows only where the newer one does not match.
CREATE INDEX entries_superseded ON entry_rows (superseded_by) WHERE superseded_by IS NOT NULL;

-- Properties that entries share, interned: a few dozen rows for millions of entries. A provisional
-- entry has a row of its own with a negative id, so that nothing of it stays.
CREATE TABLE kinds (
    id            INTEGER PRIMARY KEY,
    type          TEXT    NOT NULL,       -- as written
    form          TEXT    NOT NULL,       -- what the format reads it as: message, compaction, …, unknown
    role          TEXT    NOT NULL,       -- '' where the entry has none
    is_meta       INTEGER NOT NULL,
    is_sidechain  INTEGER NOT NULL,
    is_mirror     INTEGER NOT NULL,
    is_error      INTEGER NOT NULL,
    is_side       INTEGER NOT NULL,
    is_summary    INTEGER NOT NULL,       -- stands for compacted history
    is_automatic  INTEGER NOT NULL,       -- a prompt that no person wrote
    folded        TEXT    NOT NULL,       -- why a story hides it; '' where it does not
    written_role  TEXT    NOT NULL,       -- the role as written: toolResult; '' where the entry has none
    stop_reason   TEXT    NOT NULL,       -- why the answer ended, as written; '' where the entry has none
    model         INTEGER NOT NULL        -- that answered, in models; 0 where the entry is no answer
) STRICT;

CREATE UNIQUE INDEX kinds_by_all ON kinds
    (type, form, role, is_meta, is_sidechain, is_mirror, is_error, is_side, is_summary,
     is_automatic, folded, written_role, stop_reason, model)
    WHERE id > 0;

-- Entries: the meaning of records. id = seq of the record; further entries of a welded line have
-- ids above 2^40; negative: provisional, from the unterminated tail of generation -id.
-- Ids are stored packed; each view writes them out, because SQLite has no functions of a schema.
CREATE VIEW entries AS
    SELECT e.id, e.session,
           CASE WHEN typeof(e.uuid) <> 'blob' THEN e.uuid
                WHEN length(e.uuid) = 16 THEN lower(
                    substr(hex(e.uuid), 1, 8) || '-' || substr(hex(e.uuid), 9, 4) || '-' ||
                    substr(hex(e.uuid), 13, 4) || '-' || substr(hex(e.uuid), 17, 4) || '-' ||
                    substr(hex(e.uuid), 21))
                ELSE lower(hex(e.uuid)) END AS entry_id,
           e.parent,
           CASE WHEN typeof(e.parent_uuid) <> 'blob' THEN e.parent_uuid
                WHEN length(e.parent_uuid) = 16 THEN lower(
                    substr(hex(e.parent_uuid), 1, 8) || '-' || substr(hex(e.parent_uuid), 9, 4) || '-' ||
                    substr(hex(e.parent_uuid), 13, 4) || '-' || substr(hex(e.parent_uuid), 17, 4) || '-' ||
                    substr(hex(e.parent_uuid), 21))
                ELSE lower(hex(e.parent_uuid)) END AS missing_parent_id,
           e.turn, k.type, k.form,
           nullif(k.role, '') AS role, e.time, k.form <> 'unknown' AS is_known, k.is_meta,
           k.is_sidechain, k.is_mirror, k.is_error, k.is_side, k.is_summary, k.is_automatic,
           nullif(k.folded, '') AS folded, nullif(k.written_role, '') AS written_role,
           nullif(k.stop_reason, '') AS stop_reason, nullif(k.model, 0) AS model,
           e.superseded_by, e.content
      FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind;

-- Further records that repeat an entry, byte for byte or in another spelling of the same values.
CREATE TABLE sightings (
    seq   INTEGER PRIMARY KEY,            -- the record that repeats it
    entry INTEGER NOT NULL REFERENCES entry_rows (id)
) STRICT;

-- Records that are no longer in the newest generation of their source.
CREATE TABLE absent (
    seq INTEGER PRIMARY KEY
) STRICT;

-- Prose of user and assistant as it is stored. Read it through the view `messages`.
CREATE TABLE message_texts (
    id   INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry
    text TEXT    NOT NULL
) STRICT;

-- Prose of user and assistant. Text beside a tool's result was written by the human.
CREATE VIEW messages AS
    SELECT m.id, e.session, e.turn, iif(k.role = 'tool', 'user', k.role) AS role, e.time, m.text
      FROM message_texts m JOIN entry_rows e ON e.id = m.id CROSS JOIN kinds k ON k.id = e.kind;

-- A prompt and everything that answers it.
CREATE TABLE turns (
    id                 INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry of the prompt
    session            INTEGER NOT NULL REFERENCES sessions (id),
    parent             INTEGER REFERENCES turns (id), -- turn that it follows
    is_automatic       INTEGER NOT NULL,    -- no person wrote the prompt: heartbeat, scheduled job, …
    status             TEXT    NOT NULL,    -- open, done, error, aborted
    model              TEXT,
    started_at         INTEGER,
    ended_at           INTEGER,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL
) STRICT;

CREATE INDEX turns_by_session ON turns (session);

-- Tool calls with their results, as they are stored. Read them through the view `tool_calls`.
CREATE TABLE tool_call_rows (
    entry          INTEGER NOT NULL REFERENCES entry_rows (id),
    ordinal        INTEGER NOT NULL,      -- within the entry
    session        INTEGER NOT NULL REFERENCES sessions (id),
    tool           INTEGER NOT NULL REFERENCES tools (id), -- in tools
    call           TEXT,                  -- the call's id
    target         ANY,                   -- the path, command or query it is about; or its number in targets
    result         INTEGER REFERENCES entry_rows (id), -- entry of the result
    is_error       INTEGER,               -- recorded by the agent; NULL without a result
    mentions_error INTEGER,               -- the result's text holds one of the words for an error
    output_name    TEXT,                  -- file that holds the whole output
    output         INTEGER REFERENCES entry_rows (id), -- entry of that file
    PRIMARY KEY (entry, ordinal)
) STRICT, WITHOUT ROWID;

-- Pairs a result with its call. The last four characters of an id are selective enough.
CREATE INDEX tool_calls_by_call ON tool_call_rows (session, substr(call, -4));
-- Finds the call that a collected output file belongs to.
CREATE INDEX tool_calls_by_output ON tool_call_rows (session, output_name) WHERE output_name IS NOT NULL;

-- Properties that calls share, interned: a few dozen rows for millions of calls.
CREATE TABLE tools (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL,
    is_partial  INTEGER NOT NULL,         -- the calls were cut off
    UNIQUE (name, is_partial)
) STRICT;

-- Paths and addresses of calls, interned: the same few repeat.
CREATE TABLE targets (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

-- Tool calls with their results.
CREATE VIEW tool_calls AS
    SELECT c.entry, c.ordinal, c.session, (SELECT turn FROM entry_rows WHERE id = c.entry) AS turn,
           c.call AS call_id, t.name AS tool,
           iif(typeof(c.target) = 'integer', (SELECT text FROM targets WHERE id = c.target), c.target)
               AS target,
           t.is_partial, c.result, c.is_error, c.mentions_error,
           c.output_name AS output_file, c.output
      FROM tool_call_rows c CROSS JOIN tools t ON t.id = c.tool;

-- Results without a call so far.
CREATE TABLE orphan_results (
    session        INTEGER NOT NULL REFERENCES sessions (id),
    call_id        TEXT    NOT NULL,
    entry          INTEGER NOT NULL REFERENCES entry_rows (id),
    is_error       INTEGER NOT NULL,
    mentions_error INTEGER NOT NULL,
    output_name    TEXT,
    PRIMARY KEY (session, call_id, entry)
) STRICT, WITHOUT ROWID;

-- One API response per session, as it is stored. Read it through the view `usage`.
CREATE TABLE usage_rows (
    entry          INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- first line of the response
    message        INTEGER NOT NULL,      -- hash of the response's id
    request        INTEGER NOT NULL,      -- hash of the request's id; 0 when unknown
    model          INTEGER NOT NULL REFERENCES models (id), -- in models
    input          INTEGER NOT NULL,
    output         INTEGER NOT NULL,
    cache_read     INTEGER NOT NULL,
    cache_write    INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    cost_usd       REAL,                  -- as recorded by the agent
    is_fast        INTEGER NOT NULL,
    is_sidechain   INTEGER NOT NULL,
    is_counted     INTEGER NOT NULL
) STRICT;

-- Models that answered, interned: a few dozen rows for millions of responses.
CREATE TABLE models (
    id       INTEGER PRIMARY KEY,
    model    TEXT NOT NULL,               -- '' where the agent does not record it
    provider TEXT NOT NULL,
    api      TEXT NOT NULL,
    name     TEXT NOT NULL,               -- the model without date, region and maker
    UNIQUE (model, provider, api)
) STRICT;

-- Finds all copies of a response by half of the hash. Not indexed by session: its entries lead
-- there.
CREATE INDEX usage_by_message ON usage_rows (message % 2147483647);

-- One API response per session. Rows with is_counted = 1 add up to the usage of all sessions.
CREATE VIEW usage AS
    SELECT u.entry, e.session, e.turn, u.message, u.request, e.time, u.model,
           u.input AS input_tokens, u.output AS output_tokens, u.cache_read AS cache_read_tokens,
           u.cache_write AS cache_write_tokens, u.cache_write_1h AS cache_write_1h_tokens, u.cost_usd, u.is_fast, u.is_sidechain,
           u.is_counted
      FROM usage_rows u CROSS JOIN entry_rows e ON e.id = u.entry;

-- Sums of the counted rows of usage, so that a report need not read them one by one. One row per
-- quarter of an hour, because the days of every time zone begin with one.
CREATE TABLE usage_quarters (
    quarter        INTEGER NOT NULL,      -- milliseconds UTC where it begins; 0 when unknown
    session        INTEGER NOT NULL REFERENCES sessions (id),
    model          INTEGER NOT NULL REFERENCES models (id), -- in models
    is_fast        INTEGER NOT NULL,
    prompt_over    INTEGER NOT NULL,      -- the price step: prompts above 0, 100000, 200000 or 272000 tokens
    is_recorded    INTEGER NOT NULL,      -- the agent recorded what it cost
    responses      INTEGER NOT NULL,
    input          INTEGER NOT NULL,
    output         INTEGER NOT NULL,
    cache_read     INTEGER NOT NULL,
    cache_write    INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    cost_nano_usd  INTEGER NOT NULL,      -- as recorded, in billionths: sums must not depend on their order
    PRIMARY KEY (quarter, session, model, is_fast, prompt_over, is_recorded)
) STRICT, WITHOUT ROWID;

-- Running totals that an agent records for a session, minus the usage of the session's own lines
-- before them. What remains is the usage of sub-agents, of requests without a line and, in a fork,
-- of its original.
CREATE TABLE usage_totals (
    session        INTEGER NOT NULL REFERENCES sessions (id),
    entry          INTEGER NOT NULL REFERENCES entry_rows (id), -- the line with the total
    model          INTEGER NOT NULL REFERENCES models (id),
    since          INTEGER NOT NULL,      -- when the agent began to count; a fork continues the count
    leaf           INTEGER REFERENCES entry_rows (id), -- the session's leaf at that line
    time           INTEGER,
    total          INTEGER NOT NULL,      -- all tokens of all models
    input          INTEGER NOT NULL,      -- these are differences
    output         INTEGER NOT NULL,
    cache_read     INTEGER NOT NULL,
    cache_write    INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    cost_usd       REAL,                  -- of the whole total
    PRIMARY KEY (session, entry, model)
) STRICT, WITHOUT ROWID;

-- Usage of requests that no line records, such as compactions and titles: the last total of a
-- session minus its lines, its sub-agents and, in a fork, the total that it began with.
-- A session whose lines have more than its total is left out.
CREATE VIEW usage_without_line AS
    WITH last AS (
        SELECT session, entry, since, time, max(total) AS total FROM usage_totals GROUP BY session
    ), began AS (
        SELECT l.session, l.time, t.session AS original, t.entry, max(t.total)
          FROM last l
          CROSS JOIN sessions s ON s.id = l.session
          CROSS JOIN sessions o ON +o.format = s.format AND +o.agent = s.agent
           AND o.id IN (SELECT id FROM sessions WHERE first_uuid = s.first_uuid AND id <> s.id LIMIT 64)
           AND (o.is_copy, coalesce(o.opened_at, 1 << 62)) <= (s.is_copy, coalesce(s.opened_at, 1 << 62))
          CROSS JOIN usage_totals t ON t.session = o.id AND t.since = l.since AND t.total <= l.total
          CROSS JOIN entry_rows leaf ON leaf.id = t.leaf
         WHERE EXISTS (SELECT 1 FROM entry_rows e WHERE e.session = s.id AND e.uuid = leaf.uuid)
         GROUP BY l.session
    ), parts AS (
        SELECT l.session, l.time, t.model, t.input, t.output, t.cache_read, t.cache_write, t.cache_write_1h
          FROM last l CROSS JOIN usage_totals t ON t.session = l.session AND t.entry = l.entry
        UNION ALL
        SELECT b.session, b.time, t.model, -t.input, -t.output, -t.cache_read, -t.cache_write, -t.cache_write_1h
          FROM began b CROSS JOIN usage_totals t ON t.session = b.original AND t.entry = b.entry
        UNION ALL
        SELECT l.session, l.time, u.model, -u.input, -u.output, -u.cache_read, -u.cache_write, -u.cache_write_1h
          FROM usage_quarters u
          CROSS JOIN sessions child ON child.id = u.session AND child.parent_session_id IS NOT NULL
          CROSS JOIN sessions parent ON parent.session_id = child.parent_session_id
           AND parent.format = child.format
           AND parent.agent = coalesce(child.parent_agent, child.agent)
          CROSS JOIN last l ON l.session = parent.id
         WHERE u.quarter > l.since - 900000 AND u.quarter <= l.time
    ), sums AS (
        SELECT p.session, p.time, min(p.model) AS model, sum(p.input) AS input,
               sum(p.output) AS output, sum(p.cache_read) AS cache_read,
               sum(p.cache_write) AS cache_write, sum(p.cache_write_1h) AS cache_write_1h
          FROM parts p CROSS JOIN models m ON m.id = p.model
         GROUP BY p.session, m.name
    ), checked AS (
        SELECT *, min(min(input, output, cache_read, cache_write)) OVER (PARTITION BY session) AS least
          FROM sums
    )
    SELECT session, time, model, input AS input_tokens, output AS output_tokens,
           cache_read AS cache_read_tokens, cache_write AS cache_write_tokens,
           max(cache_write_1h, 0) AS cache_write_1h_tokens
      FROM checked
     WHERE least >= 0 AND input + output + cache_read + cache_write > 0;

-- Compactions as they are stored. Read them through the view `compactions`.
CREATE TABLE compaction_rows (
    id              INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry
    session         INTEGER NOT NULL REFERENCES sessions (id),
    summary         TEXT    NOT NULL,
    first_kept      ANY,                  -- uuid of the first entry that stays
    compacted_count INTEGER,
    tokens_before   INTEGER,
    tokens_after    INTEGER,
    cause           TEXT,
    read_files      TEXT    NOT NULL,     -- JSON list
    modified_files  TEXT    NOT NULL      -- JSON list
) STRICT;

CREATE INDEX compactions_by_session ON compaction_rows (session);

-- Compactions, with the id of the first entry that stays.
CREATE VIEW compactions AS
    SELECT c.id, c.session, c.summary,
           CASE WHEN typeof(c.first_kept) <> 'blob' THEN c.first_kept
                WHEN length(c.first_kept) = 16 THEN lower(
                    substr(hex(c.first_kept), 1, 8) || '-' || substr(hex(c.first_kept), 9, 4) || '-' ||
                    substr(hex(c.first_kept), 13, 4) || '-' || substr(hex(c.first_kept), 17, 4) || '-' ||
                    substr(hex(c.first_kept), 21))
                ELSE lower(hex(c.first_kept)) END AS first_kept_entry_id,
           c.compacted_count AS compacted_messages, c.tokens_before, c.tokens_after, c.cause, c.read_files,
           c.modified_files
      FROM compaction_rows c;

CREATE TABLE custom_entries (
    id          INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry
    session     INTEGER NOT NULL REFERENCES sessions (id),
    custom_type TEXT    NOT NULL,
    data        TEXT                      -- JSON, up to 64 KiB
) STRICT;

-- Changes of the model, as a session records them.
CREATE TABLE model_changes (
    id       INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry
    session  INTEGER NOT NULL REFERENCES sessions (id),
    model    TEXT    NOT NULL,
    provider TEXT    NOT NULL             -- '' where it is not recorded
) STRICT;

-- Changes of the thinking level, as a session records them.
CREATE TABLE thinking_levels (
    id      INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry
    session INTEGER NOT NULL REFERENCES sessions (id),
    level   TEXT    NOT NULL
) STRICT;

-- Labels of entries as they are stored. Read them through the view `labels`.
CREATE TABLE label_rows (
    id      INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry that sets it
    session INTEGER NOT NULL REFERENCES sessions (id),
    target  ANY     NOT NULL,             -- uuid of the labelled entry
    label   TEXT                          -- NULL clears it
) STRICT;

CREATE INDEX labels_by_session ON label_rows (session);

-- Labels of entries.
CREATE VIEW labels AS
    SELECT l.id, l.session,
           CASE WHEN typeof(l.target) <> 'blob' THEN l.target
                WHEN length(l.target) = 16 THEN lower(
                    substr(hex(l.target), 1, 8) || '-' || substr(hex(l.target), 9, 4) || '-' ||
                    substr(hex(l.target), 13, 4) || '-' || substr(hex(l.target), 17, 4) || '-' ||
                    substr(hex(l.target), 21))
                ELSE lower(hex(l.target)) END AS entry_id,
           l.label
      FROM label_rows l;

-- Whole files, one row for each version. Versions listed in `absent` are not the newest.
CREATE TABLE documents (
    id      INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry
    session INTEGER REFERENCES sessions (id), -- NULL for what belongs to no session
    source  INTEGER NOT NULL REFERENCES sources (id),
    part    TEXT    NOT NULL,             -- subagent_meta, tool_output, title, pasted_text, …
    agent   TEXT,                         -- the owner, where the path names it
    name    TEXT    NOT NULL,             -- base name; of a note the path inside the workspace
    bytes   INTEGER NOT NULL
) STRICT;

CREATE INDEX documents_by_session ON documents (session, name);

-- Prompts from the agents' own prompt lists, which outlive transcripts.
CREATE TABLE prompts (
    id      INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry
    session INTEGER REFERENCES sessions (id),
    slug    TEXT,
    time    INTEGER,
    text    TEXT    NOT NULL              -- without pasted text
) STRICT;

-- Prompts into which a text was pasted that is in a file of its own (in documents, by name).
CREATE TABLE pasted_texts (
    name   TEXT    NOT NULL,
    prompt INTEGER NOT NULL REFERENCES prompts (id), -- entry
    PRIMARY KEY (name, prompt)
) STRICT, WITHOUT ROWID;

-- Oddities. entry = the entry, or the seq of a record without one.
CREATE TABLE problems (
    entry   INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    source  INTEGER REFERENCES sources (id),
    session INTEGER REFERENCES sessions (id),
    detail  TEXT    NOT NULL,
    PRIMARY KEY (entry, kind)
) STRICT, WITHOUT ROWID;

-- State of each source after its last record.
CREATE TABLE source_tips (
    source     INTEGER PRIMARY KEY REFERENCES sources (id),
    session    INTEGER REFERENCES sessions (id),
    last_entry INTEGER REFERENCES entry_rows (id),
    last_turn  INTEGER REFERENCES turns (id),
    generation INTEGER NOT NULL,          -- generation of the last record
    end        INTEGER NOT NULL,          -- offset where the last record ends
    has_header INTEGER NOT NULL,          -- a header was seen, or its absence was noted as a problem
    last_time  INTEGER,                   -- the latest so far; after a clock went back, since then
    model      TEXT,                      -- in effect: answers without a model take it
    provider   TEXT,                      -- of that model
    api        TEXT,                      -- of that model
    has_strayed INTEGER NOT NULL          -- an entry since then did not follow the one before it
) STRICT;

-- Which version of each format's decoder the rows were derived with. A format that has no records
-- here has no row.
CREATE TABLE decoders (
    format  TEXT    PRIMARY KEY,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Tool calls that started a sub-agent, as recorded in the parent's transcript.
CREATE TABLE spawned_agents (
    session  INTEGER NOT NULL REFERENCES sessions (id), -- the parent
    agent_id TEXT    NOT NULL,            -- or the key of its session
    call_id  TEXT    NOT NULL,
    PRIMARY KEY (session, agent_id)
) STRICT, WITHOUT ROWID;

-- Search index. rowid = entry. Base64 is left out; at most 1 MiB of text per entry. The first
-- column is the one with the most words: FTS5 stores no column number for it, which makes the index
-- a tenth smaller.
CREATE VIRTUAL TABLE search USING fts5 (
    tool_result,
    tool_input,
    prose,
    thinking,
    attached,
    content = '',
    contentless_delete = 1,
    tokenize = 'unicode61'
);

-- Entries of which only a part is in the search index.
CREATE TABLE partly_indexed (
    entry INTEGER PRIMARY KEY REFERENCES entry_rows (id),
    bytes INTEGER NOT NULL                -- number of bytes left out
) STRICT;

-- Session keys in the newest version of each index.
CREATE TABLE session_keys (
    source       INTEGER NOT NULL REFERENCES sources (id), -- the index
    key          TEXT    NOT NULL,        -- agent:main:main, agent:main:telegram:group:-100, …
    format       TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    session_id   TEXT,                    -- the session it leads to now
    parent_key   TEXT,                    -- of the session that this one works for
    channel      TEXT,
    chat_type    TEXT,
    title        TEXT,                    -- label, display name or subject
    model        TEXT,
    total_tokens INTEGER,
    updated_at   INTEGER,
    is_archived  INTEGER NOT NULL,
    fields       TEXT    NOT NULL,        -- JSON: all of it but prompt reports and skill lists
    PRIMARY KEY (source, key)
) STRICT, WITHOUT ROWID;

-- Finds a key in any index.
CREATE INDEX session_keys_by_key ON session_keys (key);
CREATE INDEX session_keys_by_session ON session_keys (session_id) WHERE session_id IS NOT NULL;

-- Sessions that a key has ever led to, with identity, routing and state at that time.
CREATE TABLE key_history (
    seq         INTEGER PRIMARY KEY,      -- the journal record of it
    source      INTEGER NOT NULL REFERENCES sources (id), -- the index
    format      TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    session_id  TEXT,                     -- NULL: the key is gone from the index
    parent_key  TEXT,
    is_subagent INTEGER NOT NULL,
    fields      TEXT    NOT NULL          -- JSON
) STRICT;

CREATE INDEX key_history_by_session ON key_history (session_id, agent) WHERE session_id IS NOT NULL;
CREATE INDEX key_history_by_key ON key_history (key);
CREATE INDEX key_history_by_parent ON key_history (parent_key) WHERE parent_key IS NOT NULL;

-- The sessions that a key may have led to, if its index does not decide it: a thread's transcript
-- may be named with or without the thread. The first that exists is the one in key_history.
CREATE TABLE key_options (
    seq        INTEGER NOT NULL REFERENCES key_history (seq),
    rank       INTEGER NOT NULL,          -- 0 is the most likely
    session_id TEXT    NOT NULL,
    PRIMARY KEY (seq, rank)
) STRICT, WITHOUT ROWID;

-- Finds the keys that may lead to a new session.
CREATE INDEX key_options_by_session ON key_options (session_id);

-- Runs of scheduled jobs. Their usage is counted in the session that ran.
CREATE TABLE cron_runs (
    id          INTEGER PRIMARY KEY REFERENCES entry_rows (id), -- entry
    source      INTEGER NOT NULL REFERENCES sources (id),
    job_id      TEXT    NOT NULL,
    action      TEXT,                     -- as written: finished
    status      TEXT,                     -- as written: ok, error, skipped
    time        INTEGER,                  -- of the line
    run_at      INTEGER,
    duration_ms INTEGER,
    next_run_at INTEGER,
    summary     TEXT,
    error       TEXT,
    session_id  TEXT,                     -- as written
    session_key TEXT,
    model       TEXT,
    provider    TEXT
) STRICT;

-- Lists the runs of a job in order.
CREATE INDEX cron_runs_by_job ON cron_runs (job_id, time);

-- Scheduled jobs in the newest readable version of each list.
CREATE TABLE cron_jobs (
    source        INTEGER NOT NULL REFERENCES sources (id),
    job_id        TEXT    NOT NULL,
    entry         INTEGER NOT NULL REFERENCES entry_rows (id), -- the list, in documents
    name          TEXT,
    description   TEXT,
    agent         TEXT,
    schedule      TEXT    NOT NULL,       -- in words: every 15 minutes
    schedule_json TEXT,
    is_enabled    INTEGER NOT NULL,
    prompt        TEXT,
    created_at    INTEGER,
    updated_at    INTEGER,
    next_run_at   INTEGER,                -- as of that version
    PRIMARY KEY (source, job_id)
) STRICT, WITHOUT ROWID;

-- Senders that were allowed or denied for an agent. All other senders are unknown.
CREATE TABLE senders (
    agent    TEXT    NOT NULL,
    channel  TEXT    NOT NULL,
    sender   TEXT    NOT NULL,            -- the sender's id there, in lower case
    state    TEXT    NOT NULL,            -- allowed, denied
    time     INTEGER NOT NULL,            -- when that was decided
    seq      INTEGER NOT NULL,            -- the journal record of it
    PRIMARY KEY (agent, channel, sender)
) STRICT, WITHOUT ROWID;

-- Open pairing requests. A request is valid for an hour; an expired one is deleted when another
-- sender asks on the same channel.
CREATE TABLE pairing_requests (
    agent    TEXT    NOT NULL,
    channel  TEXT    NOT NULL,
    sender   TEXT    NOT NULL,
    code     TEXT    NOT NULL,            -- the code that the sender was sent
    asked_at INTEGER NOT NULL,
    seq      INTEGER NOT NULL,            -- the journal record of it
    PRIMARY KEY (agent, channel, sender)
) STRICT, WITHOUT ROWID;

-- Messages of transcripts under the names of OpenClaw's session format: one row for each message
-- that is not superseded. `text` is the prose; `raw(entry)` of `quipu sql` returns the whole line.
CREATE VIEW transcript AS
    SELECT e.id AS entry, s.session_id, e.entry_id, p.entry_id AS parent_id,
           e.written_role AS role, t.text, m.model, nullif(m.provider, '') AS provider,
           nullif(m.api, '') AS api, e.stop_reason,
           e.is_error OR c.result IS NOT NULL AS is_error, e.is_mirror, e.time
      FROM entries e
      LEFT JOIN sessions s ON s.id = e.session
      LEFT JOIN entries p ON p.id = e.parent
      LEFT JOIN message_texts t ON t.id = e.id
      LEFT JOIN models m ON m.id = e.model
      LEFT JOIN (SELECT DISTINCT result FROM tool_call_rows WHERE is_error) c ON c.result = e.id
     WHERE e.form = 'message' AND e.superseded_by IS NULL;

-- The row of each key in the newest index that has it. An index may remain beside the one that
-- replaced it: a file beside a database, or the index of sessions that were imported.
CREATE VIEW newest_keys AS
    SELECT k.*, s.id AS session,
           -- The first time that is known. An index has the time of the last reset, too.
           (SELECT min(time)
              FROM (SELECT e.time AS time
                     UNION ALL
                    SELECT s.started_at
                     UNION ALL
                    SELECT CASE typeof(value)
                           WHEN 'text' THEN
                               CAST(round((julianday(value) - 2440587.5) * 86400000) AS INTEGER)
                           ELSE CAST(value AS INTEGER) END
                      FROM json_each(k.fields) WHERE key IN ('createdAt', 'sessionStartedAt'))
             WHERE time > 0) AS created_at
      FROM session_keys k
      JOIN sources f ON f.id = k.source
      LEFT JOIN sessions s
        ON s.format = k.format AND s.agent = k.agent AND s.session_id = k.session_id
      LEFT JOIN entry_rows e ON e.id = s.id
     WHERE NOT EXISTS (
               SELECT 1
                 FROM session_keys n JOIN sources g ON g.id = n.source
                WHERE n.key = k.key AND n.agent = k.agent AND n.source <> k.source
                  AND CASE WHEN n.format = k.format THEN
                          g.root = f.root
                          AND (f.is_gone, coalesce(n.updated_at, 0), n.source)
                            > (g.is_gone, coalesce(k.updated_at, 0), k.source)
                      ELSE n.format = 'native' AND n.session_id IS k.session_id END);

-- The session index under the names of OpenClaw's `sessions.json`, one row for each key.
CREATE VIEW session_index AS
    SELECT k.key AS session_key, k.session_id, k.agent AS agent_id,
           coalesce(s.updated_at, k.updated_at) AS updated_at,
           k.created_at, fields ->> 'sessionFile' AS session_file, k.channel, k.chat_type,
           fields ->> 'lastChannel' AS last_channel, fields ->> 'lastTo' AS last_to,
           fields ->> 'lastAccountId' AS last_account_id,
           fields ->> 'lastThreadId' AS last_thread_id, fields ->> 'groupId' AS group_id,
           fields ->> 'subject' AS subject, fields ->> 'displayName' AS display_name,
           fields ->> 'label' AS label, k.model, fields ->> 'modelProvider' AS model_provider,
           fields ->> 'thinkingLevel' AS thinking_level,
           fields ->> 'inputTokens' AS input_tokens, fields ->> 'outputTokens' AS output_tokens,
           k.total_tokens, fields ->> 'contextTokens' AS context_tokens,
           fields ->> 'compactionCount' AS compaction_count,
           fields ->> 'abortedLastRun' AS aborted_last_run, k.is_archived, k.fields
      FROM newest_keys k
      LEFT JOIN sessions s ON s.id = k.session;

-- Collected files and database sessions, with paths as text. A path that is not UTF-8 is not valid
-- text here; `sources` has its bytes.
CREATE VIEW files AS
    SELECT id, kind, format, CAST(root AS TEXT) AS root, CAST(path AS TEXT) AS path,
           CAST(first_path AS TEXT) AS first_path, generation, is_gone, refused
      FROM sources;
