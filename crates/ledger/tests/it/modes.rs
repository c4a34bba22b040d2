//! The log and its shared memory get the ledger's mode, whatever it was when SQLite created them.
//! The view of other users than root is tested in `closed.rs` of the binary's tests.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::home::*;
use quipu_ledger::Ledger;

#[test]
fn companions_get_the_mode_of_the_ledger() {
    let home = Home::quick();
    home.write(".claude/projects/-p/640ab4c7-d010-4b20-a591-b7172ef08e66.jsonl", "{}\n");
    home.sync();
    let ledger = home.ledger_path();
    let beside = |suffix: &str| ledger.with_file_name(format!("ledger.db{suffix}"));
    let mode = |suffix: &str| fs::metadata(beside(suffix)).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(&ledger, Permissions::from_mode(0o444)).unwrap();
    drop(Ledger::open_read_only(&ledger).unwrap());
    fs::set_permissions(&ledger, Permissions::from_mode(0o600)).unwrap();
    // The state that earlier releases left after such a read.
    for suffix in ["-wal", "-shm"] {
        fs::write(beside(suffix), []).unwrap();
        fs::set_permissions(beside(suffix), Permissions::from_mode(0o444)).unwrap();
    }
    let open = home.open();
    assert_eq!((mode("-wal"), mode("-shm")), (0o600, 0o600));
    drop(open);
    home.sync();
}
