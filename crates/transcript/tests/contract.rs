//! Tests the promises of every format in `FORMATS`, with the fixtures under its name. An invented
//! format, which is not shipped, shows that one file is all that a new one takes.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be read fails the test")]

#[path = "contract/acme.rs"]
mod acme;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use quipu_transcript::entry::Kind;
use quipu_transcript::format::{Claim, FORMATS, Format, Framing, Node, Part, by_name};
use quipu_transcript::story::{ItemKind, Piece, story_item};
use quipu_transcript::{names, record};

use acme::Acme;

/// Returns every format that is shipped, and the invented one.
fn formats() -> impl Iterator<Item = &'static dyn Format> {
    let invented: &'static dyn Format = &Acme;
    FORMATS.iter().copied().chain([invented])
}

#[test]
fn a_new_format_is_one_file() {
    let path = b"sessions/0a1b2c3d.jsonl";
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/acme/sessions/0a1b2c3d.jsonl");
    let bytes = std::fs::read(fixture).unwrap();
    let origin = Acme.origin(path);
    let mut texts = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let problems = record::read(&Acme, &origin, line, &mut |entry| {
            let item = story_item(&Acme, entry);
            if matches!(item.kind, ItemKind::Message)
                && let [Piece::Words(words)] = &*item.pieces
            {
                texts.push(words.to_string());
            }
        });
        assert_eq!(problems, []);
    }
    assert_eq!(texts, ["Which shelf is empty?", "I look.", "The third one."]);
    // Without a context reader its sessions are read, but not forked.
    assert!(Acme.context().is_none());
    assert!(FORMATS.iter().all(|format| format.context().is_some()));
}

#[test]
fn names_are_unique_and_stable() {
    let mut seen = HashSet::new();
    for format in formats() {
        let name = format.name();
        assert!(seen.insert(name), "{name} twice");
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{name}"
        );
        let is_shipped = name != Acme.name();
        assert_eq!(by_name(name).map(Format::name), is_shipped.then_some(name));
        assert!(!format.title().is_empty() && format.version() > 0, "{name}");
    }
    assert!(by_name("no-such-format").is_none());
}

#[test]
fn every_format_names_its_roots_and_files() {
    for format in formats() {
        assert!(!format.reads().is_empty(), "{}", format.name());
        assert!(
            format
                .reads()
                .iter()
                .all(|(pattern, meaning)| !pattern.is_empty() && !meaning.is_empty())
        );
        assert!(!format.roots().is_empty(), "{}", format.name());
        for root in format.roots() {
            assert!(!root.env.is_empty() && !root.home.is_empty(), "{}", format.name());
            assert!(root.home.iter().all(|home| !home.starts_with('/') && !home.contains("..")));
        }
    }
}

#[test]
fn every_fixture_is_claimed_and_every_folder_above_it_entered() {
    for_each_fixture(|format, path, _| {
        let claim = format.claim(path, Node::File);
        let is_listed = matches!(claim, Claim::Collect(_) | Claim::Probe(_) | Claim::LeaveOut(_));
        assert!(is_listed, "{}: {} is {claim:?}", format.name(), path.escape_ascii());
        if matches!(claim, Claim::LeaveOut(_)) {
            return;
        }
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let folder = &path[..at];
            assert_eq!(
                format.claim(folder, Node::Directory),
                Claim::Enter,
                "{}",
                folder.escape_ascii()
            );
        }
    });
}

#[test]
fn origin_is_stable_and_agrees_with_the_claim() {
    for_each_fixture(|format, path, _| {
        let origin = format.origin(path);
        assert_eq!(origin, format.origin(path));
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap();
        // A note is named by its path inside the workspace.
        assert!(origin.name.as_bytes() == name || origin.part == Part::Note);
        assert!(path.ends_with(origin.name.as_bytes()));
        if let Claim::Collect(part) | Claim::Probe(part) = format.claim(path, Node::File) {
            assert_eq!(origin.part, part, "{}", path.escape_ascii());
            // The session comes from the path, or from the records themselves.
            assert!(
                origin.session.is_some()
                    || origin.agent.is_some()
                    || matches!(part, Part::PromptHistory | Part::CronJobs | Part::CronRuns),
                "{}",
                path.escape_ascii()
            );
        }
    });
}

#[test]
fn two_fixtures_of_one_session_differ_only_in_archive_or_part() {
    for format in formats() {
        let mut seen = HashSet::new();
        for_each_fixture(|of, path, _| {
            let origin = of.origin(path);
            if of.name() == format.name()
                && is_collected(of, path)
                && origin.part.framing() == Framing::Lines
                && origin.session.is_some()
            {
                let key = (origin.agent, origin.session, origin.part, origin.archive);
                assert!(seen.insert(key.clone()), "{key:?}");
            }
        });
    }
}

#[test]
fn every_line_of_every_fixture_decodes() {
    let mut entries = 0;
    for_each_fixture(|format, path, bytes| {
        if !is_collected(format, path) {
            return;
        }
        let origin = format.origin(path);
        let records: Vec<&[u8]> = match origin.part.framing() {
            Framing::Document => vec![bytes],
            // The ledger reads it whole, not record by record.
            Framing::Index | Framing::Rows => return,
            Framing::Lines => bytes.split_inclusive(|byte| *byte == b'\n').collect(),
        };
        for record in records {
            let decoded = decoded_by(format, path, record);
            assert_eq!(decoded, decoded_by(format, path, record), "decoding is pure");
            entries += decoded.len();
        }
    });
    assert!(entries > 50);
}

#[test]
fn every_line_of_every_fixture_survives_being_cut_or_read_as_oversize() {
    for_each_fixture(|format, path, bytes| {
        let origin = format.origin(path);
        if !is_collected(format, path) || origin.part.framing() != Framing::Lines {
            return;
        }
        for line in bytes.split(|byte| *byte == b'\n') {
            for cut in (0..line.len()).step_by(1 + line.len() / 16) {
                record::read(format, &origin, &line[..cut], &mut |_| {});
                record::read_oversize(format, &origin, &line[..cut], 1 << 30, &mut |_| {});
                record::read(format, &origin, &line[cut..], &mut |_| {});
            }
        }
    });
}

#[test]
fn neighbours_on_one_line_are_read_as_neighbours() {
    for_each_neighbours(|format, path, first, second| {
        let mut apart = entries_of(format, path, first);
        apart.extend(entries_of(format, path, second));
        assert_eq!(entries_of(format, path, &[first, second].concat()), apart);
    });
}

#[test]
fn a_torn_record_never_hides_its_neighbour() {
    for_each_neighbours(|format, path, first, second| {
        let alone = entries_of(format, path, second);
        for cut in (1..first.len()).step_by(1 + first.len() / 40) {
            let line = [&first[..cut], second].concat();
            let seen = entries_of(format, path, &line);
            assert_eq!(seen, alone, "{} {}", format.name(), line.escape_ascii());
        }
    });
}

#[test]
fn r8_secrets_are_denied_by_every_format() {
    let secrets = [
        "auth-profiles.json",
        "credentials",
        "identity",
        "devices",
        "telegram",
        "whatsapp",
        "openclaw.json",
        "openclaw.json.bak.2",
        ".credentials.json",
        ".claude.json",
        "settings.json",
        "settings.local.json",
        "server.key",
        "server.pem",
        ".env",
        ".env.local",
        "id_rsa",
        "CREDENTIALS",
        "Server.KEY",
    ];
    let places = [
        "",
        "agents/main/",
        "agents/main/agent/",
        "agents/main/sessions/",
        "projects/-home-a/",
        "projects/-home-a/0f/tool-results/",
    ];
    for format in formats() {
        for secret in secrets {
            for place in places {
                for below in ["", "/x.jsonl", "/deeper/x.jsonl"] {
                    let path = format!("{place}{secret}{below}");
                    assert!(names::is_denied(path.as_bytes()), "{path}");
                    for node in [Node::File, Node::Directory] {
                        assert_eq!(
                            format.claim(path.as_bytes(), node),
                            Claim::Deny,
                            "{}: {path}",
                            format.name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn r8_nothing_outside_the_allow_list_is_opened() {
    for format in formats() {
        for path in [
            "../x.jsonl",
            "agents/../x.jsonl",
            "agents/main/sessions/../x.jsonl",
            "projects/../x.jsonl",
            "/etc/passwd",
            "x.jsonl",
            "a/b/c/d.jsonl",
            "",
            "/",
            "..",
            ".",
        ] {
            let claim = format.claim(path.as_bytes(), Node::File);
            assert!(
                !matches!(claim, Claim::Collect(_) | Claim::Probe(_)),
                "{}: {path} is {claim:?}",
                format.name()
            );
        }
    }
}

#[test]
fn odd_paths_never_panic() {
    for format in formats() {
        for path in [
            &b""[..],
            b"/",
            b"//",
            b"..",
            b".",
            b"../..",
            b"\0",
            b"agents/\0/sessions/\0.jsonl",
            b"\xff\xfe",
            b"agents/\xff/sessions/\xed\xa0\x80.jsonl",
            b"projects/\xff/\xff.jsonl",
            b"agents/main/sessions/.jsonl",
            b"agents//sessions/x.jsonl",
            b"agents/main/sessions/-topic-%.jsonl",
            b"projects//x.jsonl",
        ] {
            for node in [Node::File, Node::Directory] {
                let _ = format.claim(path, node);
            }
            let _ = format.origin(path);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_path_is_answered(path in proptest::collection::vec(any::<u8>(), 0..60), place in 0usize..4) {
        let place: &[u8] = [&b""[..], b"agents/", b"agents/main/sessions/", b"projects/-a/"][place];
        let path = [place, &path].concat();
        for format in formats() {
            let claim = format.claim(&path, Node::File);
            prop_assert_eq!(names::is_denied(&path), claim == Claim::Deny);
            let _ = (format.claim(&path, Node::Directory), format.origin(&path));
        }
    }

    #[test]
    fn any_bytes_decode(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        for_each_part(|format, path| {
            decoded_by(format, path, &line);
        });
    }

    #[test]
    fn any_object_decodes(key in "[a-zA-Z]{1,12}", value in "[\\[\\]{}\":,a-z0-9 ]{0,40}") {
        for_each_part(|format, path| {
            decoded_by(format, path, format!("{{\"type\":\"message\",\"{key}\":{value}}}").as_bytes());
        });
    }
}

/// Returns every two consecutive lines of a fixture that are complete and of types known to the
/// format.
fn for_each_neighbours(mut look: impl FnMut(&'static dyn Format, &[u8], &[u8], &[u8])) {
    for_each_fixture(|format, path, bytes| {
        let origin = format.origin(path);
        if !is_collected(format, path) || origin.part.framing() != Framing::Lines {
            return;
        }
        let mut before: Option<&[u8]> = None;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let is_known = format.decode(&origin, line).is_ok_and(|entry| {
                !matches!(entry.kind, Kind::Unknown) && entry.type_name != "bare"
            });
            if let Some(before) = before
                && is_known
            {
                look(format, path, before, line);
            }
            before = is_known.then_some(line);
        }
    });
}

fn is_collected(format: &dyn Format, path: &[u8]) -> bool {
    matches!(format.claim(path, Node::File), Claim::Collect(_) | Claim::Probe(_))
}

/// Returns the entries of a record, and the bytes that each was decoded from.
fn entries_of(format: &dyn Format, path: &[u8], record: &[u8]) -> Vec<String> {
    let mut entries = Vec::new();
    record::read(format, &format.origin(path), record, &mut |entry| {
        let mut entry = entry.clone();
        let line = record.trim_ascii();
        let part = entry.part.take().map_or(line, |part| &line[part]);
        entries.push(format!("{entry:?} of {}", part.escape_ascii()));
    });
    entries
}

/// Returns one collected path of every part of every format.
fn for_each_part(mut look: impl FnMut(&'static dyn Format, &[u8])) {
    let mut seen = HashSet::new();
    for_each_fixture_path(|format, path, _| {
        if seen.insert((format.name(), format.origin(path).part)) {
            look(format, path);
        }
    });
}

fn decoded_by(format: &dyn Format, path: &[u8], record: &[u8]) -> Vec<String> {
    let mut decoded = Vec::new();
    let problems = record::read(format, &format.origin(path), record, &mut |entry| {
        decoded.push(format!("{entry:?}"))
    });
    decoded.extend(problems.iter().map(|problem| format!("{problem:?}")));
    decoded
}

fn for_each_fixture(mut look: impl FnMut(&'static dyn Format, &[u8], &[u8])) {
    for_each_fixture_path(|format, path, file| {
        let mut bytes = std::fs::read(file).unwrap();
        if format.is_compressed(path) {
            bytes = zstd::decode_all(&bytes[..]).unwrap();
        }
        look(format, path, &bytes);
    });
}

fn for_each_fixture_path(mut look: impl FnMut(&'static dyn Format, &[u8], &Path)) {
    for format in formats() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(format.name());
        // Files at the top describe the fixtures and are none.
        let mut files = files_under(&root);
        files.retain(|file| *file != root.join("README.md"));
        assert!(!files.is_empty(), "{} has no fixtures", format.name());
        for file in files {
            let path = file.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
            look(format, path.as_bytes(), &file);
        }
    }
}

fn files_under(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}
