//! The published prices, in US dollars per million tokens.
//!
//! A model is listed once its maker's own page has the price. A model whose price changed has the
//! price of [`AS_OF`]. The configuration can correct or add prices.

use super::{Price, Rates};

/// The day on which the list was last checked.
pub const AS_OF: &str = "2026-11-15";

/// Plain names of models, and their prices.
pub const LIST: &[(&[&str], Price)] = &[
    // Anthropic: platform.claude.com/docs/en/about-claude/pricing and
    // …/build-with-claude/fast-mode. Writing to the cache costs 1.25 times the input, or twice the
    // input for an hour; reading costs a tenth, unless a line below has another price.
    (&["claude-fable-5-1", "claude-mythos-5-1"], plain(claude(10.0, 50.0, 0.25))),
    (&["claude-fable-5", "claude-mythos-5"], plain(claude(10.0, 50.0, 1.0))),
    (&["claude-opus-5-5"], fast(claude(4.0, 20.0, 0.2), 2.0)),
    (&["claude-opus-5", "claude-opus-4-8"], fast(claude(5.0, 25.0, 0.5), 2.0)),
    (&["claude-opus-4-7", "claude-opus-4-6"], fast(claude(5.0, 25.0, 0.5), 6.0)),
    (&["claude-opus-4-5"], plain(claude(5.0, 25.0, 0.5))),
    (
        &["claude-opus-4-1", "claude-opus-4", "claude-opus-4-0", "claude-3-opus"],
        plain(claude(15.0, 75.0, 1.5)),
    ),
    (&["claude-sonnet-5-5", "claude-sonnet-5"], plain(claude(2.0, 10.0, 0.2))),
    (
        &["claude-sonnet-4-6", "claude-3-7-sonnet", "claude-3-5-sonnet", "claude-3-sonnet"],
        plain(claude(3.0, 15.0, 0.3)),
    ),
    (
        &["claude-sonnet-4-5", "claude-sonnet-4", "claude-sonnet-4-0"],
        long(claude(3.0, 15.0, 0.3), 200_000, claude(6.0, 22.5, 0.6)),
    ),
    (&["claude-haiku-5-5"], long(claude(0.1, 0.5, 0.01), 100_000, claude(0.5, 2.5, 0.05))),
    (&["claude-haiku-4-5"], plain(claude(1.0, 5.0, 0.1))),
    (&["claude-3-5-haiku"], plain(claude(0.8, 4.0, 0.08))),
    (
        &["claude-3-haiku"],
        plain(Rates {
            input: 0.25,
            output: 1.25,
            cache_read: 0.03,
            cache_write: 0.3,
            cache_write_1h: 0.5,
        }),
    ),
    // OpenAI: developers.openai.com/api/docs/pricing, standard service.
    (&["gpt-6.1-sol"], long(cached(2.0, 10.0, 0.1), 272_000, cached(4.0, 15.0, 0.2))),
    (&["gpt-6-sol"], long(written(2.0, 10.0, 0.2), 272_000, written(4.0, 15.0, 0.4))),
    (&["gpt-6-luna"], long(written(0.1, 0.5, 0.01), 272_000, written(0.2, 0.75, 0.02))),
    (&["gpt-5.4"], long(cached(2.5, 15.0, 0.25), 272_000, cached(5.0, 22.5, 0.5))),
    (&["gpt-5.4-mini"], plain(cached(0.75, 4.5, 0.075))),
    (&["gpt-5.2", "gpt-5.2-codex"], plain(cached(1.75, 14.0, 0.175))),
    (
        &["gpt-5.1", "gpt-5.1-codex", "gpt-5.1-codex-max", "gpt-5", "gpt-5-codex"],
        plain(cached(1.25, 10.0, 0.125)),
    ),
    (&["gpt-5-mini", "gpt-5.1-codex-mini"], plain(cached(0.25, 2.0, 0.025))),
    (&["gpt-5-nano"], plain(cached(0.05, 0.4, 0.005))),
    (&["gpt-4.1"], plain(cached(2.0, 8.0, 0.5))),
    (&["gpt-4.1-mini"], plain(cached(0.4, 1.6, 0.1))),
    (&["gpt-4.1-nano"], plain(cached(0.1, 0.4, 0.025))),
    (&["gpt-4o"], plain(cached(2.5, 10.0, 1.25))),
    (&["gpt-4o-mini"], plain(cached(0.15, 0.6, 0.075))),
    (&["o3"], plain(cached(2.0, 8.0, 0.5))),
    (&["o4-mini"], plain(cached(1.1, 4.4, 0.275))),
    // Google: ai.google.dev/gemini-api/docs/pricing, paid tier, text. Storing a cache costs money
    // by the hour, which no transcript records.
    (
        &["gemini-3.1-pro", "gemini-3-pro"],
        long(cached(2.0, 12.0, 0.2), 200_000, cached(4.0, 18.0, 0.4)),
    ),
    (&["gemini-3-flash"], plain(cached(0.5, 3.0, 0.05))),
    (&["gemini-3.1-flash-lite"], plain(cached(0.25, 1.5, 0.025))),
    (&["gemini-2.5-pro"], long(cached(1.25, 10.0, 0.125), 200_000, cached(2.5, 15.0, 0.25))),
    (&["gemini-2.5-flash"], plain(cached(0.3, 2.5, 0.03))),
    (&["gemini-2.5-flash-lite"], plain(cached(0.1, 0.4, 0.01))),
];

/// Returns Anthropic's rates, which derive cache writes from the input price.
const fn claude(input: f64, output: f64, cache_read: f64) -> Rates {
    Rates { input, output, cache_read, cache_write: input * 1.25, cache_write_1h: input * 2.0 }
}

/// Returns rates without an extra charge for writing to the cache.
const fn cached(input: f64, output: f64, cache_read: f64) -> Rates {
    Rates { input, output, cache_read, cache_write: input, cache_write_1h: input }
}

/// Returns rates with cache writes at 1.25 times the input, for any lifetime.
const fn written(input: f64, output: f64, cache_read: f64) -> Rates {
    Rates {
        cache_write: input * 1.25,
        cache_write_1h: input * 1.25,
        ..cached(input, output, cache_read)
    }
}

const fn plain(rates: Rates) -> Price {
    Price { rates, fast: None, long: None }
}

const fn fast(rates: Rates, factor: f64) -> Price {
    Price { rates, fast: Some(rates.times(factor)), long: None }
}

const fn long(rates: Rates, over: u64, beyond: Rates) -> Price {
    Price { rates, fast: None, long: Some((over, beyond)) }
}
