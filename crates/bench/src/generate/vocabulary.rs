//! The words of a home: English-like prose and identifiers with a Zipf distribution.
//!
//! Frequencies matter more than meaning: they decide how large a search index becomes and how long
//! a search for a frequent word takes.

use super::prng::Prng;

/// Frequent words, most frequent first; the Zipf tail after them is made of syllables.
const FREQUENT: &str = "the to and a of in is that for this it with on be not I as we you are from error file \
    test so if can by an or will was now but all have let when run need use code at which \
    function only fix there what then new check has should change no do one same into line \
    first add more up out make because value does next after where name still type call also \
    build set path before see way two any data just like how get read write were would they \
    server list using key return each look instead its than other index case both command \
    output result version migration config request message session user number works already \
    string object find time here existing between without module tests update failing schema \
    state missing wrong order since once issue while current default empty cache table these \
    passes parser client query field directory method found left must process changes being \
    end option seems sure actually start expected keep through another branch token commit \
    handle some row second response correct point looks log part been over right root cause \
    every search three might window long entry create page compile remove failed size \
    project column small script likely show limit clear single retry under whole known \
    timeout feature review service rather safe stream inside short lock last writer buffer \
    reader thread memory remote local worker queue event release package import export plan \
    summary context task agent tool model prompt answer question week morning meeting note \
    reminder calendar mail invoice weather travel budget draft deploy monitor metric graph \
    latency";

const ONSETS: &[&str] = &[
    "b", "br", "c", "ch", "cl", "con", "d", "de", "dr", "ex", "f", "fl", "g", "gr", "h", "in", "j",
    "l", "m", "n", "p", "pl", "pr", "qu", "r", "re", "s", "sp", "st", "sub", "t", "th", "tr", "un",
    "v", "w",
];
const NUCLEI: &[&str] = &["a", "e", "i", "o", "u", "ai", "ea", "ee", "io", "ou"];
const CODAS: &[&str] = &[
    "", "b", "ck", "d", "l", "ll", "m", "n", "nd", "ng", "nt", "p", "r", "rd", "rt", "s", "ss",
    "st", "t", "tion", "ture", "ment", "ble", "ing", "ed", "ly",
];

const N_WORDS: usize = 4096;
const N_IDENTIFIERS: usize = 6000;
/// The sampling table has 2 to this power entries, each equally likely. Sampling a word costs one
/// lookup.
const TABLE_BITS: u32 = 16;

/// The words and identifiers that a home is written with.
pub(crate) struct Vocabulary {
    words: Vec<String>,
    identifiers: Vec<String>,
    word_table: Vec<u16>,
    identifier_table: Vec<u16>,
}

impl Vocabulary {
    /// Makes the vocabulary. It does not depend on the seed of the home.
    pub(crate) fn new() -> Self {
        let mut prng = Prng::new(0x7175_6970_7500);
        let mut words: Vec<String> = Vec::with_capacity(N_WORDS);
        let mut known = std::collections::HashSet::new();
        for word in FREQUENT.split_whitespace() {
            if known.insert(word.to_owned()) {
                words.push(word.to_owned());
            }
        }
        while words.len() < N_WORDS {
            let mut word = String::new();
            for _ in 0..prng.between(1, 3) {
                word.push_str(prng.pick(ONSETS));
                word.push_str(prng.pick(NUCLEI));
            }
            word.push_str(prng.pick(CODAS));
            if word.len() >= 4 && known.insert(word.clone()) {
                words.push(word);
            }
        }
        let identifiers = (0..N_IDENTIFIERS)
            .map(|_| {
                let parts = prng.between(1, 3);
                let camel = prng.chance(230);
                let mut identifier = String::new();
                for part in 0..parts {
                    // Skips the hundred most frequent words, which few names contain.
                    let word = &words[100 + prng.skewed(0, N_WORDS - 101)];
                    if part > 0 && !camel {
                        identifier.push('_');
                    }
                    if part > 0 && camel {
                        push_capitalised(&mut identifier, word);
                    } else {
                        identifier.push_str(word);
                    }
                }
                identifier
            })
            .collect();
        Self {
            words,
            identifiers,
            word_table: zipf_table(N_WORDS, 1.0),
            identifier_table: zipf_table(N_IDENTIFIERS, 0.9),
        }
    }

    /// Returns a word, frequent ones more often.
    fn word(&self, prng: &mut Prng) -> &str {
        &self.words[usize::from(self.word_table[prng.below(1 << TABLE_BITS)])]
    }

    /// Returns a name in the form of an identifier.
    fn identifier(&self, prng: &mut Prng) -> &str {
        &self.identifiers[usize::from(self.identifier_table[prng.below(1 << TABLE_BITS)])]
    }
}

/// The language of one project: the vocabulary, and the names and phrases that it repeats.
///
/// Without repetition, transcripts would compress far worse than real ones do.
pub(crate) struct Topic<'a> {
    vocabulary: &'a Vocabulary,
    phrases: Vec<String>,
    identifiers: Vec<&'a str>,
}

impl<'a> Topic<'a> {
    /// Chooses the names and phrases of a project.
    pub(crate) fn new(vocabulary: &'a Vocabulary, prng: &mut Prng) -> Self {
        let identifiers = (0..220).map(|_| vocabulary.identifier(prng)).collect();
        let phrases = (0..500)
            .map(|_| {
                let mut phrase = String::new();
                for i in 0..prng.between(3, 9) {
                    if i > 0 {
                        phrase.push(' ');
                    }
                    phrase.push_str(vocabulary.word(prng));
                }
                phrase
            })
            .collect();
        Self { vocabulary, phrases, identifiers }
    }

    /// Returns a word, frequent ones more often.
    pub(crate) fn word(&self, prng: &mut Prng) -> &'a str {
        self.vocabulary.word(prng)
    }

    /// Returns a name in the form of an identifier, most often one of the project's own.
    pub(crate) fn identifier(&self, prng: &mut Prng) -> &'a str {
        if prng.chance(880) {
            self.identifiers[prng.skewed(0, self.identifiers.len() - 1)]
        } else {
            self.vocabulary.identifier(prng)
        }
    }

    /// Returns a phrase that the project repeats.
    fn phrase(&self, prng: &mut Prng) -> &str {
        &self.phrases[prng.skewed(0, self.phrases.len() - 1)]
    }

    /// Appends a path below a project, without a leading slash.
    pub(crate) fn push_path(&self, prng: &mut Prng, out: &mut String) {
        out.push_str(prng.pick(&[
            "src/",
            "crates/core/src/",
            "tests/",
            "packages/web/src/",
            "lib/",
        ]));
        for _ in 0..prng.below(2) {
            out.push_str(self.identifier(prng));
            out.push('/');
        }
        out.push_str(self.identifier(prng));
        out.push_str(prng.pick(&[".rs", ".ts", ".py", ".go", ".tsx", ".md", ".toml"]));
    }

    /// Appends about `n_words` words in lower case, without punctuation.
    pub(crate) fn push_phrase(&self, prng: &mut Prng, out: &mut String, n_words: usize) {
        if prng.chance(650) {
            out.push_str(self.phrase(prng));
            return;
        }
        for i in 0..n_words {
            if i > 0 {
                out.push(' ');
            }
            out.push_str(self.word(prng));
        }
    }

    /// Appends a person's prompt or an agent's remark: a few words if `target` is below 120 bytes,
    /// or else sentences.
    pub(crate) fn push_remark(&self, prng: &mut Prng, out: &mut String, target: usize) {
        if target < 120 {
            self.push_phrase(prng, out, 6);
        } else {
            self.push_prose(prng, out, target);
        }
    }

    /// Appends about `target` bytes of sentences, paragraphs and short lists.
    pub(crate) fn push_prose(&self, prng: &mut Prng, out: &mut String, target: usize) {
        let end = out.len() + target;
        // Most sentences repeat the subjects of the text.
        let subjects: [&str; 3] = std::array::from_fn(|_| self.identifier(prng));
        let matters: [&str; 5] = std::array::from_fn(|_| self.phrase(prng));
        loop {
            let sentence_from = out.len();
            let n_parts = prng.between(3, 10);
            for i in 0..n_parts {
                if i > 0 {
                    out.push_str(if prng.chance(100) { ", " } else { " " });
                }
                match prng.below(100) {
                    0..=7 => {
                        out.push('`');
                        out.push_str(prng.pick(&subjects));
                        out.push('`');
                    }
                    8..=27 => out.push_str(prng.pick(&matters)),
                    28..=58 => out.push_str(self.phrase(prng)),
                    _ => out.push_str(self.word(prng)),
                }
            }
            if let Some(first) = out[sentence_from..].chars().next() {
                let upper = first.to_ascii_uppercase();
                out.replace_range(
                    sentence_from..sentence_from + first.len_utf8(),
                    upper.encode_utf8(&mut [0; 4]),
                );
            }
            out.push_str(prng.pick(&[".", ".", ".", ".", ":", "?"]));
            if out.len() >= end {
                return;
            }
            out.push_str(prng.pick(&[" ", " ", " ", "\n\n", "\n- ", "\n1. "]));
        }
    }
}

/// Appends a word with a capital letter.
pub(crate) fn push_capitalised(out: &mut String, word: &str) {
    let mut chars = word.chars();
    if let Some(first) = chars.next() {
        out.push(first.to_ascii_uppercase());
        out.push_str(chars.as_str());
    }
}

/// Returns a table in which the share of entries with rank `r` falls as `1 / r^exponent`.
fn zipf_table(n_ranks: usize, exponent: f64) -> Vec<u16> {
    let weight = |rank: usize| 1.0 / ((rank + 2) as f64).powf(exponent);
    let total: f64 = (0..n_ranks).map(weight).sum();
    let n_places = 1usize << TABLE_BITS;
    let mut table = Vec::with_capacity(n_places);
    let mut cumulated = 0.0;
    for rank in 0..n_ranks {
        cumulated += weight(rank);
        let until = (cumulated / total * n_places as f64).round() as usize;
        while table.len() < until {
            table.push(rank as u16);
        }
    }
    table.resize(n_places, 0);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_word_is_frequent_and_the_tail_is_long() {
        let (vocabulary, mut prng) = (Vocabulary::new(), Prng::new(3));
        let topic = Topic::new(&vocabulary, &mut prng);
        let mut text = String::new();
        topic.push_prose(&mut prng, &mut text, 200_000);
        let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        let share = words.iter().filter(|word| **word == "the").count() * 1000 / words.len();
        assert!((20..80).contains(&share), "{share} of 1000 words are `the`");
        let distinct: std::collections::HashSet<_> = words.iter().collect();
        assert!(distinct.len() > 2000, "{} distinct words", distinct.len());
    }
}
