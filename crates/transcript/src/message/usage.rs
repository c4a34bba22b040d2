//! Decodes tokens and cost in the three shapes that agents write.

use std::borrow::Cow;

use serde::de::MapAccess;

use crate::entry::Usage;
use crate::json::{Lenient, Number, Oddities, fields};
use crate::problem::ProblemKind;

impl<'de> Lenient<'de> for Usage {
    fn from_object<A: MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        let usage = UsageFields::from_object(object, odd)?.map(|fields| fields.to_usage());
        if usage.is_some_and(|usage| usage.is_absurd()) {
            odd.note(ProblemKind::TokenCount, "usage");
        }
        Ok(usage)
    }
}

fields! {
    /// Usage in the shape of Anthropic's API, of pi, and of OpenClaw's documents.
    struct UsageFields<'a> {
        "input_tokens" => input_tokens: u64,
        "input" => input: u64,
        "inputTokens" => input_tokens_camel: u64,
        "output_tokens" => output_tokens: u64,
        "output" => output: u64,
        "outputTokens" => output_tokens_camel: u64,
        "cache_read_input_tokens" => cache_read_input_tokens: u64,
        "cacheRead" => cache_read: u64,
        "cacheReadTokens" => cache_read_tokens: u64,
        "cache_creation_input_tokens" => cache_creation_input_tokens: u64,
        "cacheWrite" => cache_write: u64,
        "cacheWriteTokens" => cache_write_tokens: u64,
        "cacheWrite1h" => cache_write_1h: u64,
        "cache_creation" => cache_creation: CacheCreation,
        "speed" => speed: Cow<'a, str>,
        "cost" => cost: Cost,
    }
}

impl UsageFields<'_> {
    fn to_usage(&self) -> Usage {
        let created = self.cache_creation.as_ref();
        let for_hour = created.and_then(|created| created.for_hour);
        let for_minutes = created.and_then(|created| created.for_minutes);
        Usage {
            input: self.input_tokens.or(self.input).or(self.input_tokens_camel).unwrap_or_default(),
            output: self
                .output_tokens
                .or(self.output)
                .or(self.output_tokens_camel)
                .unwrap_or_default(),
            cache_read: self
                .cache_read_input_tokens
                .or(self.cache_read)
                .or(self.cache_read_tokens)
                .unwrap_or_default(),
            cache_write: self
                .cache_creation_input_tokens
                .or(self.cache_write)
                .or(self.cache_write_tokens)
                .unwrap_or_else(|| {
                    for_hour.unwrap_or_default().saturating_add(for_minutes.unwrap_or_default())
                }),
            cache_write_1h: for_hour.or(self.cache_write_1h).unwrap_or_default(),
            cost_usd: self.cost.as_ref().and_then(|cost| cost.0),
            is_fast: self.speed.as_deref() == Some("fast"),
        }
    }
}

fields! {
    /// Tokens written to the cache, by lifetime.
    struct CacheCreation {
        "ephemeral_5m_input_tokens" => for_minutes: u64,
        "ephemeral_1h_input_tokens" => for_hour: u64,
    }
}

/// The recorded cost: a number, or an object with a total.
#[derive(Debug)]
pub(crate) struct Cost(Option<f64>);

fields! {
    struct CostFields {
        "total" => total: f64,
    }
}

impl<'de> Lenient<'de> for Cost {
    fn from_number(number: Number) -> Option<Self> {
        Some(Cost(f64::from_number(number)))
    }

    fn from_object<A: MapAccess<'de>>(
        object: A,
        odd: &mut Oddities,
    ) -> Result<Option<Self>, A::Error> {
        Ok(CostFields::from_object(object, odd)?.map(|cost| Cost(cost.total)))
    }
}
