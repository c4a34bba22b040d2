//! What a session can be exported as.

use clap::ValueEnum;
use quipu_ledger::export::Json;
use quipu_ledger::wire::Session;
use quipu_transcript::render::{Html, Markdown, Rendering};
use quipu_transcript::story::{Telling, Tools};

/// What a session can be exported as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Markdown.
    #[value(alias = "markdown")]
    Md,
    /// One page that needs nothing else.
    Html,
    /// The session and its entries, in the same shape for every agent.
    Json,
    /// The agent's own file.
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
    /// How names of files end.
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

    /// Whether it is a folder of an agent's own.
    pub(super) fn is_agents(self) -> bool {
        matches!(self, Kind::OpenClaw | Kind::ClaudeCode)
    }

    /// What is told unless something else is asked for.
    pub(super) fn telling(self) -> Telling {
        match self {
            Kind::Md | Kind::Jsonl | Kind::Csv | Kind::OpenClaw | Kind::ClaudeCode => {
                Telling::DEFAULT
            }
            // Folded up, so nobody has to see it.
            Kind::Html => Telling { tools: Tools::Full, ..Telling::DEFAULT },
            Kind::Json => Telling::FULL,
        }
    }

    /// What writes a session's story; `None` for kinds that are no story.
    pub(super) fn rendering(
        self,
        session: &Session,
        telling: Telling,
    ) -> Option<Box<dyn Rendering>> {
        match self {
            Kind::Md => Some(Box::new(Markdown::new(telling))),
            Kind::Html => Some(Box::new(Html::new(telling))),
            Kind::Json => Some(Box::new(Json::new(session.clone(), telling))),
            Kind::Jsonl | Kind::Csv | Kind::OpenClaw | Kind::ClaudeCode => None,
        }
    }
}
