//! `quipu formats`.

use quipu_transcript::format::FORMATS;

use crate::home::{Home, snapshot};

#[test]
fn every_format_lists_its_files() {
    snapshot!(Home::empty().run("formats"), @"
    exit 0
    --- stdout
    Claude Code
      name      claude-code
      roots     ~/.claude
                ~/.config/claude
      variable  CLAUDE_CONFIG_DIR
      clean-up  the agent deletes transcripts after 30 days, by default

      reads                                                     as
      projects/<slug>/<uuid>.jsonl                              sessions
      projects/<slug>/agent-<id>.jsonl                          sub-agents of older releases
      projects/<slug>/<uuid>/subagents/**/agent-<id>.jsonl      sub-agents, hidden from lists
      projects/<slug>/<uuid>/subagents/**/agent-<id>.meta.json  descriptions of sub-agents
      projects/<slug>/<uuid>/tool-results/*                     tool output too large for the transcript
      projects/<slug>/<uuid>/custom-title.json                  the title that a person gave
      history.jsonl                                             every prompt ever typed, with pasted text
      paste-cache/<hash>.txt                                    long text that was pasted into prompts

    OpenClaw
      name      openclaw
      roots     ~/.openclaw
                ~/.clawdbot
                ~/.moltbot
                ~/.moldbot
      variable  OPENCLAW_STATE_DIR

      reads                                                    as
      agents/<agent>/sessions/<session>.jsonl                  transcripts
      agents/<agent>/agent/openclaw-agent.sqlite               transcripts and keys of releases since 2026.7.2
      agents/<agent>/sessions/sessions.json                    map from keys to sessions
      agents/<agent>/sessions/<session>-topic-<thread>.jsonl   transcripts of one thread
      agents/<agent>/sessions/<session>.jsonl.reset.<time>     transcripts from before a reset
      agents/<agent>/sessions/<session>.jsonl.deleted.<time>   transcripts of deleted sessions
      agents/<agent>/sessions/<session>.jsonl.bak-*            transcripts from before a repair
      agents/<agent>/sessions/<session>.jsonl.full.bak         the same
      agents/<agent>/sessions/<session>.jsonl.imported-<time>  transcripts that were moved into a database
      session-sqlite-import-archive/*.<session>.jsonl.*        the same, in a folder of their own; also below an agent
      agents/<agent>/sessions/cold/<hash>.jsonl.zst            transcripts no longer used
      *.zst                                                    each of the above, compressed; restored decompressed
      cron/jobs.json                                           scheduled jobs; every version is kept
      cron/runs/<job>.jsonl                                    runs of scheduled jobs
      cron/**/*.migrated                                       the same, from before a move into a database
      workspace/MEMORY.md, memory/**/*.md                      memory notes; every version is kept
      workspace/{SOUL,IDENTITY,USER,AGENTS,…}.md               personality notes; every version is kept
      workspace-<agent>/                                       the same, of another agent
    ");
}

#[test]
fn json_is_one_object_per_format() {
    let lines = Home::empty().run("formats --json").json_lines();
    assert_eq!(lines.len(), FORMATS.len());
    for (line, format) in lines.iter().zip(FORMATS) {
        assert_eq!(line["format"], format.name());
        assert_eq!(line["product"], format.title());
        assert_eq!(line["reads"].as_array().unwrap().len(), format.reads().len());
        assert!(line["root_paths"][0].as_str().unwrap().starts_with("[HOME]/."));
    }
}
