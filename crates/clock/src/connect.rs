//! Connections to a name that has several addresses: the first that answers (RFC 8305, "happy eyeballs").
//!
//! An address behind which nothing answers costs a quarter of a second, not the whole time allowed. Everything that
//! connects by name goes this way: to servers, probes, controllers, webhooks, meters.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::pin::Pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpStream, ToSocketAddrs, lookup_host};

use crate::Clock;
use crate::meter::monotonic;

/// Time after which the next address is tried while earlier ones have not answered (RFC 8305, 8).
const DELAY: Duration = Duration::from_millis(250);

type Attempt = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Connects to `HOST:PORT`. The name is looked up each time.
pub async fn connect(clock: &Clock, to: impl ToSocketAddrs) -> io::Result<TcpStream> {
    connect_any(clock, lookup_host(to).await?).await
}

/// Connects to the first of these addresses that answers.
pub async fn connect_any(
    clock: &Clock,
    addresses: impl IntoIterator<Item = SocketAddr>,
) -> io::Result<TcpStream> {
    let mut waiting = in_turns(addresses);
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut failed = no_address();
    loop {
        if let Some(address) = waiting.pop_front() {
            attempts.push(Box::pin(TcpStream::connect(address)));
        } else if attempts.is_empty() {
            return Err(failed);
        }
        let first = first_of(&mut attempts);
        let done = if waiting.is_empty() {
            first.await
        } else {
            match clock.timeout(DELAY, first).await {
                Ok(done) => done,
                Err(_) => continue,
            }
        };
        match done {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
}

/// The blocking form of [`connect_any`], for threads that read meters.
pub fn connect_blocking(
    addresses: impl IntoIterator<Item = SocketAddr>,
    limit: Duration,
) -> io::Result<Blocking> {
    let mut waiting = in_turns(addresses);
    let deadline = monotonic() + limit;
    let left = || deadline.since(monotonic()).max(Duration::from_millis(1));
    let (sender, receiver) = mpsc::channel();
    let mut under_way = 0;
    let mut failed = no_address();
    loop {
        if let Some(address) = waiting.pop_front() {
            let (sender, limit) = (sender.clone(), left());
            // Sending fails once another address has won; the connection is closed then.
            std::thread::spawn(move || sender.send(Blocking::connect_timeout(&address, limit)));
            under_way += 1;
        } else if under_way == 0 {
            return Err(failed);
        }
        let timeout = if waiting.is_empty() { left() } else { left().min(DELAY) };
        match receiver.recv_timeout(timeout) {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => {
                failed = error;
                under_way -= 1;
            }
            Err(RecvTimeoutError::Timeout) if monotonic() < deadline => {}
            Err(_) => return Err(ErrorKind::TimedOut.into()),
        }
    }
}

fn no_address() -> io::Error {
    io::Error::new(ErrorKind::NotFound, "the name has no address")
}

/// Keeps the resolver's order but alternates the address families (RFC 8305, 4), since one of them may be unusable.
fn in_turns(addresses: impl IntoIterator<Item = SocketAddr>) -> VecDeque<SocketAddr> {
    let addresses: Vec<SocketAddr> = addresses.into_iter().collect();
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (firsts, others): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|it| it.is_ipv6() == first_is_v6);
    let (mut firsts, mut others) = (firsts.into_iter(), others.into_iter());
    let mut all = VecDeque::new();
    loop {
        let pair = [firsts.next(), others.next()];
        if pair == [None, None] {
            return all;
        }
        all.extend(pair.into_iter().flatten());
    }
}

/// Waits for the first attempt to end, and removes it.
async fn first_of(attempts: &mut Vec<Attempt>) -> io::Result<TcpStream> {
    poll_fn(|cx| {
        for index in 0..attempts.len() {
            if let Poll::Ready(done) = attempts[index].as_mut().poll(cx) {
                drop(attempts.swap_remove(index));
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use nightwatt_energy::time::Wall;
    use rustix::net::sockopt;

    use super::*;

    /// An address that neither accepts nor refuses connections: its backlog is full.
    fn black_hole() -> (SocketAddr, impl Sized) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let waits = Blocking::connect(address).unwrap();
        (address, (listener, waits))
    }

    fn listening() -> (SocketAddr, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (listener.local_addr().unwrap(), listener)
    }

    fn refusing() -> SocketAddr {
        listening().0
    }

    fn virtually<T>(story: impl AsyncFnOnce(&Clock) -> T) -> (T, Duration) {
        let clock = Clock::virtual_at(Wall::from_secs(1_000_000), 0);
        let outcome = clock.runtime().unwrap().block_on(story(&clock));
        (outcome, clock.now().mono.0)
    }

    #[test]
    fn the_next_address_is_tried_after_a_quarter_of_a_second_and_the_first_that_answers_wins() {
        let (hole, _kept) = black_hole();
        let (there, _listener) = listening();
        for (addresses, delays) in
            [(vec![hole, there], 1), (vec![hole, hole, there], 2), (vec![hole, there, hole], 1)]
        {
            let (connected, took) =
                virtually(async |clock| connect_any(clock, addresses).await.unwrap());
            assert_eq!(connected.peer_addr().unwrap(), there);
            // Virtual time may jump once more before a connection over loopback is noticed.
            assert!((DELAY * delays..=DELAY * 2).contains(&took), "{took:?}");
        }
    }

    #[test]
    fn an_address_that_refuses_costs_no_delay() {
        let (there, _listener) = listening();
        let addresses = vec![refusing(), refusing(), there];
        let clock = Clock::virtual_at(Wall::from_secs(1_000_000), 0);
        let connected = clock.runtime().unwrap().block_on(async {
            // Time stands still: only a failure can start the next attempt.
            let _still = clock.owe();
            connect_any(&clock, addresses).await.unwrap()
        });
        assert_eq!(connected.peer_addr().unwrap(), there);
    }

    #[test]
    fn when_nobody_answers_it_is_said_why() {
        let (failed, _) = virtually(async |clock| {
            connect_any(clock, vec![refusing(), refusing()]).await.unwrap_err()
        });
        assert_eq!(failed.kind(), ErrorKind::ConnectionRefused);
        let (failed, _) = virtually(async |clock| connect_any(clock, vec![]).await.unwrap_err());
        assert_eq!(failed.kind(), ErrorKind::NotFound);
        let limit = Duration::from_mins(1);
        let failed = connect_blocking([refusing(), refusing()], limit).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(connect_blocking([], limit).unwrap_err().kind(), ErrorKind::NotFound);
        let (hole, _kept) = black_hole();
        let failed = connect_blocking([hole, hole], Duration::from_millis(20)).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn who_may_block_gets_past_a_black_hole_too() {
        let (hole, _kept) = black_hole();
        let (there, _listener) = listening();
        let connected =
            connect_blocking([hole, refusing(), there], Duration::from_mins(1)).unwrap();
        assert_eq!(connected.peer_addr().unwrap(), there);
        // The socket is usable.
        assert!(sockopt::socket_error(&connected).unwrap().is_ok());
    }

    #[test]
    fn families_take_turns_in_the_resolvers_order() {
        let of = |texts: &[&str]| texts.iter().map(|it| it.parse().unwrap()).collect::<Vec<_>>();
        for (found, tried) in [
            (["[::1]:1", "[::2]:1", "1.1.1.1:1", "2.2.2.2:1"], [0, 2, 1, 3]),
            (["1.1.1.1:1", "[::1]:1", "[::2]:1", "[::3]:1"], [0, 1, 2, 3]),
            (["1.1.1.1:1", "2.2.2.2:1", "3.3.3.3:1", "[::1]:1"], [0, 3, 1, 2]),
        ] {
            let found = of(&found);
            let expected: Vec<_> = tried.iter().map(|index| found[*index]).collect();
            assert_eq!(in_turns(found), expected);
        }
    }
}
