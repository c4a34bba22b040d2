//! The sum of one group.
//!
//! Adds up rows. Never reads the ledger.

use super::{Cost, Model, Part, model};
use crate::wire::UsageLine;

/// The sum of one group.
#[derive(Debug, Default)]
pub(super) struct Tally {
    responses: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    recorded: f64,
    priced: f64,
    has_price: bool,
    unpriced: u64,
    /// The tokens and the cost of requests that no line records.
    without_line: (u64, f64),
    /// The models. The flag is true if some usage of the model has no price. They are few, so a
    /// list is fastest.
    models: Vec<(i64, bool)>,
}

impl Tally {
    /// Adds a row of sums.
    pub(super) fn add(&mut self, model: i64, part: &Part) {
        let tokens = &part.tokens;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.responses, part.responses);
        add(&mut self.input, tokens.input);
        add(&mut self.output, tokens.output);
        add(&mut self.cache_read, tokens.cache_read);
        add(&mut self.cache_write, tokens.cache_write);
        if part.responses == 0 {
            for count in [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write] {
                add(&mut self.without_line.0, count);
            }
            if let Cost::Priced(cost) = part.cost {
                self.without_line.1 += cost;
            }
        }
        let is_unpriced = matches!(part.cost, Cost::Unknown);
        match part.cost {
            Cost::Recorded(cost) => self.recorded += cost,
            Cost::Priced(cost) => self.priced += cost,
            Cost::Unknown => {
                for count in [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write] {
                    add(&mut self.unpriced, count);
                }
            }
        }
        self.has_price |= !is_unpriced;
        match self.models.iter_mut().find(|(known, _)| *known == model) {
            Some((_, unpriced)) => *unpriced |= is_unpriced,
            None => self.models.push((model, is_unpriced)),
        }
    }

    /// Returns the sort key of the group: cost, then tokens. Larger keys come first.
    pub(super) fn weight(&self) -> (f64, u64) {
        (self.recorded + self.priced, self.total())
    }

    /// Returns the cost of all usage that has a price, or `None` if none has one.
    pub(super) fn cost(&self) -> Option<f64> {
        (self.has_price || self.models.is_empty()).then_some(rounded(self.recorded + self.priced))
    }

    pub(super) fn total(&self) -> u64 {
        [self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }

    /// Returns the line of the report.
    pub(super) fn line(&self, by: &'static str, group: String, models: &[Model]) -> UsageLine {
        let names = |only_unpriced: bool| {
            let mut names: Vec<String> = self
                .models
                .iter()
                .filter(|(_, unpriced)| *unpriced || !only_unpriced)
                .map(|(id, _)| {
                    let model = model(models, *id);
                    let name = model.map_or("", |model| model.name.as_str());
                    let name = if name.is_empty() { "unknown" } else { name };
                    // If the model has a price, its unpriced usage is that of the faster service.
                    match only_unpriced && model.is_some_and(|model| model.price.is_some()) {
                        true => format!("{name} (fast)"),
                        false => name.to_owned(),
                    }
                })
                .collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        UsageLine {
            by,
            unfinished_transcripts: 0,
            group,
            responses: self.responses,
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            total_tokens: self.total(),
            cost_usd: self.cost(),
            recorded_usd: rounded(self.recorded),
            unpriced_tokens: self.unpriced,
            without_line_tokens: self.without_line.0,
            without_line_usd: rounded(self.without_line.1),
            unpriced_models: names(true),
            models: names(false),
            by_model: Vec::new(),
            block: None,
            session: None,
        }
    }
}

/// Rounds to billionths of a dollar, the unit of recorded costs. Smaller parts are rounding errors
/// of the additions.
fn rounded(dollars: f64) -> f64 {
    (dollars * 1e9).round() / 1e9
}
