//! Generates the output of tools: source code, logs, test runs, listings, diffs, traces.
//!
//! Lines come from templates, so that they compress like real output does:
//! the frame of a line repeats, its names and numbers do not.

use super::json::push_display;
use super::prng::Prng;
use super::scene::Scene;
use super::vocabulary::{Topic, push_capitalised};

/// Templates of lines. A `%` sign and a letter are placeholders: `i` identifier, `T` type, `w`
/// word, `s` short phrase, `n` number, `d` three digits, `p` path, `h` hexadecimal.
const CODE: &[&str] = &[
    "    let %i = self.%i.%i(%i)?;",
    "    let mut %i = Vec::with_capacity(%n);",
    "pub fn %i(%i: &%T, %i: usize) -> Result<%T> {",
    "}",
    "",
    "    /// %s %s.",
    "        if %i.is_empty() || %i.len() > %n {",
    "            return Err(%T::%T { %i, %i });",
    "        }",
    "    for (%i, %i) in %i.iter().enumerate() {",
    "    // %s %s",
    "        %T::%T => %i.%i(\"%w\"),",
    "const %i = await %i.%i({ %i, %i: %n });",
    "export async function %i(%i: %T): Promise<%T> {",
    "  return %i.map((%i) => %i.%i).filter(Boolean);",
    "    def %i(self, %i: str, %i: int = %n) -> %T:",
    "        \"\"\"%s %s.\"\"\"",
    "        self._%i = %i.get(\"%i\", None)",
    "use crate::%i::{%T, %T};",
    "import { %T, %i } from '../%i/%i';",
    "    assert_eq!(%i.%i(%n), \"%w %w\");",
    "    };",
    "  },",
    "        match %i.%i() {",
    "#[derive(Debug, Clone)]",
    "pub struct %T {",
    "    pub %i: Option<%T>,",
];

const LOG: &[&str] = &[
    "2026-02-1%n %d:%d  INFO %i::%i: %s %i=%n",
    "[%d] DEBUG %i request_id=%h %s",
    "WARN  %i.%i - %s (attempt %n, %dms)",
    "%d ms  GET /api/%i/%n?%i=%w 200 %n bytes",
    "ERROR %i: %s: %w %w",
    "   Compiling %i v0.%n.%d (/home/dev/work/%i)",
    "info: [%i] %s in %d ms",
    "{\"level\":\"info\",\"target\":\"%i\",\"%i\":%n,\"message\":\"%s\"}",
];

const TEST_RUN: &[&str] = &[
    "test %i::%i::%i ... ok",
    "test %i::tests::%i ... ok",
    "test %i::tests::%i ... FAILED",
    "  ✓ %s (%d ms)",
    "tests/%i_test.py::test_%i PASSED",
    "--- PASS: Test%T (0.%ds)",
    "ok  \tgithub.com/acme/%i/%i\t0.%ds",
];

const TRACE: &[&str] = &[
    "thread '%i' panicked at %p:%n:%n:",
    "called `Result::unwrap()` on an `Err` value: %T { %i: %n, %i: \"%w\" }",
    "  %n: %i::%i::%T::%i",
    "             at ./%p:%n:%n",
    "    at %T.%i (/home/dev/work/node_modules/%i/dist/%i.js:%n:%n)",
    "  File \"/home/dev/work/%p\", line %n, in %i",
    "    raise %T(f\"%s\")",
    "error[E0%d]: %s `%i`",
    "  --> %p:%n:%n",
];

const SEARCH: &[&str] = &["%p:%n:    %i.%i(%i, %n)", "%p:%n:pub fn %i(%i: %T)", "%p:%n:// %s"];

const LISTING: &[&str] = &["-rw-r--r--  1 dev dev  %n Feb 1%d %i.rs", "%p", "%h %s", " M %p"];

const DIFF: &[&str] = &[
    "@@ -%n,%n +%n,%n @@ fn %i",
    "-    let %i = %i.%i(%n);",
    "+    let %i = %i.%i(%i, %n)?;",
    "     %i.%i();",
    "diff --git a/%p b/%p",
];

/// The kind of a tool's output.
#[derive(Clone, Copy)]
pub(crate) enum Material {
    Code,
    Log,
    TestRun,
    Trace,
    Search,
    Listing,
    Diff,
}

impl Material {
    /// Returns the kind of output that a shell command shows.
    pub(crate) fn of_shell(prng: &mut Prng) -> Self {
        match prng.below(10) {
            0..=2 => Self::Log,
            3..=5 => Self::TestRun,
            6 => Self::Trace,
            7 => Self::Listing,
            8 => Self::Diff,
            _ => Self::Search,
        }
    }

    /// Returns the number of names that lines share; the hits of one search are about the same
    /// name.
    fn n_names(self) -> usize {
        match self {
            Self::Search => 4,
            _ => 7,
        }
    }

    fn templates(self) -> &'static [&'static str] {
        match self {
            Self::Code => CODE,
            Self::Log => LOG,
            Self::TestRun => TEST_RUN,
            Self::Trace => TRACE,
            Self::Search => SEARCH,
            Self::Listing => LISTING,
            Self::Diff => DIFF,
        }
    }
}

/// Appends about `target` bytes of `material`, the last line without a newline.
pub(crate) fn push_material(
    material: Material,
    words: &Topic<'_>,
    prng: &mut Prng,
    out: &mut String,
    target: usize,
) {
    let end = out.len() + target;
    let mut scene = Scene::new(words, prng, out.len(), material.n_names());
    loop {
        scene.follow(prng, out.len());
        push_line(prng.pick(material.templates()), &scene, prng, out);
        if out.len() >= end {
            return;
        }
        out.push('\n');
    }
}

/// Appends lines `from..` of `text` as a reading tool shows them, each with its number.
pub(crate) fn push_numbered(out: &mut String, text: &str, from: usize, n_lines: usize) {
    for (i, line) in text.lines().enumerate().skip(from).take(n_lines) {
        push_display(out, format_args!("{:>6}→{line}\n", i + 1));
    }
}

fn push_line(template: &str, scene: &Scene<'_>, prng: &mut Prng, out: &mut String) {
    let mut parts = template.split('%');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let mut chars = part.chars();
        match chars.next() {
            Some('i') => out.push_str(scene.name(prng)),
            Some('T') => push_type(scene.name(prng), out),
            Some('w') => out.push_str(scene.word(prng)),
            Some('s') => scene.push_phrase(prng, out),
            Some('n') => {
                // Most numbers in code and logs are small ones.
                let high = if prng.chance(700) { 64 } else { 5000 };
                let number = prng.skewed(0, high);
                push_display(out, format_args!("{number}"));
            }
            Some('d') => {
                let number = prng.skewed(0, 999);
                push_display(out, format_args!("{number:03}"));
            }
            Some('p') => scene.push_path(prng, out),
            Some('h') => prng.push_hex(out, 8),
            _ => {}
        }
        out.push_str(chars.as_str());
    }
}

/// Appends a name in the form of a type's name.
fn push_type(name: &str, out: &mut String) {
    for part in name.split('_') {
        push_capitalised(out, part);
    }
}
