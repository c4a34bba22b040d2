//! The parts of an export that need the ledger: a session's original bytes, its row as CSV, its story
//! as JSON, and the `exporter` that writes any of them. All other renderings are in
//! `quipu_transcript::render`.

mod claude_code;
mod csv;
mod exporter;
mod json;
mod kind;
pub mod openclaw;
mod transcripts;

use quipu_transcript::format;
use quipu_transcript::redact::Redactor;
use quipu_transcript::render::Header;

use crate::read::query::project_name;
use crate::wire::{Session, StoryHead};

pub use claude_code::{ClaudeFile, claude_files};
pub use csv::{csv_header, csv_row};
pub use exporter::{ExportFailure, Exporter, Lines};
pub use json::JsonRendering;
pub use kind::ExportKind;
pub use transcripts::{Transcript, transcript_path, transcripts};

/// Returns the facts about a session with which a rendering begins.
pub fn header(session: &Session, head: Option<&StoryHead>) -> Header {
    let program = format::by_name(&session.format).map_or(&*session.format, |f| f.title());
    Header {
        title: session.title.clone().unwrap_or_else(|| "Untitled".to_owned()),
        id: session.session_id.clone(),
        program: program.to_owned(),
        agent: session.agent.clone(),
        project: session.project.clone(),
        cwd: session.cwd.clone(),
        git_branch: head.and_then(|head| head.git_branch.clone()),
        models: session.models.clone(),
        state: session.state.to_string(),
        parent: session.parent_session_id.clone(),
        fork_of: session.fork_of.clone(),
        continued_in: head.and_then(|head| head.continued_in.clone()),
        started_at: session.started_at,
        updated_at: session.updated_at,
        turns: session.turns,
        tool_calls: session.tool_calls,
        tokens: session.total_tokens,
        is_redacted: false,
    }
}

/// Returns the session with secrets masked.
pub fn mask_session(session: &Session, redactor: &mut Redactor) -> Session {
    let mut mask = |text: &str| redactor.mask_cut(text).into_owned();
    let cwd = session.cwd.as_deref().map(&mut mask);
    // The project's name and the slug are computed again from the masked folder. In them a secret
    // may lack its beginning or have other characters, so that the redactor would not find it.
    let (project, slug) = match &cwd {
        Some(masked) if cwd != session.cwd => {
            let slug = masked.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
            (project_name(Some(masked), None).to_owned(), session.slug.as_ref().map(|_| slug))
        }
        _ => (mask(&session.project), session.slug.as_deref().map(&mut mask)),
    };
    Session {
        session_id: mask(&session.session_id),
        session_key: session.session_key.as_deref().map(&mut mask),
        agent: mask(&session.agent),
        project,
        cwd,
        slug,
        title: session.title.as_deref().map(&mut mask),
        first_prompt: session.first_prompt.as_deref().map(&mut mask),
        last_prompts: session.last_prompts.iter().map(|prompt| mask(prompt)).collect(),
        models: session.models.iter().map(|model| mask(model)).collect(),
        parent_session_id: session.parent_session_id.as_deref().map(&mut mask),
        fork_of: session.fork_of.as_deref().map(&mut mask),
        channel: session.channel.as_deref().map(&mut mask),
        ..session.clone()
    }
}
