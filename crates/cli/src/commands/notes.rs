//! `quipu notes`: memory and personality files, in every version.

mod diff;

use quipu_ledger::wire::{Note, NoteVersion};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Column, Look, Text, bytes, count, day, minute, number};
use crate::{filters, reading};

/// Show memory and personality notes, in every version that was seen
///
/// Without a name, lists all notes. With one, shows its newest version, the one
/// of a day (--at), or what changed from version to version (--diff). A name is
/// the note's path in the workspace or the end of it; AGENT/PATH where several
/// agents have one. A folder's name lists the notes in it.
///
/// Examples:
///   quipu notes
///   quipu notes MEMORY.md --diff
///   quipu notes SOUL.md --at 2026-11-01
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Which note
    #[arg(value_name = "PATH")]
    name: Option<String>,

    /// As it was at the end of that day, or at that moment
    #[arg(long, value_name = "WHEN", requires = "name", conflicts_with = "diff")]
    at: Option<String>,

    /// What changed from one version to the next
    #[arg(long, requires = "name")]
    diff: bool,

    #[command(flatten)]
    reading: reading::Args,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let at = args.at.as_deref().map(filters::until).transpose()?;
    let reading = reading::open(context, args.reading)?;
    let notes = quipu_ledger::notes(&reading.ledger)?;
    let Some(name) = &args.name else { return list(context, &reading, &notes) };
    if let Some(folder) = in_folder(&notes, name).filter(|_| at.is_none() && !args.diff) {
        return list(context, &reading, &folder);
    }
    let note = find(&notes, name)?;
    let versions = quipu_ledger::note_versions(&reading.ledger, &note.agent, &note.name)?;
    if args.diff {
        return diff::show(context, &reading, &versions);
    }
    let wanted = match at {
        Some(at) => versions.iter().rfind(|version| version.time.is_some_and(|time| time < at)),
        None => versions.last(),
    };
    let Some(version) = wanted else {
        let first = versions.first().and_then(|version| version.time).map(minute);
        return Err(no_match(format!("{} was not there at that time", note.name))
            .hint(format!("its first version is of {}", first.unwrap_or_default())));
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

fn list(context: &mut Context, reading: &reading::Reading, notes: &[Note]) -> Result<()> {
    if context.is_json {
        return notes.iter().try_for_each(|note| reading.json(context, note));
    }
    if notes.is_empty() {
        context.output.line("no notes were collected")?;
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

/// One line. Where there is no column for agents, their names come first, if there are several.
fn row(note: &Note, is_wide: bool, is_mixed: bool) -> Vec<Text> {
    let when = if is_wide { minute } else { day };
    let changed = Text::of(Look::Dim, note.updated_at.map(when).unwrap_or_default());
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
    row.push(if note.gone { changed.with(Look::Warning, " gone") } else { changed });
    row
}

fn heading(version: &NoteVersion, of: usize) -> Text {
    let time = version.time.map(minute).unwrap_or_default();
    let which = format!("  {}, version {} of {of}, {time}", version.agent, version.version);
    Text::of(Look::Bold, &version.name).with(Look::Dim, which)
}

/// The notes in a folder of that name, if it is the name of no note.
fn in_folder(notes: &[Note], name: &str) -> Option<Vec<Note>> {
    if find(notes, name).is_ok() {
        return None;
    }
    let folder = name.trim_end_matches('/').to_lowercase();
    let is_in = |note: &&Note| {
        let (agent, name) = (note.agent.to_lowercase(), note.name.to_lowercase());
        let inside =
            |path: &str| path.strip_prefix(&folder).is_some_and(|rest| rest.starts_with('/'));
        inside(&name) || inside(&format!("{agent}/{name}"))
    };
    let found: Vec<Note> = notes.iter().filter(is_in).cloned().collect();
    (!folder.is_empty() && !found.is_empty()).then_some(found)
}

/// The note that a person means.
fn find<'a>(notes: &'a [Note], name: &str) -> Result<&'a Note> {
    let wanted = name.to_lowercase();
    let is = |fits: &dyn Fn(&str, &str) -> bool| -> Vec<&'a Note> {
        notes
            .iter()
            .filter(|note| fits(&note.agent.to_lowercase(), &note.name.to_lowercase()))
            .collect()
    };
    let exact = is(&|agent, name| name == wanted || format!("{agent}/{name}") == wanted);
    let end = format!("/{wanted}");
    let found = if exact.is_empty() { is(&|_, name| name.ends_with(&end)) } else { exact };
    match found.as_slice() {
        [note] => Ok(note),
        [] => {
            Err(no_match(format!("no note is called `{name}`"))
                .hint("`quipu notes` lists all of them"))
        }
        several => {
            let what = format!("`{name}` may mean {}", count(several.len() as u64, "note"));
            let mut error = no_match(what).hint("say which one:");
            for note in several.iter().take(MOST_NAMED) {
                error = error.hint(format!("  {}/{}", note.agent, note.name));
            }
            Err(error)
        }
    }
}

/// At most this many are named.
const MOST_NAMED: usize = 8;

fn no_match(what: String) -> CommandError {
    let mut error = CommandError::new(what);
    error.kind = Kind::NoMatch;
    error
}
