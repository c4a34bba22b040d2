//! One session as a file that other programs can read.

use std::io::{BufWriter, Seek, Write};

use quipu_ledger::export::{ExportFailure, ExportKind, Exporter};
use quipu_ledger::query::Choice;
use quipu_transcript::story::StoryDetail;
use serde::Deserialize;

use super::session::ToolOption;
use super::sessions;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(default)]
    format: Format,
    #[serde(default)]
    redact: bool,
    #[serde(default)]
    full: bool,
    #[serde(default)]
    thinking: bool,
    tools: Option<ToolOption>,
    #[serde(default)]
    compactions: bool,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Md,
    Html,
    Json,
    Jsonl,
}

impl Format {
    fn kind(self) -> ExportKind {
        match self {
            Format::Md => ExportKind::Md,
            Format::Html => ExportKind::Html,
            Format::Json => ExportKind::Json,
            Format::Jsonl => ExportKind::Jsonl,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Md => "text/markdown; charset=utf-8",
            // Sent as plain text, so that nothing in an exported page can run with the user's
            // cookie.
            Format::Html => "text/plain; charset=utf-8",
            Format::Json => "application/json",
            Format::Jsonl => "application/x-ndjson",
        }
    }
}

impl Options {
    fn detail(&self) -> StoryDetail {
        let default = self.format.kind().default_detail();
        let default = if self.full { StoryDetail::FULL } else { default };
        StoryDetail {
            thinking: default.thinking || self.thinking,
            compactions: default.compactions || self.compactions,
            tools: self.tools.map_or(default.tools, ToolOption::tools),
            ..default
        }
    }
}

/// Answers like `quipu export` of one session to standard output.
pub(crate) fn export(call: &Call<'_>) -> Result<Answer, Problem> {
    let asked: Options = call.options()?;
    let (row, session) = sessions::named(call)?;
    let kind = asked.format.kind();
    let choice = Choice {
        detail: asked.detail(),
        // Only JSON has what is counted for each entry.
        prices: (kind == ExportKind::Json).then(|| call.settings.prices.clone()),
        ..Choice::default()
    };
    let mut exporter = Exporter::new(call.ledger, kind, choice, asked.redact);
    exporter.learn(row, &session).map_err(failed)?;
    exporter.end_learning();
    // The snapshot is over before the client reads anything.
    let mut out = BufWriter::new(tempfile::tempfile().map_err(not_written)?);
    exporter.write_all(&[(row, session)], &mut out).map_err(failed)?;
    out.flush().map_err(not_written)?;
    let mut file = out.into_inner().map_err(|error| not_written(error.into_error()))?;
    file.rewind().map_err(not_written)?;
    Ok(Answer::file(asked.format.content_type(), file))
}

fn failed(failure: ExportFailure) -> Problem {
    match failure {
        ExportFailure::Ledger(error) => error.into(),
        ExportFailure::Out(error) => not_written(error),
    }
}

fn not_written(error: std::io::Error) -> Problem {
    tracing::error!(error = &error as &dyn std::error::Error, "Cannot write a temporary file.");
    Problem::failed()
}
