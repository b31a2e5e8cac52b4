//! Requests at given times, whatever becomes of those before, each on a connection of its own.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::{Mono, Nanos};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::LATE;

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its own answer, whole, with this status.
    Answered(u16, Times),
    /// None, or not its own.
    Lost(String),
}

/// The times of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// From the request to the end.
    pub(crate) took: Duration,
    /// From when it was to be sent to when it was.
    pub(crate) sent_late: Duration,
    /// From when the server was to be done to when it was, if a server answered.
    pub(crate) served_late: Option<Duration>,
}

/// Sends a request at each of these times after `begin`, from a thread of its own; gives what came of
/// them, in their order, when all are over.
pub(crate) fn send(
    to: SocketAddr,
    clock: &Clock,
    begin: Mono,
    arrivals: Vec<Nanos>,
) -> std::thread::JoinHandle<Vec<Outcome>> {
    let clock = clock.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let (done, outcomes) = mpsc::channel();
            let mut tasks = tokio::task::JoinSet::new();
            let count = arrivals.len();
            for (number, at) in arrivals.into_iter().enumerate() {
                let due = begin + Mono::from(at).0;
                clock.sleep_until(due).await;
                let (clock, done) = (clock.clone(), done.clone());
                tasks.spawn(async move {
                    let asked = clock.now().mono;
                    let target = format!("/{number}");
                    let got = clock.timeout(Duration::from_mins(1), ask(to, &target)).await;
                    let took = clock.now().mono.since(asked);
                    let outcome = match got {
                        Ok(Ok(Answer { status, served_late, body }))
                            if status == 503 || body == target =>
                        {
                            let sent_late = asked.since(due);
                            Outcome::Answered(status, Times { took, sent_late, served_late })
                        }
                        Ok(Ok(other)) => Outcome::Lost(format!("{other:?}")),
                        Ok(Err(error)) => Outcome::Lost(error.to_string()),
                        Err(_) => Outcome::Lost("no answer".to_owned()),
                    };
                    let _ = done.send((number, outcome));
                });
                while tasks.try_join_next().is_some() {}
            }
            tasks.join_all().await;
            let mut all = vec![Outcome::Lost("nothing was told".to_owned()); count];
            for (number, outcome) in outcomes.try_iter() {
                all[number] = outcome;
            }
            all
        })
    })
}

#[derive(Debug)]
struct Answer {
    status: u16,
    served_late: Option<Duration>,
    body: String,
}

async fn ask(to: SocketAddr, target: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: pool\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
    let late = head.lines().filter_map(|line| line.split_once(": ")).find_map(|(name, value)| {
        name.eq_ignore_ascii_case(LATE).then(|| value.parse().ok()).flatten()
    });
    let served_late = late.map(Duration::from_micros);
    Ok(Answer { status, served_late, body: body.to_owned() })
}
