//! What every reading command begins with: the ledger, brought up to date without keeping anybody
//! waiting, and a word about what is still missing from the answer.

use std::path::Path;

use quipu_ledger::wire::Project;
use quipu_ledger::{Error, Filter, Freshness, Ledger, Patience, Progress, SessionRow, Whose};
use serde::Serialize;

use crate::commands::Context;
use crate::error::{CommandError, Kind, Result};
use crate::machine;
use crate::output::{ID_LETTERS, Look, ShortIds, Text, bytes, count, elapsed, minute};
use crate::settings::Origin;

/// How many projects that a name may mean are told.
const MOST_PROJECTS: usize = 8;

/// Options of every reading command.
#[derive(Debug, Default, Clone, Copy, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Collect everything new first, however long it takes
    #[arg(long, conflicts_with = "no_sync")]
    sync: bool,

    /// Answer from what the ledger holds, without looking for anything new
    #[arg(long)]
    no_sync: bool,
}

/// A ledger to read from, and what its answers are worth.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) ledger: Ledger,
    pub(crate) freshness: Freshness,
}

/// One object of a result, with what it is worth.
#[derive(Serialize)]
struct Dated<'a, T> {
    #[serde(flatten)]
    value: &'a T,
    fresh_as_of: i64,
    pending_bytes: Option<u64>,
    /// Records that nothing was derived from yet, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    unprojected: Option<u64>,
    /// Files that cannot be read, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<usize>,
}

/// Opens the ledger and brings it up to date. Warns of what is missing from the answer.
pub(crate) fn open(context: &mut Context, args: Args) -> Result<Reading> {
    let path = context.settings.ledger.value.clone();
    refuse_unknown(context, &path)?;
    if args.no_sync {
        let ledger = Ledger::open_read_only(&path)?;
        let mut reader = quipu_ledger::Reader { ledger, whose: Whose::ReadOnly };
        let freshness = reader.refresh(&[], machine::name(), Patience::None, &mut |_| {})?;
        warn_of_unprojected(context, freshness.unprojected);
        return Ok(Reading { ledger: reader.ledger, freshness });
    }
    let mut reader = quipu_ledger::open_to_read(&path, machine::name())?;
    // A first import is what a person came for; a script is told what is missing.
    let is_first = reader.whose == Whose::Ours && reader.ledger.is_empty()?;
    let is_watched = context.output.is_seen() && !context.is_json;
    let patience =
        if args.sync || (is_first && is_watched) { Patience::Long } else { Patience::Short };
    let mut bar = context.output.bar();
    let freshness = reader.refresh(
        &context.roots(),
        machine::name(),
        patience,
        &mut |progress| match progress {
            // What is cut off soon is not worth a bar.
            Progress::Planned { bytes, .. } if patience == Patience::Long => {
                bar.plan_bytes("collecting", bytes);
            }
            Progress::Stored { bytes } if patience == Patience::Long => bar.advance(bytes),
            Progress::Rebuilding { done, total } => bar.records("rebuilding", done, total),
            Progress::Planned { .. } | Progress::Stored { .. } => {}
        },
    )?;
    drop(bar);
    warn(context, reader.whose, &freshness);
    if reader.ledger.is_copy() {
        context.output.warn(
            "an older quipu wrote it: a copy was brought up to date for this answer",
            Some("that takes time with every command; `backup --restore FILE` does it once"),
        );
    }
    Ok(Reading { ledger: reader.ledger, freshness })
}

/// Whoever names a ledger wants to read what is in it; a name that was mistyped makes no new one.
fn refuse_unknown(context: &Context, path: &Path) -> Result<()> {
    if !is_named(context) || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let shown = context.show(path);
    Err(CommandError::new(format!("there is no ledger at {shown}"))
        .hint("`quipu sync` makes one and collects into it"))
}

/// Whether somebody says which ledger is meant, and does not mean any other.
pub(crate) fn is_named(context: &Context) -> bool {
    let origin = &context.settings.ledger.origin;
    matches!(origin, Origin::Flag(_) | Origin::Environment("QUIPU_LEDGER"))
}

impl Reading {
    /// How an answer that nothing was found has to end.
    pub(crate) fn so_far(&self) -> String {
        let freshness = &self.freshness;
        if freshness.is_behind() || freshness.unprojected > 0 {
            " in what is collected so far".to_owned()
        } else if !freshness.unreadable.is_empty() {
            let files = count(freshness.unreadable.len() as u64, "file");
            format!(" in what can be read; {files} cannot")
        } else if freshness.pending_bytes.is_none() {
            format!(" in what was collected by {}", minute(freshness.fresh_as_of))
        } else {
            String::new()
        }
    }

    /// The session that `name` means. If it may mean several, the person is asked.
    pub(crate) fn find(&self, context: &mut Context, name: &str) -> Result<SessionRow> {
        let name = self.name(context, name)?;
        Ok(quipu_ledger::find_session(&self.ledger, &name)?)
    }

    /// A name that means one session: `name`, or what the person chooses of what it may mean.
    pub(crate) fn name(&self, context: &mut Context, name: &str) -> Result<String> {
        match quipu_ledger::find_session(&self.ledger, name) {
            Err(Error::Ambiguous { what, name, count, candidates }) => {
                let room = context.output.choice_width().saturating_sub(ROOM_FOR_TIME);
                let shown = apart(&candidates, room);
                let described =
                    candidates.iter().zip(&shown).map(|(id, shown)| self.describe(id, shown));
                let described = described.collect();
                let question = match candidates.len() {
                    all if all == count => format!("`{name}` may mean several sessions:"),
                    first => {
                        format!("`{name}` may mean {count} sessions; these are the first {first}:")
                    }
                };
                match context.output.pick(&question, described)? {
                    Some(choice) => Ok(candidates.into_iter().nth(choice).unwrap_or_default()),
                    None => Err(Error::Ambiguous { what, name, count, candidates }.into()),
                }
            }
            Err(error) => Err(error.into()),
            Ok(row) => {
                self.note_others(context, name, row)?;
                Ok(name.to_owned())
            }
        }
    }

    /// Says so if a key leads elsewhere by an index that is older.
    fn note_others(&self, context: &Context, name: &str, row: SessionRow) -> Result<()> {
        if name.contains(':') {
            let others = quipu_ledger::also_led_to(&self.ledger, name, row)?;
            if !others.is_empty() {
                let others = others.join(", ");
                context.output.note(&format!("an older index leads `{name}` to {others}"));
            }
        }
        Ok(())
    }

    /// The one project that a name means. If it may mean several, the person is asked.
    pub(crate) fn pick_project(
        &self,
        context: &mut Context,
        said: &str,
        filter: &Filter,
    ) -> Result<Project> {
        let mut projects = quipu_ledger::projects(&self.ledger, filter)?;
        // A name that is all of one project's is no beginning of another's.
        let is_exact = |project: &Project| project.name.eq_ignore_ascii_case(said);
        if projects.len() > 1 && projects.iter().filter(|project| is_exact(project)).count() == 1 {
            projects.retain(is_exact);
        }
        let place = |project: &Project| match &project.path {
            Some(path) => context.show(path),
            None if project.slugs.is_empty() => "(no project)".to_owned(),
            None => project.slugs.join(" "),
        };
        let places: Vec<String> = projects.iter().map(place).collect();
        if projects.len() > 1 {
            let described = projects.iter().zip(&places).map(|(project, place)| {
                Text::of(Look::Good, &project.name)
                    .and(format!("  {place}  {}", count(project.sessions, "session")))
            });
            let question = format!("`{said}` may mean several projects:");
            if let Some(choice) = context.output.pick(&question, described.collect())? {
                return Ok(projects.swap_remove(choice));
            }
            let mut error = CommandError::new(format!("`{said}` may mean several projects"))
                .hint("give more of the name, or the path; it may mean");
            error.kind = Kind::NoMatch;
            for place in places.iter().take(MOST_PROJECTS) {
                error = error.hint(format!("  {place}"));
            }
            if places.len() > MOST_PROJECTS {
                error = error.hint(format!("  and {} more", places.len() - MOST_PROJECTS));
            }
            return Err(error);
        }
        projects.pop().ok_or_else(|| {
            let mut error = CommandError::new(format!("no project is like `{said}`"))
                .hint("`quipu projects` lists all projects");
            error.kind = Kind::NoMatch;
            error
        })
    }

    /// Shortens ids so that each means one session of this ledger.
    pub(crate) fn short_ids(&self) -> Result<ShortIds> {
        Ok(ShortIds::new(quipu_ledger::crowded_ids(&self.ledger, ID_LETTERS)?))
    }

    /// A session in one line, for choosing.
    fn describe(&self, id: &str, shown: &str) -> Text {
        let text = Text::of(Look::Good, shown);
        let session = quipu_ledger::find_session(&self.ledger, id)
            .and_then(|row| quipu_ledger::session(&self.ledger, row));
        match session {
            Ok(Some(session)) => text.and(format!(
                "  {}  {}",
                session.updated_at.map(elapsed).unwrap_or_default(),
                session.title.unwrap_or_default()
            )),
            _ => text,
        }
    }

    /// Writes one JSON object with what it is worth.
    pub(crate) fn json(&self, context: &mut Context, value: &impl Serialize) -> Result<()> {
        let Freshness { fresh_as_of, pending_bytes, unprojected, .. } = self.freshness;
        let unprojected = Some(unprojected).filter(|records| *records > 0);
        let unreadable = Some(self.freshness.unreadable.len()).filter(|files| *files > 0);
        Ok(context.output.json(&Dated {
            value,
            fresh_as_of,
            pending_bytes,
            unprojected,
            unreadable,
        })?)
    }
}

/// What a time after an id needs, with a sign that a title follows.
const ROOM_FOR_TIME: usize = "  2026-11-16 .".len();

/// Ids as far as there is room, so that each looks different from all others: those that are alike
/// for longer than that are shortened before the place where they differ.
fn apart(ids: &[String], room: usize) -> Vec<String> {
    let alike = |one: &str, other: &str| {
        one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
    };
    let shown = ids.iter().map(|id| {
        let others = ids.iter().filter(|other| *other != id);
        let needed = others.map(|other| alike(id, other) + 1).max().unwrap_or(0);
        let letters: Vec<char> = id.chars().collect();
        if letters.len() <= room || needed <= room {
            return letters.into_iter().take(room).collect();
        }
        let start = room / 4;
        let end = needed.min(letters.len());
        let rest = end.saturating_sub(room.saturating_sub(start + 1));
        let pieces = [letters.get(..start), Some(&['…'][..]), letters.get(rest..end)];
        pieces.into_iter().flatten().flatten().collect()
    });
    shown.collect()
}

/// Says so if a rebuild was interrupted, and what is derived is half of it.
pub(crate) fn warn_of_unprojected(context: &Context, records: u64) {
    if records > 0 {
        let records = count(records, "record");
        let warning = format!("the answer is without {records} that are not derived from yet");
        context.output.warn(&warning, Some("`quipu sync` goes on with it"));
    }
}

fn warn(context: &Context, whose: Whose, freshness: &Freshness) {
    let as_of = || format!("as of {}", minute(freshness.fresh_as_of));
    let say = |warning: String, hint: &str| context.output.warn(&warning, Some(hint));
    match whose {
        Whose::Ours => {}
        Whose::Backup => say(
            format!("this is a backup, {}", as_of()),
            "it is read as it is; `backup --restore FILE` puts it in a ledger's place",
        ),
        Whose::Foreign => {
            say(
                format!("this is the ledger of another machine, {}", as_of()),
                "`quipu sync` makes it this machine's, and collects into it",
            );
        }
        Whose::NoRoom => {
            say(
                format!("the ledger's disk is full; {}", as_of()),
                "make room on it; nothing new was collected",
            );
        }
        Whose::ReadOnly => {
            say(
                format!("the ledger cannot be written to; {}", as_of()),
                "nothing new was collected",
            );
        }
    }
    warn_of_unprojected(context, freshness.unprojected);
    if freshness.was_busy {
        let new = match freshness.pending_files {
            0 => "what is new".to_owned(),
            files => {
                let size = bytes(freshness.pending_bytes.unwrap_or(0));
                format!("what is new, about {size} in {},", count(files, "file"))
            }
        };
        let warning =
            format!("another process is writing to the ledger; {new} is not in the answer yet");
        say(warning, "--sync waits for it");
    } else if freshness.is_behind() {
        let mut behind = Vec::new();
        if freshness.pending_files > 0 {
            let size = bytes(freshness.pending_bytes.unwrap_or(0));
            behind.push(format!("{size} in {}", count(freshness.pending_files, "file")));
        }
        if freshness.pending_databases > 0 {
            behind.push(count(freshness.pending_databases, "database"));
        }
        let behind = behind.join(" and ");
        say(
            format!("{behind} not collected yet; the answer is without"),
            "--sync waits for all of it",
        );
    }
    if let Some((path, why)) = freshness.unreadable.first() {
        let more = match freshness.unreadable.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        say(
            format!("the answer is without {}: {why}{more}", context.show(path)),
            "`quipu status` says what cannot be read",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn ids_that_are_alike_look_different() {
        let ids: Vec<String> =
            (1..=5).map(|n| format!("aaaaaaaa-0000-4000-8000-00000000000{n}")).collect();
        assert_eq!(apart(&ids, 80), ids);
        let shown = apart(&ids, 21);
        assert_eq!(shown.first().unwrap(), "aaaaa…00-000000000001");
        assert_eq!(shown.last().unwrap(), "aaaaa…00-000000000005");
        let ids = ["aaaa1111-x-1", "aaaa1111-x-2", "aaaa2222-x-1"].map(str::to_owned);
        let mut shown = apart(&ids, 8);
        assert!(shown.iter().all(|id| id.chars().count() <= 8), "{shown:?}");
        shown.dedup();
        assert_eq!(shown.len(), 3, "{shown:?}");
        let ids = ["a", "ab"].map(str::to_owned);
        assert_eq!(apart(&ids, 0).len(), 2);
    }
}
