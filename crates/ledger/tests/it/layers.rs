//! Keeps the layers of this crate apart: each folder of `src` uses only those before it in
//! [`LAYERS`]. ARCHITECTURE.md describes each layer.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers, in the order of the table in ARCHITECTURE.md.
const LAYERS: [&str; 9] =
    ["base", "file", "truth", "wire", "project", "read", "collect", "store", "ops"];

/// A path that some code names: `crate::base::ids::Seq` is `["base", "ids", "Seq"]`.
#[derive(Debug)]
struct Import {
    line: usize,
    path: Vec<String>,
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns all source files with their module paths, `lib.rs` left out.
fn modules() -> Vec<(PathBuf, Vec<String>)> {
    let (mut found, mut folders) = (Vec::new(), vec![source()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(source()).unwrap().with_extension("");
                let mut module: Vec<String> =
                    relative.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
                if module.last().is_some_and(|last| last == "mod") {
                    module.pop();
                }
                if module != ["lib"] {
                    found.push((path, module));
                }
            }
        }
    }
    found.sort();
    found
}

/// Returns every path of this crate that `text`, the source of `module`, names. Comments count:
/// a link in the documentation is a dependency of the reader.
fn imports(text: &str, module: &[String]) -> Vec<Import> {
    let mut found = Vec::new();
    for (number, word) in text.match_indices("crate::").chain(text.match_indices("super::")) {
        let before = text[..number].chars().next_back();
        let is_inner =
            before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$');
        if is_inner {
            continue;
        }
        let mut rest = &text[number + word.len()..];
        let mut base: Vec<String> = Vec::new();
        if word == "super::" {
            base = module[..module.len() - 1].to_vec();
            while let Some(further) = rest.strip_prefix("super::") {
                base.pop();
                rest = further;
            }
        }
        let line = text[..number].matches('\n').count() + 1;
        let mut paths = Vec::new();
        tree(rest, base, &mut paths);
        found.extend(paths.into_iter().map(|path| Import { line, path }));
    }
    found
}

/// Parses a tree of a `use`: `a::b`, `a::{b, c::d}`. Returns the text after it.
fn tree<'t>(text: &'t str, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> &'t str {
    let mut rest = text.trim_start();
    loop {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
        if let Some(list) = rest.strip_prefix('{') {
            rest = list;
            loop {
                rest = tree(rest, path.clone(), paths).trim_start();
                // Skips an alias.
                if let Some(alias) = rest.strip_prefix("as ") {
                    rest = alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
                }
                match rest.chars().next() {
                    Some(',') => rest = rest[1..].trim_start(),
                    Some('}') => return &rest[1..],
                    _ => return rest,
                }
                if let Some(rest) = rest.strip_prefix('}') {
                    return rest;
                }
            }
        }
        match rest.strip_prefix("::") {
            Some(further) => rest = further,
            None => {
                paths.push(path);
                return rest.strip_prefix('*').unwrap_or(rest);
            }
        }
    }
}

/// Returns the layer of each name that `lib.rs` exports at the root of the crate.
fn exported() -> BTreeMap<String, String> {
    let text = fs::read_to_string(source().join("lib.rs")).unwrap();
    let mut layers = BTreeMap::new();
    for statement in text.split("pub use ").skip(1) {
        let mut paths = Vec::new();
        tree(statement, Vec::new(), &mut paths);
        for path in paths {
            layers.insert(path.last().unwrap().clone(), path[0].clone());
        }
    }
    layers
}

fn position(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

#[test]
fn no_layer_uses_a_later_one() {
    let exported = exported();
    let mut wrong = Vec::new();
    for (file, module) in modules() {
        let name = file.strip_prefix(source()).unwrap().display().to_string();
        let Some(own) = position(&module[0]) else {
            wrong.push(format!("{name}: is in no layer; move it into one of {LAYERS:?}"));
            continue;
        };
        for Import { line, path } in imports(&fs::read_to_string(&file).unwrap(), &module) {
            let Some(first) = path.first() else { continue };
            let layer = exported.get(first).unwrap_or(first);
            match position(layer) {
                Some(used) if used <= own => {}
                Some(_) => wrong.push(format!(
                    "{name}:{line}: `{}` comes before `{layer}` and may not use `{}`",
                    LAYERS[own],
                    path.join("::")
                )),
                None => wrong.push(format!("{name}:{line}: `{first}` is not a layer")),
            }
        }
    }
    assert!(wrong.is_empty(), "imports from a later layer:\n{}", wrong.join("\n"));
}

/// Returns what each line of SQL in the code of `layers` does to a table: file and line, the words
/// before the table's name (`INSERT INTO`, `UPDATE`, `FROM` …) and that name. Unit tests are left
/// out, and so are schema and migrations (`*.sql`).
fn sql_of(layers: &[&str]) -> Vec<(String, &'static str, String)> {
    const VERBS: [&str; 5] = ["INTO", "UPDATE", "DELETE FROM", "FROM", "JOIN"];
    let mut found = Vec::new();
    for (file, module) in modules() {
        if !layers.contains(&module[0].as_str()) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            for verb in VERBS {
                for (at, _) in line.match_indices(&format!("{verb} ")) {
                    let before = line[..at].trim_end();
                    if verb == "FROM" && before.ends_with("DELETE") {
                        continue;
                    }
                    let rest = &line[at + verb.len() + 1..];
                    let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
                    let table = rest[..end.unwrap_or(rest.len())].to_owned();
                    let name = file.strip_prefix(source()).unwrap().display();
                    found.push((format!("{name}:{}", number + 1), verb, table));
                }
            }
        }
    }
    found
}

/// Fails with a list of the uses of tables that break a rule.
fn check_sql(layers: &[&str], rule: &str, breaks: impl Fn(&str, &str, &str) -> bool) {
    let statements = sql_of(layers);
    assert!(statements.len() > 10, "no SQL was found in the source text");
    let wrong: Vec<String> = statements
        .into_iter()
        .filter(|(place, verb, table)| breaks(place, verb, table))
        .map(|(place, verb, table)| format!("{place}: {verb} {table}"))
        .collect();
    assert!(wrong.is_empty(), "{rule}:\n{}", wrong.join("\n"));
}

#[test]
fn one_module_writes_the_tables_of_sources_and_generations() {
    let rule = "only truth/sources.rs writes `sources` and `generations`";
    check_sql(&LAYERS, rule, |place, verb, table| {
        let is_write = matches!(verb, "INTO" | "UPDATE" | "DELETE FROM");
        is_write
            && matches!(table, "sources" | "generations")
            && !place.starts_with("truth/sources.rs:")
    });
}

#[test]
fn truth_and_collecting_name_no_table_of_the_projection() {
    let schema = fs::read_to_string(source().join("file/schema/projection.sql")).unwrap();
    let tables: Vec<&str> = ["CREATE TABLE ", "CREATE VIEW ", "CREATE VIRTUAL TABLE "]
        .iter()
        .flat_map(|create| schema.split(create).skip(1))
        .map(|rest| rest.split_whitespace().next().unwrap())
        .collect();
    assert!(tables.contains(&"session_sources") && tables.contains(&"search"));
    let rule = "what truth holds does not depend on what was understood: ask `project`";
    // `file` compares the versions that a projection was derived with, to open or refuse a ledger.
    check_sql(&["truth", "collect"], rule, |_, _, table| tables.contains(&table));
}

#[test]
fn forgetting_enters_collecting_by_one_file() {
    let mut wrong = Vec::new();
    for (file, module) in modules() {
        let name = file.strip_prefix(source()).unwrap().display().to_string();
        if module[0] != "collect" || name == "collect/forgotten.rs" {
            continue;
        }
        for Import { line, path } in imports(&fs::read_to_string(&file).unwrap(), &module) {
            if path.starts_with(&["truth".to_owned(), "forgotten".to_owned()]) {
                wrong.push(format!("{name}:{line}: {}", path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "ask collect/forgotten.rs:\n{}", wrong.join("\n"));
}

#[test]
fn paths_are_found_in_source_text() {
    let module = ["read", "query", "find"].map(str::to_owned);
    let text = "use crate::base::{self, ids::{Seq, EntryId as Id}, clock};\n\
                use super::sessions;\nuse super::super::search::*;\n\
                fn f() { crate::store::by_key(\"not_crate::x\") }\n";
    let found: Vec<String> = imports(text, &module)
        .iter()
        .map(|import| format!("{} {}", import.line, import.path.join("::")))
        .collect();
    let expected = [
        "1 base::self",
        "1 base::ids::Seq",
        "1 base::ids::EntryId",
        "1 base::clock",
        "4 store::by_key",
        "2 read::query::sessions",
        "3 read::search",
    ];
    assert_eq!(found, expected);
}

/// Returns the dependencies of each crate of the workspace, without those of its tests.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let (mut names, mut is_dependency) = (Vec::new(), false);
        for line in manifest.lines() {
            if line.starts_with('[') {
                is_dependency = line.ends_with("dependencies]") && line != "[dev-dependencies]";
            } else if let (true, Some(end)) = (is_dependency, line.find(['.', ' ', '='])) {
                names.push(line[..end].to_owned());
            }
        }
        found.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), names);
    }
    found
}

/// The crates, each with those that it may use. ARCHITECTURE.md describes them.
const CRATES: [(&str, &[&str]); 7] = [
    ("transcript", &[]),
    ("fts5", &[]),
    ("ledger", &["quipu-fts5", "quipu-transcript"]),
    ("gateway", &["quipu-ledger", "quipu-transcript"]),
    ("cli", &["quipu-gateway", "quipu-ledger", "quipu-transcript"]),
    ("bench", &["quipu-ledger"]),
    ("torture", &[]),
];

#[test]
fn no_crate_uses_a_later_one() {
    let dependencies = dependencies();
    let known: Vec<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    assert!(dependencies.keys().all(|name| known.contains(&name.as_str())), "{dependencies:?}");
    for (name, allowed) in CRATES {
        let own = dependencies[name].iter().filter(|used| used.starts_with("quipu-"));
        let own: Vec<&str> = own.map(String::as_str).collect();
        assert_eq!(own, allowed, "{name}");
    }
}

/// SQL is only in the ledger and its index, and asynchronous code only in the gateway.
#[test]
fn sql_and_async_code_stay_in_their_crates() {
    let homes: [(&str, &[&str]); 3] = [
        ("rusqlite", &["fts5", "ledger", "torture"]),
        ("tokio", &["gateway"]),
        ("clap", &["bench", "cli", "torture"]),
    ];
    let dependencies = dependencies();
    for (used, allowed) in homes {
        let users = dependencies.iter().filter(|(_, names)| names.iter().any(|name| name == used));
        let users: Vec<&str> = users.map(|(name, _)| name.as_str()).collect();
        assert_eq!(users, allowed, "{used}");
    }
}

/// The table of dependencies in ARCHITECTURE.md names every crate from elsewhere, and no other.
#[test]
fn every_dependency_has_a_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(folder.join("ARCHITECTURE.md")).unwrap();
    let table = page.split("## Dependencies").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut explained: Vec<&str> = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.split('|').nth(1).unwrap();
        explained.extend(cell.split('`').skip(1).step_by(2));
    }
    explained.retain(|name| *name != "quipu-ledger" && *name != "schema");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let list = manifest.split("[workspace.dependencies]").nth(1).unwrap();
    let list = list.split("\n[").next().unwrap();
    let is_name = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase());
    let names = list.lines().filter(is_name).filter_map(|line| line.split(' ').next());
    let mut used: Vec<&str> = names.filter(|name| !name.starts_with("quipu-")).collect();
    explained.sort_unstable();
    used.sort_unstable();
    assert_eq!(explained, used);
}
