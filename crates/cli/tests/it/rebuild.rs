//! `quipu rebuild`.

use crate::home::{Home, snapshot};

#[test]
fn a_rebuild_derives_the_same_tables() {
    let home = Home::small();
    home.run("sync");
    let before = home.run("status --json").json();
    snapshot!(home.run("rebuild"), @"
    exit 0
    --- stdout
    rebuilt 5 sessions, 2 sub-agents from 55 records
    ");
    let after = home.run("status --json").json();
    assert_eq!(before["formats"], after["formats"]);
    assert_eq!(before["problems_by_kind"], after["problems_by_kind"]);
}

#[test]
fn json_reports_the_rebuild() {
    let home = Home::small();
    home.run("sync");
    let report = home.run("rebuild --json").json();
    assert!(report["records"].as_u64().unwrap() > 0);
    assert!(report["sessions"].as_u64().unwrap() > 0);
}
