//! `quipu doctor`: checks the ledger, the sources, and transcripts that are about to be deleted.

use quipu_ledger::doctor::DoctorProgress;
use quipu_ledger::wire::{CheckReport, Diagnosis, Finding, Severity};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Style, Text, count, number};

/// Check the ledger and its sources for problems
///
/// Checks the ledger's file, the stored bytes, files that changed on disk, a
/// sample of the readable tables, sources that cannot be read, and transcripts
/// that the agent is about to delete. Every finding names what to do. With
/// --deep it reads every byte: it verifies checksums, compares unchanged files
/// on disk with what is stored, and compares all readable tables with a fresh
/// rebuild. Changes nothing. The exit code is 1 if there is an error.
///
/// Examples:
///   quipu doctor --deep
///   quipu doctor --json | jq '.findings[] | {severity, message, hint}'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Read and compare every byte (slow)
    #[arg(long)]
    deep: bool,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let mut bar = context.output.bar();
    let ledger = &context.settings.ledger.value;
    let diagnosis =
        quipu_ledger::doctor::doctor(ledger, &context.roots(), args.deep, &mut |progress| {
            let DoctorProgress { doing, done, total } = progress;
            match doing {
                "deriving" => bar.records(doing, done, total),
                doing => bar.bytes(doing, done, total),
            }
        });
    drop(bar);
    if context.is_json {
        context.output.json(&diagnosis)?;
    } else if !(context.output.is_quiet() && diagnosis.is_ok) {
        show(context, &diagnosis)?;
    }
    if diagnosis.is_ok {
        return Ok(());
    }
    let mut failed = CommandError::new("the ledger has errors");
    failed.kind = Kind::CheckFailed;
    Err(failed)
}

fn show(context: &mut Context, diagnosis: &Diagnosis) -> Result<()> {
    let count_of = |check: &str, severity| {
        let findings = diagnosis.findings.iter();
        findings.filter(|f| f.check == check && f.severity == severity).count() as u64
    };
    let all = |severity| {
        diagnosis.findings.iter().filter(|finding| finding.severity == severity).count() as u64
    };
    let headline = match (all(Severity::Error), all(Severity::Warning)) {
        (0, 0) if diagnosis.is_deep => {
            Text::styled(Style::Good, "No problems found").and(", every byte was read")
        }
        (0, 0) => Text::styled(Style::Good, "No problems found"),
        (0, warnings) => Text::styled(Style::Warning, count(warnings, "warning")),
        (errors, _) => Text::styled(Style::Bad, count(errors, "error")),
    };
    let path = context.show(&diagnosis.ledger_path);
    context.output.line(headline.with(Style::Dim, format!("  {path}")))?;
    context.output.gap()?;
    let rows: Vec<(&str, Text)> = diagnosis
        .checks
        .iter()
        .map(|check| {
            let severities = [Severity::Error, Severity::Warning, Severity::Note];
            let counts = severities.map(|severity| count_of(&check.check, severity));
            (check.check.as_str(), state(check, counts))
        })
        .collect();
    context.output.facts(2, &rows)?;
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        for finding in diagnosis.findings.iter().filter(|f| f.severity == severity) {
            context.output.gap()?;
            print_finding(context, finding)?;
        }
    }
    Ok(())
}

/// Describes how a check ended.
fn state(check: &CheckReport, [errors, warnings, notes]: [u64; 3]) -> Text {
    let parts = [(errors, "error"), (warnings, "warning"), (notes, "note")];
    let counts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(*n, what)).collect();
    let counts = counts.join(", ");
    match (errors, warnings, notes) {
        (1.., _, _) => Text::styled(Style::Bad, format!("✗ {counts}")),
        (_, 1.., _) => Text::styled(Style::Warning, format!("! {counts}")),
        _ if !check.is_done => Text::styled(Style::Dim, "- nothing to check"),
        (_, _, 1..) => Text::styled(Style::Good, "✓").and(format!(" {counts}")),
        _ => Text::styled(Style::Good, "✓").and(match &check.fact {
            Some(fine) => format!(" {fine}"),
            None => String::new(),
        }),
    }
}

/// Prints a finding, where it was found, and what to do about it.
fn print_finding(context: &mut Context, finding: &Finding) -> Result<()> {
    let (label, style) = match finding.severity {
        Severity::Error => ("error", Style::Bad),
        Severity::Warning => ("warning", Style::Warning),
        Severity::Note => ("note", Style::Plain),
    };
    let what = match finding.count {
        Some(count) => format!("{}: {}", finding.message, number(count)),
        None => finding.message.clone(),
    };
    let mut facts = vec![(label, Text::styled(style, what))];
    let examples = finding.examples.iter().map(|example| ("", Text::styled(Style::Dim, example)));
    facts.extend(examples);
    let named = finding.examples.len() as u64;
    if let Some(more) = finding.count.and_then(|count| count.checked_sub(named))
        && more > 0
        && named > 0
    {
        facts.push(("", Text::styled(Style::Dim, format!("and {} more", number(more)))));
    }
    facts.push(("do", Text::plain(context.shell.sentence(&finding.hint))));
    context.output.facts(0, &facts)?;
    Ok(())
}
