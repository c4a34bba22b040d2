//! Contract: of every collected record, every text is shown by the full story of its session, or is
//! in a field that is left out for a reason.
//!
//! The homes are invented ones of every format, and those that Claude Code and the gateway of
//! OpenClaw wrote.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use quipu_ledger::ids::SessionRow;
use quipu_ledger::query::{Choice, Story};
use quipu_transcript::format::{self, Format};
use quipu_transcript::story::{ItemKind, Piece, StoryDetail, StoryItem, left_out};
use serde_json::Value;

use crate::home::*;
use crate::rows::{DATABASE, real};

/// Collects a home and checks all its sessions. Returns how many texts were compared.
#[track_caller]
fn check(home: &Home) -> usize {
    home.sync();
    let sessions = home.all("SELECT id, format FROM sessions ORDER BY id");
    sessions
        .iter()
        .map(|row| {
            let (id, name) = row.split_once('|').unwrap();
            let format = format::by_name(name.trim_matches('\'')).unwrap();
            check_session(home, format, SessionRow(id.parse().unwrap()))
        })
        .sum()
}

#[track_caller]
fn check_session(home: &Home, format: &dyn Format, session: SessionRow) -> usize {
    let ledger = home.open();
    let story = Story::open(&ledger, session).unwrap();
    // The text that is shown of each record: further entries of a line have higher numbers.
    let mut shown: BTreeMap<i64, String> = BTreeMap::new();
    let full = Choice { detail: StoryDetail::FULL, ..Choice::default() };
    story
        .each_item(&full, &mut |item| {
            let text = shown.entry(item.entry % (1 << 40)).or_default();
            text.push_str(&compact(&shown_text(format, item)));
            ControlFlow::Continue(())
        })
        .unwrap();
    let records = home.all(&format!(
        "SELECT DISTINCT e.id % (1 << 40) FROM entry_rows e
          WHERE e.session = {} AND e.superseded_by IS NULL AND e.id > 0
            AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = e.id)
            -- The transcript repeats most prompts of a list.
            AND NOT EXISTS (
                SELECT 1 FROM prompts p
                  JOIN entry_rows o ON o.session = e.session
                  JOIN message_texts m ON m.id = o.id
                 WHERE p.id = e.id AND replace(m.text, ' ', '') = replace(p.text, ' ', ''))",
        session.0
    ));
    let mut compared = 0;
    for seq in records {
        let mut record = Vec::new();
        let only = Choice { entry: Some(format!("#{seq}")), ..Choice::default() };
        story
            .raw(&only, &mut |part| {
                record.extend_from_slice(part);
                ControlFlow::Continue(())
            })
            .unwrap();
        // Welded and damaged lines are shown as what could be read of them.
        let Ok(value) = serde_json::from_slice::<Value>(&record) else { continue };
        let shown = shown.get(&seq.parse().unwrap()).map_or("", String::as_str);
        every_text(format, &value, &mut |text| {
            compared += 1;
            let id = &story.head().session_id;
            assert!(
                shown.contains(&compact(text)),
                "{id} #{seq} does not show {text:?} in {shown}"
            );
        });
    }
    compared
}

/// Returns all text that an item shows with everything.
fn shown_text(format: &dyn Format, item: &StoryItem<'_>) -> String {
    let (mut shown, mut labels) = (item.type_name.to_string(), String::new());
    for piece in item.pieces.iter().filter(|piece| piece.is_shown(StoryDetail::FULL)) {
        shown.push('\n');
        match piece {
            Piece::Words(text) | Piece::Thinking(text) | Piece::Other(text) => shown.push_str(text),
            Piece::Attached { label, text, .. } | Piece::Pasted { label, text } => {
                // A label is the beginning of the text that it is for.
                labels.push_str(label);
                shown.push_str(text);
            }
            Piece::Call(call) => {
                shown.push_str(&call.name);
                let input = call.input.as_ref().map_or("null", |input| input.get());
                let value: Value = serde_json::from_str(input).unwrap_or_default();
                every_text(format, &value, &mut |text| shown.push_str(&format!("\n{text}")));
            }
            Piece::Result(result) => {
                shown.push_str(result.name.as_deref().unwrap_or_default());
                shown.push_str(&format!("\n{}", result.text));
            }
            Piece::Image { media_type } => {
                shown.push_str(media_type.as_deref().unwrap_or_default())
            }
        }
    }
    match &item.kind {
        ItemKind::Compaction(compaction) => shown.push_str(&compaction.summary),
        ItemKind::BranchSummary { summary, .. } => shown.push_str(summary),
        _ => {}
    }
    shown + &labels
}

/// Returns a text without whitespace. Its pieces differ from the record only in whitespace.
fn compact(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Passes every string of a value to `each`, but for fields that are left out on purpose.
fn every_text(format: &dyn Format, value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(values) => values.iter().for_each(|value| every_text(format, value, each)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_left_out = left_out(format).any(|(field, reason)| {
                    assert!(!reason.is_empty(), "{field}");
                    field == name
                });
                if !is_left_out {
                    every_text(format, value, each);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn every_text_of_the_invented_homes_is_shown() {
    assert!(check(&Home::with_fixtures()) > 500);
}

#[test]
fn every_text_that_claude_code_wrote_is_shown() {
    for (version, least) in [("2.1.197", 100), ("2.1.325", 1000)] {
        let home = Home::quick();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("tests/fixtures/claude-code-{version}"));
        copy(&folder, &home.path(".claude"));
        let compared = check(&home);
        assert!(compared > least, "{version}: {compared}");
    }
}

#[test]
fn every_text_that_openclaw_wrote_is_shown() {
    for name in ["gateway", "imported", "native"] {
        let home = Home::quick();
        real(&home, name, DATABASE);
        let compared = check(&home);
        assert!(compared > 20, "{name}: {compared}");
    }
}
