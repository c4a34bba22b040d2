//! Finds the secrets in a text.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;

use super::rules::{Check, RULES, Rule};

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundSecret {
    pub(super) at: Range<usize>,
    /// The index of its rule in [`RULES`].
    pub(super) rule: usize,
}

/// Text that may precede a word without being part of it: an escape, a colour change, an encoded
/// character.
const EDGE: &str = r"(?:(?-u:\b)|\\[nrtbf]|\x1b\[[0-9;]*m|%[0-9A-Fa-f]{2})";

/// Texts in values that refer to a secret and are none.
const REFERENCES: &[&str] =
    &["process.env", "os.environ", "import.meta", "env.", "config.", "settings.", "self.", "this."];

/// The characters of a secret up to where a text was cut.
const REST: &str = r"[A-Za-z0-9_.+/=-]*";

/// The compiled rules.
struct Compiled {
    /// Never `None`, because the keywords are constants.
    keywords: Option<AhoCorasick>,
    rule_of_keyword: Vec<usize>,
    patterns: Vec<Option<Regex>>,
    cuts: Vec<(usize, Regex)>,
}

static COMPILED: LazyLock<Compiled> = LazyLock::new(|| {
    let mut rule_of_keyword = Vec::new();
    let mut keywords: Vec<&str> = Vec::new();
    for (index, rule) in RULES.iter().enumerate() {
        rule_of_keyword.extend(rule.keywords.iter().map(|_| index));
        keywords.extend(rule.keywords);
    }
    let cut = |(index, rule): (usize, &Rule)| {
        let pattern = match rule.start {
            "" => return None,
            start if rule.is_word => format!("{EDGE}({start}{REST})$"),
            // A private key has several lines.
            start => format!(r"({start}[A-Za-z0-9+/=\s-]*)$"),
        };
        Some((index, Regex::new(&pattern).ok()?))
    };
    Compiled {
        keywords: AhoCorasick::builder().ascii_case_insensitive(true).build(keywords).ok(),
        rule_of_keyword,
        patterns: RULES.iter().map(pattern).collect(),
        cuts: RULES.iter().enumerate().filter_map(cut).collect(),
    }
});

/// Returns the compiled pattern of a rule, with the secret as its first group.
fn pattern(rule: &Rule) -> Option<Regex> {
    let has_group = Regex::new(rule.pattern).ok()?.captures_len() > 1;
    let edge = if rule.is_word { EDGE } else { "" };
    let pattern = rule.pattern;
    Regex::new(&if has_group {
        format!("{edge}(?:{pattern})")
    } else {
        format!("{edge}({pattern})")
    })
    .ok()
}

/// Returns the secrets that the rules find, in no particular order; they may overlap.
pub(super) fn by_rules(text: &str) -> Vec<FoundSecret> {
    let compiled = &*COMPILED;
    let mut asked = [false; RULES.len()];
    if let Some(keywords) = &compiled.keywords {
        for keyword in keywords.find_overlapping_iter(text) {
            asked[compiled.rule_of_keyword[keyword.pattern().as_usize()]] = true;
        }
    }
    let mut found = Vec::new();
    for (index, rule) in RULES.iter().enumerate() {
        if !(asked[index] || rule.keywords.is_empty()) {
            continue;
        }
        let Some(pattern) = &compiled.patterns[index] else { continue };
        for captures in pattern.captures_iter(text) {
            if let Some(secret) = captures.get(1)
                && rule.check.holds(secret.as_str())
            {
                found.push(FoundSecret { at: secret.range(), rule: index });
            }
        }
    }
    found
}

/// Returns the beginning of a secret at the end of a text that was cut there.
pub(super) fn cut(text: &str) -> Option<FoundSecret> {
    COMPILED.cuts.iter().find_map(|(rule, pattern)| {
        let secret = pattern.captures(text)?.get(1)?;
        Some(FoundSecret { at: secret.range(), rule: *rule })
    })
}

/// Returns the beginning of a secret at the end of a cut text, found by the words before it.
pub(super) fn cut_by_words(text: &str) -> Option<FoundSecret> {
    static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r#"(?i)(?:password|passwd|passphrase|api[_-]?key|access[_-]?key|secret|token|credential|bearer)[A-Za-z0-9_-]{0,24}["'\\]{0,4}\s{0,4}[:=\s]\s{0,4}["'\\`]{0,4}([^\s"'\\`]+)$"#,
        )
        .ok()
    });
    let secret = WORDS.as_ref()?.captures(text)?.get(1)?;
    let rule = RULES.len().checked_sub(1)?;
    let has_digit = secret.as_str().bytes().any(|byte| byte.is_ascii_digit());
    has_digit.then(|| FoundSecret { at: secret.range(), rule })
}

/// Returns the placeholders of secrets that were masked before.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = Range<usize>> {
    const OPENING: &str = "[redacted:";
    text.match_indices(OPENING).filter_map(move |(start, _)| {
        let behind = text.get(start + OPENING.len()..)?;
        // No name or number is longer.
        let end = behind.bytes().take(64).position(|byte| byte == b']')?;
        let inside = behind.get(..end)?;
        let (name, number) = inside.split_once(':').unwrap_or((inside, "1"));
        let is_ours = RULES.iter().any(|rule| rule.name == name)
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit());
        is_ours.then(|| start..start + OPENING.len() + end + 1)
    })
}

/// Returns a finder for these words.
pub(super) fn finder<'w>(words: impl Iterator<Item = &'w str>) -> Option<AhoCorasick> {
    AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(words).ok()
}

impl Check {
    fn holds(self, secret: &str) -> bool {
        match self {
            Check::None => true,
            Check::Random(least) => {
                secret.bytes().any(|byte| byte.is_ascii_digit())
                    && secret.bytes().any(|byte| byte.is_ascii_alphabetic())
                    && !secret.starts_with(['/', '~', '.'])
                    && !REFERENCES.iter().any(|word| secret.contains(word))
                    && entropy(secret) * 100.0 > f64::from(least)
            }
            Check::Literal => {
                !secret.starts_with(['$', '{', '*', '%', '[', '('])
                    && !secret.bytes().all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.'))
            }
        }
    }
}

/// Returns the Shannon entropy of the text in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let all = text.len().max(1) as f64;
    let bits = |count: &u32| {
        let share = f64::from(*count) / all;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(bits).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_can_be_used() {
        assert!(COMPILED.keywords.is_some());
        for (rule, pattern) in RULES.iter().zip(&COMPILED.patterns) {
            assert!(pattern.is_some(), "{}", rule.name);
            let pattern = pattern.as_ref().unwrap();
            assert_eq!(pattern.captures_len(), 2, "{}", rule.name);
        }
        let starts = RULES.iter().filter(|rule| !rule.start.is_empty()).count();
        assert_eq!(COMPILED.cuts.len(), starts);
        assert!(cut_by_words("token: a1").is_some());
    }

    #[test]
    fn entropy_grows_with_variety() {
        assert_eq!(entropy(""), 0.0);
        assert_eq!(entropy("aaaa"), 0.0);
        assert_eq!(entropy("abab"), 1.0);
        assert_eq!(entropy("abcd"), 2.0);
    }
}
