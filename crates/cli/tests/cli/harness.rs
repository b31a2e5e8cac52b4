//! A site in a temporary folder: its configuration, its server, the gateway in front of it.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_gateway::ledger_file::Record;
pub(crate) use nightwatt_needs::free_address;
use nightwatt_policy::ledger::Bill;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub(crate) const NIGHTWATT: &str = env!("CARGO_BIN_EXE_nightwatt");

/// Whatever has not happened by then does not happen.
const DEADLINE: Duration = Duration::from_mins(2);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks again and again until there is something to see.
pub(crate) fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, what, look)
}

/// The same for what needs longer.
pub(crate) fn within<T>(most: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::real();
    let deadline = clock.now().mono + most;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(clock.now().mono < deadline, "not within {most:?}: {what}");
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the processes under test live in real time")]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Runs the program to its end.
pub(crate) fn nightwatt(args: &[&str]) -> Output {
    program().args(args).output().expect("the program runs")
}

/// Whether probes can be loaded here, and find processes by the numbers that we know.
pub(crate) fn can_probe() -> bool {
    let numbers = fs::read_link("/proc/self/ns/pid").unwrap();
    let why = if !rustix::process::geteuid().is_root() {
        "only root may load programs into the kernel"
    } else if numbers != Path::new("pid:[4026531836]") {
        "this is not the PID namespace of the machine"
    } else {
        return true;
    };
    println!("skipped: {why}");
    false
}

/// Runs a copy of the program as a user without capabilities; nothing if that cannot be done here.
pub(crate) fn without_rights(args: &[&str]) -> Option<Output> {
    if Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: there is no setpriv");
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can drop capabilities");
        return None;
    }
    // The program's own folder may be closed to others.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("nightwatt");
    // By another process: a file that a child of another test has inherited for writing cannot be executed.
    let made = Command::new("install").args(["-m", "755", NIGHTWATT]).arg(&copy).status();
    assert!(made.unwrap().success());
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups"]).arg(&copy).args(args);
    Some(command.output().unwrap())
}

/// The program, in an environment that says nothing.
pub(crate) fn program() -> Command {
    let mut command = Command::new(NIGHTWATT);
    command.env_remove("RUST_LOG").env("COLUMNS", "100").stdin(Stdio::null());
    command
}

/// What `check` says, each row on one line, however many lines of the terminal it has.
pub(crate) fn unfolded(text: &str) -> String {
    text.replace(&format!("\n{:15}", ""), " ")
}

/// Exit status and both outputs, for snapshots.
pub(crate) fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut told = format!("{}\n", output.status);
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !bytes.is_empty() {
            let _ = write!(told, "--- {name} ---\n{}", text(bytes));
        }
    }
    told
}

/// What is special about a site. The rest: small times, no SLA, sleep at once when idle.
pub(crate) struct Plan {
    /// `[site.power...]`, with `ORIGIN` for the address of the server, `NIGHTWATT` for the program
    /// and `DIR` for the folder.
    pub(crate) power: String,
    /// Lines of `[[site]]`.
    pub(crate) site: String,
    /// Tables before `[[site]]`.
    pub(crate) tables: String,
    /// When to sleep.
    pub(crate) policy: String,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            power: process("exec NIGHTWATT origin --listen ORIGIN --ttl 0 --record DIR/served.tsv"),
            site: "wake_timeout = \"10s\"\nwatch = \"500ms\"".to_owned(),
            tables: String::new(),
            policy: "timeout 100ms".to_owned(),
        }
    }
}

impl Plan {
    /// A server that counts as awake while there is the file `up`, as its controller makes and removes it. What it
    /// answers is up to the test: [`House::held_answers`].
    pub(crate) fn by_file() -> Self {
        let power = "[site.power.command]\nwake = \"touch DIR/up\"\nsleep = \"rm -f DIR/up\"\n\
                     probe = \"test -e DIR/up\"\n";
        let site = "probe = \"controller\"\nwatch = \"0\"".to_owned();
        Self { power: power.to_owned(), site, ..Self::default() }
    }
}

/// A process controller that runs a shell script.
pub(crate) fn process(script: &str) -> String {
    format!("[site.power.process]\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n")
}

/// A site in its folder. What its controllers left running is killed at the end.
pub(crate) struct House {
    pub(crate) dir: TempDir,
    /// Where its server listens, when it runs.
    pub(crate) origin: SocketAddr,
}

impl House {
    pub(crate) fn build(plan: &Plan) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let origin = free_address();
        let Plan { power, site, tables, policy } = plan;
        let config = format!(
            r#"listen = ["127.0.0.1:0"]
state_dir = "DIR/state"
access_log = "DIR/access.log"

[scenario]
policy = "{policy}"

[scenario.server]
wake_time = "500ms"
sleep_time = "100ms"
min_on = "0"
quiet = "100ms"

[scenario.sla]
enabled = false

[scenario.cache]
ttl = "0"
grace_asleep = "0"

{tables}

[[site]]
name = "site"
origin = "http://ORIGIN"
{site}

{power}
"#
        );
        let config = config
            .replace("DIR", &dir.path().display().to_string())
            .replace("ORIGIN", &origin.to_string())
            .replace("NIGHTWATT", NIGHTWATT);
        fs::write(dir.path().join("nightwatt.toml"), config).expect("the configuration is written");
        Self { dir, origin }
    }

    /// A file in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What a file in its folder says; nothing if it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes its configuration with one text in the place of another.
    pub(crate) fn reconfigure(&self, from: &str, to: &str) {
        let config = self.read("nightwatt.toml");
        assert!(config.contains(from), "{from:?} is not in {config}");
        let config = config.replacen(from, to, 1);
        fs::write(self.path("nightwatt.toml"), config).expect("the configuration is written");
    }

    fn config(&self) -> String {
        self.path("nightwatt.toml").display().to_string()
    }

    /// Starts the gateway; it listens when this returns.
    pub(crate) fn serve(&self, args: &[&str]) -> Gateway {
        self.serve_by(program(), args)
    }

    /// As [`serve`](Self::serve), by a program that ends as ours, with what it is given.
    pub(crate) fn serve_by(&self, mut program: Command, args: &[&str]) -> Gateway {
        let log = fs::File::options().create(true).append(true).open(self.path("serve.log"));
        let mut child = program
            .args(["serve", "--json", "--log-format", "json", "-c", &self.config()])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("the program starts");
        let mut stdout = std::io::BufReader::new(child.stdout.take().expect("its stdout"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut line).expect("it says where it listens");
        let said: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{error} in {line:?}; log: {}", self.read("serve.log")));
        let address = said["listening"][0].as_str().expect("an address");
        let address = address.parse().expect("an address");
        Gateway { child, stdout, address, config: self.config() }
    }

    /// Starts the server by hand, outside of any controller; it listens when this returns.
    pub(crate) fn start_origin(&self) -> Origin {
        let listen = self.origin.to_string();
        let mut child = program()
            .args(["origin", "--listen", &listen, "--ttl", "0", "--record"])
            .arg(self.path("served.tsv"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().expect("its stdout"));
        std::io::BufRead::read_line(&mut stdout, &mut line).expect("it says where it listens");
        assert_eq!(line, format!("listening on {listen}\n"));
        Origin(child)
    }

    /// Listens where its server does, in this process. Each request is answered when that is let go by a message; none
    /// is any more when the sender is dropped.
    pub(crate) fn held_answers(&self) -> mpsc::Sender<()> {
        let listener = TcpListener::bind(self.origin).expect("nothing else listens there");
        let (let_go, goes) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                if !has_asked(&stream) {
                    continue;
                }
                if goes.recv().is_err() {
                    return;
                }
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
                // Who has asked may be gone.
                let _ = std::io::Write::write_all(&mut &stream, answer);
            }
        });
        let_go
    }

    /// The processes that controllers of this house started and that still run.
    pub(crate) fn servers(&self) -> Vec<Pid> {
        let Ok(state) = self.path("state").canonicalize() else { return Vec::new() };
        // The name of the site or of the machine comes next.
        let mark = format!("NIGHTWATT_CHILD_OF={}/", state.display());
        let is_ours = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
            let is_marked = |it: &[u8]| it.starts_with(mark.as_bytes());
            environment.is_ok_and(|it| it.split(|byte| *byte == 0).any(is_marked))
        };
        let names = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
        let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(Pid::from_raw).filter(is_ours).collect()
    }

    /// All whole records of the ledger. Only the last line may be torn, and totals never fall.
    pub(crate) fn ledger(&self) -> Vec<Record> {
        let text = self.read("state/site.ledger.jsonl");
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut records: Vec<Record> = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            match serde_json::from_str(line) {
                Ok(record) => records.push(record),
                Err(error) => assert_eq!(index + 1, lines.len(), "{error} in {line:?}"),
            }
        }
        let totals = |Bill { on, off, unobserved, cycles, wakeups, .. }: Bill| {
            [
                on.as_secs_f64(),
                off.as_secs_f64(),
                unobserved.as_secs_f64(),
                cycles as f64,
                wakeups as f64,
            ]
        };
        for pair in records.windows(2) {
            let (before, after) = (totals(pair[0].memory.bill), totals(pair[1].memory.bill));
            let grows = before.iter().zip(&after).all(|(before, after)| before <= after);
            assert!(grows, "totals fell from {before:?} to {after:?}");
        }
        records
    }

    /// What the server says it served: targets of requests that are not probes.
    pub(crate) fn served(&self) -> Vec<String> {
        let record = self.read("served.tsv");
        let target = |line: &str| line.split('\t').nth(2).map(str::to_owned);
        record.lines().filter_map(target).filter(|target| target != "/").collect()
    }
}

/// Reads a request without a body; false if the connection ends before it is whole.
fn has_asked(stream: &TcpStream) -> bool {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.any(|line| line.is_empty())
}

impl Drop for House {
    fn drop(&mut self) {
        for pid in self.servers() {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// A server started by hand, killed at the end.
pub(crate) struct Origin(Child);

impl Origin {
    pub(crate) fn runs(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|ended| ended.is_none())
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A gateway that runs, killed at the end.
pub(crate) struct Gateway {
    child: Child,
    stdout: std::io::BufReader<std::process::ChildStdout>,
    pub(crate) address: SocketAddr,
    config: String,
}

impl Gateway {
    /// `nightwatt <command> -c <its configuration>`.
    pub(crate) fn order(&self, command: &[&str]) -> Output {
        nightwatt(&[command, &["-c", &self.config]].concat())
    }

    /// What `status --json` says of its only site.
    pub(crate) fn status(&self) -> Value {
        let output = self.order(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", told(&output)));
        status["sites"][0].clone()
    }

    /// Waits until its server is in this state, and returns the status.
    pub(crate) fn until(&self, state: &str) -> Value {
        let mut last = Value::Null;
        eventually(&format!("the server is {state}"), || {
            last = self.status();
            (last["state"] == state).then(|| last.clone())
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("its pid");
        rustix::process::kill_process(pid, signal).expect("it can be signalled");
    }

    /// Kills it by SIGKILL: the process prints nothing more.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("it ends");
    }

    /// SIGTERM. Returns how it ended, and what it said at last.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits for its end, and returns what it said at last.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let ended = eventually("the gateway stops", || self.child.try_wait().expect("a child"));
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).expect("its last words");
        (ended, rest)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A text with the folder's name taken out.
pub(crate) fn without(dir: &Path, text: &str) -> String {
    text.replace(&dir.display().to_string(), "DIR")
}

/// The folder of real data (`NIGHTWATT_DATA`, default `../shared/data`), if it is there.
pub(crate) fn shared_data() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("NIGHTWATT_DATA").map_or_else(|| beside.into(), PathBuf::from);
    if !folder.is_dir() {
        eprintln!("skipped: no shared data at {}", folder.display());
        return None;
    }
    Some(folder)
}
