//! Measures how well an agent finds one past session among many: 20 questions, each with one right
//! session, asked through the tools for agents.
//!
//! The questions are asked as a person asks them. Their sessions use other forms of the words, and
//! more of them, and most words of a question also occur in other sessions.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::import::Comparison;
use crate::measure::{Workplace, find_program, median};
use crate::report::{Report, Target, Unit, note};

/// A session with one subject, and a question about it.
struct Fact {
    prompt: &'static str,
    answer: &'static str,
    question: &'static str,
}

const fn fact(prompt: &'static str, answer: &'static str, question: &'static str) -> Fact {
    Fact { prompt, answer, question }
}

const FACTS: &[Fact] = &[
    fact(
        "The checkout page takes nine seconds on Safari, can you look into it?",
        "Safari waits for the web font of the payment widget. I preload it now; the page takes 1.2 s.",
        "why was the checkout slow in safari",
    ),
    fact(
        "Should invoices be numbered per customer or globally?",
        "We decided on one global sequence per year, because the tax office wants no gaps.",
        "what did we decide about invoice numbers",
    ),
    fact(
        "Deploying to Frankfurt fails with 'quota exceeded for vCPU'.",
        "The region had 32 vCPU left. I asked for 128 and moved the nightly jobs to Stockholm.",
        "frankfurt deploy quota exceeded",
    ),
    fact(
        "Please make the importer tolerate Latin-1 files from the old ERP.",
        "It now detects the encoding by the byte order mark and falls back to Windows-1252.",
        "how does the importer handle latin-1 encoding of erp files",
    ),
    fact(
        "Our WebSocket clients disconnect every sixty seconds behind nginx.",
        "proxy_read_timeout was 60 s. A ping every 25 s keeps the connection open.",
        "websocket disconnects behind nginx",
    ),
    fact(
        "Can we get rid of moment.js?",
        "Replaced it with Temporal and a polyfill; the bundle shrank by 71 KB.",
        "replacing moment.js bundle size",
    ),
    fact(
        "The thermostat service drifts by a degree after a week.",
        "Rounding errors added up in the moving average. I sum integers of a hundredth of a degree.",
        "thermostat drift rounding",
    ),
    fact(
        "Write a migration that splits full_name into two columns.",
        "Names without a space go to family_name. 312 rows needed a manual decision.",
        "splitting full_name column migration",
    ),
    fact(
        "Users in Brazil see prices with a dot as decimal separator.",
        "The locale came from the server. It now comes from the account, so pt-BR gets a comma.",
        "wrong decimal separator for brazil",
    ),
    fact(
        "Which license do we use for the SDK?",
        "Apache-2.0, since the legal team wanted the patent clause; MIT was ruled out.",
        "why apache license for the sdk and not mit",
    ),
    fact(
        "The Kubernetes pods of the ranking service are OOMKilled at night.",
        "The embedding cache had no limit. With 400 MB and an LRU it stays below 1.1 GB.",
        "ranking pods oomkilled embedding cache",
    ),
    fact(
        "Make the e-mail digest configurable per team.",
        "Teams choose daily, weekly or never. The default stays weekly on Monday at eight.",
        "email digest weekly default per team",
    ),
    fact(
        "Fuzz the PDF parser, it crashed for a customer.",
        "An xref table that points at itself caused endless recursion; the depth is limited to 64.",
        "pdf parser crash recursion xref",
    ),
    fact(
        "Where do we keep the signing key of the macOS app?",
        "In the hardware token of the release machine, never in CI. The notary profile is called harbor.",
        "macos signing key notary profile",
    ),
    fact(
        "The barcode scanner in the warehouse app misreads damaged labels.",
        "Two frames have to agree before a code counts. Misreads fell from 4 % to 0.1 %.",
        "barcode scanner misreads warehouse labels",
    ),
    fact(
        "Why is our Postgres replica 40 minutes behind?",
        "A report held a snapshot open and max_standby_streaming_delay was -1. Reports use a copy now.",
        "postgres replica lag because of reports",
    ),
    fact(
        "Choose a color palette that works for color-blind people.",
        "Okabe-Ito, with orange instead of red for errors, and a pattern beside each color.",
        "palette for color-blind users okabe",
    ),
    fact(
        "GitHub Actions spends half of its minutes on restoring caches.",
        "The key changed with every commit. It is the hash of the lock file now; 11 minutes became 4.",
        "ci cache key lock file minutes github actions",
    ),
    fact(
        "Implement rate limiting for the public geocoding endpoint.",
        "A token bucket in Redis per API key: 50 requests per second with bursts of 200.",
        "geocoding rate limit token bucket",
    ),
    fact(
        "Our Bluetooth pairing fails on Pixel phones.",
        "They need a bond before the MTU request. I wait for BOND_BONDED first.",
        "bluetooth pairing pixel bond mtu",
    ),
];

/// What one program answered to all questions.
struct Asked {
    first: usize,
    sizes: Vec<f64>,
    descriptions: usize,
}

/// Asks all questions.
pub(crate) fn run(
    size: u64,
    seed: u64,
    agentsview: Comparison,
    mut place: Workplace,
) -> Result<Report> {
    place.use_or_generate(None, size, seed)?;
    for (number, fact) in FACTS.iter().enumerate() {
        write_session(&place.home(), number, fact)?;
    }
    place.import()?;
    let mut report = Report::new("recall");
    report.fact("questions", FACTS.len());
    report.fact("sessions", crate::corpus::sources(&place.home())?.len());
    let own = ask_all(place.command(&["mcp"]), "recall", "words")?;
    let largest = own.sizes.iter().copied().fold(0.0, f64::max);
    report.row("right session first", own.first as f64, Unit::Number, Target::AtLeast(18.0));
    report.row("median answer, bytes", median(own.sizes), Unit::Number, Target::AtMost(3072.0));
    report.row("largest answer, bytes", largest, Unit::Number, Target::AtMost(8192.0));
    report.row(
        "descriptions of all tools, bytes",
        own.descriptions as f64,
        Unit::Number,
        Target::AtMost(6144.0),
    );
    let program = match (agentsview, find_program("agentsview")) {
        (Comparison::Never, _) => return Ok(report),
        (_, Some(program)) => program,
        (Comparison::Always, None) => bail!("agentsview is not installed"),
        (Comparison::Auto, None) => {
            note("agentsview is not installed; its answers are left out");
            return Ok(report);
        }
    };
    place.agentsview(&program)?;
    let theirs = ask_all(place.agentsview_mcp(&program), "search_sessions", "query")?;
    let rows = [
        ("agentsview: right session first", theirs.first as f64),
        ("agentsview: median answer, bytes", median(theirs.sizes)),
        ("agentsview: descriptions of all tools, bytes", theirs.descriptions as f64),
    ];
    for (name, value) in rows {
        report.row(name, value, Unit::Number, Target::None);
    }
    Ok(report)
}

/// Returns the id of the session of a fact.
fn id(number: usize) -> String {
    format!("{:08x}-2020-4000-8000-0000000000{number:02x}", 0x2020_0000 + number)
}

fn write_session(home: &Path, number: usize, fact: &Fact) -> Result<()> {
    let session = id(number);
    let folder = home.join(format!(".claude/projects/-home-dev-project{number}"));
    fs::create_dir_all(&folder)?;
    let line = |at: usize, role: &str, content: Value| {
        let uuid = |at: usize| format!("{at:08x}-2121-4000-8000-0000000000{number:02x}");
        let parent = (at > 0).then(|| uuid(at - 1));
        json!({
            "type": role, "uuid": uuid(at), "parentUuid": parent, "sessionId": session,
            "timestamp": format!("2026-01-{:02}T09:00:{at:02}.000Z", number + 1),
            "cwd": format!("/home/dev/project{number}"), "isSidechain": false, "version": "2.1.0",
            "userType": "external", "message": {"role": role, "content": content},
        })
        .to_string()
    };
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let lines = [
        line(0, "user", json!(fact.prompt)),
        line(1, "assistant", text(fact.answer)),
        line(2, "user", json!("Thanks. Commit it, please.")),
        line(3, "assistant", text("Committed.")),
    ];
    fs::write(folder.join(format!("{session}.jsonl")), lines.join("\n") + "\n")?;
    Ok(())
}

fn ask_all(command: Command, tool: &str, words: &str) -> Result<Asked> {
    let mut server = Server::start(command)?;
    let tools = server.ask("tools/list", &json!({}))?;
    let descriptions = tools.get("tools").map_or(0, |tools| tools.to_string().len());
    let mut asked = Asked { first: 0, sizes: Vec::new(), descriptions };
    for (number, fact) in FACTS.iter().enumerate() {
        let call = json!({"name": tool, "arguments": {words: fact.question}});
        let answer = server.ask("tools/call", &call)?;
        // Everything that an agent is given, whatever it is called.
        let size: usize = answer
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|content| content.get("text")?.as_str())
            .map(str::len)
            .sum::<usize>()
            + answer.get("structuredContent").map_or(0, |more| more.to_string().len());
        asked.sizes.push(size as f64);
        let text = answer.to_string();
        match first_session(&text) == Some(&id(number)) {
            true => asked.first += 1,
            false => note(&format!("not first: {}", fact.question)),
        }
    }
    Ok(asked)
}

/// Returns the first id of a session in an answer.
fn first_session(answer: &str) -> Option<&str> {
    let is_id = |text: &&str| {
        text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    (0..answer.len()).filter_map(|at| answer.get(at..at + 36)).find(is_id)
}

/// A program that answers agents on its standard input and output.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Server {
    fn start(mut command: Command) -> Result<Server> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start the server")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut server = Server { child, input, output, requests: 0 };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "quipu-bench", "version": "0"},
        });
        server.ask("initialize", &hello)?;
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(server.input, "{ready}")?;
        Ok(server)
    }

    /// Sends a request and returns its result.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.requests += 1;
        let id = self.requests;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "the server ended");
            let mut message: Value = serde_json::from_str(&line)?;
            // Messages that the server sends by itself are not answers.
            if message.get("id") == Some(&id.into()) {
                ensure!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return Ok(message["result"].take());
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
