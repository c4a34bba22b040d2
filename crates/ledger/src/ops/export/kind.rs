//! Output formats of an export.

use quipu_transcript::render::{Html, Markdown, Rendering};
use quipu_transcript::story::{StoryDetail, Tools};

use super::JsonRendering;
use crate::wire::Session;

/// An output format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportKind {
    /// Markdown.
    Md,
    /// One self-contained page.
    Html,
    /// The session and its entries, in the same shape for every agent.
    Json,
    /// The agent's own file, byte for byte.
    Jsonl,
    /// A table of sessions.
    Csv,
    /// The folder that OpenClaw and pi read.
    OpenClaw,
    /// The folder that Claude Code reads.
    ClaudeCode,
}

impl ExportKind {
    /// All formats.
    pub const ALL: [ExportKind; 7] = [
        ExportKind::Md,
        ExportKind::Html,
        ExportKind::Json,
        ExportKind::Jsonl,
        ExportKind::Csv,
        ExportKind::OpenClaw,
        ExportKind::ClaudeCode,
    ];

    /// Returns the name of the format, which is the extension of its files too.
    pub fn extension(self) -> &'static str {
        match self {
            ExportKind::Md => "md",
            ExportKind::Html => "html",
            ExportKind::Json => "json",
            ExportKind::Jsonl => "jsonl",
            ExportKind::Csv => "csv",
            ExportKind::OpenClaw => "openclaw",
            ExportKind::ClaudeCode => "claude-code",
        }
    }

    /// Returns whether the export is a folder that an agent reads.
    pub fn is_agents(self) -> bool {
        matches!(self, ExportKind::OpenClaw | ExportKind::ClaudeCode)
    }

    /// Returns the details that are shown without further options.
    pub fn default_detail(self) -> StoryDetail {
        match self {
            ExportKind::Md
            | ExportKind::Jsonl
            | ExportKind::Csv
            | ExportKind::OpenClaw
            | ExportKind::ClaudeCode => StoryDetail::DEFAULT,
            // The page has the tools in full, but shows them collapsed.
            ExportKind::Html => StoryDetail { tools: Tools::Full, ..StoryDetail::DEFAULT },
            ExportKind::Json => StoryDetail::FULL,
        }
    }

    /// Returns the renderer of a session's story; `None` for formats without one.
    pub fn rendering(self, session: &Session, detail: StoryDetail) -> Option<Box<dyn Rendering>> {
        match self {
            ExportKind::Md => Some(Box::new(Markdown::new(detail))),
            ExportKind::Html => Some(Box::new(Html::new(detail))),
            ExportKind::Json => Some(Box::new(JsonRendering::new(session.clone(), detail))),
            ExportKind::Jsonl | ExportKind::Csv | ExportKind::OpenClaw | ExportKind::ClaudeCode => {
                None
            }
        }
    }
}
