//! Words with signs (`C++`, `.rs`, `foo_bar`, `a/b.c`), compared letter for letter.
//!
//! The index knows only their letters and digits: it finds `foo bar` for `foo_bar`. This compares
//! the text itself, without regard to case.

use regex::{Regex, RegexBuilder};

/// Limit for the length of a compared text, in bytes. It bounds the size of the expression.
const MAX_TEXT_BYTES: usize = 1024;

/// A word with signs.
#[derive(Debug, Clone)]
pub struct Spelling {
    expression: Regex,
    /// True if a letter or digit must not come right before it, or right after it.
    ends: (bool, bool),
}

impl Spelling {
    /// Returns the spelling of a typed text, or `None` if it is nothing but words: signs at the end
    /// of a sentence do not count.
    pub fn of(text: &str, is_prefix: bool) -> Option<Spelling> {
        let text = text.trim().trim_end_matches(['.', ',', ';', ':', '!', '?']);
        let is_sign = |letter: char| !letter.is_alphanumeric() && !letter.is_whitespace();
        if text.len() > MAX_TEXT_BYTES
            || !text.contains(is_sign)
            || !text.contains(char::is_alphanumeric)
        {
            return None;
        }
        let parts: Vec<String> = text.split_whitespace().map(regex::escape).collect();
        let mut builder = RegexBuilder::new(&parts.join(r"\s+"));
        let expression = builder.case_insensitive(true).build().ok()?;
        let begins = text.starts_with(char::is_alphanumeric);
        let ends = text.ends_with(char::is_alphanumeric) && !is_prefix;
        Some(Spelling { expression, ends: (begins, ends) })
    }

    /// Returns whether a text holds it.
    pub fn is_in(&self, text: &str) -> bool {
        let mut at = 0;
        while let Some(found) = self.expression.find_at(text, at) {
            let before = text.get(..found.start()).and_then(|before| before.chars().next_back());
            let after = text.get(found.end()..).and_then(|after| after.chars().next());
            let is_inside =
                |must_end, next: Option<char>| must_end && next.is_some_and(char::is_alphanumeric);
            if !is_inside(self.ends.0, before) && !is_inside(self.ends.1, after) {
                return true;
            }
            at = text.ceil_char_boundary(found.start() + 1);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, holds: &[&str], lacks: &[&str]) {
        let spelling = Spelling::of(typed, false).expect("it has signs");
        for text in holds {
            assert!(spelling.is_in(text), "{typed} in {text}");
        }
        for text in lacks {
            assert!(!spelling.is_in(text), "{typed} in {text}");
        }
    }

    #[test]
    fn signs_are_compared() {
        check("C++", &["in c++.", "C++20"], &["C", "c + +"]);
        check(".rs", &["main.rs", "a .rs file"], &["main.rst", "rs"]);
        check("--flag", &["run --flag=1"], &["flag", "-flag", "--flags"]);
        check("foo_bar", &["x FOO_BAR", "my_foo_bar_2"], &["foo bar", "foo-bar", "xfoo_bar"]);
        check("a/b.c", &["see a/b.c!"], &["a b c", "aa/b.c"]);
        check("\"a_b  c\"", &["\"a_b\nc\""], &["a_b c"]);
        assert!(Spelling::of("foo_b", true).is_some_and(|it| it.is_in("foo_bar")));
    }

    #[test]
    fn plain_words_have_no_signs() {
        for typed in ["word", "two words", "why?", "end.", "==", "", "été"] {
            assert!(Spelling::of(typed, false).is_none(), "{typed}");
        }
    }
}
