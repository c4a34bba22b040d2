//! The start of every reading command: opens the ledger, brings it up to date within a short time,
//! and warns of what is still missing.

use std::io;
use std::path::Path;

use quipu_ledger::answer::fresh;
use quipu_ledger::collect::Progress;
use quipu_ledger::freshness::{Freshness, LedgerKind, RefreshLimit};
use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::Filter;
use quipu_ledger::wire::Project;
use quipu_ledger::{Error, Ledger};
use serde::Serialize;

use crate::commands::{Context, title};
use crate::error::{CommandError, Kind, Result};
use crate::output::{ID_LETTERS, ShortIds, Style, Text, bytes, count, elapsed, minute};
use crate::settings::Origin;
use crate::{filters, machine};

/// Limit for the number of projects listed for an ambiguous name.
const MAX_PROJECTS: usize = 8;

/// The hint of an empty ledger.
pub(crate) const NOTHING_YET: &str = "nothing was collected yet; `quipu status` lists where quipu \
                                      looks, `quipu demo` creates sessions to try";

/// Width of a choice below which a session's age is left out, for the sake of its title.
const ROOM_FOR_AGE: usize = 48;

/// Limit for the number of sessions of this folder to choose from.
const MAX_SESSIONS: usize = 9;

/// Options of every reading command.
#[derive(Debug, Default, Clone, Copy, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Collect everything new first, without a time limit
    #[arg(long, conflicts_with = "no_sync")]
    sync: bool,

    /// Collect nothing first
    #[arg(long)]
    no_sync: bool,
}

/// A ledger to read from, and how current it is.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) ledger: Ledger,
    pub(crate) kind: LedgerKind,
    pub(crate) freshness: Freshness,
}

/// Opens the ledger and brings it up to date. Warns of what is missing. Everything is read from one
/// snapshot, which ends when the reading is dropped.
pub(crate) fn open(context: &mut Context, args: Args) -> Result<Reading> {
    begin(context, args, false)
}

/// Opens the ledger like [`open`], but reads through a second connection, which cannot write.
pub(crate) fn open_apart(context: &mut Context, args: Args) -> Result<Reading> {
    begin(context, args, true)
}

/// Opens the ledger again without collecting, for a command that follows a session. Prints no
/// warnings: [`open`] has printed them.
pub(crate) fn reopen(context: &Context) -> Result<Reading> {
    let path = &context.settings.ledger.value;
    let mut reader = quipu_ledger::freshness::open_to_read(path, machine::name())?;
    let freshness = reader.refresh(&[], machine::name(), RefreshLimit::None, &mut |_| {})?;
    Ok(Reading { ledger: reader.ledger, kind: reader.kind, freshness })
}

fn begin(context: &mut Context, args: Args, needs_second_connection: bool) -> Result<Reading> {
    let reading = read(context, args, needs_second_connection)?;
    let Freshness { fresh_as_of, pending_bytes, .. } = reading.freshness;
    context.output.set_freshness(Some(fresh_as_of), pending_bytes);
    Ok(reading)
}

fn read(context: &mut Context, args: Args, needs_second_connection: bool) -> Result<Reading> {
    let path = context.settings.ledger.value.clone();
    refuse_unknown(context, &path)?;
    if args.no_sync {
        let ledger = Ledger::open_read_only(&path)?;
        let mut reader = quipu_ledger::freshness::Reader {
            ledger,
            kind: LedgerKind::ReadOnly,
            needs_second_connection,
        };
        let freshness = reader.refresh(&[], machine::name(), RefreshLimit::None, &mut |_| {})?;
        warn_of_unprojected(context, freshness.unprojected);
        warn_of_copy(context, &reader.ledger);
        return Ok(Reading { ledger: reader.ledger, kind: reader.kind, freshness });
    }
    let mut reader = quipu_ledger::freshness::open_to_read(&path, machine::name())?;
    reader.needs_second_connection = needs_second_connection;
    // On a terminal the first import runs to its end; a script gets a warning instead.
    let is_first = reader.kind == LedgerKind::Own && reader.ledger.is_empty()?;
    let is_watched = context.output.is_seen() && !context.is_json;
    let limit = if args.sync || (is_first && is_watched) {
        RefreshLimit::Unlimited
    } else {
        RefreshLimit::Short
    };
    let mut bar = context.output.bar();
    let freshness =
        reader.refresh(
            &context.roots(),
            machine::name(),
            limit,
            &mut |progress| match progress {
                // A sync with a time limit shows no bar.
                Progress::Planned { bytes, .. } if limit == RefreshLimit::Unlimited => {
                    bar.plan_bytes("collecting", bytes);
                }
                Progress::Done { bytes } if limit == RefreshLimit::Unlimited => bar.advance(bytes),
                Progress::Rebuilding { done, total } => bar.records("rebuilding", done, total),
                Progress::Planned { .. } | Progress::Done { .. } => {}
            },
        )?;
    drop(bar);
    warn(context, reader.kind, &freshness);
    warn_of_copy(context, &reader.ledger);
    Ok(Reading { ledger: reader.ledger, kind: reader.kind, freshness })
}

/// Fails if a named ledger does not exist, so that a typing mistake does not create a new one.
pub(crate) fn refuse_unknown(context: &Context, path: &Path) -> Result<()> {
    let is_absent = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    if !is_named(context) || !path.symlink_metadata().is_err_and(is_absent) {
        return Ok(());
    }
    let shown = context.show(path);
    Err(CommandError::new(format!("there is no ledger at {shown}"))
        .hint("`quipu sync` creates one"))
}

/// Returns whether the ledger was named by a flag or a variable.
pub(crate) fn is_named(context: &Context) -> bool {
    let origin = &context.settings.ledger.origin;
    matches!(origin, Origin::Flag(_) | Origin::Environment("QUIPU_LEDGER"))
}

impl Reading {
    /// Returns the end of a "nothing found" message, which names the data that could not be
    /// searched.
    pub(crate) fn missing_note(&self) -> String {
        let freshness = &self.freshness;
        if freshness.is_behind() || freshness.unprojected > 0 {
            " in what was collected so far".to_owned()
        } else if !freshness.unreadable.is_empty() {
            let files = count(freshness.unreadable.len() as u64, "file");
            format!("; {files} cannot be read")
        } else if freshness.pending_bytes.is_none() {
            format!(" in what was collected until {}", minute(freshness.fresh_as_of))
        } else {
            String::new()
        }
    }

    /// Fails if a rebuild has left sessions out of the projection, so that an empty answer would be
    /// wrong.
    pub(crate) fn refuse_if_behind(&self) -> Result<()> {
        Ok(quipu_ledger::freshness::refuse_if_behind(&self.ledger)?)
    }

    /// Returns the session that `name` matches. Asks the user if several match.
    pub(crate) fn find(&self, context: &mut Context, name: &str) -> Result<SessionRow> {
        let name = self.name(context, name)?;
        Ok(quipu_ledger::query::find_session(&self.ledger, &name)?)
    }

    /// Returns a name that matches one session: `name`, or the user's choice if several match.
    pub(crate) fn name(&self, context: &mut Context, name: &str) -> Result<String> {
        match quipu_ledger::query::find_session(&self.ledger, name) {
            Err(Error::Ambiguous { what, name, count, candidates }) => {
                let room = context.output.choice_width().saturating_sub(ROOM_FOR_TIME);
                let shown = shorten_apart(&candidates, room);
                let described =
                    candidates.iter().zip(&shown).map(|(id, shown)| self.describe(id, shown));
                let described = described.collect();
                let question = match candidates.len() {
                    all if all == count => format!("`{name}` matches several sessions:"),
                    first => {
                        format!("`{name}` matches {count} sessions; these are the first {first}:")
                    }
                };
                match self.wait_for(|| context.output.pick(&question, described))?? {
                    Some(choice) => Ok(candidates.into_iter().nth(choice).unwrap_or_default()),
                    None => Err(Error::Ambiguous { what, name, count, candidates }.into()),
                }
            }
            Err(Error::NoMatch { .. }) if self.ledger.is_empty()? => {
                let what = format!("no session matches `{name}`");
                let mut error = CommandError::new(what).hint(NOTHING_YET);
                error.kind = Kind::NoMatch;
                Err(error)
            }
            Err(error) => Err(error.into()),
            Ok(row) => {
                self.note_other_sessions(context, name, row)?;
                Ok(name.to_owned())
            }
        }
    }

    /// Returns a name that matches one session. Without a name, the last session of this folder; if
    /// there are several and a terminal, the user's choice.
    pub(crate) fn name_or_here(&self, context: &mut Context, name: Option<&str>) -> Result<String> {
        if let Some(name) = name {
            return self.name(context, name);
        }
        let project = Some(filters::project(context, "."));
        let filter = Filter { project, ..Filter::default() };
        let found = quipu_ledger::query::sessions(&self.ledger, &filter, Some(MAX_SESSIONS))?;
        let names: Vec<String> = found
            .sessions
            .iter()
            .map(|session| match session.agent.as_str() {
                "" => session.session_id.clone(),
                agent => format!("{agent}/{}", session.session_id),
            })
            .collect();
        let Some(newest) = names.first() else {
            self.refuse_if_behind()?;
            let here = std::env::current_dir().unwrap_or_default();
            let what = format!("no session of {}{}", context.show(here), self.missing_note());
            let hint = match self.ledger.is_empty()? {
                true => NOTHING_YET,
                false => {
                    "`quipu last` shows the newest session of all folders, `quipu sessions` lists \
                     them"
                }
            };
            let mut error = CommandError::new(what).hint(hint);
            error.kind = Kind::NoMatch;
            return Err(error);
        };
        if found.sessions.len() == 1 {
            return Ok(newest.clone());
        }
        let ids = self.short_ids()?;
        let has_ages = context.output.choice_width() >= ROOM_FOR_AGE;
        let described = found.sessions.iter().map(|session| {
            let age = session.updated_at.filter(|_| has_ages).map(elapsed);
            Text::styled(Style::Good, ids.of(&session.session_id))
                .and(age.map(|age| format!("  {age}")).unwrap_or_default())
                .and("  ")
                .join(title(session))
        });
        let described = described.collect();
        let question = match found.total {
            total if total == names.len() => "Sessions of this folder:".to_owned(),
            total => format!("The newest of {total} sessions of this folder:"),
        };
        match self.wait_for(|| context.output.pick_or_first(&question, described))?? {
            Some(choice) => Ok(names.get(choice).unwrap_or(newest).clone()),
            None => Err(CommandError::stopped()),
        }
    }

    /// Returns the newest session of this folder, if there is one.
    pub(crate) fn newest_here(&self, context: &Context) -> Result<Option<SessionRow>> {
        let project = Some(filters::project(context, "."));
        let filter = Filter { project, ..Filter::default() };
        let found = quipu_ledger::query::sessions(&self.ledger, &filter, Some(1))?;
        Ok(found.rows.first().copied().flatten())
    }

    /// Waits for the user without a snapshot: the write-ahead log grows as long as one is held.
    pub(crate) fn wait_for<T>(&self, answer: impl FnOnce() -> T) -> Result<T> {
        Ok(quipu_ledger::freshness::Reader::without_snapshot(
            &self.ledger,
            self.freshness.unprojected,
            answer,
        )?)
    }

    /// Prints a note if an older index maps the key to another session.
    fn note_other_sessions(&self, context: &Context, name: &str, row: SessionRow) -> Result<()> {
        if name.contains(':') {
            let others = quipu_ledger::query::other_sessions_of_key(&self.ledger, name, row)?;
            if !others.is_empty() {
                let others = others.join(", ");
                context.output.note(&format!("an older index maps `{name}` to {others}"));
            }
        }
        Ok(())
    }

    /// Returns the project that a name matches. Asks the user if several match.
    pub(crate) fn pick_project(
        &self,
        context: &mut Context,
        name: &str,
        filter: &Filter,
    ) -> Result<Project> {
        let mut projects = quipu_ledger::query::projects(&self.ledger, filter)?;
        // A full name is not read as the beginning of another one.
        let is_exact = |project: &Project| project.project.eq_ignore_ascii_case(name);
        if projects.len() > 1 && projects.iter().filter(|project| is_exact(project)).count() == 1 {
            projects.retain(is_exact);
        }
        let place = |project: &Project| match &project.cwd {
            Some(path) => context.show(path),
            None if project.slugs.is_empty() => "(no project)".to_owned(),
            None => project.slugs.join(" "),
        };
        let places: Vec<String> = projects.iter().map(place).collect();
        if projects.len() > 1 {
            let described = projects.iter().zip(&places).map(|(project, place)| {
                Text::styled(Style::Good, &project.project)
                    .and(format!("  {place}  {}", count(project.sessions, "session")))
            });
            let question = format!("`{name}` matches several projects:");
            let described = described.collect();
            let pick = || context.output.pick(&question, described);
            if let Some(choice) = self.wait_for(pick)?? {
                return Ok(projects.swap_remove(choice));
            }
            let mut error = CommandError::new(format!("`{name}` matches several projects"))
                .hint("give more of the name, or the path; these match:");
            error.kind = Kind::NoMatch;
            for place in places.iter().take(MAX_PROJECTS) {
                error = error.hint(format!("  {place}"));
            }
            if places.len() > MAX_PROJECTS {
                error = error.hint(format!("  and {} more", places.len() - MAX_PROJECTS));
            }
            return Err(error);
        }
        if projects.is_empty() {
            self.refuse_if_behind()?;
        }
        projects.pop().ok_or_else(|| {
            let so_far = self.missing_note();
            let mut error = CommandError::new(format!("no project matches `{name}`{so_far}"))
                .hint("`quipu projects` lists all projects");
            error.kind = Kind::NoMatch;
            error
        })
    }

    /// Returns a shortener of ids, whose results are unique in this ledger.
    pub(crate) fn short_ids(&self) -> Result<ShortIds> {
        Ok(ShortIds::new(quipu_ledger::query::ids_with_ambiguous_prefix(&self.ledger, ID_LETTERS)?))
    }

    /// Describes a session in one line, for a choice.
    fn describe(&self, id: &str, shown: &str) -> Text {
        let text = Text::styled(Style::Good, shown);
        let session = quipu_ledger::query::find_session(&self.ledger, id)
            .and_then(|row| quipu_ledger::query::summary_of(&self.ledger, row));
        match session {
            Ok(Some(session)) => text
                .and(format!("  {}  ", session.updated_at.map(elapsed).unwrap_or_default()))
                .join(title(&session)),
            _ => text,
        }
    }

    /// Writes one JSON object with how current it is.
    pub(crate) fn json(&self, context: &mut Context, value: &impl Serialize) -> Result<()> {
        Ok(context.output.json(&fresh(value, &self.freshness))?)
    }
}

/// Number of columns after an id: for a time, and for at least one letter of the title.
const ROOM_FOR_TIME: usize = "  2026-11-16 .".len();

/// Shortens ids to `room` letters, so that all look different. In ids that differ only after `room`
/// letters, `…` replaces letters before the difference.
fn shorten_apart(ids: &[String], room: usize) -> Vec<String> {
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

/// Warns if a rebuild runs or was interrupted, so that the projection is incomplete.
pub(crate) fn warn_of_unprojected(context: &Context, records: u64) {
    if records > 0 {
        let records = count(records, "record");
        let warning = format!("{records} are not in the readable tables yet and are missing below");
        context.output.warn(&warning, Some("`quipu sync` finishes the rebuild"));
    }
}

/// Warns if the ledger is a migrated copy of an older one.
pub(crate) fn warn_of_copy(context: &Context, ledger: &Ledger) {
    if ledger.is_copy() {
        context.output.warn(
            "this ledger is from an older quipu: reading a migrated copy of it",
            Some(
                "each command makes such a copy; `quipu sync` migrates the ledger itself, or \
                 `backup --restore FILE` if it is a backup",
            ),
        );
    }
}

/// Warns if the ledger is not one that this machine collects into.
pub(crate) fn warn_of_kind(context: &Context, kind: LedgerKind, fresh_as_of: i64) {
    let as_of = format!("as of {}", minute(fresh_as_of));
    let (warning, hint) = match kind {
        LedgerKind::Own => return,
        LedgerKind::Backup => (
            format!("this is a backup, {as_of}"),
            "a backup is only read; `backup --restore FILE` replaces the ledger with it",
        ),
        LedgerKind::OtherMachine => (
            format!("this is the ledger of another machine, {as_of}"),
            "`quipu sync` makes this machine its collector",
        ),
        LedgerKind::DiskFull => (
            format!("the ledger's disk is full; {as_of}"),
            "free some space on it; nothing new was collected",
        ),
        LedgerKind::ReadOnly => {
            (format!("the ledger is read-only; {as_of}"), "nothing new was collected")
        }
    };
    context.output.warn(&warning, Some(hint));
}

fn warn(context: &Context, kind: LedgerKind, freshness: &Freshness) {
    let print = |warning: String, hint: &str| context.output.warn(&warning, Some(hint));
    warn_of_kind(context, kind, freshness.fresh_as_of);
    warn_of_unprojected(context, freshness.unprojected);
    if freshness.was_busy {
        let new = match freshness.pending_files {
            0 => "new data".to_owned(),
            files => {
                let size = bytes(freshness.pending_bytes.unwrap_or(0));
                format!("about {size} of new data in {}", count(files, "file"))
            }
        };
        let warning =
            format!("another process is writing to the ledger; {new} may be missing below");
        print(warning, "use --sync to wait for it");
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
        print(
            format!("{behind} are not collected yet and are missing below"),
            "use --sync to collect everything first",
        );
    }
    if let Some((path, why)) = freshness.unreadable.first() {
        let more = match freshness.unreadable.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        print(
            format!("{} is missing below: {why}{more}", context.show(path)),
            "`quipu status` lists files that cannot be read",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::shorten_apart;

    #[test]
    fn similar_ids_stay_different_when_shortened() {
        let ids: Vec<String> =
            (1..=5).map(|n| format!("aaaaaaaa-0000-4000-8000-00000000000{n}")).collect();
        assert_eq!(shorten_apart(&ids, 80), ids);
        let shown = shorten_apart(&ids, 21);
        assert_eq!(shown.first().unwrap(), "aaaaa…00-000000000001");
        assert_eq!(shown.last().unwrap(), "aaaaa…00-000000000005");
        let ids = ["aaaa1111-x-1", "aaaa1111-x-2", "aaaa2222-x-1"].map(str::to_owned);
        let mut shown = shorten_apart(&ids, 8);
        assert!(shown.iter().all(|id| id.chars().count() <= 8), "{shown:?}");
        shown.dedup();
        assert_eq!(shown.len(), 3, "{shown:?}");
        let ids = ["a", "ab"].map(str::to_owned);
        assert_eq!(shorten_apart(&ids, 0).len(), 2);
    }
}
