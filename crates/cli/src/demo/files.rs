//! The list of invented files, and their paths.

/// Files in the home folder in the middle of the week.
pub(super) const FIRST: &[(&str, &str)] = &[
    (
        ".claude/projects/-home-ada-dev-tidepool/0d48b6f3-71c2-4a95-8e1d-c36a905b27f8.jsonl",
        include_str!(
            "home/claude/projects/-home-ada-dev-tidepool/0d48b6f3-71c2-4a95-8e1d-c36a905b27f8.jsonl"
        ),
    ),
    (
        ".claude/projects/-home-ada-dev-tidepool/7c1e4a52-9d0b-4f6e-8a31-52b7c0d9e114.jsonl",
        include_str!(
            "home/claude/projects/-home-ada-dev-tidepool/7c1e4a52-9d0b-4f6e-8a31-52b7c0d9e114.jsonl"
        ),
    ),
    (
        ".claude/projects/-home-ada-dev-tidepool/b20f7d96-3c84-4e1a-b5d7-0f9a61c3e872.jsonl",
        include_str!(
            "home/claude/projects/-home-ada-dev-tidepool/b20f7d96-3c84-4e1a-b5d7-0f9a61c3e872.jsonl"
        ),
    ),
    (
        ".claude/projects/-home-ada-dev-tidepool/b20f7d96-3c84-4e1a-b5d7-0f9a61c3e872/subagents/agent-a7f31c9.jsonl",
        include_str!(
            "home/claude/projects/-home-ada-dev-tidepool/b20f7d96-3c84-4e1a-b5d7-0f9a61c3e872/subagents/agent-a7f31c9.jsonl"
        ),
    ),
    (
        ".claude/projects/-home-ada-dev-tidepool/b20f7d96-3c84-4e1a-b5d7-0f9a61c3e872/subagents/agent-a7f31c9.meta.json",
        include_str!(
            "home/claude/projects/-home-ada-dev-tidepool/b20f7d96-3c84-4e1a-b5d7-0f9a61c3e872/subagents/agent-a7f31c9.meta.json"
        ),
    ),
    (
        ".claude/projects/-home-ada-dev-tidepool/e5930c1b-6a7f-4d28-9b40-8c2d71f6a035.jsonl",
        include_str!(
            "home/claude/projects/-home-ada-dev-tidepool/e5930c1b-6a7f-4d28-9b40-8c2d71f6a035.jsonl"
        ),
    ),
    (
        ".openclaw/agents/main/sessions/5a0c1f6e-3b62-4d0e-9a55-0d7d1f3c2b11.jsonl",
        include_str!(
            "home/openclaw/agents/main/sessions/5a0c1f6e-3b62-4d0e-9a55-0d7d1f3c2b11.jsonl"
        ),
    ),
    (
        ".openclaw/agents/main/sessions/9e62b7a4-58d1-4c3f-8f70-1b24c6d5a983.jsonl",
        include_str!(
            "home/openclaw/agents/main/sessions/9e62b7a4-58d1-4c3f-8f70-1b24c6d5a983.jsonl"
        ),
    ),
    (
        ".openclaw/agents/main/sessions/c4417d80-2f53-4e0b-b1c9-7a6d3e95f042.jsonl",
        include_str!(
            "home/openclaw/agents/main/sessions/c4417d80-2f53-4e0b-b1c9-7a6d3e95f042.jsonl"
        ),
    ),
    (
        ".openclaw/agents/main/sessions/sessions.json",
        include_str!("home/openclaw/agents/main/sessions/sessions.json"),
    ),
    (".openclaw/cron/jobs.json", include_str!("home/openclaw/cron/jobs.json")),
    (
        ".openclaw/cron/runs/3f8a1c64-0b7e-4d92-a5c1-6e90d27b4f15.jsonl",
        include_str!("home/openclaw/cron/runs/3f8a1c64-0b7e-4d92-a5c1-6e90d27b4f15.jsonl"),
    ),
    (
        ".openclaw/cron/runs/b71d5e02-94c8-4a36-8f2d-05e3a1c7d648.jsonl",
        include_str!("home/openclaw/cron/runs/b71d5e02-94c8-4a36-8f2d-05e3a1c7d648.jsonl"),
    ),
    (".openclaw/workspace/MEMORY.md", include_str!("home/openclaw/workspace/MEMORY.md")),
    (".openclaw/workspace/SOUL.md", include_str!("home/openclaw/workspace/SOUL.md")),
    (".openclaw/workspace/USER.md", include_str!("home/openclaw/workspace/USER.md")),
    (
        ".openclaw/workspace/memory/2026-03-03.md",
        include_str!("home/openclaw/workspace/memory/2026-03-03.md"),
    ),
];

/// Files that were written or rewritten later.
pub(super) const LATER: &[(&str, &str)] = &[
    (".openclaw/workspace/MEMORY.md", include_str!("home/later/MEMORY.md")),
    (".openclaw/workspace/SOUL.md", include_str!("home/later/SOUL.md")),
    (".openclaw/workspace/memory/2026-03-05.md", include_str!("home/later/2026-03-05.md")),
];

/// A conversation that was reset: its old and its new path.
pub(super) const PUT_ASIDE: (&str, &str) = (
    ".openclaw/agents/main/sessions/c4417d80-2f53-4e0b-b1c9-7a6d3e95f042.jsonl",
    ".openclaw/agents/main/sessions/c4417d80-2f53-4e0b-b1c9-7a6d3e95f042.jsonl.reset.2026-03-05T06-20-00.000Z",
);

/// The time when the notes were first written.
pub(super) const FIRST_NOTED: &str = r#""timestamp":"2026-03-03T17:31:00.000Z""#;

/// The time when the notes were rewritten.
pub(super) const LATER_NOTED: &str = r#""timestamp":"2026-03-05T06:28:00.000Z""#;
