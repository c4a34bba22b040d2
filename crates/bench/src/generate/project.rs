//! The projects of the sessions: a folder, a branch, source files that are read and edited
//! repeatedly, and commands that are run repeatedly. Real transcripts repeat the same bytes because
//! of these.

use super::json::push_display;
use super::material::{Material, push_material};
use super::prng::Prng;
use super::vocabulary::{Topic, Vocabulary};

/// The number of files of a project.
const N_FILES: usize = 20;

/// A folder that several sessions worked in.
pub(crate) struct Project<'a> {
    /// The names and phrases of its sessions.
    pub(crate) words: Topic<'a>,
    /// The absolute path of the folder, on the invented machine of the sessions.
    pub(crate) folder: String,
    pub(crate) branch: String,
    pub(crate) files: Vec<SourceFile>,
    /// Earlier output of its commands.
    outputs: Vec<String>,
}

/// A file of a project, as tools see it.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl<'a> Project<'a> {
    /// Makes the `number`-th project; the number makes its folder unique.
    pub(crate) fn new(number: usize, vocabulary: &'a Vocabulary, prng: &mut Prng) -> Self {
        let words = Topic::new(vocabulary, prng);
        let mut folder = String::from("/home/dev/work/");
        folder.push_str(words.identifier(prng));
        push_display(&mut folder, format_args!("-{number}"));
        let mut branch = String::from(prng.pick(&["feature/", "fix/", "dev/"]));
        branch.push_str(words.identifier(prng));
        let files = (0..N_FILES)
            .map(|number| {
                let mut path = folder.clone();
                path.push('/');
                words.push_path(prng, &mut path);
                let mut text = String::new();
                let size = file_size(number);
                push_material(Material::Code, &words, prng, &mut text, size);
                SourceFile { path, text }
            })
            .collect();
        let outputs = (0..16)
            .map(|_| {
                let mut text = String::new();
                let size = prng.skewed(2_000, 16_000);
                push_material(Material::of_shell(prng), &words, prng, &mut text, size);
                text
            })
            .collect();
        Self { words, folder, branch, files, outputs }
    }

    /// Returns the folder as Claude Code spells it in a name: each character that is not an ASCII
    /// letter or digit becomes a dash. For example `-home-dev-work-parser-7`.
    pub(crate) fn slug(&self) -> String {
        self.folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    }

    /// Returns a file to work on. Most calls return one of the first few files.
    pub(crate) fn file(&self, prng: &mut Prng) -> &SourceFile {
        &self.files[prng.skewed(0, self.files.len() - 1)]
    }

    /// Appends about `target` bytes of a command's output: new text for 200 calls of 1,000, or else
    /// the text of an earlier output.
    pub(crate) fn push_output(&self, prng: &mut Prng, out: &mut String, target: usize) {
        let material = Material::of_shell(prng);
        if prng.chance(200) {
            push_material(material, &self.words, prng, out, target);
            return;
        }
        let before = &self.outputs[prng.skewed(0, self.outputs.len() - 1)];
        let from = out.len();
        while out.len() < from + target {
            let rest = from + target - out.len();
            let until = before.floor_char_boundary(rest);
            out.push_str(&before[..until]);
            out.push('\n');
        }
    }

    /// Appends the lines of `old` with about `n_new` bytes of new code in the middle.
    pub(crate) fn push_edited(&self, prng: &mut Prng, out: &mut String, old: &str, n_new: usize) {
        let half = old.floor_char_boundary(old.len() / 2);
        let at = old[..half].rfind('\n').map_or(0, |at| at + 1);
        out.push_str(&old[..at]);
        push_material(Material::Code, &self.words, prng, out, n_new);
        out.push('\n');
        out.push_str(&old[at..]);
    }
}

/// Returns the size of a project's `number`-th file: most are small, a few are large.
///
/// The size is not random. [`Project::file`] returns the first file for more than a third of the
/// calls, so a random size of that file would decide what a whole session consists of.
fn file_size(number: usize) -> usize {
    // 11 has no common factor with `N_FILES`, so each rank is used once.
    let rank = (number * 11 + 13) % N_FILES;
    let quantile = (rank as f64 + 0.5) / N_FILES as f64;
    1_500 + (quantile.powi(3) * 38_500.0) as usize
}

/// Returns complete lines of a file, up to `at_most` bytes, from a random line on.
pub(crate) fn slice_of<'f>(file: &'f SourceFile, prng: &mut Prng, at_most: usize) -> &'f str {
    let text = &file.text;
    let from = text.floor_char_boundary(prng.below(text.len()));
    let from = text[from..].find('\n').map_or(0, |at| from + at + 1);
    let until = text.floor_char_boundary(from + prng.between(20, at_most.max(21)));
    let until = text[..until].rfind('\n').unwrap_or(0).max(from);
    &text[from..until]
}
