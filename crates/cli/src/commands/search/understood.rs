//! Describes a search as quipu understood it: its words, filters and expressions.

use quipu_ledger::search::SearchRequest;
use quipu_transcript::search::query::{Condition, Filter};
use quipu_transcript::story::one_line;

use crate::output::minute;

/// Limit for the width of one part, in columns. A query may be a whole paragraph.
const MAX_PART_WIDTH: usize = 60;

/// Returns the words, then the filters: `checkout OR gateway, role:user`.
pub(super) fn understood(request: &SearchRequest) -> String {
    let query = &request.query;
    let mut parts = Vec::new();
    if query.has_words() {
        parts.push(one_line(&query.understood().to_string(), MAX_PART_WIDTH));
    }
    for (option, text) in [("--exact", &request.exact), ("--regex", &request.regex)] {
        let case = if request.ignores_case { " -i" } else { "" };
        parts.extend(
            text.as_ref().map(|text| format!("{option} {}{case}", one_line(text, MAX_PART_WIDTH))),
        );
    }
    parts.extend(query.filters.iter().map(filter));
    let places = query.places.iter().map(|place| format!("in:{place:?}").to_lowercase());
    parts.extend(places);
    parts.dedup();
    parts.join(", ")
}

fn filter(filter: &Filter) -> String {
    let (key, value) = match &filter.condition {
        Condition::Project(name) => ("project", name.clone()),
        Condition::Agent(name) | Condition::OnlyAgent(name) => ("agent", name.clone()),
        Condition::Format(name) => ("format", name.clone()),
        Condition::Session(id) => ("session", id.clone()),
        Condition::Role(role) => ("role", role.as_str().to_owned()),
        Condition::Tool(name) => ("tool", name.clone()),
        Condition::File(path) => ("file", path.clone()),
        Condition::Error => ("is", "error".to_owned()),
        Condition::Since(time) => ("since", minute(*time)),
        Condition::Until(time) => ("before", minute(*time)),
        Condition::Compaction => ("has", "compaction".to_owned()),
    };
    let dash = if filter.is_negated { "-" } else { "" };
    match key {
        "since" | "before" => format!("{dash}{key} {value}"),
        key => format!("{dash}{key}:{}", one_line(&value, MAX_PART_WIDTH)),
    }
}
