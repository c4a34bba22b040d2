//! Tests of memory flushes at chosen times.

use std::cell::RefCell;
use std::fs;

use jiff::tz::{Offset, TimeZone};
use quipu_transcript::compaction::{Question, Request};

use super::summarise::Summariser;
use super::{CompactionSettings, Entry, Flush, NewSession, Store};

/// A minute before midnight of 18 November 2026, UTC.
const LATE: i64 = 1_795_046_340_000;

/// A model that writes down which day it is asked about.
struct Model(RefCell<Vec<String>>);

impl Summariser for Model {
    fn name(&self) -> &'static str {
        "test"
    }

    fn summarise(&self, _: &Request<'_>) -> Result<String, String> {
        Err("it makes no summaries".to_owned())
    }

    fn answer(&self, question: &Question<'_>) -> Option<Result<String, String>> {
        self.0.borrow_mut().push(question.day.to_owned());
        Some(Ok(format!("- asked on {}", question.day)))
    }
}

/// The clock jumps: the file is always the one that the model was asked about, and an older time is
/// not a reason to ask twice.
#[test]
fn r83_a_clock_that_jumps_over_midnight() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(folder.path().join("ledger.db"))?;
    let session = store.create(&NewSession::default())?;
    session.append(Entry::user("hello"))?;
    let memory = folder.path().join("workspaces/main/memory");
    let model = Model(RefCell::default());
    let mut settings = CompactionSettings::default();
    let hour = 3_600_000;
    // Time zone, time, day. Between them, the session is compacted.
    for (number, (zone, at, day)) in [
        (0, LATE, "2026-11-18"),
        (0, LATE + hour, "2026-11-19"),
        (0, LATE, "2026-11-18"),
        (1, LATE, "2026-11-19"),
        (0, i64::MAX, "1970-01-01"),
        (0, -1, "1969-12-31"),
    ]
    .into_iter()
    .enumerate()
    {
        settings.zone = Some(TimeZone::fixed(Offset::constant(zone)));
        let flush = session.flush_at(&settings, &model, at)?;
        let Flush::Stored { path, bytes } = flush else { return Err(format!("{flush:?}").into()) };
        let file = memory.join(format!("{day}.md"));
        assert_eq!((path, bytes), (file.display().to_string(), 22));
        // At any time, it is made once.
        assert_eq!(session.flush_at(&settings, &model, at - 48 * hour)?, Flush::Done);
        assert_eq!(model.0.borrow().get(number).map(String::as_str), Some(day));
        assert_eq!(model.0.borrow().len(), number + 1);
        let kept = session.leaf()?.map(|leaf| leaf.id).unwrap_or_default();
        session.append(Entry::json(format!(
            r#"{{"type":"compaction","summary":"s","firstKeptEntryId":"{kept}","tokensBefore":1}}"#
        )))?;
    }
    let notes = fs::read_to_string(memory.join("2026-11-18.md"))?;
    assert_eq!(notes, "- asked on 2026-11-18\n- asked on 2026-11-18\n");
    Ok(())
}
