//! Keeps the layers of this crate apart: each folder of `src` uses only those before it in
//! [`LAYERS`]. ARCHITECTURE.md says what each is for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers, the lowest first.
const LAYERS: [&str; 9] =
    ["base", "file", "truth", "wire", "project", "read", "collect", "store", "ops"];

/// One path that some code names: `crate::base::ids::Seq` is `["base", "ids", "Seq"]`.
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

/// Reads a tree as it stands in a `use`: `a::b`, `a::{b, c::d}`. Returns what follows it.
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
                // An alias.
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

fn height(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

#[test]
fn no_layer_uses_one_above_it() {
    let exported = exported();
    let mut wrong = Vec::new();
    for (file, module) in modules() {
        let name = file.strip_prefix(source()).unwrap().display().to_string();
        let Some(own) = height(&module[0]) else {
            wrong.push(format!("{name}: is in no layer; move it into one of {LAYERS:?}"));
            continue;
        };
        for Import { line, path } in imports(&fs::read_to_string(&file).unwrap(), &module) {
            let Some(first) = path.first() else { continue };
            let layer = exported.get(first).unwrap_or(first);
            match height(layer) {
                Some(used) if used <= own => {}
                Some(_) => wrong.push(format!(
                    "{name}:{line}: `{}` stands below `{layer}` and may not use `{}`",
                    LAYERS[own],
                    path.join("::")
                )),
                None => wrong.push(format!("{name}:{line}: `{first}` is no layer")),
            }
        }
    }
    assert!(wrong.is_empty(), "imports point upwards:\n{}", wrong.join("\n"));
}

#[test]
fn paths_are_read_out_of_source_text() {
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
