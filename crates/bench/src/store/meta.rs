//! Measures metadata changes of one session, in a ledger of few sessions and of very many.

use std::fmt::Write as _;
use std::fs;

use anyhow::Result;

use crate::measure::{Workplace, median, milliseconds};
use crate::report::{Report, Target, Unit, note};

const ROUNDS: usize = 41;
const FEW_SESSIONS: usize = 10;

pub(super) fn run(sessions: usize, place: &Workplace, report: &mut Report) -> Result<()> {
    note("metadata with few sessions");
    let few = patch(FEW_SESSIONS, place)?;
    note("metadata with many sessions");
    let many = patch(sessions, place)?;
    report.fact("sessions", sessions as u64);
    report.row(
        "meta patch with 10 sessions, a whole process",
        few,
        Unit::Milliseconds,
        Target::None,
    );
    report.row(
        "meta patch with all sessions, a whole process",
        many,
        Unit::Milliseconds,
        Target::None,
    );
    report.row("all sessions / 10 sessions", many / few, Unit::Times, Target::AtMost(1.5));
    Ok(())
}

/// Returns the median time of a patch in a ledger of this many sessions.
fn patch(sessions: usize, place: &Workplace) -> Result<f64> {
    place.remove_ledger()?;
    let state = place.at("state");
    let folder = state.join("agents/main/sessions");
    fs::create_dir_all(&folder)?;
    let mut index = String::from("{");
    for number in 0..sessions {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let comma = if number > 0 { "," } else { "" };
        write!(
            index,
            r#"{comma}"agent:main:explicit:{number}":{{"sessionId":"{id}","updatedAt":1770000000000}}"#
        )?;
        let header = format!(
            r#"{{"type":"session","version":3,"id":"{id}","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/work"}}"#
        );
        fs::write(folder.join(format!("{id}.jsonl")), header + "\n")?;
    }
    index.push('}');
    fs::write(folder.join("sessions.json"), index)?;
    place.quipu(&["import", &state.to_string_lossy()])?;
    fs::remove_dir_all(&state)?;
    let key = format!("agent:main:explicit:{}", sessions / 2);
    let times = (0..ROUNDS)
        .map(|round| {
            let patch = format!(r#"{{"label":"round {round}"}}"#);
            let run = place.quipu(&["session", "meta", &key, "--patch", &patch])?;
            Ok(milliseconds(run.wall))
        })
        .collect::<Result<Vec<f64>>>()?;
    Ok(median(times))
}
