//! The command that opens what was found.

use quipu_ledger::wire::SearchHit;

use crate::output::ShortIds;

/// The command that shows the first of the hits, and those in the same turn.
pub(super) fn command(ids: &ShortIds, hits: &[&SearchHit]) -> Option<String> {
    let first = hits.first()?;
    match (&first.session, first.kind.as_str()) {
        (Some(session), _) => {
            let mut command = format!("quipu show {}", quoted(&ids.of(session)));
            if is_title(first) {
                // It stands above the story.
                return Some(command);
            }
            if is_only_raw(first) {
                // What no story tells is in the record. The agent's id means the newest version.
                let entry = match (first.is_older, first.number >> WELDED) {
                    (false, _) => first.entry.clone(),
                    (true, 0) => format!("#{}", first.number),
                    (true, ordinal) => format!("#{}.{ordinal}", first.number % (1 << WELDED)),
                };
                command.push_str(&format!(" --entry {} --raw", quoted(&entry)));
                return Some(command);
            }
            if let Some(turn) = first.turn {
                command.push_str(&format!(" --turn {turn}"));
            }
            let together = hits.iter().filter(|hit| hit.turn == first.turn && !is_only_raw(hit));
            let mut options: Vec<&str> = together.filter_map(|hit| option(hit)).collect();
            options.sort_unstable();
            options.dedup();
            // All of a tool call is more than what it was given.
            if options.contains(&"--tools full") {
                options.retain(|option| *option != "--tools inputs");
            }
            match options.as_slice() {
                [] => {}
                [option] => command.push_str(&format!(" {option}")),
                _ => command.push_str(" --full"),
            }
            Some(command)
        }
        (None, "note") => Some(format!("quipu notes {}", quoted(first.name.as_deref()?))),
        (None, "cron_run") => Some(format!("quipu cron {}", quoted(first.name.as_deref()?))),
        (None, "cron_jobs") => Some("quipu cron".to_owned()),
        _ => None,
    }
}

/// Further entries of one record are two to this power apart.
const WELDED: u32 = 40;

/// What opens the part of the story that a hit is in.
fn option(hit: &SearchHit) -> Option<&'static str> {
    match (hit.folded, hit.place) {
        (Some("summary"), _) => Some("--compactions"),
        (Some(_), _) => Some("--full"),
        (None, "input") => Some("--tools inputs"),
        (None, "result") => Some("--tools full"),
        (None, "thinking") => Some("--thinking"),
        (None, _) => None,
    }
}

/// Whether it is what the session is called.
fn is_title(hit: &SearchHit) -> bool {
    hit.folded == Some("bookkeeping") && hit.title.as_deref() == Some(hit.snippet.trim())
}

/// Whether `show` never tells it.
fn is_only_raw(hit: &SearchHit) -> bool {
    hit.is_older || hit.folded == Some("bookkeeping")
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "-_./:".contains(character);
    if name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}
