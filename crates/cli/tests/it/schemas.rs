//! The JSON Schemas: docs/json has what `quipu schema` prints, every command prints what its schema
//! describes, and a name means the same in all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::compact;
use crate::home::{Home, Run, files};

/// Returns the name of each schema: the command with dashes.
fn names() -> Vec<String> {
    let run = Home::empty().run("schema");
    assert_eq!(run.code, 0, "{run}");
    run.stdout.lines().map(|line| line.replace(' ', "-")).collect()
}

/// Returns the folder of the schemas.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json")
}

fn schema(name: &str) -> Value {
    let text = fs::read_to_string(folder().join(format!("{name}.json")));
    serde_json::from_str(&text.unwrap_or_else(|error| panic!("{name}: {error}"))).unwrap()
}

/// Regenerates the schemas and compares them. `just schemas` accepts changes.
#[test]
fn the_documents_are_what_the_command_prints() {
    let home = Home::empty();
    let is_accepted = std::env::var_os("INSTA_UPDATE").is_some_and(|mode| mode == "always");
    let mut files: BTreeSet<String> = ["README.md".to_owned()].into();
    for name in names() {
        let printed = home.run(&format!("schema {}", name.replace('-', " ")));
        assert_eq!(printed.code, 0, "{printed}");
        let file = folder().join(format!("{name}.json"));
        if is_accepted {
            fs::write(&file, &printed.stdout).unwrap();
        }
        let document = fs::read_to_string(&file).unwrap_or_default();
        assert!(document == printed.stdout, "docs/json/{name}.json is not current: `just schemas`");
        jsonschema::draft202012::meta::validate(&schema(&name)).unwrap();
        files.insert(format!("{name}.json"));
    }
    let found = fs::read_dir(folder()).unwrap();
    let found: BTreeSet<String> =
        found.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, files);
}

/// The shapes that a schema allows, and how many objects had each.
struct Shapes {
    all: Vec<(Validator, u64)>,
}

impl Shapes {
    fn of(name: &str) -> Shapes {
        let schema = schema(name);
        let shapes = match schema["anyOf"].as_array() {
            Some(shapes) => shapes.clone(),
            None => vec![schema.clone()],
        };
        let validator = |mut shape: Value| {
            // References lead to the definitions of the document.
            shape["$defs"] = schema.get("$defs").cloned().unwrap_or_default();
            if shape["$defs"].is_null() {
                shape.as_object_mut().unwrap().remove("$defs");
            }
            (jsonschema::draft202012::new(&shape).unwrap(), 0)
        };
        Shapes { all: shapes.into_iter().map(validator).collect() }
    }

    /// Fails if an object has none of the shapes.
    #[track_caller]
    fn check(&mut self, command: &str, object: &Value) {
        for (validator, count) in &mut self.all {
            if validator.is_valid(object) {
                *count += 1;
                return;
            }
        }
        let errors = self.all.iter().map(|(validator, _)| {
            let errors = validator.iter_errors(object);
            let errors = errors.map(|error| format!("  {}: {error}", error.instance_path()));
            errors.collect::<Vec<_>>().join("\n")
        });
        panic!("{command} printed {object}\n{}", errors.collect::<Vec<_>>().join("\nor\n"));
    }
}

/// Runs commands and compares everything they print with the schemas.
struct Checked {
    shapes: BTreeMap<String, Shapes>,
}

impl Checked {
    fn new() -> Checked {
        Checked {
            shapes: names().into_iter().map(|name| (name.clone(), Shapes::of(&name))).collect(),
        }
    }

    /// Checks the output of a command, and its error if it has one.
    #[track_caller]
    fn output(&mut self, name: &str, run: &Run) -> Vec<Value> {
        let shapes = self.shapes.get_mut(name).unwrap_or_else(|| panic!("no schema {name}"));
        let lines = run.stdout.lines().map(|line| {
            let object = serde_json::from_str(line).unwrap_or_else(|_| panic!("{name}: {run}"));
            shapes.check(name, &object);
            object
        });
        let objects = lines.collect();
        if run.code != 0 && !run.stderr.is_empty() {
            let last = run.stderr.lines().last().unwrap();
            let error = serde_json::from_str(last).unwrap_or_else(|_| panic!("{name}: {run}"));
            self.shapes.get_mut("error").unwrap().check(name, &error);
        }
        objects
    }

    /// Runs a command in a home, with arguments without spaces.
    #[track_caller]
    fn run(&mut self, home: &Home, name: &str, arguments: &str) -> Vec<Value> {
        let run = home.run(&format!("{arguments} --json"));
        self.output(name, &run)
    }

    /// Runs a command that follows something, until it has printed a line.
    #[track_caller]
    fn first_line(&mut self, home: &Home, name: &str, arguments: &str) {
        let mut command = home.command(arguments.split(' '));
        let mut child =
            command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let object = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{name}: {line}"));
        self.shapes.get_mut(name).unwrap().check(name, &object);
    }

    /// Fails if a shape was never printed, so that it was not compared.
    fn end(self) {
        let unseen = self.shapes.iter().flat_map(|(name, shapes)| {
            let unseen = shapes.all.iter().enumerate().filter(|(_, (_, count))| *count == 0);
            unseen.map(move |(shape, _)| format!("{name}: shape {shape}"))
        });
        // A repair is overtaken only by a writer that appends while it is planned.
        assert_eq!(unseen.collect::<Vec<_>>(), ["session-repair: shape 1"]);
    }
}

/// Commands that only read, on a ledger with everything.
const READING: &[(&str, &str)] = &[
    ("sessions", "sessions --all"),
    ("projects", "projects"),
    ("show", "show last --full"),
    ("show", "show last --count"),
    ("show", "show b20f --changes"),
    ("show", "show b20f"),
    ("show", "show 0000"),
    ("show", "show b20f --turn 999"),
    ("tree", "tree b20f"),
    ("search", "search herring"),
    ("search", "search the -C 2"),
    ("search", "search --regex [a-z]+ing"),
    ("search", "search xyzzy"),
    ("search", "search \""),
    ("files", "files"),
    ("files", "files --changed"),
    ("files", "files a"),
    ("files", "files xyzzy"),
    ("usage", "usage"),
    ("usage", "usage session --all --by model"),
    ("usage", "usage blocks --all"),
    ("usage", "usage model"),
    ("usage", "usage --since soon"),
    ("notes", "notes"),
    ("notes", "notes MEMORY.md"),
    ("notes", "notes MEMORY.md --diff"),
    ("notes", "notes none.md"),
    ("cron", "cron"),
    ("cron", "cron tide"),
    ("cron", "cron nothing"),
    ("problems", "problems"),
    ("status", "status"),
    ("doctor", "doctor --deep"),
    ("cursors", "cursors"),
    ("formats", "formats"),
    ("config-show", "config show"),
    ("schema", "schema"),
    ("resume", "resume b20f"),
    ("session-context", "session context b20f"),
    ("session-context", "session context b20f --budget 900"),
    ("session-headroom", "session headroom b20f --window 200000"),
    ("session-compact", "session compact b20f --dry-run --keep 0"),
    ("session-branch", "session branch b20f"),
    ("session-label", "session label b20f"),
    ("session-leaf", "session leaf b20f"),
    ("session-meta", "session meta b20f"),
    ("session-keys", "session keys"),
    ("senders-list", "senders list"),
    ("mcp-install", "mcp install codex"),
    ("service-install", "service install --print"),
    ("service-status", "service status"),
];

/// Commands on a ledger that is empty, or absent.
fn on_nothing(checked: &mut Checked, home: &Home) {
    for (name, arguments) in READING {
        checked.run(home, name, arguments);
    }
    checked.run(home, "rebuild", "rebuild");
    checked.run(home, "restore", "restore --all --to files");
    checked.run(home, "export", "export --all --format md --to pages");
    checked.run(home, "forget", "forget 0000");
    checked.run(home, "backup", "backup copy.db");
    checked.run(home, "import", "import .");
    checked.run(home, "sql", "sql SELEC");
}

#[test]
fn every_output_fits_its_schema() {
    let mut checked = Checked::new();
    let nothing = Home::empty();
    on_nothing(&mut checked, &nothing);
    checked.run(&nothing, "overview", "");
    checked.run(&nothing, "sync", "sync");
    on_nothing(&mut checked, &nothing);

    on_the_demo(&mut checked);
    on_every_fixture(&mut checked);
    the_store(&mut checked);
    checked.end();
}

/// Every command that reads, keeps or gives back, on the demo's files.
fn on_the_demo(checked: &mut Checked) {
    let home = Home::empty();
    assert_eq!(checked.run(&home, "demo", "demo --to demo --until 2026-03-08").len(), 1);
    for agent in [".claude", ".openclaw"] {
        for (path, bytes) in files(&home.path("demo/home").join(agent)) {
            home.write(Path::new(agent).join(path), bytes);
        }
    }
    checked.first_line(&home, "watch", "watch");
    checked.run(&home, "sync", "sync");
    checked.run(&home, "overview", "");
    for (name, arguments) in READING {
        checked.run(&home, name, arguments);
    }
    checked.first_line(&home, "tail", "tail b20f");
    checked.first_line(&home, "tail", "tail --events --after start");
    let query = ["sql", "--json", "SELECT s.*, x'00' AS bytes, 1.5 AS real FROM sessions s"];
    checked.output("sql", &home.finish(home.command(query)));
    checked.run(&home, "rebuild", "rebuild");
    checked.run(&home, "restore", "restore --all --to files --generation all");
    checked.run(&home, "export", "export --all --format md --redact --to pages");
    checked.run(&home, "export", "export --all --format openclaw --to state");
    checked.run(&home, "export", "export --all --format openclaw --to state");
    checked.run(&home, "backup", "backup copy.db");
    checked.run(&home, "forget", "forget b20f");
    checked.run(&home, "forget", "forget b20f --yes");
    checked.run(&home, "forget", "forget b20f --yes");
    checked.run(&home, "token-new", "token new laptop");
    checked.run(&home, "token-list", "token list");
    checked.run(&home, "token-revoke", "token revoke laptop");
    checked.first_line(&home, "serve", "serve --no-collect --addr 127.0.0.1:0");
    checked.run(&home, "backup", "backup copy.db --restore --yes");
    checked.run(&home, "service-install", "service install");
    checked.run(&home, "service-status", "service status");
    checked.run(&home, "service-remove", "service remove");
    checked.run(&home, "import", "import state --ledger other.db");
    home.write("state/agents/main/sessions/new.jsonl.lock", "");
    checked.run(&home, "import", "import state --ledger other.db");
}

/// Every session of every fixture, in all detail.
fn on_every_fixture(checked: &mut Checked) {
    let home = Home::full();
    home.write(".openclaw/agents/main/sessions/odd.jsonl", ODD);
    home.write(".claude/projects/-p/11111111-0000-4000-8000-000000000001.jsonl", PICTURE);
    let sessions = checked.run(&home, "sessions", "sessions --all");
    assert!(sessions.len() > 20, "{}", sessions.len());
    for session in &sessions {
        let id = session["session_id"].as_str().unwrap();
        for (name, arguments) in [
            ("show", format!("show {id} --full --no-sync")),
            ("tree", format!("tree {id} --no-sync")),
            ("session-context", format!("session context {id}")),
        ] {
            checked.run(&home, name, &arguments);
        }
    }
    checked.run(&home, "show", "show 11111111 --images pictures");
    for (name, arguments) in [
        ("problems", "problems"),
        ("status", "status"),
        ("cursors", "cursors"),
        ("notes", "notes"),
        ("cron", "cron"),
        ("usage", "usage session --all"),
        ("search", "search --all the"),
        ("doctor", "doctor"),
    ] {
        checked.run(&home, name, arguments);
    }
}

/// The commands of the session store.
fn the_store(checked: &mut Checked) {
    let home = compact::example();
    let id = "example";
    let user = "{\"role\":\"user\",\"content\":\"How?\"}\n";
    let answer = "{\"role\":\"assistant\",\"content\":\"So.\"}\n";
    checked.run(&home, "session-headroom", "session headroom example --window 900");
    checked.run(&home, "session-compact", "session compact example --dry-run --keep 50");
    checked.run(&home, "session-flush", "session flush example --dry-run");
    checked.run(&home, "session-flush", "session flush example");
    let feed = |checked: &mut Checked, name: &str, arguments: &[&str], input: &str| {
        let run = home.feed(&[arguments, &["--json"]].concat(), input);
        checked.output(name, &run)
    };
    let append = ["session", "append", id];
    feed(checked, "session-append", &append, answer);
    feed(checked, "session-append", &[&append[..], &["--expect-leaf", "ffff"]].concat(), user);
    feed(checked, "session-append", &[&append[..], &["--key", "k"]].concat(), user);
    feed(checked, "session-append", &[&append[..], &["--key", "k"]].concat(), user);
    feed(checked, "session-append", &[&append[..], &["--key", "k"]].concat(), answer);
    let compacting = [&append[..], &["--auto-compact", "--window", "900"]].concat();
    feed(checked, "session-append", &compacting, answer);
    checked.run(&home, "session-compact", "session compact example --keep 1000000");
    checked.run(&home, "session-compact", "session compact example --keep 0");
    for (name, arguments) in [
        ("session-begin", "session begin example --text hello"),
        ("session-mirror", "session mirror example sent"),
        ("session-branch", "session branch example --from 00000003"),
        ("session-leaf", "session leaf example 00000005"),
        ("session-label", "session label example 00000003 before"),
        ("session-reset", "session reset example"),
    ] {
        checked.run(&home, name, &format!("{arguments} --expect-leaf ffffffff"));
        checked.run(&home, name, arguments);
    }
    for (name, arguments) in [
        ("session-label", "session label example"),
        ("session-branch", "session branch example"),
        ("session-leaf", "session leaf example"),
        ("session-meta", "session meta example"),
        ("session-repair", "session repair example"),
        ("session-new", "session new --key agent:main:main"),
        ("session-fork", "session fork example"),
        ("session-keys", "session keys"),
        ("session-route", "session route --channel telegram --peer 7 --text hi"),
        ("senders-list", "senders list"),
        ("senders-allow", "senders allow telegram:8"),
        ("senders-deny", "senders deny telegram:8"),
        ("senders-revoke", "senders revoke telegram:8"),
        ("session-route", "session route --channel telegram --peer 9 --text hi"),
    ] {
        checked.run(&home, name, arguments);
    }
    let asking = checked.run(&home, "senders-list", "senders list");
    let code = asking.iter().find_map(|sender| sender["code"].as_str()).unwrap();
    checked.run(&home, "senders-pair", &format!("senders pair {code}"));
    checked.run(
        &home,
        "session-route",
        "session route --channel telegram --peer 7 --text /sessions",
    );
    conflict_while_compacting(checked);
}

/// A compaction that was overtaken: a summariser that moves the leaf away meanwhile.
fn conflict_while_compacting(checked: &mut Checked) {
    let home = compact::example();
    let quipu = env!("CARGO_BIN_EXE_quipu");
    let script = format!("{quipu} session leaf example 00000001 >&2; echo summary");
    home.write(
        ".config/quipu/config.toml",
        format!("[store.compaction]\nsummariser = 'command'\ncommand = ['sh', '-c', '{script}']"),
    );
    let mut command = home.command(["session", "compact", "example", "--keep", "0", "--json"]);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let run = home.finish(command);
    assert_eq!(run.code, 1, "{run}");
    checked.output("session-compact", &run);
}

/// Two records on one line, an unreadable line, and a record of an unknown type.
const ODD: &str =
    "{\"type\":\"session\",\"version\":3,\"id\":\"odd\",\"timestamp\":\"2026-02-04T10:30:00.000Z\"}
}{
{\"type\":\"hologram\",\"id\":\"h1\",\"parentId\":null,\"timestamp\":\"2026-02-04T10:31:00.000Z\"}
";

/// A prompt with a picture.
const PICTURE: &str = concat!(
    r#"{"type":"user","uuid":"u1","sessionId":"11111111-0000-4000-8000-000000000001","timestamp":"2026-03-02T09:00:00.000Z","message":{"role":"user","content":[{"type":"text","text":"And this?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGVycmluZw=="}}]}}"#,
    "\n"
);

/// A field that no schema lists, one of another type and one that is missing are found.
#[test]
fn a_wrong_object_does_not_fit() {
    let right: Value = Home::small()
        .run("projects --json")
        .stdout
        .lines()
        .next()
        .map_or_else(|| panic!("no project"), |line| serde_json::from_str(line).unwrap());
    let fits = |change: &dyn Fn(&mut Map<String, Value>)| {
        let mut object = right.clone();
        change(object.as_object_mut().unwrap());
        Shapes::of("projects").all[0].0.is_valid(&object)
    };
    assert!(fits(&|_| {}));
    assert!(!fits(&|object| drop(object.insert("extra".to_owned(), 1.into()))));
    assert!(!fits(&|object| drop(object.insert("sessions".to_owned(), "7".into()))));
    assert!(!fits(&|object| drop(object.remove("cwd"))));
}

/// Collects the types of all fields of a schema, by name.
fn fields(schema: &Value, place: &str, found: &mut BTreeMap<String, BTreeMap<String, String>>) {
    let Some(object) = schema.as_object() else { return };
    for (key, value) in object {
        if key == "properties" {
            for (name, field) in value.as_object().unwrap() {
                let types = found.entry(name.clone()).or_default();
                types.insert(type_of(field), place.to_owned());
            }
        }
        match value {
            Value::Array(all) => all.iter().for_each(|value| fields(value, place, found)),
            Value::Object(_) if key == "properties" || key == "$defs" => {
                value.as_object().unwrap().values().for_each(|value| fields(value, place, found));
            }
            _ => fields(value, place, found),
        }
    }
}

/// Returns the type of a field, without `null`.
fn type_of(field: &Value) -> String {
    let is_null = |kind: &&Value| **kind != "null";
    match &field["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter(is_null).map(|kind| kind.as_str().unwrap());
            kinds.collect::<Vec<_>>().join(" ")
        }
        _ => "reference".to_owned(),
    }
}

/// A name has one type everywhere, and the type that docs/json/README.md gives it.
#[test]
fn a_name_means_one_thing() {
    let mut found = BTreeMap::new();
    // `session repair` has the names of OpenClaw's repairs.
    for name in names().into_iter().filter(|name| name != "session-repair") {
        fields(&schema(&name), &name, &mut found);
    }
    assert!(found.len() > 200, "{}", found.len());
    // What runtimes read, and messages in pi's format.
    let exceptions = ["repeated", "compaction_due", "flush_due", "messages"];
    for (name, mut types) in found {
        if exceptions.contains(&name.as_str()) {
            continue;
        }
        if types.len() > 1 {
            types.remove("reference");
        }
        assert_eq!(types.len(), 1, "{name}: {types:?}");
        let (kind, place) = types.pop_first().unwrap();
        let is_question = ["is_", "has_", "was_"].iter().any(|start| name.starts_with(start));
        assert_eq!(kind == "boolean", is_question, "{name} of {place} is {kind}");
        let wanted = match name.as_str() {
            "time" => "integer",
            name if name.ends_with("_at") || name.ends_with("_bytes") => "integer",
            name if name.ends_with("_tokens") || name.ends_with("_ms") => "integer",
            name if name.ends_with("_usd") => "number",
            name if name.ends_with("_id") || name.ends_with("_path") => "string",
            name if name.ends_with("_ids") || name.ends_with("_paths") => "array",
            _ => continue,
        };
        assert_eq!(kind, wanted, "{name} of {place}");
    }
}

#[test]
fn a_schema_is_found_by_its_command() {
    let home = Home::empty();
    let by_words = home.run("schema session append");
    assert_eq!(by_words.stdout, home.run("schema session-append").stdout);
    assert_eq!(schema("session-append")["title"], "session append");
    let one_line = home.run("schema sessions --json").json();
    assert_eq!(one_line, schema("sessions"));
    let unknown = home.run("schema man --json");
    assert_eq!(unknown.code, 1, "{unknown}");
    assert!(unknown.stderr.contains("no schema for `man`"), "{unknown}");
}

/// Returns the fields of `--json` that a help text names: in `prints one object: a, b and c.`, and in
/// its examples with `jq`.
fn fields_in_help(help: &str) -> Vec<String> {
    let is_name = |word: &String| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut found = Vec::new();
    let text: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for rest in text.split("`--json` prints one object").skip(1) {
        let sentence = rest.split(". ").next().unwrap();
        let Some((_, list)) = sentence.split_once(": ") else { continue };
        // Values in brackets are not fields.
        let list: String = list.split(['(', ')']).step_by(2).collect();
        let pieces = list.split(", ").flat_map(|piece| piece.split(" and "));
        found.extend(
            pieces.filter_map(|piece| piece.trim().split(' ').next_back()).map(str::to_owned),
        );
    }
    for example in help.lines().filter_map(|line| line.split_once("--json | jq")) {
        found.extend(example.1.split('.').skip(1).filter_map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().map(str::to_owned)
        }));
    }
    found.retain(is_name);
    found
}

/// A field that a help text names is in the schema of the command.
#[test]
fn help_names_existing_fields() {
    let home = Home::empty();
    let mut checked = 0;
    for name in names().iter().filter(|name| !matches!(name.as_str(), "overview" | "error")) {
        let help = home.run(&format!("{} --help", name.replace('-', " ")));
        assert_eq!(help.code, 0, "{help}");
        let schema = schema(name).to_string();
        for field in fields_in_help(&help.stdout) {
            assert!(schema.contains(&format!("\"{field}\":")), "{name}: there is no `{field}`");
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}
