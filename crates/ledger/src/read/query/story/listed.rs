//! Prompts of the agent's own list, among the entries of a session that has a transcript.
//!
//! The transcript repeats most of them. The others are shown with everything, each where its time
//! puts it: commands that the agent stored nowhere else (`/exit`), and prompts of a part that is
//! gone. A prompt that is chosen by name is always shown.

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
            let typed = Typed::read(conn, session)?;
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

/// What people typed in the transcript, without whitespace.
struct Typed {
    texts: Vec<String>,
    hashes: HashSet<u64>,
}

impl Typed {
    fn read(conn: &Connection, session: SessionRow) -> Result<Typed> {
        let mut statement = conn.prepare_cached(
            "SELECT m.text
               FROM entry_rows e CROSS JOIN kinds k ON k.id = e.kind
              CROSS JOIN message_texts m ON m.id = e.id
              WHERE e.session = ?1 AND k.role IN ('user', 'tool') AND e.superseded_by IS NULL",
        )?;
        let texts = statement.query_map([session], |row| row.get::<_, String>(0))?;
        let texts: Vec<String> =
            texts.map(|text| Ok(without_spaces(&text?))).collect::<Result<_>>()?;
        let hashes = texts.iter().map(|text| xxh3_64(text.as_bytes())).collect();
        Ok(Typed { texts, hashes })
    }

    /// Returns whether one of the texts is this prompt. In the transcript, a pasted text may stand
    /// in the place of its mark.
    fn repeats(&self, prompt: &str) -> bool {
        let parts = parts_between_marks(prompt);
        match parts.as_slice() {
            [whole] => self.hashes.contains(&xxh3_64(whole.as_bytes())),
            parts => self.texts.iter().any(|text| {
                let mut rest = text.as_str();
                parts.iter().all(|part| match rest.split_once(part.as_str()) {
                    Some((_, after)) => {
                        rest = after;
                        true
                    }
                    None => false,
                })
            }),
        }
    }
}

/// Returns a text without whitespace.
pub(crate) fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Splits a prompt at the marks that stand for pasted texts and pictures: `[Pasted text #1 +2
/// lines]`, `[Image #1]`. The parts have no whitespace.
fn parts_between_marks(prompt: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut part, mut rest) = (String::new(), prompt);
    while let Some((before, after)) = rest.split_once('[') {
        part.push_str(before);
        let mark = after.split_once(']').filter(|(mark, _)| {
            let number = mark.split_once(" #").map(|(_, number)| number);
            number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
        });
        rest = match mark {
            Some((_, behind)) => {
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
        let texts = vec![without_spaces("see the walrus here go"), "/exit".to_owned()];
        let hashes = texts.iter().map(|text| xxh3_64(text.as_bytes())).collect();
        let typed = Typed { texts, hashes };
        for (prompt, is_repeated) in [
            ("/exit", true),
            ("/ex", false),
            ("see [Pasted text #1] go", true),
            ("go [Pasted text #1] see", false),
            ("see  the walrus\nhere go", true),
        ] {
            assert_eq!(typed.repeats(prompt), is_repeated, "{prompt}");
        }
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
