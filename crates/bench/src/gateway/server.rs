//! Starts `quipu serve`, and clients that each keep one connection to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::measure::Workplace;

/// The arguments with which every server is started.
const SERVE: [&str; 5] = ["serve", "--json", "--addr", "127.0.0.1:0", "--no-collect"];

/// A server process. Dropping this kills it. That loses nothing: acknowledged appends are on disk.
pub(super) struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    /// Starts a server for the ledger of `place`. The ledger must exist.
    pub(super) fn start(place: &Workplace) -> Result<Server> {
        Server::of(place, place.command(&SERVE))
    }

    /// Starts a server for which strace delays each sync of the disk. strace traces nothing else.
    pub(super) fn start_delayed(place: &Workplace, milliseconds: u64) -> Result<Server> {
        let served = place.command(&SERVE);
        let mut traced = Command::new("strace");
        // With -D, the spawned process becomes the server, and strace runs beside it. So `child` is
        // the server, for `Drop` and for `peak_memory`.
        traced.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
        traced.args(["-e", "trace=fsync,fdatasync", "-e"]);
        traced.arg(format!("inject=fsync,fdatasync:delay_enter={milliseconds}000"));
        traced.arg(served.get_program()).args(served.get_args());
        traced.env_clear();
        traced.envs(served.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = served.get_current_dir() {
            traced.current_dir(folder);
        }
        Server::of(place, traced)
    }

    /// Starts `command` with a new token, and waits until it prints its address.
    fn of(place: &Workplace, mut command: Command) -> Result<Server> {
        let name = format!("bench-{}", std::process::id());
        // An earlier server of this process may have used a token of the same name.
        let _ = place.quipu(&["token", "revoke", &name]);
        let made = place.quipu(&["token", "new", &name, "--scope", "write"])?;
        let token = String::from_utf8(made.stdout)?.trim().to_owned();
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start a server")?;
        let output = child.stdout.take().context("the server has no stdout")?;
        let mut server = Server { child, address: String::new(), token };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let started: Value = serde_json::from_str(&line).context("the server did not start")?;
        server.address = started["address"].as_str().context("no address")?.to_owned();
        Ok(server)
    }

    /// Returns the server's address, for example `127.0.0.1:41234`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the headers that every request has: host and token.
    pub(super) fn head(&self) -> String {
        format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.token)
    }

    /// Returns the largest size of the server's memory so far, in bytes.
    pub(super) fn peak_memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(1024 * kilobytes.context("no peak of memory")?.trim().parse::<u64>()?)
    }

    /// Connects a client and creates a session for it.
    pub(super) fn client(&self) -> Result<Client> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        let (address, token) = (&self.address, &self.token);
        let head = format!(
            "Host: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        );
        let mut client = Client { stream: BufReader::new(stream), head, path: String::new() };
        let (_, made) = client.post("/v1/sessions", "{}")?;
        let id = made["session_id"].as_str().context("no session")?;
        client.path = format!("/v1/sessions/{id}/entries");
        Ok(client)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that appends to one session.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    head: String,
    path: String,
}

impl Client {
    /// Appends a line. Returns the time from sending the request to reading the whole answer.
    pub(super) fn append(&mut self, line: &str) -> Result<Duration> {
        let path = self.path.clone();
        Ok(self.post(&path, line)?.0)
    }

    fn post(&mut self, path: &str, body: &str) -> Result<(Duration, Value)> {
        let (head, length) = (&self.head, body.len());
        let request =
            format!("POST {path} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}");
        let began = Instant::now();
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut status, mut length) = (String::new(), 0);
        self.stream.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        let took = began.elapsed();
        ensure!(status.contains(" 200 "), "the server answered {status}");
        Ok((took, serde_json::from_slice(&answer)?))
    }
}
