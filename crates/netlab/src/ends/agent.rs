//! Reads the counters of an end that is another machine: a program of ours there reads them on request.
//!
//! It reports the time of each reading by its own clock, so that the time between two readings is known
//! however long the answers took. Between requests it waits.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_environments::{ShellTarget, shell};
use nightwatt_meters::Host;
use serde::{Deserialize, Serialize};

use super::Error;
use nightwatt_measure::counters::{Machine, Network, Process};
use nightwatt_measure::idle::IdleTrace;

/// Connections are under way by then, or something is wrong with them, and their program says so.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// Between two looks whether they are.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// Counts the connections that a network has opened.
pub(super) const OPENED: &str = "Tcp.ActiveOpens";

/// What an end is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CounterRequest {
    /// Of these processes.
    pub processes: Vec<u32>,
    /// Once more connections than these have been opened there; or when that takes too long.
    pub opened: Option<u64>,
}

/// What an end has counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// When that was, by its own clock.
    pub at_ns: u64,
    /// What all of it has counted; none where both ends are one machine.
    pub machine: Option<Machine>,
    /// Its network.
    pub network: Network,
    /// The processes, in the order in which they were asked for.
    pub processes: Vec<Process>,
}

impl Counted {
    /// Seconds since an earlier one.
    pub fn seconds_since(&self, before: &Self) -> f64 {
        1e-9 * self.at_ns.saturating_sub(before.at_ns) as f64
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AgentReply {
    Counted(Box<Counted>),
    Failed(String),
}

/// Answers the requests of standard input, a line each, until there are no more.
pub fn answer(
    card: &str,
    requests: impl BufRead,
    mut replies: impl Write,
    stop: &Stop,
) -> Result<(), Error> {
    let to_error = || Error::system("answer what is asked about counters");
    let host = Host::default();
    let idle = IdleTrace::start(&host);
    for line in requests.lines() {
        let line = line.map_err(to_error())?;
        let answer = match serde_json::from_str(&line) {
            Ok(request) => match count(&host, &idle, card, &request, stop) {
                Ok(counted) => AgentReply::Counted(Box::new(counted)),
                Err(error) => AgentReply::Failed(error.to_string()),
            },
            Err(error) => AgentReply::Failed(error.to_string()),
        };
        let text = serde_json::to_string(&answer).map_err(|error| to_error()(error.into()))?;
        writeln!(replies, "{text}").and_then(|()| replies.flush()).map_err(to_error())?;
    }
    Ok(())
}

fn count(
    host: &Host,
    idle: &IdleTrace,
    card: &str,
    request: &CounterRequest,
    stop: &Stop,
) -> Result<Counted, Error> {
    let network = || Ok(Network::read(host, std::process::id(), card)?);
    if let Some(opened) = request.opened {
        wait_for_more(opened, network, stop)?;
    }
    let processes = request.processes.iter().map(|process| Process::read(host, *process));
    let processes = processes.collect::<Result<_, _>>()?;
    let machine = Some(idle.read(host)?);
    let at_ns = monotonic().since(Mono::ZERO).as_nanos() as u64;
    Ok(Counted { at_ns, machine, network: network()?, processes })
}

/// Waits until connections open. Their start is not announced, and a program may take long to start.
pub(super) fn wait_for_more(
    opened: u64,
    network: impl Fn() -> Result<Network, Error>,
    stop: &Stop,
) -> Result<(), Error> {
    let late = monotonic() + TIMEOUT;
    while network()?.protocol(OPENED) <= opened && monotonic() < late {
        stop.wait_until(monotonic() + LOOK);
        if stop.is_stopped() {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

/// The program there. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Agent {
    end: String,
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    stop: Stop,
}

impl Agent {
    /// Starts it.
    pub(super) fn start(
        end: &str,
        place: &ShellTarget,
        program: &str,
        card: &str,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let to_error = || Error::system(format!("ask the {end} for its counters"));
        let words = [program, "tcp", "link", "count", "--card", card];
        let mut child = place
            .command(&format!("exec {}", shell::join(words)))
            // What interrupts us from the terminal is not for ssh.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(to_error())?;
        let broken = || to_error()(io::ErrorKind::BrokenPipe.into());
        let requests = Some(child.stdin.take().ok_or_else(broken)?);
        let replies = BufReader::new(child.stdout.take().ok_or_else(broken)?);
        let agent = Self { end: end.to_owned(), child, requests, replies, stop: stop.clone() };
        Ok(agent)
    }

    /// Sends a request; [`receive`](Self::receive) returns the reply.
    pub(super) fn send(&mut self, request: &CounterRequest) -> Result<(), Error> {
        let gone = Error::Gone { end: self.end.clone() };
        let Some(pipe) = &mut self.requests else { return Err(gone) };
        let to_error = Error::system(format!("ask the {} for its counters", self.end));
        let text = serde_json::to_string(request).map_err(|error| to_error(error.into()))?;
        writeln!(pipe, "{text}").and_then(|()| pipe.flush()).map_err(|_| gone)
    }

    /// Waits for the reply. A machine that is gone is noticed by ssh.
    pub(super) fn receive(&mut self) -> Result<Counted, Error> {
        let fd = self.replies.get_ref().as_fd();
        if self.replies.buffer().is_empty()
            && self.stop.readable_until(fd, Mono::NEVER) == Woken::Stopped
        {
            return Err(Error::Interrupted);
        }
        let mut line = String::new();
        let read = self.replies.read_line(&mut line);
        if read.is_err() || line.is_empty() {
            return Err(Error::Gone { end: self.end.clone() });
        }
        let what = format!("read the counters of the {}", self.end);
        match serde_json::from_str(&line) {
            Ok(AgentReply::Counted(counted)) => Ok(*counted),
            Ok(AgentReply::Failed(output)) => {
                Err(Error::Command { what, command: "nightwatt tcp link count".to_owned(), output })
            }
            Err(error) => Err(Error::UnexpectedOutput {
                program: "nightwatt tcp link count",
                why: error.to_string(),
                output: line.chars().take(200).collect(),
            }),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It ends with its requests; where it is gone, so is what we spoke through.
        drop(self.requests.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_an_answer_and_a_wrong_one_does_not_end_it() {
        let own = CounterRequest { processes: vec![std::process::id()], opened: None };
        let none = CounterRequest { processes: vec![u32::MAX], opened: None };
        let lines = [&own, &none].map(|it| serde_json::to_string(it).unwrap()).join("\n");
        let (mut output, stop) = (Vec::new(), Stop::new().unwrap());
        answer("lo", format!("x\n{lines}\n").as_bytes(), &mut output, &stop).unwrap();
        let output = String::from_utf8(output).unwrap();
        let replies: Vec<AgentReply> =
            output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [AgentReply::Failed(_), AgentReply::Counted(counted), AgentReply::Failed(why)] =
            &replies[..]
        else {
            panic!("{output}")
        };
        assert!(counted.machine.as_ref().is_some_and(|it| it.cpus > 0), "{output}");
        assert_eq!(counted.processes.len(), 1);
        assert!(why.contains("/proc/4294967295"), "{why}");
    }

    #[test]
    fn time_between_two_answers_is_that_of_the_clock_there() {
        let at = |at_ns| Counted {
            at_ns,
            machine: None,
            network: Network::default(),
            processes: Vec::new(),
        };
        assert!((at(5_500_000_000).seconds_since(&at(3_000_000_000)) - 2.5).abs() < 1e-12);
    }
}
