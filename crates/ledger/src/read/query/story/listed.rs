//! Prompts of the agent's own list, among the entries of a session that has a transcript.
//!
//! The transcript repeats most of them. The others are shown with everything, each where its time
//! puts it: commands that the agent stored nowhere else (`/exit`), and prompts of a part that is
//! gone. A prompt that is chosen by name is always shown.

use std::cell::Cell;

use foldhash::HashSet;
use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64;

use super::choice::{Choice, find_entry};
use super::plan::Plan;
use crate::Result;
use crate::base::ids::{EntryId, SessionRow};

/// A prompt of the list.
struct Listed {
    entry: EntryId,
    time: Option<i64>,
    text: String,
}

/// Returns `plan` with the prompts of the list that `choice` shows; `None` if it shows none.
pub(super) fn plan(
    conn: &Connection,
    session: SessionRow,
    plan: &Plan,
    choice: &Choice,
) -> Result<Option<Plan>> {
    let names = [&choice.entry, &choice.at].into_iter().flatten();
    let named: Vec<EntryId> =
        names.map(|name| find_entry(conn, session, name)).collect::<Result<_>>()?;
    if named.is_empty() && !choice.detail.folded {
        return Ok(None);
    }
    let mut listed = read(conn, session)?;
    listed.retain(|prompt| !plan.holds(prompt.entry));
    if named.is_empty() {
        if !listed.is_empty() {
            let typed = typed(conn, session)?;
            listed.retain(|prompt| !typed.repeats(&prompt.text));
        }
    } else {
        listed.retain(|prompt| named.contains(&prompt.entry));
    }
    if listed.is_empty() {
        return Ok(None);
    }
    let places = Places::read(conn, session, plan)?;
    let more = listed.iter().filter_map(|prompt| {
        Some((places.of(prompt.time).unwrap_or(plan.end()), prompt.entry.seq()?.0))
    });
    Ok(Some(plan.with(more.collect())))
}

fn read(conn: &Connection, session: SessionRow) -> Result<Vec<Listed>> {
    // Prompts of a list have no id.
    let mut statement = conn.prepare_cached(
        "SELECT p.id, p.time, p.text
           FROM entry_rows e CROSS JOIN prompts p ON p.id = e.id
          WHERE e.session = ?1 AND e.uuid IS NULL AND e.superseded_by IS NULL",
    )?;
    let rows = statement.query_map([session], |row| {
        Ok(Listed { entry: row.get(0)?, time: row.get(1)?, text: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The positions of a session's entries by time.
struct Places(Vec<(i64, u64)>);

impl Places {
    fn read(conn: &Connection, session: SessionRow, plan: &Plan) -> Result<Places> {
        let mut statement = conn.prepare_cached(
            "SELECT time, id FROM entry_rows
              WHERE session = ?1 AND uuid IS NOT NULL AND time IS NOT NULL
                AND superseded_by IS NULL AND id > 0",
        )?;
        let rows = statement.query_map([session], |row| {
            Ok((row.get(0)?, plan.position(row.get::<_, EntryId>(1)?)))
        })?;
        let mut places: Vec<(i64, u64)> = rows.collect::<Result<_, _>>()?;
        places.sort_unstable();
        // Files are not sorted by time. Each place becomes the first one of this time or later.
        let mut first = u64::MAX;
        for (_, position) in places.iter_mut().rev() {
            first = first.min(*position);
            *position = first;
        }
        Ok(Places(places))
    }

    /// Returns the position of the first entry that is not older than `time`.
    fn of(&self, time: Option<i64>) -> Option<u64> {
        let after = self.0.partition_point(|(other, _)| Some(*other) < time);
        time.and(self.0.get(after)).map(|(_, position)| *position)
    }
}

/// Returns what people typed in the transcript of a session.
fn typed(conn: &Connection, session: SessionRow) -> Result<Typed> {
    let mut statement = conn.prepare_cached(
        "SELECT m.text
           FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
          CROSS JOIN message_texts m ON m.id = e.id
          WHERE e.session = ?1 AND k.role IN ('user', 'tool') AND e.superseded_by IS NULL",
    )?;
    let texts = statement.query_map([session], |row| row.get::<_, String>(0))?;
    let texts: Vec<String> = texts.collect::<std::result::Result<_, _>>()?;
    Ok(Typed::of(&texts))
}

/// Texts that people typed, without whitespace.
pub(crate) struct Typed {
    texts: Vec<String>,
    hashes: HashSet<u64>,
    /// The number of bytes in which parts of prompts were searched so far.
    searched: Cell<usize>,
}

impl Typed {
    /// Maximum number of bytes that are searched for parts of prompts. Further prompts with marks
    /// count as not repeated, because a hostile list could take minutes.
    const MAX_SEARCHED_BYTES: usize = 64 << 20;

    pub(crate) fn of(texts: &[String]) -> Typed {
        let texts: Vec<String> = texts.iter().map(|text| without_spaces(text)).collect();
        let hashes = texts.iter().map(|text| xxh3_64(text.as_bytes())).collect();
        Typed { texts, hashes, searched: Cell::new(0) }
    }

    /// Returns whether one of the texts is this prompt. In the transcript, a pasted text may stand
    /// in the place of its mark. Few words around a mark could be those of another prompt, so they
    /// are not compared.
    pub(crate) fn repeats(&self, prompt: &str) -> bool {
        const MIN_COMPARED_BYTES: usize = 12;
        if self.hashes.contains(&xxh3_64(without_spaces(prompt).as_bytes())) {
            return true;
        }
        let parts = parts_between_marks(prompt);
        let [first, between @ .., last] = parts.as_slice() else { return false };
        if parts.iter().map(String::len).sum::<usize>() < MIN_COMPARED_BYTES {
            return false;
        }
        self.texts.iter().any(|text| {
            let searched = self.searched.get() + text.len();
            if searched > Self::MAX_SEARCHED_BYTES {
                return false;
            }
            self.searched.set(searched);
            let inside = text.strip_prefix(first.as_str());
            let Some(mut rest) = inside.and_then(|text| text.strip_suffix(last.as_str())) else {
                return false;
            };
            between.iter().all(|part| match rest.split_once(part.as_str()) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        })
    }
}

/// Returns a text without whitespace.
fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Splits a prompt at the marks that stand for pasted texts and pictures: `[Pasted text #1 +2
/// lines]`, `[Image #1]`. The parts have no whitespace.
fn parts_between_marks(prompt: &str) -> Vec<String> {
    /// Maximum length of a mark in bytes.
    const MAX_MARK_BYTES: usize = 80;
    let mut parts = Vec::new();
    let (mut part, mut rest) = (String::new(), prompt);
    while let Some((before, after)) = rest.split_once('[') {
        part.push_str(before);
        let end = after.bytes().take(MAX_MARK_BYTES).position(|byte| byte == b']');
        let mark = end.and_then(|end| after.split_at_checked(end)).filter(|(mark, _)| {
            let number = mark.split_once(" #").map(|(_, number)| number);
            !mark.contains('[')
                && number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
        });
        rest = match mark.and_then(|(_, behind)| behind.strip_prefix(']')) {
            Some(behind) => {
                parts.push(without_spaces(&std::mem::take(&mut part)));
                behind
            }
            None => {
                part.push('[');
                after
            }
        };
    }
    part.push_str(rest);
    parts.push(without_spaces(&part));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_split_at_its_marks() {
        for (prompt, parts) in [
            ("plain [x] text", &["plain[x]text"][..]),
            ("see [Pasted text #1 +2 lines] go", &["see", "go"]),
            ("[Image #2]", &["", ""]),
            ("a [b [Pasted text #3] c", &["a[b", "c"]),
            ("open [Pasted text #3", &["open[Pastedtext#3"]),
        ] {
            assert_eq!(parts_between_marks(prompt), parts, "{prompt}");
        }
    }

    #[test]
    fn a_pasted_text_may_stand_in_the_place_of_its_mark() {
        let typed = Typed::of(&["see what the walrus here said".to_owned(), "/exit".to_owned()]);
        for (prompt, is_repeated) in [
            ("/exit", true),
            ("/ex", false),
            ("see what the [Pasted text #1] said", true),
            ("see what the [Pasted text #1] wrote", false),
            ("what the walrus [Pasted text #1]", false),
            ("see [Pasted text #1 +2 lines]", false),
            ("[Pasted text #1]", false),
            ("see  what the walrus\nhere said", true),
        ] {
            assert_eq!(typed.repeats(prompt), is_repeated, "{prompt}");
        }
    }

    #[test]
    fn hostile_lists_take_bounded_work() {
        assert_eq!(parts_between_marks(&"[".repeat(1 << 20)).len(), 1);
        let typed = Typed::of(&["a".repeat(1 << 20), "b".repeat(1 << 20)]);
        for _ in 0..1000 {
            assert!(!typed.repeats("see what the walrus [Pasted text #1] said"));
        }
        assert!(typed.searched.get() <= Typed::MAX_SEARCHED_BYTES);
    }

    #[test]
    fn a_prompt_comes_before_the_next_entry_by_time() {
        let places = Places(vec![(10, 0), (20, 1), (30, 1), (40, 5)]);
        assert_eq!(places.of(Some(5)), Some(0));
        assert_eq!(places.of(Some(20)), Some(1));
        assert_eq!(places.of(Some(31)), Some(5));
        assert_eq!(places.of(Some(41)), None);
        assert_eq!(places.of(None), None);
    }
}
