//! Passwords that wait for their turn, with a thread for hashes that computes none until the story lets it.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::Poll;

use http::Request;
use http::header::HeaderValue;
use nightwatt_energy::time::Wall;

use super::*;
use crate::config::Config;
use crate::facts::Peer;

const USERS: &str = "ann:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5\n";
const RIGHT: &str = "Hello world!";

fn config(access: &str) -> Config {
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.1\"]\n[[site]]\nname = \"blog\"\n\
         origin = \"http://127.0.0.1:1\"\npower.simulated = {{}}\n[site.access]\n{access}\n"
    );
    Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

fn admittance(access: &str) -> Arc<Admittance> {
    let mut config = config(access);
    let access = config.site[0].access.as_mut().unwrap();
    access.users = crate::config::Users::parse(USERS).unwrap();
    Admittance::of(&config.site[0]).ok().flatten().unwrap()
}

struct Story {
    admittance: Arc<Admittance>,
    clock: Clock,
    /// Lets the thread work.
    free: mpsc::Sender<()>,
}

type Guess = Pin<Box<dyn Future<Output = Result<(), Denial>>>>;

impl Story {
    fn play(story: impl AsyncFnOnce(Self)) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (free, is_free) = mpsc::channel();
            drop(tokio::task::spawn_blocking(move || is_free.recv()));
            let clock = Clock::virtual_at(Wall(0), 0);
            story(Self { admittance: admittance("htpasswd = \"users\""), clock, free }).await;
        });
    }

    /// A client shows a password, and waits for what comes of it. Nothing comes while the thread is busy, unless it is
    /// refused.
    async fn shows(&self, comer: Comer, password: &str) -> Result<Guess, Denial> {
        let (admittance, clock) = (Arc::clone(&self.admittance), self.clock.clone());
        let login = Login { user: "ann".to_owned(), password: password.into() };
        let mut guess: Guess = Box::pin(async move {
            admittance.by_password(comer, Shown::Password(login), &clock, |_| ()).await
        });
        let first = std::future::poll_fn(|cx| Poll::Ready(guess.as_mut().poll(cx)));
        match first.await {
            Poll::Pending => Ok(guess),
            Poll::Ready(Err(denial)) => Err(denial),
            Poll::Ready(Ok(())) => panic!("it comes in at once"),
        }
    }

    async fn is_refused(&self, comer: Comer, password: &str) -> Option<Denial> {
        self.shows(comer, password).await.err()
    }

    fn hashes(&self) -> usize {
        1 - self.admittance.hashing.available_permits()
    }
}

/// A client of a network with this number.
fn comer(network: u64, client: u64) -> Comer {
    let ip = Some(IpAddr::from([192, 0, 2, 1]));
    Comer { ip, budget: network << 32 | client, network, is_unreadable: false }
}

#[test]
fn a_client_that_leaves_frees_no_turn_and_its_guess_counts() {
    Story::play(async |story| {
        drop(story.shows(comer(1, 1), "wrong").await.unwrap());
        for client in 2..20 {
            assert_eq!(story.hashes(), 1, "client {client} comes");
            drop(story.shows(comer(1, client), "wrong, too").await.unwrap());
        }
        assert_eq!(story.admittance.lock().wrong.clients(), 0);
        // While the thread is busy: one that is free may be done with it before it is looked at.
        let last = story.shows(comer(1, 20), RIGHT).await.unwrap();
        story.free.send(()).unwrap();
        assert_eq!((last.await, story.hashes()), (Ok(()), 0));
        assert_eq!(story.admittance.lock().wrong.clients(), 1, "only one was hashed");
    });
}

#[test]
fn a_client_and_a_network_have_their_part_of_the_places() {
    Story::play(async |story| {
        let mut waiting = Vec::new();
        for client in 0..4 {
            for number in 0..2 {
                let guess = story.shows(comer(1, client), &format!("1 {client} {number}")).await;
                waiting.push(guess.unwrap());
            }
            assert_eq!(story.is_refused(comer(1, client), "one more").await, Some(Denial::Busy));
        }
        assert_eq!(story.is_refused(comer(1, 9), "x").await, Some(Denial::Busy), "its network");
        for network in 2..5 {
            for client in 0..8 {
                let guess =
                    story.shows(comer(network, client), &format!("{network} {client}")).await;
                waiting.push(guess.unwrap());
            }
        }
        assert_eq!(waiting.len(), 32);
        assert_eq!(story.is_refused(comer(5, 1), "x").await, Some(Denial::Busy), "all");
        // A client that leaves frees its place, if its turn has not come.
        drop(waiting.pop());
        assert_eq!(story.is_refused(comer(5, 1), "x").await, None);
    });
}

#[test]
fn a_password_that_is_shown_several_times_is_checked_once() {
    Story::play(async |story| {
        let mut same = Vec::new();
        for _ in 0..6 {
            same.push(story.shows(comer(1, 1), RIGHT).await.unwrap());
        }
        let (mine, others) = (comer(2, 1), comer(3, 1));
        let mut wrong = vec![story.shows(mine, "wrong").await.unwrap()];
        wrong.push(story.shows(others, "wrong").await.unwrap());
        story.free.send(()).unwrap();
        for guess in same {
            assert_eq!(guess.await, Ok(()));
        }
        for guess in wrong {
            assert_eq!(guess.await, Err(Denial::WrongPassword));
        }
        assert_eq!(story.admittance.lock().wrong.clients(), 2, "each of them has shown it");
    });
}

#[test]
fn if_the_first_that_shows_it_leaves_another_has_it_checked() {
    Story::play(async |story| {
        let before = story.shows(comer(1, 1), "another").await.unwrap();
        let first = story.shows(comer(2, 1), RIGHT).await.unwrap();
        let second = story.shows(comer(2, 2), RIGHT).await.unwrap();
        drop(first);
        story.free.send(()).unwrap();
        assert_eq!(before.await, Err(Denial::WrongPassword));
        assert_eq!(second.await, Ok(()));
    });
}

#[test]
fn a_network_has_as_many_attempts_as_four_clients_and_those_without_any_take_no_place() {
    Story::play(async |story| {
        let rubbish = async |comer: Comer| {
            let Story { admittance, clock, .. } = &story;
            admittance.by_password(comer, Shown::Rubbish, clock, |_| ()).await.unwrap_err()
        };
        for client in 0..4 {
            for _ in 0..10 {
                assert_eq!(rubbish(comer(1, client)).await, Denial::WrongPassword);
            }
            assert_eq!(rubbish(comer(1, client)).await, Denial::Attempts(Duration::from_secs(10)));
        }
        // One in 2.5 s.
        let later = Denial::Attempts(Duration::from_millis(2500));
        assert_eq!(rubbish(comer(1, 5)).await, later);
        for _ in 0..10 {
            assert_eq!(story.is_refused(comer(1, 6), RIGHT).await, Some(later));
        }
        assert_eq!(story.is_refused(comer(2, 1), RIGHT).await, None);
    });
}

fn facts(peer: impl Into<IpAddr>, fields: &[(&'static str, &'static str)]) -> (Facts, HeaderMap) {
    let mut parts = Request::new(()).into_parts().0;
    for (name, value) in fields {
        parts.headers.append(*name, HeaderValue::from_static(value));
    }
    let now = Clock::virtual_at(Wall(0), 0).now();
    let peer = Peer { ip: peer.into(), secure: false, vouchers: None };
    (Facts::of(&config(""), peer, &parts, now, 1), parts.headers)
}

#[test]
fn all_addresses_of_this_machine_share_one_count_of_attempts_and_so_does_a_network_of_ipv6() {
    let counted = |peer: &str| {
        let comer = Comer::of(&facts(peer.parse::<IpAddr>().unwrap(), &[]).0);
        (comer.budget, comer.network)
    };
    for same in ["127.0.0.3", "127.255.255.254", "::1", "::ffff:127.0.0.4"] {
        assert_eq!(counted(same), counted("127.0.0.2"), "{same}");
    }
    // A /64 is one client.
    assert_eq!(counted("2001:db8::1"), counted("2001:db8::ffff:1"));
    assert_ne!(counted("2001:db8::1").0, counted("2001:db8:0:1::1").0);
    assert_ne!(counted("192.168.1.5"), counted("127.0.0.2"));
    assert_ne!(counted("192.168.1.5"), counted("192.168.1.6"));
}

#[test]
fn a_peer_that_speaks_for_others_and_comes_in_by_its_network_is_warned_of() {
    const HOME: [u8; 4] = [192, 168, 1, 5];
    let forwarded = ("forwarded", "for=203.0.113.9");
    let listed = ("x-forwarded-for", "203.0.113.9");
    for (access, peer, field, warns) in [
        ("allow = [\"192.168.0.0/16\"]", HOME, listed, true),
        ("allow = [\"192.168.0.0/16\"]", HOME, forwarded, true),
        ("wake = [\"192.168.0.0/16\"]", HOME, listed, true),
        ("htpasswd = \"x\"\nwithout_password = [\"192.168.0.0/16\"]", HOME, listed, true),
        ("allow = [\"192.168.0.0/16\"]", HOME, ("x-real-ip", "203.0.113.9"), false),
        ("allow = [\"10.0.0.0/8\"]", HOME, listed, false),
        ("allow = [\"192.168.0.0/16\"]\ndeny = [\"192.168.1.5\"]", HOME, listed, false),
        ("deny = [\"10.0.0.0/8\"]", HOME, listed, false),
        // A trusted proxy.
        ("allow = [\"127.0.0.0/8\", \"203.0.113.9\"]", [127, 0, 0, 1], listed, false),
    ] {
        let admittance = admittance(access);
        let (facts, mut headers) = facts(peer, &[field]);
        admittance.take(&facts, &mut headers);
        assert_eq!(admittance.is_warned.load(Ordering::Relaxed), warns, "{access} {field:?}");
    }
}
