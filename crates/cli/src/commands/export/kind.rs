//! Output formats of an export, as arguments.

use clap::ValueEnum;
use clap::builder::PossibleValue;
pub(super) use quipu_ledger::export::ExportKind as Kind;

/// The name of a format on the command line.
#[derive(Debug, Clone, Copy)]
pub(super) struct KindArg(pub(super) Kind);

impl ValueEnum for KindArg {
    fn value_variants<'a>() -> &'a [KindArg] {
        const ALL: [KindArg; Kind::ALL.len()] = {
            let mut all = [KindArg(Kind::Md); Kind::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = KindArg(Kind::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let value = PossibleValue::new(self.0.extension());
        Some(match self.0 {
            Kind::Md => value.alias("markdown").help("Markdown"),
            Kind::Html => value.alias("htm").help("One self-contained page"),
            Kind::Json => {
                value.help("The session and its entries, in the same shape for every agent")
            }
            Kind::Jsonl => value.help("The agent's own file, byte for byte"),
            Kind::Csv => value.help("A table of sessions"),
            Kind::OpenClaw => value.help("The folder that OpenClaw and pi read"),
            Kind::ClaudeCode => value.help("The folder that Claude Code reads"),
        })
    }
}
