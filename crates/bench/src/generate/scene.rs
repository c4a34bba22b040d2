//! The topic of one stretch of output: a function, a request, a failing test.
//!
//! Within it the same few names, paths and remarks are repeated, as in real code, logs and
//! listings. Without scenes every line would be new, and an entry would have half as many repeated
//! words as in real sessions.

use super::prng::Prng;
use super::vocabulary::Topic;

/// The length in bytes of about one function, after which the next scene begins.
const SCENE_BYTES: usize = 2000;

const N_PATHS: usize = 3;
const N_PHRASES: usize = 5;

/// The names, paths and phrases that lines repeat.
pub(crate) struct Scene<'a> {
    words: &'a Topic<'a>,
    names: Vec<&'a str>,
    paths: Vec<String>,
    phrases: Vec<String>,
    /// The length of the text at which the scene changes.
    until: usize,
}

impl<'a> Scene<'a> {
    /// Begins a scene of `n_names` names at length `at` of a text.
    pub(crate) fn new(words: &'a Topic<'a>, prng: &mut Prng, at: usize, n_names: usize) -> Self {
        let mut scene =
            Self { words, names: Vec::new(), paths: Vec::new(), phrases: Vec::new(), until: 0 };
        scene.names.extend((0..n_names).map(|_| words.identifier(prng)));
        scene.paths.extend((0..N_PATHS).map(|_| path(words, prng)));
        scene.phrases.extend((0..N_PHRASES).map(|_| phrase(words, prng)));
        scene.until = at + SCENE_BYTES / 2 + prng.below(SCENE_BYTES);
        scene
    }

    /// Starts the next scene if this one is long enough; some of the names stay.
    pub(crate) fn follow(&mut self, prng: &mut Prng, at: usize) {
        if at < self.until {
            return;
        }
        for name in self.names.iter_mut().skip(3) {
            *name = self.words.identifier(prng);
        }
        if let Some(last) = self.paths.last_mut() {
            *last = path(self.words, prng);
        }
        for remark in self.phrases.iter_mut().skip(1) {
            *remark = phrase(self.words, prng);
        }
        self.until = at + SCENE_BYTES / 2 + prng.below(SCENE_BYTES);
    }

    /// Returns a name, most often one of the scene's.
    pub(crate) fn name(&self, prng: &mut Prng) -> &'a str {
        if prng.chance(920) {
            self.names[prng.skewed(0, self.names.len() - 1)]
        } else {
            self.words.identifier(prng)
        }
    }

    /// Appends a path, most often one of the scene's.
    pub(crate) fn push_path(&self, prng: &mut Prng, out: &mut String) {
        if prng.chance(850) {
            out.push_str(&self.paths[prng.skewed(0, self.paths.len() - 1)]);
        } else {
            self.words.push_path(prng, out);
        }
    }

    /// Appends a short phrase, most often one of the scene's.
    pub(crate) fn push_phrase(&self, prng: &mut Prng, out: &mut String) {
        if prng.chance(700) {
            out.push_str(&self.phrases[prng.skewed(0, self.phrases.len() - 1)]);
        } else {
            let n_words = prng.between(2, 6);
            self.words.push_phrase(prng, out, n_words);
        }
    }

    /// Returns a word.
    pub(crate) fn word(&self, prng: &mut Prng) -> &'a str {
        if prng.chance(500) { self.name(prng) } else { self.words.word(prng) }
    }
}

fn path(words: &Topic<'_>, prng: &mut Prng) -> String {
    let mut path = String::new();
    words.push_path(prng, &mut path);
    path
}

fn phrase(words: &Topic<'_>, prng: &mut Prng) -> String {
    let mut phrase = String::new();
    let n_words = prng.between(2, 6);
    words.push_phrase(prng, &mut phrase, n_words);
    phrase
}
