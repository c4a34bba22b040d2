//! The routes with their options and answers: one entry for each method of a route.

use quipu_ledger::wire::schema::{Shape, fresh, plain};
use quipu_ledger::wire::{
    Appended, CompactionResult, CronJob, CronRun, FileUse, Headroom, ModelContext, Note,
    NoteVersion, Project, RepairReport, RoutedMessage, SearchHit, Sender, Session, ShownEntry,
    Status, StoredSession, TouchedFile, TreeLine, UsageLine,
};

use super::Kind::{Flag, Needed, NeededOrNull, Number, OneOf, Text};
use super::{Answered, Body, Kind, Operation};

const NO_OPTIONS: &[(&str, Kind)] = &[];

const PAGE: &[(&str, Kind)] = &[("limit", Number), ("cursor", Text)];

const TOOLS: Kind = OneOf(&["names", "inputs", "full"]);

const ENTRIES: &[(&str, Kind)] = &[
    ("full", Flag),
    ("thinking", Flag),
    ("tools", TOOLS),
    ("compactions", Flag),
    ("branch", Text),
    ("turn", Number),
    ("entry", Text),
    ("around", Text),
    ("context", Number),
    ("prompts", Flag),
    ("last", Number),
    ("role", OneOf(&["user", "assistant", "tool"])),
    ("limit", Number),
    ("cursor", Text),
];

const SESSIONS: &[(&str, Kind)] = &[
    ("project", Text),
    ("agent", Text),
    ("format", Text),
    ("since", Text),
    ("until", Text),
    ("channel", Text),
    ("all", Flag),
    ("human", Flag),
    ("limit", Number),
    ("cursor", Text),
];

const EXPORT: &[(&str, Kind)] = &[
    ("format", OneOf(&["md", "html", "json", "jsonl"])),
    ("redact", Flag),
    ("full", Flag),
    ("thinking", Flag),
    ("tools", TOOLS),
    ("compactions", Flag),
];

const SEARCH: &[(&str, Kind)] = &[
    ("q", Text),
    ("exact", Text),
    ("regex", Text),
    ("ignore_case", Flag),
    ("recent", Flag),
    ("context", Number),
    ("project", Text),
    ("since", Text),
    ("until", Text),
    ("limit", Number),
    ("cursor", Text),
];

const FILES: &[(&str, Kind)] = &[
    ("path", Text),
    ("changed", Flag),
    ("project", Text),
    ("agent", Text),
    ("format", Text),
    ("since", Text),
    ("until", Text),
    ("limit", Number),
    ("cursor", Text),
];

const USAGE: &[(&str, Kind)] = &[
    ("by", OneOf(&["day", "week", "month", "block", "session", "model", "project", "agent"])),
    ("by_model", Flag),
    ("since", Text),
    ("until", Text),
    ("project", Text),
    ("agent", Text),
    ("format", Text),
];

const fn get(
    path: &'static str,
    summary: &'static str,
    options: &'static [(&'static str, Kind)],
    answer: Answered,
) -> Operation {
    Operation { method: "get", path, summary, options, body: Body::None, answer }
}

const fn post(
    path: &'static str,
    summary: &'static str,
    body: Body,
    answer: Answered,
) -> Operation {
    Operation { method: "post", path, summary, options: NO_OPTIONS, body, answer }
}

const SESSION_FIELDS: &[(&str, Kind)] =
    &[("agent", Text), ("key", Text), ("id", Text), ("cwd", Text), ("or_existing", Flag)];

const FORK_FIELDS: &[(&str, Kind)] = &[("at", Text), ("key", Text), ("id", Text), ("cwd", Text)];

const ROUTE_FIELDS: &[(&str, Kind)] = &[
    ("channel", Needed),
    ("chat", Text),
    ("peer", Needed),
    ("sender", Text),
    ("account", Text),
    ("thread", Text),
    ("topic", Text),
    ("agent", Text),
    ("text", Needed),
    ("cwd", Text),
];

const SENDER_FIELDS: &[(&str, Kind)] = &[
    ("action", OneOf(&["allow", "deny", "revoke", "pair"])),
    ("agent", Text),
    ("channel", Text),
    ("sender_id", Text),
    ("code", Text),
];

const COMPACT_FIELDS: &[(&str, Kind)] =
    &[("instructions", Text), ("keep", Number), ("refused_tokens", Number), ("window", Number)];

const APPENDED: &[Shape] = &[plain::<Appended>];

const STATUS: &[Shape] = &[fresh::<Status>];
const SESSION: &[Shape] = &[plain::<Session>];

/// All operations.
pub(super) const OPERATIONS: &[Operation] = {
    use Answered::{Any, Content, List, Object, Rows, Sums};
    &[
        get("/v1/openapi.json", "This description", NO_OPTIONS, Any),
        get("/v1/status", "The ledger and what it follows", NO_OPTIONS, Object(STATUS)),
        get(
            "/v1/projects",
            "Projects, the one with the newest session first",
            &[("name", Text), ("limit", Number), ("cursor", Text)],
            List(&[plain::<Project>]),
        ),
        get("/v1/sessions", "Sessions, the newest first", SESSIONS, List(SESSION)),
        get("/v1/sessions/{id}", "One session", NO_OPTIONS, Object(&[fresh::<Session>])),
        get(
            "/v1/sessions/{id}/entries",
            "The entries of a session",
            ENTRIES,
            List(&[plain::<ShownEntry<'static>>]),
        ),
        get("/v1/sessions/{id}/tree", "The tree of a session", PAGE, List(&[plain::<TreeLine>])),
        get(
            "/v1/sessions/{id}/context",
            "What a model sees of a session",
            &[("leaf", Text), ("budget", Number)],
            Object(&[fresh::<ModelContext<'static>>]),
        ),
        get(
            "/v1/sessions/{id}/headroom",
            "The room that is left in a model's window",
            &[("window", Number)],
            Object(&[fresh::<Headroom>]),
        ),
        get("/v1/sessions/{id}/meta", "What an agent noted of a session", NO_OPTIONS, Any),
        get(
            "/v1/sessions/{id}/export",
            "A session as a file",
            EXPORT,
            Content(&["text/markdown", "text/plain", "application/json", "application/x-ndjson"]),
        ),
        get("/v1/search", "Passages of all sessions", SEARCH, List(&[plain::<SearchHit>])),
        get(
            "/v1/files",
            "Files that calls of tools read or changed",
            FILES,
            List(&[plain::<TouchedFile>, plain::<FileUse>]),
        ),
        get("/v1/usage", "Tokens and cost", USAGE, Sums(plain::<UsageLine>)),
        get("/v1/notes", "Notes of workspaces", PAGE, List(&[plain::<Note>])),
        get(
            "/v1/notes/{name}",
            "One version of a note",
            &[("at", Text)],
            Object(&[fresh::<NoteVersion>]),
        ),
        get("/v1/cron", "Scheduled jobs", PAGE, List(&[plain::<CronJob>])),
        get("/v1/cron/{job}", "The runs of a job", PAGE, List(&[plain::<CronRun>])),
        get(
            "/v1/senders",
            "Senders of messages",
            &[("agent", Text), ("channel", Text), ("limit", Number), ("cursor", Text)],
            List(&[plain::<Sender>]),
        ),
        post(
            "/v1/sessions",
            "The new session",
            Body::Fields(SESSION_FIELDS),
            Object(&[plain::<StoredSession>]),
        ),
        post(
            "/v1/route",
            "Where a message goes",
            Body::Fields(ROUTE_FIELDS),
            Object(&[plain::<RoutedMessage<'static>>]),
        ),
        post("/v1/sessions/{id}/begin", "The appended prompt", Body::Any, Object(APPENDED)),
        Operation {
            method: "post",
            path: "/v1/sessions/{id}/entries",
            summary: "The appended entries",
            options: &[("auto_compact", Flag)],
            body: Body::Entries,
            answer: Any,
        },
        post(
            "/v1/sessions/{id}/leaf",
            "The appended entry",
            Body::Fields(&[("entry_id", NeededOrNull)]),
            Object(APPENDED),
        ),
        post(
            "/v1/sessions/{id}/branch",
            "The appended entry",
            Body::Fields(&[("from", NeededOrNull), ("summary", Text)]),
            Object(APPENDED),
        ),
        post(
            "/v1/sessions/{id}/label",
            "The appended entry",
            Body::Fields(&[("entry_id", Needed), ("label", Text)]),
            Object(APPENDED),
        ),
        post("/v1/sessions/{id}/mirror", "The appended entry", Body::Any, Object(APPENDED)),
        post("/v1/sessions/{id}/reset", "The appended entry", Body::Any, Object(APPENDED)),
        post(
            "/v1/sessions/{id}/fork",
            "The new session",
            Body::Fields(FORK_FIELDS),
            Object(&[plain::<StoredSession>]),
        ),
        Operation {
            method: "patch",
            path: "/v1/sessions/{id}/meta",
            summary: "What an agent noted of a session",
            options: NO_OPTIONS,
            body: Body::Any,
            answer: Any,
        },
        post(
            "/v1/sessions/{id}/compact",
            "The compaction",
            Body::Fields(COMPACT_FIELDS),
            Object(&[plain::<CompactionResult<'static>>]),
        ),
        post(
            "/v1/sessions/{id}/repair",
            "What is wrong with a session, and what was mended",
            Body::Fields(&[("apply", Flag), ("rebuild_header", Flag)]),
            Object(&[plain::<RepairReport>]),
        ),
        post("/v1/senders", "The sender", Body::Fields(SENDER_FIELDS), Object(&[plain::<Sender>])),
        get("/v1/sql", "The rows of a query", &[("q", Needed), ("limit", Number)], Rows),
    ]
};
