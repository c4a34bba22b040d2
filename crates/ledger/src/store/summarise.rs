//! Lets a summariser make the summaries of a plan, in one go or in pieces.
//!
//! No lock is held meanwhile. Answers are checked and stored as text, and never interpreted.

use quipu_transcript::compaction::{self as pure, Fault, Question, Request};
use quipu_transcript::routing::settings::CompactionMode;

use super::compact::CompactionPlan;
use crate::{Error, Result};

/// The longest summary of one part, in bytes.
pub const MAX_SUMMARY_BYTES: usize = 1 << 20;

/// The number of times that a summariser is asked for one chunk in the mode `safeguard`.
const TRIES: u32 = 2;

/// Makes the summary of a part of a session.
///
/// It is called without any lock, may take minutes, and may run a program. What it returns is stored
/// as text and never interpreted.
pub trait Summariser {
    /// Returns its name, which the compaction records.
    fn name(&self) -> &str;

    /// Returns the summary, or the reason why there is none. The reason quotes no transcript.
    fn summarise(&self, request: &Request<'_>) -> Result<String, String>;

    /// Returns the answer to a question for notes, like [`Summariser::summarise`]. `None` if there is
    /// no model that could answer.
    fn answer(&self, question: &Question<'_>) -> Option<Result<String, String>> {
        let _ = question;
        None
    }

    /// Returns whether its summaries are audited in the mode `safeguard`. One that writes no words of
    /// its own need not be.
    fn is_audited(&self) -> bool {
        true
    }
}

/// The summariser without a model: it selects lines of the conversation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Digest;

impl Summariser for Digest {
    fn name(&self) -> &'static str {
        "digest"
    }

    fn summarise(&self, request: &Request<'_>) -> Result<String, String> {
        let text = pure::digest(request);
        // The messages have no text, but the summary replaces them, so it must not be empty.
        Ok(if text.is_empty() { "(nothing to report)".to_owned() } else { text })
    }

    fn is_audited(&self) -> bool {
        false
    }
}

/// The summaries of a plan's parts.
pub(super) struct Summaries {
    pub(super) parts: Vec<String>,
    /// The summariser that made them.
    pub(super) summariser: String,
    /// The number of pieces that were summarised.
    pub(super) chunks: usize,
    /// The largest number of times that it was asked for one piece.
    pub(super) tries: u32,
    /// The reason why the digest was taken instead of the summariser's answer.
    pub(super) digest_because: Option<String>,
}

/// Lets the summariser summarise all parts of a plan.
pub(super) fn summarise(plan: &CompactionPlan, summariser: &dyn Summariser) -> Result<Summaries> {
    let requests = plan.plan.requests(plan.instructions.as_deref());
    if plan.mode == CompactionMode::Default {
        return at_once(&requests, summariser);
    }
    match in_chunks(plan, &requests, summariser) {
        Ok(made) => Ok(made),
        Err(why) => {
            let made = at_once(&requests, &Digest)?;
            Ok(Summaries { tries: TRIES, digest_because: Some(why), ..made })
        }
    }
}

fn at_once(requests: &[Request<'_>], summariser: &dyn Summariser) -> Result<Summaries> {
    let failed = |why| Error::Summary { summariser: summariser.name().to_owned(), why };
    let parts = requests.iter().map(|request| checked(summariser, request).map_err(failed));
    Ok(Summaries {
        parts: parts.collect::<Result<Vec<String>>>()?,
        summariser: summariser.name().to_owned(),
        chunks: requests.len(),
        tries: 1,
        digest_because: None,
    })
}

/// Lets the summariser summarise each part in pieces, each together with the summary of the pieces
/// before. Returns the reason if a piece has no acceptable summary.
fn in_chunks(
    plan: &CompactionPlan,
    requests: &[Request<'_>],
    summariser: &dyn Summariser,
) -> Result<Summaries, String> {
    let most = plan.plan.chunk_tokens();
    let mut made = Summaries {
        parts: Vec::new(),
        summariser: summariser.name().to_owned(),
        chunks: 0,
        tries: 1,
        digest_because: None,
    };
    for request in requests {
        let mut summary: Option<String> = None;
        let mut names = Vec::new();
        for chunk in pure::chunks(request.messages, most) {
            let until = request.messages.get(..chunk.end).unwrap_or_default();
            let messages = until.get(chunk.start..).unwrap_or_default();
            // The names of the last requests change only with another request.
            if messages.iter().any(|message| message.role() == "user") {
                names = pure::names(until);
            }
            let piece = Request {
                previous: summary.as_deref().or(request.previous),
                continues: summary.is_some(),
                messages,
                names: &names,
                ..*request
            };
            let (text, tries) = accepted(summariser, &piece)?;
            made.chunks += 1;
            made.tries = made.tries.max(tries);
            summary = Some(text);
        }
        made.parts.push(summary.unwrap_or_default());
    }
    Ok(made)
}

/// Returns a summary that passes the audit, and the number of times that the summariser was asked
/// for it.
fn accepted(summariser: &dyn Summariser, piece: &Request<'_>) -> Result<(String, u32), String> {
    let mut fault: Option<Fault> = None;
    let mut why = String::new();
    for tries in 1..=TRIES {
        match checked(summariser, &Request { fault, ..*piece }) {
            Err(reason) => why = reason,
            Ok(text) if !summariser.is_audited() => return Ok((text, tries)),
            Ok(text) => match pure::audit(piece, &text) {
                Ok(()) => return Ok((text, tries)),
                Err(found) => {
                    why = found.to_string();
                    fault = Some(found);
                }
            },
        }
    }
    Err(why)
}

/// Returns a summary that can be stored.
fn checked(summariser: &dyn Summariser, request: &Request<'_>) -> Result<String, String> {
    let text = summariser.summarise(request)?;
    let text = text.trim();
    match text.len() {
        0 => Err("it returned nothing".to_owned()),
        MAX_SUMMARY_BYTES.. => Err(format!("it returned more than {MAX_SUMMARY_BYTES} bytes")),
        _ => Ok(text.to_owned()),
    }
}
