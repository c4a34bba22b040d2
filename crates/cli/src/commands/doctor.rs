//! `quipu doctor`: is the ledger sound, can sources be read, is anything about to be lost?

use quipu_ledger::DoctorProgress;
use quipu_ledger::wire::{CheckReport, Diagnosis, Finding, Severity};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::output::{Look, Text, count, number};

/// Check that the ledger is sound and that nothing is about to be lost
///
/// Looks at the ledger's file, at whether every collected byte has its place, at
/// what changed on disk since, at a sample of what is readable, at sources that
/// cannot be read, and at what the agent is about to delete. Every finding says
/// what to do. With --deep every byte is read: checksums, every file on disk that
/// did not change, and everything readable is derived again and compared.
/// Changes nothing. Exit code 1 if something is wrong.
///
/// Examples:
///   quipu doctor --deep
///   quipu doctor --json | jq '.findings[] | {severity, what, do}'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Read and compare every byte
    #[arg(long)]
    deep: bool,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let mut bar = context.output.bar();
    let ledger = &context.settings.ledger.value;
    let diagnosis = quipu_ledger::doctor(ledger, &context.roots(), args.deep, &mut |progress| {
        let DoctorProgress { doing, done, total } = progress;
        match doing {
            "deriving" => bar.records(doing, done, total),
            doing => bar.bytes(doing, done, total),
        }
    });
    drop(bar);
    if context.is_json {
        context.output.json(&diagnosis)?;
    } else if !(context.output.is_quiet() && diagnosis.ok) {
        show(context, &diagnosis)?;
    }
    if diagnosis.ok {
        return Ok(());
    }
    let mut failed = CommandError::new("the ledger is not sound");
    failed.kind = Kind::CheckFailed;
    Err(failed)
}

fn show(context: &mut Context, diagnosis: &Diagnosis) -> Result<()> {
    let of = |check: &str, severity| {
        let findings = diagnosis.findings.iter();
        findings.filter(|f| f.check == check && f.severity == severity).count() as u64
    };
    let all = |severity| {
        diagnosis.findings.iter().filter(|finding| finding.severity == severity).count() as u64
    };
    let headline = match (all(Severity::Error), all(Severity::Warning)) {
        (0, 0) if diagnosis.deep => {
            Text::of(Look::Good, "All is well").and(", every byte was read")
        }
        (0, 0) => Text::of(Look::Good, "All is well"),
        (0, warnings) => Text::of(Look::Warning, count(warnings, "warning")),
        (errors, _) => Text::of(Look::Bad, count(errors, "error")),
    };
    let path = context.show(&diagnosis.ledger);
    context.output.line(headline.with(Look::Dim, format!("  {path}")))?;
    context.output.gap()?;
    let rows: Vec<(&str, Text)> = diagnosis
        .checks
        .iter()
        .map(|check| {
            let severities = [Severity::Error, Severity::Warning, Severity::Note];
            let counts = severities.map(|severity| of(&check.check, severity));
            (check.check.as_str(), state(check, counts))
        })
        .collect();
    context.output.facts(2, &rows)?;
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        for finding in diagnosis.findings.iter().filter(|f| f.severity == severity) {
            context.output.gap()?;
            tell(context, finding)?;
        }
    }
    Ok(())
}

/// How a check ended, in a few words.
fn state(check: &CheckReport, [errors, warnings, notes]: [u64; 3]) -> Text {
    let parts = [(errors, "error"), (warnings, "warning"), (notes, "note")];
    let told: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(*n, what)).collect();
    let told = told.join(", ");
    match (errors, warnings, notes) {
        (1.., _, _) => Text::of(Look::Bad, format!("✗ {told}")),
        (_, 1.., _) => Text::of(Look::Warning, format!("! {told}")),
        _ if !check.done => Text::of(Look::Dim, "- nothing to check"),
        (_, _, 1..) => Text::of(Look::Good, "✓").and(format!(" {told}")),
        _ => Text::of(Look::Good, "✓").and(match &check.fine {
            Some(fine) => format!(" {fine}"),
            None => String::new(),
        }),
    }
}

/// A finding, where it was found, and what to do about it.
fn tell(context: &mut Context, finding: &Finding) -> Result<()> {
    let (label, look) = match finding.severity {
        Severity::Error => ("error", Look::Bad),
        Severity::Warning => ("warning", Look::Warning),
        Severity::Note => ("note", Look::Plain),
    };
    let what = match finding.count {
        Some(count) => format!("{}: {}", finding.what, number(count)),
        None => finding.what.clone(),
    };
    let mut facts = vec![(label, Text::of(look, what))];
    let examples = finding.examples.iter().map(|example| ("", Text::of(Look::Dim, example)));
    facts.extend(examples);
    let named = finding.examples.len() as u64;
    if let Some(more) = finding.count.and_then(|count| count.checked_sub(named))
        && more > 0
        && named > 0
    {
        facts.push(("", Text::of(Look::Dim, format!("and {} more", number(more)))));
    }
    facts.push(("do", Text::plain(&finding.advice)));
    context.output.facts(0, &facts)?;
    Ok(())
}
