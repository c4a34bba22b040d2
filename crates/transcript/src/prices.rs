//! Prices of tokens: one dated list of published prices, and a person's own prices, which win over
//! it.
//!
//! Pure: no clock and no configuration. A model that is not in the list has no price; nothing is
//! guessed from a similar name. Agents that record a cost themselves need none of this.

mod list;
mod name;

use std::collections::BTreeMap;

pub use list::{AS_OF, LIST};
pub use name::plain as plain_name;

/// US dollars per million tokens of each kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Input without the cache.
    pub input: f64,
    /// Output, thinking included.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache for five minutes.
    pub cache_write: f64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: f64,
}

impl Rates {
    /// Returns the rates multiplied by a factor, for faster service or longer prompts.
    pub const fn times(self, factor: f64) -> Rates {
        Rates {
            input: self.input * factor,
            output: self.output * factor,
            cache_read: self.cache_read * factor,
            cache_write: self.cache_write * factor,
            cache_write_1h: self.cache_write_1h * factor,
        }
    }

    fn cost(&self, tokens: &Tokens) -> f64 {
        // A part cannot be larger than the whole, whatever a transcript claims.
        let for_hour = tokens.cache_write_1h.min(tokens.cache_write);
        let dollars = tokens.input as f64 * self.input
            + tokens.output as f64 * self.output
            + tokens.cache_read as f64 * self.cache_read
            + (tokens.cache_write - for_hour) as f64 * self.cache_write
            + for_hour as f64 * self.cache_write_1h;
        dollars / 1e6
    }
}

/// The price of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// The ordinary rates.
    pub rates: Rates,
    /// The rates of the faster service, if there is one.
    pub fast: Option<Rates>,
    /// The rates for a whole request whose prompt has more tokens than this.
    pub long: Option<(u64, Rates)>,
}

/// Tokens of one response, or of several that are priced alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Uncached input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache, all lifetimes together.
    pub cache_write: u64,
    /// The part of `cache_write` that stays for an hour.
    pub cache_write_1h: u64,
}

/// The conditions that select the rates, besides the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Service {
    /// True if the faster service was used.
    pub is_fast: bool,
    /// The largest of [`PROMPT_SIZES`] that the prompt exceeds, or 0.
    pub prompt_over: u64,
}

/// Prompt sizes in tokens above which some models cost more.
pub const PROMPT_SIZES: [u64; 3] = [100_000, 200_000, 272_000];

/// Returns the largest of [`PROMPT_SIZES`] that a prompt of `tokens` exceeds, or 0.
pub fn prompt_over(tokens: u64) -> u64 {
    PROMPT_SIZES.into_iter().rfind(|size| tokens > *size).unwrap_or(0)
}

impl Price {
    /// Returns the cost in US dollars, or `None` if the service that was used has no price.
    pub fn cost(&self, service: Service, tokens: &Tokens) -> Option<f64> {
        let rates = match (service.is_fast, self.long) {
            (true, _) => self.fast?,
            (false, Some((over, rates))) if service.prompt_over >= over => rates,
            (false, _) => self.rates,
        };
        Some(rates.cost(tokens))
    }
}

/// The list of prices, with a person's own prices.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    own: BTreeMap<String, Price>,
}

impl Prices {
    /// Returns the list with a person's own prices, by model name, which win over it.
    pub fn with(own: BTreeMap<String, Price>) -> Prices {
        Prices { own }
    }

    /// Returns whether a person's own price applies to the model.
    pub fn is_own(&self, model: &str) -> bool {
        self.own.contains_key(model) || self.own.contains_key(&name::plain(model))
    }

    /// Returns the price of a model by its name in a transcript: a person's own price for exactly
    /// that name, then for its plain name, then the list's.
    pub fn of(&self, model: &str) -> Option<&Price> {
        if let Some(price) = self.own.get(model) {
            return Some(price);
        }
        let plain = name::plain(model);
        self.own.get(&plain).or_else(|| {
            LIST.iter().find(|(names, _)| names.contains(&plain.as_str())).map(|(_, price)| price)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: Tokens = Tokens {
        input: 1_000_000,
        output: 1_000_000,
        cache_read: 1_000_000,
        cache_write: 1_000_000,
        cache_write_1h: 0,
    };

    #[track_caller]
    fn check(model: &str, service: Service, tokens: Tokens, expected: Option<f64>) {
        let cost = Prices::default().of(model).and_then(|price| price.cost(service, &tokens));
        match (cost, expected) {
            (Some(cost), Some(expected)) => assert!((cost - expected).abs() < 1e-9, "{cost}"),
            (cost, expected) => assert_eq!(cost, expected),
        }
    }

    #[test]
    fn each_kind_of_token_has_its_rate() {
        let plain = Service::default();
        check("claude-opus-4-5-20251101", plain, MILLION, Some(5.0 + 25.0 + 0.5 + 6.25));
        let for_hour = Tokens { cache_write_1h: 400_000, ..MILLION };
        let expected = 5.0 + 25.0 + 0.5 + 0.6 * 6.25 + 0.4 * 10.0;
        check("claude-opus-4-5-20251101", plain, for_hour, Some(expected));
        // A one-hour part that is larger than the whole is nonsense, and is priced as the whole.
        let nonsense = Tokens { cache_write_1h: u64::MAX, ..MILLION };
        check("claude-opus-4-5", plain, nonsense, Some(5.0 + 25.0 + 0.5 + 10.0));
    }

    #[test]
    fn fast_and_long_cost_more() {
        let fast = Service { is_fast: true, prompt_over: 0 };
        let input = Tokens { input: 1_000_000, ..Tokens::default() };
        check("claude-opus-4-6", fast, input, Some(30.0));
        check("claude-opus-5-5", fast, input, Some(8.0));
        // No price is published for fast Haiku. It does not get the price of the ordinary service.
        check("claude-haiku-4-5", fast, input, None);
        let over = |prompt_over| Service { is_fast: false, prompt_over };
        check("claude-sonnet-4-5", over(100_000), input, Some(3.0));
        check("claude-sonnet-4-5", over(200_000), input, Some(6.0));
        check("claude-haiku-5-5", over(0), input, Some(0.1));
        check("claude-haiku-5-5", over(100_000), input, Some(0.5));
        check("claude-haiku-5-5", over(272_000), input, Some(0.5));
    }

    #[test]
    fn a_prompt_of_exactly_a_tiers_size_does_not_exceed_it() {
        assert_eq!(
            [100_000, 100_001, 200_000, 200_001, 272_001].map(prompt_over),
            [0, 100_000, 100_000, 200_000, 272_000]
        );
    }

    #[test]
    fn unknown_models_have_no_price() {
        for model in
            ["", "gpt-99", "claude-opus-99", "claude", "delivery-mirror", "claude-opus-4-55"]
        {
            check(model, Service::default(), MILLION, None);
        }
    }

    #[test]
    fn own_prices_come_first() {
        let rates = Rates {
            input: 1.0,
            output: 0.0,
            cache_read: 0.0,
            cache_write: 0.0,
            cache_write_1h: 0.0,
        };
        let price = |factor| Price { rates: rates.times(factor), fast: None, long: None };
        let prices = Prices::with(BTreeMap::from([
            ("my-model".to_owned(), price(1.0)),
            ("claude-opus-5".to_owned(), price(2.0)),
            ("us.anthropic.claude-opus-5-v1:0".to_owned(), price(3.0)),
        ]));
        let input = |model| prices.of(model).map(|price| price.rates.input);
        assert_eq!(input("my-model"), Some(1.0));
        assert_eq!(input("claude-opus-5-20260724"), Some(2.0));
        assert_eq!(input("us.anthropic.claude-opus-5-v1:0"), Some(3.0));
        assert_eq!(input("claude-opus-4-8"), Some(5.0));
    }

    #[test]
    fn no_name_is_listed_twice() {
        let mut names: Vec<&str> =
            LIST.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for name in names {
            assert_eq!(name::plain(name), name, "a name that is never looked up");
        }
    }
}
