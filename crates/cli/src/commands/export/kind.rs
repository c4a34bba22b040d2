//! Output formats of an export.

use clap::ValueEnum;
use quipu_ledger::export::JsonRendering;
use quipu_ledger::wire::Session;
use quipu_transcript::render::{Html, Markdown, Rendering};
use quipu_transcript::story::{StoryDetail, Tools};

/// An output format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Markdown.
    #[value(alias = "markdown")]
    Md,
    /// One self-contained page.
    #[value(alias = "htm")]
    Html,
    /// The session and its entries, in the same shape for every agent.
    Json,
    /// The agent's own file, byte for byte.
    Jsonl,
    /// A table of sessions.
    Csv,
    /// The folder that OpenClaw and pi read.
    #[value(name = "openclaw")]
    OpenClaw,
    /// The folder that Claude Code reads.
    ClaudeCode,
}

impl Kind {
    /// Returns the extension of file names.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Kind::Md => "md",
            Kind::Html => "html",
            Kind::Json => "json",
            Kind::Jsonl => "jsonl",
            Kind::Csv => "csv",
            Kind::OpenClaw => "openclaw",
            Kind::ClaudeCode => "claude-code",
        }
    }

    /// Returns whether it is an agent's own folder.
    pub(super) fn is_agents(self) -> bool {
        matches!(self, Kind::OpenClaw | Kind::ClaudeCode)
    }

    /// Returns the details that are shown without further options.
    pub(super) fn default_detail(self) -> StoryDetail {
        match self {
            Kind::Md | Kind::Jsonl | Kind::Csv | Kind::OpenClaw | Kind::ClaudeCode => {
                StoryDetail::DEFAULT
            }
            // The page shows it collapsed.
            Kind::Html => StoryDetail { tools: Tools::Full, ..StoryDetail::DEFAULT },
            Kind::Json => StoryDetail::FULL,
        }
    }

    /// Returns the renderer of a session's story; `None` for formats without one.
    pub(super) fn rendering(
        self,
        session: &Session,
        detail: StoryDetail,
    ) -> Option<Box<dyn Rendering>> {
        match self {
            Kind::Md => Some(Box::new(Markdown::new(detail))),
            Kind::Html => Some(Box::new(Html::new(detail))),
            Kind::Json => Some(Box::new(JsonRendering::new(session.clone(), detail))),
            Kind::Jsonl | Kind::Csv | Kind::OpenClaw | Kind::ClaudeCode => None,
        }
    }
}
