//! `quipu formats`: the supported agents and their files.

use quipu_ledger::collect::Retention;
use quipu_ledger::wire::{FilePattern, SupportedFormat};

use super::Context;
use crate::error::Result;
use crate::output::{Column, Style, Text, count};

/// List the supported agents and where their files are
///
/// For each format: the folders in your home where quipu looks for its files,
/// the variable that overrides them, and which files are read. No other file is
/// ever opened. `--json` prints one object per line.
///
/// Example:
///   quipu formats --json | jq -r .format
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context) -> Result<()> {
    let all = context.settings.roots.clone();
    for (index, roots) in all.iter().enumerate() {
        let format = roots.format;
        let variables: Vec<&str> = format.roots().iter().map(|root| root.env).collect();
        if context.is_json {
            let reads = format.reads().iter();
            context.output.json(&SupportedFormat {
                format: format.name(),
                product: format.title(),
                decoder_version: format.version(),
                variables,
                home_folders: format.roots().iter().flat_map(|root| root.home).copied().collect(),
                root_paths: roots.paths.iter().map(|path| path.display().to_string()).collect(),
                reads: reads.map(|(path, meaning)| FilePattern { path, meaning }).collect(),
                cleanup_days: roots.retention.value.days(format),
            })?;
            continue;
        }
        if index > 0 {
            context.output.gap()?;
        }
        let mut facts = vec![("name", Text::plain(format.name()))];
        let mut label = "roots";
        for path in &roots.paths {
            facts.push((std::mem::take(&mut label), Text::plain(context.show(path))));
        }
        if roots.paths.is_empty() {
            facts.push((label, Text::styled(Style::Dim, "none")));
        }
        facts.push(("variable", Text::plain(variables.join(", "))));
        let retention = &roots.retention;
        let text = match (retention.value, retention.value.days(format)) {
            (Retention::Assumed, Some(days)) => {
                Some(format!("the agent deletes transcripts after {days} days, by default"))
            }
            (Retention::Assumed, None) => None,
            (_, days) => {
                let from = retention.origin.describe(context.settings.home.as_deref());
                let after = days.map(|days| count(days.into(), "day"));
                let after = after.map_or("never".to_owned(), |after| format!("after {after}"));
                Some(format!("the agent deletes transcripts {after}, according to {from}"))
            }
        };
        if let Some(text) = text {
            facts.push(("clean-up", Text::plain(text)));
        }
        context.output.line(Text::styled(Style::Bold, format.title()))?;
        context.output.facts(2, &facts)?;
        context.output.gap()?;
        let columns = [Column::words("reads"), Column::prose("as")];
        let rows = format.reads().iter();
        let rows =
            rows.map(|(path, meaning)| vec![Text::plain(path), Text::styled(Style::Dim, meaning)]);
        context.output.table(2, &columns, rows.collect())?;
    }
    Ok(())
}
