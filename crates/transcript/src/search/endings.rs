//! Other English endings of a word: `errors` for `error`, `stopping` for `stopped`.
//!
//! Knows rules and no dictionary: many of the forms are not words. The caller keeps those that the
//! index holds. Irregular forms (`ran`) and other suffixes (`-ation`, `-er`) are left alone, because
//! they often change the meaning.

/// Shorter words have no other endings. In letters.
const MIN_LETTERS: usize = 3;

/// Longer runs of letters are not English words. In letters.
const MAX_LETTERS: usize = 24;

/// Returns the other forms of a lower-case word: plural, past and `-ing`. Never the word itself.
///
/// ```
/// use quipu_transcript::search::endings::other_endings;
///
/// assert!(other_endings("errors").contains(&"error".to_owned()));
/// assert!(other_endings("a1").is_empty());
/// ```
pub fn other_endings(word: &str) -> Vec<String> {
    let mut forms = Vec::new();
    if !(MIN_LETTERS..=MAX_LETTERS).contains(&word.len())
        || !word.bytes().all(|byte| byte.is_ascii_lowercase())
    {
        return forms;
    }
    let mut bases = vec![word.to_owned()];
    for (ending, instead) in [
        ("ies", "y"),
        ("ied", "y"),
        ("es", ""),
        ("es", "e"),
        ("s", ""),
        ("ed", ""),
        ("ed", "e"),
        ("ing", ""),
        ("ing", "e"),
    ] {
        let Some(stem) = word.strip_suffix(ending).filter(|stem| is_stem(stem)) else { continue };
        if (ending == "s" && stem.ends_with(['s', 'u', 'i']))
            || stem.len() + instead.len() < MIN_LETTERS
        {
            continue;
        }
        bases.push(format!("{stem}{instead}"));
        // stopp-ed, runn-ing
        if matches!(ending, "ed" | "ing") && ends_doubled(stem) {
            bases.push(stem.get(..stem.len() - 1).unwrap_or(stem).to_owned());
        }
    }
    for base in &bases {
        forms.push(base.clone());
        if let Some(stem) = base.strip_suffix('y').filter(|stem| !stem.ends_with(VOWELS)) {
            forms.extend([format!("{stem}ies"), format!("{stem}ied")]);
        } else {
            let is_hissing = ["s", "x", "z", "ch", "sh"].iter().any(|end| base.ends_with(end));
            forms.push(format!("{base}{}", if is_hissing { "es" } else { "s" }));
        }
        match base.strip_suffix('e') {
            Some(stem) => forms.extend([format!("{stem}ed"), format!("{stem}ing")]),
            None => forms.extend([format!("{base}ed"), format!("{base}ing")]),
        }
        if let Some(last) = doubled(base) {
            forms.extend([format!("{base}{last}ed"), format!("{base}{last}ing")]);
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms.retain(|form| form != word);
    forms
}

const VOWELS: [char; 5] = ['a', 'e', 'i', 'o', 'u'];

/// Returns whether an ending can follow: the stem has a vowel and another letter.
fn is_stem(stem: &str) -> bool {
    stem.len() >= 2 && stem.contains([VOWELS.as_slice(), &['y']].concat().as_slice())
}

/// Returns whether a stem ends with the same consonant twice.
fn ends_doubled(stem: &str) -> bool {
    let mut letters = stem.chars().rev();
    let (last, before) = (letters.next(), letters.next());
    last == before && last.is_some_and(|last| !VOWELS.contains(&last))
}

/// Returns the consonant that is doubled before an ending: `p` of `stop`.
fn doubled(base: &str) -> Option<char> {
    let mut letters = base.chars().rev();
    let (last, vowel, before) = (letters.next()?, letters.next()?, letters.next()?);
    let is_consonant = |letter: char| !VOWELS.contains(&letter);
    (is_consonant(last)
        && !matches!(last, 'w' | 'x' | 'y')
        && !is_consonant(vowel)
        && is_consonant(before))
    .then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: &[&str]) {
        let forms = other_endings(word);
        for form in expected {
            assert!(forms.iter().any(|other| other == form), "{word}: no {form} in {forms:?}");
        }
        assert!(!forms.iter().any(|form| form == word), "{word} itself");
        assert!(forms.len() <= 40, "{word}: {} forms", forms.len());
    }

    #[test]
    fn english_endings_are_found_from_each_other() {
        check("errors", &["error"]);
        check("error", &["errors", "errored"]);
        check("failing", &["fail", "fails", "failed"]);
        check("timed", &["time", "times", "timing"]);
        check("retries", &["retry", "retried", "retrying"]);
        check("retry", &["retries", "retried", "retrying"]);
        check("stopped", &["stop", "stops", "stopping"]);
        check("stop", &["stopped", "stopping"]);
        check("matches", &["match", "matched", "matching"]);
        check("cache", &["caches", "cached", "caching"]);
        check("caching", &["cache", "cached"]);
        check("index", &["indexes", "indexed", "indexing"]);
        check("using", &["use", "used", "uses"]);
    }

    #[test]
    fn what_is_no_english_word_has_no_other_endings() {
        for word in ["a", "it", "x86", "über", "ünter", "", &"a".repeat(25), "Errors"] {
            assert!(other_endings(word).is_empty(), "{word}");
        }
        assert!(!other_endings("status").contains(&"statu".to_owned()));
        assert!(!other_endings("class").contains(&"clas".to_owned()));
        assert!(!other_endings("string").contains(&"str".to_owned()));
    }
}
