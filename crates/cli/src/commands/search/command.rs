//! The command that shows a search hit in its session, note or job.

use quipu_ledger::Ledger;
use quipu_ledger::ids::EntryId;
use quipu_ledger::wire::{CronJob, SearchHit, SessionState};

use crate::commands::cron;
use crate::output::ShortIds;
use crate::shell::{self, Shell};
use crate::{filters, zone};

/// Builds the command that shows a hit.
pub(super) struct Opener<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) ids: &'a ShortIds,
    pub(super) shell: &'a Shell,
}

impl Opener<'_> {
    /// Returns the command that shows the entry of a hit in its session.
    pub(super) fn entry(&self, hit: &SearchHit) -> Option<String> {
        let session = hit.session_id.as_ref()?;
        Some(self.shell.command("show", &self.ids.of(session), &show_options(hit)))
    }

    /// Returns the command that shows a note or a job that was found.
    pub(super) fn command(&self, first: &SearchHit) -> Option<String> {
        match (&first.session_id, first.type_name.as_str()) {
            (None, "note") => self.note(first),
            (None, "cron_run") => self.cron_run(first),
            (None, "cron_jobs") => self.cron_job(first),
            _ => None,
        }
    }

    /// Returns the command for a note, in the version that was found.
    fn note(&self, hit: &SearchHit) -> Option<String> {
        let name = hit.name.as_deref()?;
        let agent = hit.agent.as_deref().unwrap_or_default();
        let notes = quipu_ledger::query::notes(self.ledger).unwrap_or_default();
        let is_same_name = |other: &str| other.eq_ignore_ascii_case(name);
        let path = match notes.iter().filter(|note| is_same_name(&note.name)).count() {
            0 | 1 => name.to_owned(),
            _ => format!("{agent}/{name}"),
        };
        let versions =
            quipu_ledger::query::note_versions(self.ledger, agent, name).unwrap_or_default();
        let newest = versions.last().and_then(|version| version.time);
        let mut options = Vec::new();
        if hit.is_older || (hit.time.is_some() && newest.is_some() && hit.time != newest) {
            // `--at` with a time right after the version was written, if that shows no other
            // version; else all changes.
            let moments = hit.time.map(zone::just_after).unwrap_or_default();
            let shows_version = |at: &String| {
                let at = filters::until(at).ok();
                let shown = versions
                    .iter()
                    .rfind(|version| version.time.zip(at).is_some_and(|(time, at)| time < at));
                let same = versions.iter().filter(|version| version.time == hit.time).count();
                shown.is_some_and(|version| version.time == hit.time) && same == 1
            };
            options.push(match moments.into_iter().find(shows_version) {
                Some(at) => shell::option("--at", at),
                None => "--diff".to_owned(),
            });
        }
        Some(self.shell.command("notes", &path, &options))
    }

    /// Returns the command for the job whose run was found, with enough runs to include it.
    fn cron_run(&self, hit: &SearchHit) -> Option<String> {
        let name = hit.name.as_deref()?;
        let jobs = quipu_ledger::query::cron_jobs(self.ledger).unwrap_or_default();
        let is_long = |job: &&CronJob| job.runs > cron::DEFAULT_RUNS as u64;
        let job = jobs.iter().find(|job| job.name.as_deref() == Some(name) || job.job_id == name);
        let options = job.filter(is_long).map(|_| "-n 0".to_owned());
        Some(self.shell.command("cron", name, options.as_slice()))
    }

    /// Returns the command for the job whose description was found.
    fn cron_job(&self, hit: &SearchHit) -> Option<String> {
        let letters: Vec<char> = hit.snippet.chars().collect();
        let found: Vec<String> = hit
            .marks
            .iter()
            .filter_map(|(start, end)| letters.get(*start..*end))
            .map(|piece| piece.iter().collect::<String>().to_lowercase().replace('\n', " "))
            .collect();
        let jobs = quipu_ledger::query::cron_jobs(self.ledger).unwrap_or_default();
        let matches = |job: &CronJob| {
            let parts = [&job.name, &job.description, &job.prompt];
            let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
            let text = parts.join("\n").to_lowercase();
            // On one line, like a snippet.
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            found.iter().filter(|piece| text.contains(piece.as_str())).count()
        };
        let best = jobs.iter().map(|job| (matches(job), job)).rev().max_by_key(|(count, _)| *count);
        match best {
            Some((1.., job)) => {
                let named = |job: &&CronJob| job.name.as_ref().map(|name| name.to_lowercase());
                let is_alone = |name: &&String| {
                    let name = Some(name.to_lowercase());
                    jobs.iter().filter(|job| named(job) == name).count() == 1
                };
                let name = job.name.as_ref().filter(is_alone).unwrap_or(&job.job_id);
                Some(self.shell.command("cron", name, &[]))
            }
            // No command shows a job that is no longer in the list.
            _ if hit.is_older => None,
            _ => Some(self.shell.plain("cron")),
        }
    }
}

/// Returns the options that show a hit in its session's story.
fn show_options(hit: &SearchHit) -> Vec<String> {
    // `show` prints the title first anyway, and of a lost session only prompts are known.
    if is_title(hit) || hit.state == Some(SessionState::Lost) {
        return Vec::new();
    }
    // The id alone would name the newest version of the entry.
    let entry = match hit.is_older {
        false => hit.entry_id.clone(),
        true => EntryId(hit.entry).name(),
    };
    if is_only_raw(hit) {
        // An entry outside the story is shown as its record.
        return vec![shell::option("--entry", entry), "--raw".to_owned()];
    }
    vec![shell::option("--at", entry)]
}

/// Returns whether the hit is the session's title.
fn is_title(hit: &SearchHit) -> bool {
    hit.folded == Some("bookkeeping") && hit.title.as_deref() == Some(hit.snippet.trim())
}

/// Returns whether `show` shows the hit only with `--raw`.
fn is_only_raw(hit: &SearchHit) -> bool {
    hit.is_older || hit.folded == Some("bookkeeping")
}
