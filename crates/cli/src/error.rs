//! What a command ends with when it cannot go on: a chain of causes, hints, and an exit code.

use std::io;
use std::process::ExitCode;

use quipu_ledger::Trouble;

/// The result of a command.
pub(crate) type Result<T, E = CommandError> = std::result::Result<T, E>;

/// How many candidates of an ambiguous name are told.
const CANDIDATES: usize = 8;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// Decides the exit code.
    pub(crate) kind: Kind,
    /// What happened, and why.
    source: anyhow::Error,
    /// What to do next.
    pub(crate) hints: Vec<String>,
}

/// What kind of end it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nobody reads any more. Not a failure, and nobody to tell.
    PipeClosed,
    /// A check found something wrong, and its findings were told.
    CheckFailed,
    /// What was named is not there, or not one thing.
    NoMatch,
    /// Ctrl-C. The exit code is a shell's own for it.
    Interrupted,
    /// Anything else.
    Failed,
}

impl CommandError {
    /// A failure in one sentence.
    pub(crate) fn new(message: impl Into<String>) -> CommandError {
        CommandError::from_source(anyhow::Error::msg(message.into()))
    }

    /// A failure with its causes.
    pub(crate) fn from_source(source: anyhow::Error) -> CommandError {
        CommandError { kind: Kind::Failed, source, hints: Vec::new() }
    }

    /// The same failure with one more thing to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CommandError {
        self.hints.push(hint.into());
        self
    }

    /// The same failure as the cause of a wider one.
    pub(crate) fn about(mut self, what: impl Into<String>) -> CommandError {
        self.source = self.source.context(what.into());
        self
    }

    /// The message and what caused it, outermost first.
    pub(crate) fn causes(&self) -> impl Iterator<Item = String> + '_ {
        self.source.chain().map(|cause| lower_case(&cause.to_string()))
    }

    /// What kind of trouble the ledger is in, if it is the ledger's.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.source.downcast_ref::<quipu_ledger::Error>().map(quipu_ledger::Error::trouble)
    }

    /// The exit code that tells a script how it ended.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::PipeClosed => ExitCode::SUCCESS,
            Kind::NoMatch | Kind::CheckFailed => ExitCode::from(1),
            Kind::Failed => ExitCode::from(2),
            Kind::Interrupted => ExitCode::from(130),
        }
    }
}

/// Only writing results gives a bare I/O error; everything else says what it was doing.
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

/// The operating system begins its sentences with a capital; abbreviations keep theirs.
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

/// What a person can do about a ledger's error.
fn hints(error: &quipu_ledger::Error) -> Vec<String> {
    use quipu_ledger::Error;
    let hint = match error {
        Error::NoMatch { what: "session", .. } => {
            "give an id or the beginning of one, a session key, or `last`; `quipu sessions --all` lists them"
        }
        Error::Empty { .. } => {
            "its agent made the file and wrote nothing; `quipu restore ID --to DIR` gives the file back"
        }
        Error::NoMatch { what: "turn", .. } => {
            "`quipu show ID --count` says how many turns there are"
        }
        Error::NoMatch { what: "entry", .. } => {
            "give an entry's id, the beginning of one, or `leaf`; `quipu show ID --json` lists them"
        }
        Error::NoMatch { what: "file", .. } => {
            "give a file's name or the end of its path; `quipu cursors` lists every collected file"
        }
        Error::NoMatch { what: "entry of the session", .. } => {
            "give an entry's whole id; `quipu session branch` and `quipu show --json` name them"
        }
        Error::NoMatch { what: "transcript of session", .. } => {
            "it was gone before it could be collected; `quipu show ID` says what is left"
        }
        Error::NoMatch { what: "sender", .. } => {
            "`quipu senders list` shows who asks, and who was allowed or denied"
        }
        Error::NoMatch { what: "open pairing request", .. } => {
            "a code is good for an hour; `quipu senders list` shows who asks"
        }
        Error::NoMatch { .. } => "`quipu cursors` lists how many generations each file has had",
        Error::Ambiguous { count, candidates, .. } => return candidates_hint(*count, candidates),
        Error::Sql { message } if message.starts_with("no such") => {
            "docs/schema.md describes the tables; `SELECT name, sql FROM sqlite_schema` shows them"
        }
        Error::Sql { .. } | Error::Interrupted | Error::Refused { .. } | Error::Exists { .. } => {
            return Vec::new();
        }
        Error::Conflict { .. } => "nothing was written; see what was said there, and append again",
        Error::Collected { .. } => {
            "`quipu session fork` makes a session of it that can be written to"
        }
        Error::KeyUsed { .. } => {
            "nothing was written; a retry has the body of the first try, another entry another key"
        }
        Error::Behind { .. } => {
            "nothing was written; run the command again when the rebuild is done, or `quipu sync` to \
             finish one that was interrupted"
        }
        Error::Absent { .. } => {
            "run `quipu sync` to collect into a new ledger, or name another with --ledger"
        }
        Error::NotALedger { .. } => {
            "nothing was changed; name another file with --ledger, or see `quipu config show`"
        }
        Error::Newer { .. } | Error::Upgraded => {
            "nothing was changed; use the newest quipu with this ledger"
        }
        Error::Older { .. } => {
            "run `quipu sync` once, or `backup --restore FILE` if it is a backup; all that is in the \
             ledger stays in it"
        }
        Error::Shape { .. } => {
            "nothing was changed; no quipu makes such tables: undo what another program did to them, or \
             put a backup in the ledger's place with `backup --restore FILE` and keep this file"
        }
        Error::HiddenLog { .. } => {
            "copy the ledger together with the file beside it that ends in -wal to a folder that you \
             may write to, and name the copy with --ledger"
        }
        Error::IsBackup { .. } => {
            "it is read as it is; `backup --restore FILE` puts it in a ledger's place"
        }
        Error::Replaced { .. } => "a backup was restored meanwhile; run it again",
        Error::SearchIndex { .. } => {
            "run `quipu rebuild`; everything that was collected is still there"
        }
        Error::Pattern { .. } => "--exact takes the text as it is",
        Error::Damaged { .. } => DAMAGED,
        error => match error.trouble() {
            Trouble::Busy => "try again when the other process is done; nothing was lost",
            Trouble::DiskFull => {
                "make room on the disk and run it again; what is in the ledger is complete, the rest follows"
            }
            Trouble::ReadOnly => {
                "make the ledger and its folder writable, or name another with --ledger"
            }
            Trouble::Damaged => DAMAGED,
            Trouble::Disk => {
                "the disk failed, or a limit of the system was reached; run it again when that is \
                 mended: what is in the ledger is complete, the rest follows"
            }
            _ => "`quipu config show` says which ledger is used",
        },
    };
    vec![hint.to_owned()]
}

const DAMAGED: &str =
    "keep a copy of the file as it is; sources on disk can be collected into a new ledger";

fn candidates_hint(count: usize, candidates: &[String]) -> Vec<String> {
    let mut hints = vec!["give more of the id; it may mean".to_owned()];
    hints.extend(candidates.iter().take(CANDIDATES).map(|id| format!("  {id}")));
    if count > CANDIDATES {
        hints.push(format!("  and {} more", count - CANDIDATES));
    }
    hints
}
