//! `quipu notes`.

use crate::home::{Home, snapshot};

fn home() -> Home {
    let home = Home::empty();
    let memory = ".openclaw/workspace/MEMORY.md";
    let at = |name: &str, seconds: u64| {
        let file = std::fs::File::options().append(true).open(home.path(name)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(time).unwrap();
    };
    home.write(memory, "# Memory\n\nAlice drinks tea.\nShe is left-handed.\n");
    at(memory, 1_770_000_000);
    home.write(".openclaw/workspace/memory/2026-02-01.md", "Rain.\n");
    at(".openclaw/workspace/memory/2026-02-01.md", 1_770_000_100);
    home.write(".openclaw/workspace-work/MEMORY.md", "Nothing yet.\x1b[2J\n");
    at(".openclaw/workspace-work/MEMORY.md", 1_770_000_200);
    home.run("sync -q");
    home.write(memory, "# Memory\n\nAlice drinks coffee now.\nShe is left-handed.\n");
    at(memory, 1_770_500_000);
    home.run("sync -q");
    home
}

#[test]
fn notes_are_listed_and_shown() {
    let home = home();
    snapshot!(home.run("notes"), @"
    exit 0
    --- stdout
    note                  agent  versions  size  changed
    MEMORY.md             main          2  55 B  [MINUTE]
    memory/2026-02-01.md  main          1   6 B  [MINUTE]
    MEMORY.md             work          1  17 B  [MINUTE]
    ");
    snapshot!(home.run_with("notes", &[("COLUMNS", "40")]), @"
    exit 0
    --- stdout
    note                versions  changed
    main/MEMORY.md             2  2026-02-07
    main/mem…-02-01.md         1  2026-02-02
    work/MEMORY.md             1  2026-02-02
    ");
    snapshot!(home.run("notes --json --no-sync"), @r#"
    exit 0
    --- stdout
    {"format":"openclaw","agent":"main","name":"MEMORY.md","versions":2,"bytes":55,"updated_at":1770500000000,"is_gone":false,"fresh_as_of":"[TIME]","pending_bytes":null}
    {"format":"openclaw","agent":"main","name":"memory/2026-02-01.md","versions":1,"bytes":6,"updated_at":1770000100000,"is_gone":false,"fresh_as_of":"[TIME]","pending_bytes":null}
    {"format":"openclaw","agent":"work","name":"MEMORY.md","versions":1,"bytes":17,"updated_at":1770000200000,"is_gone":false,"fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
    snapshot!(home.run("notes main/memory.md"), @"
    exit 0
    --- stdout
    MEMORY.md  main, version 2 of 2, [MINUTE]

    # Memory

    Alice drinks coffee now.
    She is left-handed.
    ");
    snapshot!(home.run("notes 2026-02-01.md"), @"
    exit 0
    --- stdout
    memory/2026-02-01.md  main, version 1 of 1, [MINUTE]

    Rain.
    ");
    snapshot!(home.run("notes work/MEMORY.md --json --no-sync"), @r#"
    exit 0
    --- stdout
    {"agent":"work","name":"MEMORY.md","version":1,"time":1770000200000,"bytes":17,"text":"Nothing yet.\u001b[2J\n","fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
}

#[test]
fn every_version_can_be_shown() {
    let home = home();
    snapshot!(home.run("notes main/MEMORY.md --at 2026-02-05"), @"
    exit 0
    --- stdout
    MEMORY.md  main, version 1 of 2, [MINUTE]

    # Memory

    Alice drinks tea.
    She is left-handed.
    ");
    snapshot!(home.run("notes main/MEMORY.md --diff"), @"
    exit 0
    --- stdout
    MEMORY.md  main, version 1 of 2, [MINUTE]  +4 −0
    + # Memory
    +
    + Alice drinks tea.
    + She is left-handed.

    MEMORY.md  main, version 2 of 2, [MINUTE]  +1 −1
      # Memory

    - Alice drinks tea.
    + Alice drinks coffee now.
      She is left-handed.
    ");
    snapshot!(home.run("notes main/MEMORY.md --diff --json --no-sync"), @r#"
    exit 0
    --- stdout
    {"agent":"main","name":"MEMORY.md","version":1,"time":1770000000000,"added_lines":4,"removed_lines":0,"diff":"+# Memory\n+\n+Alice drinks tea.\n+She is left-handed.\n","fresh_as_of":"[TIME]","pending_bytes":null}
    {"agent":"main","name":"MEMORY.md","version":2,"time":1770500000000,"added_lines":1,"removed_lines":1,"diff":" # Memory\n \n-Alice drinks tea.\n+Alice drinks coffee now.\n She is left-handed.\n","fresh_as_of":"[TIME]","pending_bytes":null}
    "#);
    snapshot!(home.run("notes main/MEMORY.md --at 2026-01-01"), @"
    exit 1
    --- stderr
    error: MEMORY.md did not exist at that time
    hint: its first version is from [MINUTE]
    ");
}

#[test]
fn a_name_has_to_match_one_note() {
    let home = home();
    snapshot!(home.run("notes MEMORY.md"), @"
    exit 1
    --- stderr
    error: `MEMORY.md` matches 2 notes
    hint: give more of the path:
          main/MEMORY.md
          work/MEMORY.md
    ");
    snapshot!(home.run("notes ../../etc/passwd"), @"
    exit 1
    --- stderr
    error: no note matches `../../etc/passwd`
    hint: `quipu notes` lists all notes
    ");
    snapshot!(Home::empty().run("notes"), @"
    exit 0
    --- stdout
    no notes
    ");
}

/// The name of a folder lists the notes in it.
#[test]
fn a_folder_stands_for_its_notes() {
    let home = Home::empty();
    home.write(".openclaw/workspace/MEMORY.md", "one\n");
    home.write(".openclaw/workspace/memory/2026-01-01.md", "two\n");
    home.write(".openclaw/workspace/memory/2026-01-02.md", "three\n");
    let listed = home.run("notes memory --json").json_lines();
    let names: Vec<&str> = listed.iter().map(|note| note["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["memory/2026-01-01.md", "memory/2026-01-02.md"]);
    assert_eq!(home.run("notes memory/ --json").json_lines().len(), 2);
    assert!(home.run("notes MEMORY.md").stdout.contains("one"));
    assert_eq!(home.run("notes memory --diff --json").json_lines().len(), 2);
}

#[test]
fn a_part_of_a_path_is_enough() {
    let home = home();
    for name in ["2026-02", "02-01", "memory/2026", "main/memory/2"] {
        let run = home.run(&format!("notes {name}"));
        assert!(run.code == 0 && run.stdout.contains("Rain."), "{name}: {run}");
    }
    snapshot!(home.run("notes EMOR"), @"
    exit 1
    --- stderr
    error: `EMOR` matches 3 notes
    hint: give more of the path:
          main/MEMORY.md
          main/memory/2026-02-01.md
          work/MEMORY.md
    ");
}

/// Without a name, all notes are shown; with a folder's name, those in it.
#[test]
fn without_a_name_all_notes_are_shown() {
    let home = home();
    let one = home.run("notes main/MEMORY.md --diff").stdout;
    let all = home.run("notes --diff").stdout;
    snapshot!(all.strip_prefix(&one).unwrap(), @r"

    memory/2026-02-01.md  main, version 1 of 1, [MINUTE]  +1 −0
    + Rain.

    MEMORY.md  work, version 1 of 1, [MINUTE]  +1 −0
    + Nothing yet.\u{1b}[2J
    ");
    let changes = home.run("notes --diff --json").json_lines();
    assert_eq!(changes.len(), 4);
    assert_eq!(home.run("notes memory --diff --json").json_lines().len(), 1);
    snapshot!(home.run("notes --at 2026-02-03"), @"
    exit 0
    --- stdout
    note                  agent  versions  size  changed
    MEMORY.md             main          1  48 B  [MINUTE]
    memory/2026-02-01.md  main          1   6 B  [MINUTE]
    MEMORY.md             work          1  17 B  [MINUTE]
    ");
    snapshot!(home.run("notes --at 2026-01-01"), @"
    exit 1
    --- stderr
    error: no note existed at that time
    ");
}
