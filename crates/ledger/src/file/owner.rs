//! The machine that collects into a ledger, and errors about permissions.
//!
//! Never decides whether to collect: callers compare the machine and act on it.

use crate::file::ledger::Ledger;
use crate::{Error, Result, Trouble};

/// Records that `machine` collects into this ledger from now on.
pub fn adopt(ledger: &mut Ledger, machine: &str) -> Result<()> {
    if collector(ledger)?.as_deref() == Some(machine) {
        return Ok(());
    }
    ledger.write(|tx| {
        tx.execute("UPDATE ledger SET collector = ?1", [machine])?;
        Ok(())
    })
}

/// Returns the machine that collects into a ledger; `None` if none is recorded, as in a ledger of
/// an older version.
pub(crate) fn collector(ledger: &Ledger) -> Result<Option<String>> {
    let conn = ledger.conn();
    let knows = "SELECT count(*) FROM pragma_table_info('ledger') WHERE name = 'collector'";
    if conn.query_row(knows, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    Ok(conn.query_row("SELECT collector FROM ledger", [], |row| row.get(0))?)
}

/// Returns whether opening failed for lack of write permission, so that reading may still work.
pub(crate) fn is_about_access(error: &Error) -> bool {
    error.trouble() == Trouble::ReadOnly
        || matches!(error, Error::Io { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied)
}
