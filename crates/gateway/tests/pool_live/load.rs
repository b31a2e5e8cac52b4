//! Requests at given times, whatever becomes of those before, each on a connection of its own.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::{Mono, Nanos};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its own answer, whole, with this status, after that time.
    Answered(u16, Duration),
    /// None, or not its own.
    Lost(String),
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
                clock.sleep_until(begin + Mono::from(at).0).await;
                let (clock, done) = (clock.clone(), done.clone());
                tasks.spawn(async move {
                    let asked = clock.now().mono;
                    let target = format!("/{number}");
                    let got = clock.timeout(Duration::from_mins(1), ask(to, &target)).await;
                    let took = clock.now().mono.since(asked);
                    let outcome = match got {
                        Ok(Ok((status, body))) if status == 503 || body == target => {
                            Outcome::Answered(status, took)
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

async fn ask(to: SocketAddr, target: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: pool\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.to_owned()))
}
