//! Waiting until all has come that was sent, and whether this machine is on time.

use std::future::Future;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::{Stop, monotonic};
use tokio::net::UdpSocket;

use crate::stage::secs;

/// Waits for `work`; panics when that has clearly come to a standstill. No test rests on this time: a
/// busy machine may need a while.
pub(crate) async fn watched<T>(what: &str, work: impl Future<Output = T>) -> T {
    let waited = Clock::real().timeout(secs(120), work).await;
    waited.unwrap_or_else(|_| panic!("standstill: waited for {what}"))
}

/// Lets everything that was sent arrive, and everybody who is here react, while time stands still.
pub(crate) async fn settle(clock: &Clock) {
    let _still = clock.owe();
    // Where no more files may be open there is none.
    let mark = UdpSocket::bind("127.0.0.1:0").await.ok();
    // One round for each step from who sends to who answers, and more.
    for _ in 0..20 {
        // A busy kernel delivers later, but in order: what was sent before this is there when this comes.
        if let Some(mark) = &mark {
            mark.send_to(b"mark", mark.local_addr().unwrap()).await.unwrap();
            watched("a datagram of our own", async {
                // Never at rest: then time would go on where requests are held on somebody's account.
                while mark.try_recv(&mut [0; 4]).is_err() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
        for _ in 0..15 {
            tokio::task::yield_now().await;
        }
    }
}

/// By how much a thread that does nothing was late at worst while that went on.
pub(crate) async fn lateness<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let stop = Stop::new().unwrap();
    let theirs = stop.clone();
    let watch = std::thread::spawn(move || {
        let mut worst = Duration::ZERO;
        while !theirs.is_stopped() {
            let due = monotonic() + Duration::from_millis(10);
            theirs.wait_until(due);
            worst = worst.max(monotonic().since(due));
        }
        worst
    });
    let done = work.await;
    stop.stop();
    (done, watch.join().unwrap())
}
