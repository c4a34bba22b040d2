//! The workspace files that are put into the prompt of a new session.

/// The files in the order of the prompt, as OpenClaw's documents list them. Its releases add the
/// last one for the very first conversation.
const FILES: [&str; 8] = [
    "AGENTS.md",
    "SOUL.md",
    "USER.md",
    "MEMORY.md",
    "IDENTITY.md",
    "HEARTBEAT.md",
    "TOOLS.md",
    "BOOTSTRAP.md",
];

/// The older name of `MEMORY.md`.
const OLD_MEMORY: &str = "memory.md";

/// Returns the bootstrap files among the names in a workspace, in order. Names are case-sensitive.
pub fn bootstrap_files<'a>(listing: impl IntoIterator<Item = &'a str>) -> Vec<&'static str> {
    let mut is_there = [false; FILES.len()];
    let mut has_old_memory = false;
    for name in listing {
        if let Some(at) = FILES.iter().position(|file| *file == name) {
            is_there[at] = true;
        }
        has_old_memory |= name == OLD_MEMORY;
    }
    let files = FILES.into_iter().zip(is_there).filter_map(|(file, is_there)| match file {
        _ if is_there => Some(file),
        "MEMORY.md" if has_old_memory => Some(OLD_MEMORY),
        _ => None,
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r70_bootstrap_files_are_listed_in_order() {
        let listing =
            ["TOOLS.md", "src", "SOUL.md", "agents.md", "AGENTS.md", "USER.md.bak", "memory.md"];
        assert_eq!(bootstrap_files(listing), ["AGENTS.md", "SOUL.md", "memory.md", "TOOLS.md"]);
        assert_eq!(bootstrap_files(["memory.md", "MEMORY.md"]), ["MEMORY.md"]);
        assert!(bootstrap_files([]).is_empty());
        assert_eq!(bootstrap_files(FILES), FILES);
    }
}
