use proptest::prelude::*;

use super::*;
use crate::client::{Exchange, Progress};
use crate::protocol::{Event, Facts, News, Outcome};

const NOW: Duration = Duration::from_secs(1000);
const TIMEOUT: Duration = Duration::from_secs(9);

fn key(byte: u8) -> Key {
    Key::new(&[byte; 32]).unwrap()
}

fn proxy() -> SocketAddr {
    "10.0.0.1:40000".parse().unwrap()
}

fn authenticator() -> Authenticator {
    Authenticator::new(vec![key(1), key(2)], key(99))
}

fn reply(text: &str) -> Reply {
    Reply { outcome: Outcome::Inhibited, facts: Facts::default(), texts: vec![text.to_owned()] }
}

/// From HELLO to the order as a datagram.
fn order(
    authenticator: &mut Authenticator,
    key: &Key,
    nonce: u8,
    now: Duration,
) -> (Exchange, Vec<u8>) {
    let mut exchange = Exchange::new(key.clone(), Nonce([nonce; 16]), Verb::Sleep, TIMEOUT);
    let hello = exchange.message();
    let Verdict::Answer(challenge) = authenticator.receive(now, 0, proxy(), &hello) else {
        panic!()
    };
    assert_eq!(challenge.len(), hello.len(), "no answer is longer than its question");
    assert_eq!(exchange.receive(&challenge), Progress::Send);
    let order = exchange.message();
    (exchange, order)
}

fn ticket(verdict: &Verdict) -> Ticket {
    let Verdict::Order(ticket, Verb::Sleep) = verdict else { panic!("{verdict:?}") };
    *ticket
}

fn refusals(authenticator: &mut Authenticator) -> String {
    authenticator.refused(Duration::MAX).unwrap_or_default()
}

#[test]
fn an_order_is_let_in_and_its_reply_understood() {
    let mut authenticator = authenticator();
    let (mut exchange, order) = order(&mut authenticator, &key(2), 7, NOW);
    let ticket = ticket(&authenticator.receive(NOW, 3, proxy(), &order));
    assert_eq!((ticket.proxy, ticket.from, ticket.socket), (1, proxy(), 3));
    let sent = authenticator.answer(NOW, &ticket, reply("a backup runs"));
    assert_eq!(exchange.receive(&sent), Progress::Replied(reply("a backup runs")));
    assert_eq!(refusals(&mut authenticator), "");
}

#[test]
fn an_order_sent_again_gets_the_same_reply_and_is_not_carried_out_again() {
    let mut authenticator = authenticator();
    let (_, order) = order(&mut authenticator, &key(1), 7, NOW);
    let ticket = ticket(&authenticator.receive(NOW, 0, proxy(), &order));
    assert_eq!(
        authenticator.receive(NOW, 0, proxy(), &order),
        Verdict::Silence,
        "being carried out"
    );
    // Carrying it out takes longer than any challenge lives.
    let later = NOW + Duration::from_mins(1);
    let sent = authenticator.answer(later, &ticket, reply("no"));
    for _ in 0..REPEATS {
        assert_eq!(authenticator.receive(later, 0, proxy(), &order), Verdict::Answer(sent.clone()));
    }
    assert_eq!(
        authenticator.receive(later, 0, proxy(), &order),
        Verdict::Silence,
        "that is no proxy any more"
    );
    // When the reply is forgotten, the order is too old to be new again.
    let forgotten = later + LIFETIME + Duration::from_secs(2);
    assert_eq!(authenticator.receive(forgotten, 0, proxy(), &order), Verdict::Silence);
    assert_eq!(refusals(&mut authenticator), "1 stale, 1 replayed, the last from 10.0.0.1");
    assert_eq!(authenticator.remembered(), 0);
}

#[test]
fn an_order_that_is_replayed_from_another_address_gets_no_reply_and_uses_none_up() {
    let mut authenticator = authenticator();
    let (_, order) = order(&mut authenticator, &key(1), 7, NOW);
    let ticket = ticket(&authenticator.receive(NOW, 0, proxy(), &order));
    let elsewhere = ["10.0.0.1:40001", "10.0.0.2:40000"].map(|at| at.parse().unwrap());
    let silent = |authenticator: &mut Authenticator| {
        for _ in 0..REPEATS {
            for from in elsewhere {
                assert_eq!(authenticator.receive(NOW, 0, from, &order), Verdict::Silence, "{from}");
            }
        }
    };
    silent(&mut authenticator);
    let sent = authenticator.answer(NOW, &ticket, reply("a backup runs"));
    silent(&mut authenticator);
    assert_eq!(authenticator.receive(NOW, 0, proxy(), &order), Verdict::Answer(sent));
    assert_eq!(refusals(&mut authenticator), "160 replayed, the last from 10.0.0.2");
}

#[test]
fn an_order_that_is_answered_at_once_is_never_carried_out_again_at_any_later_time() {
    let mut authenticator = authenticator();
    let (_, order) = order(&mut authenticator, &key(1), 7, NOW);
    let ticket = ticket(&authenticator.receive(NOW, 0, proxy(), &order));
    authenticator.answer(NOW, &ticket, reply("no"));
    for tenths in 0..600 {
        let later = NOW + Duration::from_millis(100 * tenths);
        let verdict = authenticator.receive(later, 0, proxy(), &order);
        assert!(!matches!(verdict, Verdict::Order(..)), "after {tenths} tenths of a second");
    }
}

#[test]
fn an_order_that_comes_too_late_or_from_elsewhere_is_stale() {
    let mut authenticator = authenticator();
    let (_, first) = order(&mut authenticator, &key(1), 7, NOW);
    let late = NOW + LIFETIME + Duration::from_secs(1);
    assert_eq!(authenticator.receive(late, 0, proxy(), &first), Verdict::Silence);
    for elsewhere in ["10.0.0.1:40001", "10.0.0.2:40000", "[::1]:40000"] {
        let verdict = authenticator.receive(NOW, 0, elsewhere.parse().unwrap(), &first);
        assert_eq!(verdict, Verdict::Silence, "{elsewhere}");
    }
    // A challenge of before the agent's restart, or of a machine that was up for longer.
    let mut restarted = Authenticator::new(vec![key(1)], key(98));
    assert_eq!(restarted.receive(NOW, 0, proxy(), &first), Verdict::Silence);
    assert_eq!(
        authenticator.receive(Duration::from_secs(999), 0, proxy(), &first),
        Verdict::Silence
    );
    assert_eq!(refusals(&mut authenticator), "5 stale, the last from 10.0.0.1");
    assert_eq!(refusals(&mut restarted), "1 stale, the last from 10.0.0.1");
    // In time it is what it says.
    let within = NOW + LIFETIME;
    ticket(&authenticator.receive(within, 0, proxy(), &first));
}

#[test]
fn one_challenge_is_good_for_one_order() {
    let mut authenticator = authenticator();
    let (_, first) = order(&mut authenticator, &key(1), 7, NOW);
    ticket(&authenticator.receive(NOW, 0, proxy(), &first));
    // The owner of the key gives another order to the same challenge.
    let Ok(Message { nonce, body: Body::Order(challenge, ..) }) =
        Sealed::parse(&first).unwrap().open(&key(1))
    else {
        panic!()
    };
    let second = Message { nonce, body: Body::Order(challenge, Verb::Check, 9_000) }.seal(&key(1));
    assert_eq!(authenticator.receive(NOW, 0, proxy(), &second), Verdict::Silence);
    // And another proxy cannot use it.
    let third = Message { nonce, body: Body::Order(challenge, Verb::Sleep, 9_000) }.seal(&key(2));
    assert_eq!(authenticator.receive(NOW, 0, proxy(), &third), Verdict::Silence);
    assert_eq!(refusals(&mut authenticator), "2 replayed, the last from 10.0.0.1");
}

#[test]
fn a_message_of_the_agents_own_that_comes_back_is_refused() {
    let mut authenticator = authenticator();
    let (_, order) = order(&mut authenticator, &key(1), 7, NOW);
    let ticket = ticket(&authenticator.receive(NOW, 0, proxy(), &order));
    let hello = Exchange::new(key(1), Nonce([8; 16]), Verb::State, TIMEOUT).message();
    let Verdict::Answer(challenge) = authenticator.receive(NOW, 0, proxy(), &hello) else {
        panic!()
    };
    let sent = authenticator.answer(NOW, &ticket, reply("no"));
    let news = News { event: Event::Back, boot: [0; 16], counter: 5, wall_ms: 0 };
    let news = Message { nonce: Nonce([9; 16]), body: Body::News(news) }.seal(&key(1));
    for own in [challenge, sent, news] {
        assert_eq!(authenticator.receive(NOW, 0, proxy(), &own), Verdict::Silence);
    }
    assert_eq!(refusals(&mut authenticator), "3 reflected, the last from 10.0.0.1");
}

#[test]
fn whoever_has_no_key_or_another_gets_no_answer() {
    let mut authenticator = authenticator();
    for stranger in [key(3), key(99)] {
        let hello = Exchange::new(stranger, Nonce([7; 16]), Verb::State, TIMEOUT).message();
        assert_eq!(authenticator.receive(NOW, 0, proxy(), &hello), Verdict::Silence);
    }
    // Who only knows the key's name.
    let mut forged = Exchange::new(key(3), Nonce([7; 16]), Verb::State, TIMEOUT).message();
    forged[6..14].copy_from_slice(&key(1).id().0);
    assert_eq!(authenticator.receive(NOW, 0, proxy(), &forged), Verdict::Silence);
    let mut version_2 = Exchange::new(key(1), Nonce([7; 16]), Verb::State, TIMEOUT).message();
    version_2[3] = 2;
    assert_eq!(authenticator.receive(NOW, 0, proxy(), &version_2), Verdict::Silence);
    assert_eq!(authenticator.receive(NOW, 0, proxy(), b""), Verdict::Silence);
    assert_eq!(
        refusals(&mut authenticator),
        "1 malformed, 1 of another version, 2 with an unknown key, 1 forged, the last from 10.0.0.1"
    );
    assert_eq!(authenticator.refused_total(), 5);
}

#[test]
fn a_flood_makes_one_line_a_minute_and_nothing_is_remembered() {
    let mut authenticator = authenticator();
    let mut lines = Vec::new();
    // Ten minutes of a thousand forgeries a second.
    for millisecond in 0..600_000_u64 {
        let now = NOW + Duration::from_millis(millisecond);
        authenticator.receive(now, 0, proxy(), &[b'x'; 90]);
        lines.extend(authenticator.refused(now));
    }
    assert_eq!(lines.len(), 10);
    assert_eq!(lines[0], "1 malformed, the last from 10.0.0.1");
    assert_eq!(lines[1], "60000 malformed, the last from 10.0.0.1");
    assert_eq!(authenticator.remembered(), 0);
}

#[test]
fn even_the_owner_of_a_key_cannot_make_it_grow() {
    let mut authenticator = authenticator();
    for number in 0..2000_u16 {
        let mut nonce = [0; 16];
        nonce[..2].copy_from_slice(&number.to_be_bytes());
        let mut exchange = Exchange::new(key(1), Nonce(nonce), Verb::Sleep, TIMEOUT);
        let Verdict::Answer(challenge) =
            authenticator.receive(NOW, 0, proxy(), &exchange.message())
        else {
            panic!()
        };
        exchange.receive(&challenge);
        if let Verdict::Order(ticket, _) =
            authenticator.receive(NOW, 0, proxy(), &exchange.message())
        {
            authenticator.answer(NOW, &ticket, reply("no"));
        }
    }
    assert_eq!(authenticator.remembered(), REMEMBERED);
    // Later there is room again.
    let later = NOW + Duration::from_mins(1);
    let (_, order) = order(&mut authenticator, &key(1), 255, later);
    ticket(&authenticator.receive(later, 0, proxy(), &order));
    assert_eq!(authenticator.remembered(), 1);
}

proptest! {
    #[test]
    fn every_flipped_bit_is_noticed(bit in 0_usize..(30 + 29 + 32) * 8) {
        let mut authenticator = authenticator();
        let (mut exchange, mut order) = order(&mut authenticator, &key(1), 7, NOW);
        prop_assert_eq!(order.len() * 8, (30 + 29 + 32) * 8);
        order[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(authenticator.receive(NOW, 0, proxy(), &order), Verdict::Silence);
        // And so on the other side.
        order[bit / 8] ^= 1 << (bit % 8);
        let ticket = ticket(&authenticator.receive(NOW, 0, proxy(), &order));
        let mut sent = authenticator.answer(NOW, &ticket, reply("a"));
        let bit = bit % (sent.len() * 8);
        sent[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(exchange.receive(&sent), Progress::Nothing);
    }

    #[test]
    fn a_message_cut_short_or_with_something_behind_it_is_none(cut in 0_usize..87, more in proptest::collection::vec(any::<u8>(), 1..50)) {
        let mut authenticator = authenticator();
        let (_, order) = order(&mut authenticator, &key(1), 7, NOW);
        prop_assert_eq!(authenticator.receive(NOW, 0, proxy(), &order[..cut]), Verdict::Silence);
        let longer = [order.clone(), more].concat();
        prop_assert_eq!(authenticator.receive(NOW, 0, proxy(), &longer), Verdict::Silence);
    }

    #[test]
    fn anything_else_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..1400)) {
        let mut authenticator = authenticator();
        prop_assert_eq!(authenticator.receive(NOW, 0, proxy(), &bytes), Verdict::Silence);
        let headed = [&b"nwa\x01\x03\x00"[..], &key(1).id().0, &bytes].concat();
        prop_assert_eq!(authenticator.receive(NOW, 0, proxy(), &headed), Verdict::Silence);
        prop_assert_eq!(authenticator.refused_total(), 2);
    }
}
