use proptest::prelude::*;

use super::*;

fn key() -> Key {
    Key::new(&[5; 32]).unwrap()
}

fn reopened(message: &Message) -> Message {
    let sealed = message.seal(&key());
    assert!(sealed.len() <= LONGEST);
    Sealed::parse(&sealed).unwrap().open(&key()).unwrap()
}

#[test]
fn an_order_is_laid_out_as_documented() {
    let challenge = Challenge { slot: 0x0102_0304_0506_0708, token: [0xcc; 16] };
    let body = Body::Order(challenge, Verb::Sleep, 30_000);
    let bytes = Message { nonce: Nonce([0xaa; 16]), body }.seal(&key());
    let mut expected = b"nwa\x01\x03\x00".to_vec();
    expected.extend(key().id().0);
    expected.extend([0xaa; 16]);
    expected.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    expected.extend([0xcc; 16]);
    expected.push(3);
    expected.extend([0, 0, 0x75, 0x30]);
    assert_eq!(bytes[..bytes.len() - 32], expected);
}

#[test]
fn reasons_that_are_too_long_for_a_datagram_are_cut_between_characters() {
    let reply = Reply {
        outcome: Outcome::Inhibited,
        facts: Facts::default(),
        texts: vec!["short".to_owned(), "ä".repeat(2000), "left out".to_owned()],
    };
    let message = Message { nonce: Nonce([1; 16]), body: Body::Reply(reply) };
    let sealed = message.seal(&key());
    assert!((LONGEST - 2..=LONGEST).contains(&sealed.len()), "{}", sealed.len());
    let Body::Reply(read) = reopened(&message).body else { panic!() };
    assert_eq!(read.texts[0], "short");
    assert!(read.texts[1].len() > 1000 && read.texts[1].chars().all(|c| c == 'ä'));
    assert_eq!(read.texts.len(), 2);
}

fn facts() -> impl Strategy<Value = Facts> {
    (any::<[u8; 16]>(), any::<[u64; 3]>(), any::<[i64; 3]>()).prop_map(|(boot, counts, times)| {
        Facts {
            boot,
            counter: counts[0],
            awake_ms: counts[1],
            suspended_ms: counts[2],
            wall_ms: times[0],
            fell_asleep_ms: times[1],
            resumed_ms: times[2],
        }
    })
}

fn body() -> impl Strategy<Value = Body> {
    let challenge =
        || (any::<u64>(), any::<[u8; 16]>()).prop_map(|(slot, token)| Challenge { slot, token });
    let verb = prop_oneof![
        Just(Verb::State),
        Just(Verb::Check),
        Just(Verb::Sleep),
        Just(Verb::Leave),
        Just(Verb::Return)
    ];
    let outcome = prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Going),
        Just(Outcome::Inhibited),
        Just(Outcome::Busy),
        Just(Outcome::Failed)
    ];
    let event = prop_oneof![
        Just(Event::Leaving),
        Just(Event::Back),
        Just(Event::Ready),
        Just(Event::StayedAwake)
    ];
    let texts = proptest::collection::vec(".{1,40}", 0..4);
    let reply = (outcome, facts(), texts)
        .prop_map(|(outcome, facts, texts)| Body::Reply(Reply { outcome, facts, texts }));
    let news = (event, any::<[u8; 16]>(), any::<u64>(), any::<i64>()).prop_map(
        |(event, boot, counter, wall_ms)| Body::News(News { event, boot, counter, wall_ms }),
    );
    prop_oneof![
        Just(Body::Hello),
        challenge().prop_map(Body::Challenge),
        (challenge(), verb, any::<u32>())
            .prop_map(|(challenge, verb, timeout)| Body::Order(challenge, verb, timeout)),
        reply,
        news,
        any::<u64>().prop_map(Body::Ack),
    ]
}

proptest! {
    #[test]
    fn what_is_sealed_is_what_is_opened(nonce in any::<[u8; 16]>(), body in body()) {
        let message = Message { nonce: Nonce(nonce), body };
        prop_assert_eq!(reopened(&message), message);
    }

    #[test]
    fn no_bit_of_any_message_can_be_changed(body in body(), at in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let mut sealed = Message { nonce: Nonce([1; 16]), body }.seal(&key());
        let at = at.index(sealed.len());
        sealed[at] ^= 1_u8 << bit;
        let opened = Sealed::parse(&sealed).and_then(|sealed| sealed.open(&key()));
        prop_assert!(opened.is_err());
    }

    #[test]
    fn the_owner_of_a_key_who_writes_rubbish_is_not_understood(kind in any::<u8>(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        // What is read must be what would have been written.
        if let Some(body) = super::body::read(kind, &bytes) {
            let mut again = Vec::new();
            super::body::write(&body, &mut again, LONGEST);
            let has_empty_text = matches!(&body, Body::Reply(reply) if reply.texts.iter().any(String::is_empty));
            prop_assert!(again == bytes || has_empty_text);
        }
    }
}
