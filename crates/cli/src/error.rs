//! The error of a command: a chain of causes, hints, and an exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use quipu_ledger::Trouble;

/// The result of a command.
pub(crate) type Result<T, E = CommandError> = std::result::Result<T, E>;

/// Limit for the number of candidates listed for an ambiguous name.
const MAX_CANDIDATES: usize = 8;

/// The reason why a command stopped.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// The kind, which decides the exit code.
    pub(crate) kind: Kind,
    /// The message and its causes.
    source: anyhow::Error,
    /// Suggestions for the next step.
    pub(crate) hints: Vec<String>,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Standard output was closed. Not a failure, and nothing is printed.
    PipeClosed,
    /// A check found something wrong, and its findings were printed.
    CheckFailed,
    /// A name matches nothing, or several things.
    NoMatch,
    /// Ctrl-C. The exit code is the one that shells use for it.
    Interrupted,
    /// Ctrl-C ended a command that runs until Ctrl-C and has printed everything.
    Stopped,
    /// A mistake in the command line.
    Usage,
    /// Any other error.
    Failed,
}

impl CommandError {
    /// Creates an error with one message.
    pub(crate) fn new(message: impl Into<String>) -> CommandError {
        CommandError::from_source(anyhow::Error::msg(message.into()))
    }

    /// Creates an error with causes.
    pub(crate) fn from_source(source: anyhow::Error) -> CommandError {
        CommandError { kind: Kind::Failed, source, hints: Vec::new() }
    }

    /// Creates the error with which a command that runs until Ctrl-C ends.
    pub(crate) fn stopped() -> CommandError {
        CommandError { kind: Kind::Stopped, ..CommandError::new("stopped") }
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CommandError {
        self.hints.push(hint.into());
        self
    }

    /// Wraps this error as the cause of another message.
    pub(crate) fn about(mut self, what: impl Into<String>) -> CommandError {
        self.source = self.source.context(what.into());
        self
    }

    /// Returns the message and its causes, outermost first.
    pub(crate) fn causes(&self) -> impl Iterator<Item = String> + '_ {
        self.source.chain().map(|cause| lower_case(&cause.to_string()))
    }

    /// Returns the kind of trouble, if the ledger caused the error.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.source.downcast_ref::<quipu_ledger::Error>().map(quipu_ledger::Error::trouble)
    }

    /// Returns the stable word for the kind of error that `--json` prints.
    pub(crate) fn word(&self) -> &'static str {
        match self.kind {
            Kind::PipeClosed => "pipe_closed",
            Kind::CheckFailed => "check_failed",
            Kind::NoMatch => "no_match",
            Kind::Interrupted | Kind::Stopped => "interrupted",
            Kind::Usage => "usage",
            Kind::Failed => match self.trouble() {
                Some(Trouble::Busy) => "busy",
                Some(Trouble::DiskFull) => "disk_full",
                Some(Trouble::ReadOnly) => "read_only",
                Some(Trouble::Damaged) => "damaged",
                Some(Trouble::Disk) => "disk",
                _ => "failed",
            },
        }
    }

    /// Returns the exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::PipeClosed => ExitCode::SUCCESS,
            Kind::NoMatch | Kind::CheckFailed => ExitCode::from(1),
            Kind::Failed | Kind::Usage => ExitCode::from(2),
            Kind::Interrupted | Kind::Stopped => ExitCode::from(130),
        }
    }
}

/// A bare I/O error comes only from writing results; all others have a message.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> CommandError {
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => Kind::PipeClosed,
            _ => Kind::Failed,
        };
        let source = anyhow::Error::new(error).context("cannot write to standard output");
        CommandError { kind, source, hints: Vec::new() }
    }
}

impl From<quipu_ledger::Error> for CommandError {
    fn from(error: quipu_ledger::Error) -> CommandError {
        let kind = match &error {
            quipu_ledger::Error::NoMatch { .. }
            | quipu_ledger::Error::Ambiguous { .. }
            | quipu_ledger::Error::Empty { .. } => Kind::NoMatch,
            quipu_ledger::Error::Interrupted => Kind::Interrupted,
            _ => Kind::Failed,
        };
        let hints = hints(&error);
        CommandError { kind, source: error.into(), hints }
    }
}

/// Returns a message of the operating system in lower case. Abbreviations keep their capitals.
fn lower_case(sentence: &str) -> String {
    let mut characters = sentence.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second))
            if first.is_ascii_uppercase() && second.is_ascii_lowercase() =>
        {
            std::iter::once(first.to_ascii_lowercase()).chain(characters).collect()
        }
        _ => sentence.to_owned(),
    }
}

/// Returns hints for an error of the ledger.
fn hints(error: &quipu_ledger::Error) -> Vec<String> {
    use quipu_ledger::{Error, Holder};
    let hint = match error {
        Error::NoMatch { what: "session", .. } => {
            "use an id or the beginning of one, a session key, or `last`; `quipu sessions --all` lists all sessions"
        }
        Error::Empty { .. } => {
            "its agent created the file and wrote nothing to it; `quipu restore ID --to DIR` restores the file"
        }
        Error::NotOpenClaw { .. } => {
            "name OpenClaw's folder, usually ~/.openclaw; `quipu sync` collects the sessions of all other agents"
        }
        Error::NoContext { .. } => "`quipu show` and `quipu export` can still read it",
        Error::Vanished => "run it again; if it fails again, `quipu doctor` lists what is wrong",
        Error::NoMatch { what: "turn", .. } => {
            "`quipu show ID --count` prints how many turns there are"
        }
        Error::NoMatch { what: "entry", .. } => {
            "use an entry's id, the beginning of one, or `leaf`; `quipu show ID --json` lists them"
        }
        Error::NoMatch { what: "file", .. } => {
            "use a file's name or the end of its path; `quipu cursors` lists every collected file"
        }
        Error::NoMatch { what: "entry of the session", .. } => {
            "use an entry's full id; `quipu session branch` and `quipu show --json` list them"
        }
        Error::NoMatch { what: "transcript of session", .. } => {
            "it was gone before it could be collected; `quipu show ID` shows what is known of it"
        }
        Error::NoMatch { what: "sender", .. } => "`quipu senders list` shows all known senders",
        Error::NoMatch { what: "open pairing request", .. } => {
            "a code is valid for one hour; `quipu senders list` shows pending requests"
        }
        Error::NoMatch { .. } => "`quipu cursors` shows how many generations each file has had",
        Error::Ambiguous { count, candidates, .. } => return candidates_hint(*count, candidates),
        Error::Sql { message } if message.starts_with("no such") => {
            "docs/schema.md describes the tables; `SELECT name, sql FROM sqlite_schema` lists them"
        }
        Error::Sql { .. } | Error::Interrupted | Error::Refused { .. } | Error::Exists { .. } => {
            return Vec::new();
        }
        Error::Conflict { .. } => "nothing was written; read the new entries, then append again",
        Error::Summary { .. } => "no compaction was written; the context is as it was",
        Error::SummaryTooLong { .. } => {
            "no compaction was written; use a summariser with shorter answers, or a model with a larger \
             window"
        }
        Error::TooLong { .. } => {
            "no compaction was written; use a model with a larger window, or shorten the last message with a \
             `context_edit`"
        }
        Error::Collected { .. } => "`quipu session fork` creates a copy that can be written to",
        Error::KeyUsed { .. } => {
            "nothing was written; a retry needs the same body, and another entry needs another key"
        }
        Error::Behind { .. } => {
            "try again when the rebuild is done; `quipu sync` finishes one that was interrupted, and \
             has to be able to write to the ledger"
        }
        Error::Busy { holder: Some(Holder { id, is_stopped: true, .. }), .. } => {
            return vec![format!(
                "`kill -CONT {id}` continues that process, `kill -KILL {id}` ends it; what is stored \
                 is complete"
            )];
        }
        Error::Io { path, source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied && is_companion(path) =>
        {
            "this user may not open that file; give it the owner and the mode of the ledger"
        }
        Error::Absent { .. } => {
            "run `quipu sync` to create one, or name another ledger with --ledger"
        }
        Error::NotALedger { .. } => {
            "nothing was changed; name the ledger with --ledger, or see `quipu config show`"
        }
        Error::Companion { .. } => {
            "nothing was changed; move it away or remove it, then run the command again"
        }
        Error::Newer { .. } | Error::Upgraded => {
            "nothing was changed; use a newer quipu with this ledger"
        }
        Error::Older { .. } => {
            "run `quipu sync` once, or `backup --restore FILE` if it is a backup; nothing in the \
             ledger is lost"
        }
        Error::Shape { .. } => {
            "nothing was changed; another program has changed the tables: undo that, or restore a \
             backup with `backup --restore FILE`, which keeps this file"
        }
        Error::HiddenLog { .. } => {
            "copy the ledger and the file with the same name and -wal at its end to a writable \
             folder, and name the copy with --ledger"
        }
        Error::IsBackup { .. } => {
            "a backup is only read; `backup --restore FILE` replaces the ledger with it"
        }
        Error::Replaced { .. } => "a backup was restored while this command ran; run it again",
        Error::SearchIndex { .. } => "run `quipu rebuild`; no collected data is lost",
        Error::Pattern { .. } => "use --exact to search for plain text",
        Error::Damaged { .. } => DAMAGED,
        error => match error.trouble() {
            Trouble::Busy => "try again when the other process is done; nothing was lost",
            Trouble::DiskFull => {
                "free some space on the disk and run the command again; what is stored is complete, and the rest is collected then"
            }
            Trouble::ReadOnly => {
                "make the ledger and its folder writable, or name another ledger with --ledger"
            }
            Trouble::Damaged => DAMAGED,
            Trouble::Disk => {
                "the disk failed, or a system limit was reached; run the command again when that is \
                 fixed; what is stored is complete, and the rest is collected then"
            }
            _ => "`quipu config show` prints which ledger is used",
        },
    };
    vec![hint.to_owned()]
}

/// Returns whether SQLite keeps a file of the ledger under that name.
fn is_companion(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    [&b"-wal"[..], b"-shm", b"-journal"].iter().any(|suffix| name.ends_with(suffix))
}

const DAMAGED: &str =
    "keep a copy of the file; everything that is still on disk can be collected into a new ledger";

fn candidates_hint(count: usize, candidates: &[String]) -> Vec<String> {
    let mut hints = vec!["give more of the id; these match:".to_owned()];
    hints.extend(candidates.iter().take(MAX_CANDIDATES).map(|id| format!("  {id}")));
    if count > MAX_CANDIDATES {
        hints.push(format!("  and {} more", count - MAX_CANDIDATES));
    }
    hints
}
