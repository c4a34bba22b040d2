//! `quipu notes`: all versions of memory and personality files.

mod diff;

use quipu_ledger::wire::{Note, NoteVersion};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Style, Text, bytes, count, day, minute, number};
use crate::{filters, reading};

/// Show memory and personality notes, in every version
///
/// Without PATH, lists all notes: as they are, as they were on a day (--at), or
/// with all changes (--diff). With PATH, shows one note: its newest version, the
/// version of a day, or all changes. PATH is the note's path in the workspace,
/// the end of it, or any unambiguous part; AGENT/PATH if several agents have such
/// a note. The name of a folder means all notes in it.
///
/// Examples:
///   quipu notes
///   quipu notes --diff
///   quipu notes MEMORY.md --diff
///   quipu notes SOUL.md --at yesterday
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The note to show
    #[arg(value_name = "PATH")]
    name: Option<String>,

    /// Show the version at the end of this day, or at this time
    #[arg(long, value_name = "WHEN", conflicts_with = "diff")]
    at: Option<String>,

    /// Show the changes between versions
    #[arg(long)]
    diff: bool,

    #[command(flatten)]
    reading: reading::Args,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let at = args.at.as_deref().map(filters::until).transpose()?;
    let reading = reading::open(context, args.reading)?;
    let notes = quipu_ledger::query::notes(&reading.ledger)?;
    if notes.is_empty() {
        reading.refuse_if_behind()?;
    }
    let several = match &args.name {
        None => Some(notes.clone()),
        Some(name) => quipu_ledger::query::notes_in_folder(&notes, name),
    };
    if let Some(several) = several {
        return match (args.diff, at) {
            (true, _) => changes(context, &reading, &several),
            (false, None) => list(context, &reading, &several),
            (false, Some(at)) => {
                let then = as_of(&reading, &several, at)?;
                if then.is_empty() && !several.is_empty() {
                    return Err(no_match("no note existed at that time".to_owned()));
                }
                list(context, &reading, &then)
            }
        };
    }
    let note = pick(context, &reading, &notes, args.name.as_deref().unwrap_or_default())?;
    if args.diff {
        return changes(context, &reading, std::slice::from_ref(note));
    }
    let versions = quipu_ledger::query::note_versions(&reading.ledger, &note.agent, &note.name)?;
    let wanted = match at {
        Some(at) => versions.iter().rfind(|version| version.time.is_some_and(|time| time < at)),
        None => versions.last(),
    };
    let Some(version) = wanted else {
        let first = versions.first().and_then(|version| version.time).map(minute);
        return Err(no_match(format!("{} did not exist at that time", note.name))
            .hint(format!("its first version is from {}", first.unwrap_or_default())));
    };
    if context.is_json {
        return reading.json(context, version);
    }
    context.output.page()?;
    context.output.line(heading(version, versions.len()))?;
    context.output.gap()?;
    context.output.verbatim(&version.text)?;
    Ok(())
}

/// Prints the changes of these notes, note by note.
fn changes(context: &mut Context, reading: &reading::Reading, notes: &[Note]) -> Result<()> {
    if !context.is_json {
        if notes.is_empty() {
            return list(context, reading, notes);
        }
        context.output.page()?;
    }
    let mut is_first = true;
    for note in notes {
        if !std::mem::take(&mut is_first) && !context.is_json {
            context.output.gap()?;
        }
        let versions =
            quipu_ledger::query::note_versions(&reading.ledger, &note.agent, &note.name)?;
        diff::show(context, reading, &versions)?;
    }
    Ok(())
}

/// Returns the notes as they were at a time.
fn as_of(reading: &reading::Reading, notes: &[Note], at: i64) -> Result<Vec<Note>> {
    let mut then = Vec::new();
    for note in notes {
        let mut versions =
            quipu_ledger::query::note_versions(&reading.ledger, &note.agent, &note.name)?;
        versions.retain(|version| version.time.is_some_and(|time| time < at));
        if let Some(version) = versions.last() {
            then.push(Note {
                versions: versions.len() as u64,
                bytes: version.bytes,
                updated_at: version.time,
                is_gone: false,
                ..note.clone()
            });
        }
    }
    Ok(then)
}

fn list(context: &mut Context, reading: &reading::Reading, notes: &[Note]) -> Result<()> {
    if context.is_json {
        return notes.iter().try_for_each(|note| reading.json(context, note));
    }
    if notes.is_empty() {
        context.output.line("no notes")?;
        return Ok(());
    }
    context.output.page()?;
    let is_wide = context.output.width().is_none_or(|width| width >= 64);
    let mut columns = vec![Column::long("note")];
    if is_wide {
        columns.push(Column::words("agent"));
    }
    columns.push(Column::numbers("versions"));
    if is_wide {
        columns.push(Column::numbers("size"));
    }
    columns.push(Column::words("changed"));
    let is_mixed = notes.windows(2).any(|pair| pair[0].agent != pair[1].agent);
    let rows = notes.iter().map(|note| row(note, is_wide, is_mixed)).collect();
    context.output.table(0, &columns, rows)?;
    Ok(())
}

/// Returns one row. Without a column for agents, the agent's name begins the path if several agents
/// have notes.
fn row(note: &Note, is_wide: bool, is_mixed: bool) -> Vec<Text> {
    let when = if is_wide { minute } else { day };
    let changed = Text::styled(Style::Dim, note.updated_at.map(when).unwrap_or_default());
    let mut row = vec![match is_mixed && !is_wide {
        true => Text::plain(format!("{}/{}", note.agent, note.name)),
        false => Text::plain(&note.name),
    }];
    if is_wide {
        row.push(Text::plain(&note.agent));
    }
    row.push(Text::plain(number(note.versions)));
    if is_wide {
        row.push(Text::plain(bytes(note.bytes)));
    }
    row.push(if note.is_gone { changed.with(Style::Warning, " gone") } else { changed });
    row
}

fn heading(version: &NoteVersion, version_count: usize) -> Text {
    let time = version.time.map(minute).unwrap_or_default();
    let which =
        format!("  {}, version {} of {version_count}, {time}", version.agent, version.version);
    Text::styled(Style::Bold, &version.name).with(Style::Dim, which)
}

/// Returns the note that a name matches. Asks the user if several match.
fn pick<'a>(
    context: &mut Context,
    reading: &reading::Reading,
    notes: &'a [Note],
    name: &str,
) -> Result<&'a Note> {
    let found = quipu_ledger::query::matching_notes(notes, name);
    match found.as_slice() {
        [note] => Ok(note),
        [] => {
            Err(no_match(format!("no note matches `{name}`")).hint("`quipu notes` lists all notes"))
        }
        several => {
            let path = |note: &&Note| format!("{}/{}", note.agent, note.name);
            let question = format!("`{name}` matches several notes:");
            let choices = several.iter().map(|note| Text::plain(path(note))).collect();
            if let Some(choice) = reading.wait_for(|| context.output.pick(&question, choices))??
                && let Some(note) = several.get(choice)
            {
                return Ok(note);
            }
            let what = format!("`{name}` matches {}", count(several.len() as u64, "note"));
            let mut error = no_match(what).hint("give more of the path:");
            for note in several.iter().take(MAX_NAMED) {
                error = error.hint(format!("  {}", path(note)));
            }
            Err(error)
        }
    }
}

/// Limit for the number of notes listed in an error.
const MAX_NAMED: usize = 8;

fn no_match(what: String) -> CommandError {
    let mut error = CommandError::new(what);
    error.kind = Kind::NoMatch;
    error
}
