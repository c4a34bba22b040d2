//! The projects that sessions work in: a folder, a branch, and source files that
//! are read again and again, which is why real transcripts repeat themselves.

use super::json::push_display;
use super::material::{Material, push_material};
use super::prng::Prng;
use super::vocabulary::{Topic, Vocabulary};

/// A folder that several sessions worked in.
pub(crate) struct Project<'a> {
    /// What its sessions talk about.
    pub(crate) words: Topic<'a>,
    /// Absolute folder on the machine that the sessions pretend to come from.
    pub(crate) folder: String,
    pub(crate) branch: String,
    pub(crate) files: Vec<SourceFile>,
}

/// A file of a project, as tools see it.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl<'a> Project<'a> {
    /// Makes the `number`-th project; the number keeps folders apart.
    pub(crate) fn new(number: usize, vocabulary: &'a Vocabulary, prng: &mut Prng) -> Self {
        let words = Topic::new(vocabulary, prng);
        let mut folder = String::from("/home/dev/work/");
        folder.push_str(words.identifier(prng));
        push_display(&mut folder, format_args!("-{number}"));
        let mut branch = String::from(prng.pick(&["feature/", "fix/", "dev/"]));
        branch.push_str(words.identifier(prng));
        let files = (0..24)
            .map(|_| {
                let mut path = folder.clone();
                path.push('/');
                words.push_path(prng, &mut path);
                let mut text = String::new();
                let size = prng.skewed(1_500, 40_000);
                push_material(Material::Code, &words, prng, &mut text, size);
                SourceFile { path, text }
            })
            .collect();
        Self { words, folder, branch, files }
    }

    /// Returns the folder's name as Claude Code spells it: each other character is a dash.
    pub(crate) fn slug(&self) -> String {
        self.folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    }

    pub(crate) fn file(&self, prng: &mut Prng) -> &SourceFile {
        &self.files[prng.below(self.files.len())]
    }
}

/// Returns up to `at_most` bytes of a file, whole lines, starting anywhere.
pub(crate) fn slice_of<'f>(file: &'f SourceFile, prng: &mut Prng, at_most: usize) -> &'f str {
    let text = &file.text;
    let from = text.floor_char_boundary(prng.below(text.len()));
    let from = text[from..].find('\n').map_or(0, |at| from + at + 1);
    let until = text.floor_char_boundary(from + prng.between(20, at_most.max(21)));
    let until = text[..until].rfind('\n').unwrap_or(0).max(from);
    &text[from..until]
}
