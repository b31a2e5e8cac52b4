use proptest::prelude::*;

use super::*;
use crate::pure::arm::Codec;

fn some_messages() -> Vec<Message> {
    let entry = |path: &str, kind| Entry {
        path: path.into(),
        kind,
        mode: 0o644,
        modified: Stamp { seconds: -1, nanos: 5 },
        attributes: vec![Attribute { name: b"user.note".to_vec(), value: b"x".to_vec() }],
    };
    let ack = |joules| Ack { id: 1, arrived_nanos: 1 << 50, held_nanos: 40, cpu_nanos: 12, joules };
    let rejected = vec![Rejected { path: b"a/b".to_vec(), reason: "not here".into() }];
    vec![
        Message::Hello(Hello {
            versions: VERSIONS,
            codecs: Codecs::all(),
            session: [7; 16],
            program: "nightwatt 0.1.0".into(),
        }),
        Message::Manifest(vec![
            entry("a", EntryKind::Folder),
            entry("a/b", EntryKind::File(1 << 40)),
            entry("a/c", EntryKind::Link(b"b".to_vec())),
            entry("a/d", EntryKind::Stream),
        ]),
        Message::Delete(vec!["*.tmp".parse().unwrap(), "/a/b/".parse().unwrap()]),
        Message::Trial,
        Message::End,
        Message::Changes(vec![
            Change { what: What::Delete, path: b"a/d".to_vec(), reason: String::new() },
            Change { what: What::Refuse, path: b"a/e".to_vec(), reason: "a link".into() },
        ]),
        Message::Have(Have { ranges: vec![[0, 5], [u64::MAX, 1]] }),
        Message::Rejects(Have { ranges: vec![[7, 1 << 40]] }),
        Message::Data(Data {
            id: 1,
            start: 2,
            length: 3,
            codec: Codec::Xz,
            sum: content_sum(2, b"abc"),
            packed: b"packed".to_vec(),
        }),
        Message::Hole(Hole { id: 2, start: 5, length: 1 << 40 }),
        Message::Ack(ack(Some(0.5))),
        Message::Ack(ack(None)),
        Message::Nack(Nack { id: 1, reason: "its sum is not what was sent".into() }),
        Message::Stale(3),
        Message::Fin(Fin { sum: 9, blocks: 2 }),
        Message::Receipt(Receipt {
            entries: 3,
            bytes: 8,
            cpu_nanos: 77,
            spent: Some(Spent {
                is_measured: true,
                joules: 12.5,
                uncertainty: 0.5,
                basis: "rapl/package-0".into(),
            }),
            rejected,
            rejected_count: 1,
            removed: 2,
        }),
        Message::Attributes,
        Message::Ended(1 << 40),
        Message::Failed(Failed { failure: Failure::DiskFull, text: "no room".into() }),
    ]
}

/// What a reader makes of bytes that arrive in pieces.
fn read(bytes: &[u8], piece: usize) -> Result<Vec<Message>, String> {
    let mut reader = FrameReader::default();
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        reader.push(piece);
        while let Some((kind, body)) = reader.next_frame().map_err(|error| error.to_string())? {
            messages.push(Message::decode(kind, body).map_err(|error| error.to_string())?);
        }
    }
    if reader.is_within_a_frame() { Err("cut".into()) } else { Ok(messages) }
}

fn written(messages: &[Message]) -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new());
    for message in messages {
        let (kind, body) = message.encode();
        writer.write(kind, &body).unwrap();
    }
    let length = writer.written();
    let bytes = writer.into_inner();
    assert_eq!(bytes.len() as u64, length);
    bytes
}

#[test]
fn messages_are_read_as_they_were_written_however_they_arrive() {
    let messages = some_messages();
    let bytes = written(&messages);
    for piece in [1, 3, 64, bytes.len()] {
        assert_eq!(read(&bytes, piece).as_ref(), Ok(&messages));
    }
    assert_eq!(read(&bytes[..bytes.len() - 1], 7), Err("cut".into()));
}

#[test]
fn the_highest_common_version_is_spoken() {
    assert_eq!(negotiated([1, 3], [2, 5]), Some(3));
    assert_eq!(negotiated([1, 1], [1, 1]), Some(1));
    assert_eq!(negotiated([1, 2], [3, 4]), None);
    assert_eq!(negotiated([3, 4], [1, 2]), None);
}

/// Part of T8: each change of one byte, and each frame that is left out, doubled or moved.
#[test]
fn every_damage_is_found() {
    let messages = some_messages();
    let bytes = written(&messages);
    for place in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[place] ^= change;
            assert!(read(&damaged, damaged.len()).is_err(), "byte {place}, {change}");
        }
    }
    let frames: Vec<Vec<u8>> =
        messages.iter().map(|message| written(std::slice::from_ref(message))).collect();
    let bounds: Vec<usize> = frames
        .iter()
        .scan(0, |end, frame| {
            *end += frame.len();
            Some(*end)
        })
        .collect();
    for index in 1..frames.len() - 1 {
        let (from, to) = (bounds[index - 1], bounds[index]);
        let without = [&bytes[..from], &bytes[to..]].concat();
        assert!(read(&without, 1000).is_err(), "frame {index} is lost");
        let doubled = [&bytes[..to], &bytes[from..]].concat();
        assert!(read(&doubled, 1000).is_err(), "frame {index} is doubled");
    }
}

/// T8: damage of every kind to one frame among others: bits, bursts, bytes that are lost, doubled or put in.
#[test]
fn damaged_frames_are_found() {
    damaged_are_found(20_000);
}

#[test]
#[ignore = "minutes: `cargo test -p nightwatt-transfer --lib -- --ignored a_million_damaged`"]
fn a_million_damaged_frames_are_found() {
    damaged_are_found(1_000_000);
}

fn damaged_are_found(frames: u64) {
    let messages = some_messages();
    let bytes = written(&messages);
    let mut state = 1_u64;
    let mut below = |most: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % most
    };
    for number in 0..frames {
        let mut damaged = bytes.clone();
        let place = below(bytes.len() - 16);
        let length = 1 + below(16);
        match below(4) {
            0 => damaged[place] ^= 1 << below(8),
            1 => damaged[place..place + length].iter_mut().for_each(|it| *it ^= below(256) as u8),
            2 => drop(damaged.drain(place..place + length)),
            _ => {
                let put_in: Vec<u8> = (0..length).map(|_| below(256) as u8).collect();
                damaged.splice(place..place, put_in);
            }
        }
        if damaged == bytes {
            continue;
        }
        match read(&damaged, damaged.len()) {
            Err(_) => {}
            // Only what follows the last frame may be damaged and all frames whole.
            Ok(read) => panic!("frame {number}: damage at {place} was not found: {read:?}"),
        }
    }
    println!("{frames} damaged frames, all found");
}

#[test]
fn values_that_may_not_be_are_refused() {
    let decode = |kind: u8, body: &[u8]| Message::decode(kind, body);
    assert_eq!(decode(99, b""), Err(MessageError::Kind(99)));
    assert_eq!(decode(1, b"SSH-2.0-OpenSSH_9.2"), Err(MessageError::Value("the greeting")));
    let data = |length: u32, codec: u8| {
        let mut body = vec![0; 16];
        body.extend(length.to_le_bytes());
        body.push(codec);
        body.extend([0; 8]);
        decode(5, &body)
    };
    assert!(data(1, 0).is_ok());
    assert!(data(0, 0).is_err() && data((4 << 20) + 1, 0).is_err() && data(1, 6).is_err());
    assert!(decode(3, b"x").is_err() && decode(9, b"x").is_err());
    let nan = [&[0; 32][..], &f64::NAN.to_bits().to_le_bytes()].concat();
    assert_eq!(decode(7, &nan), Err(MessageError::Value("an amount")));
    let mut reader = FrameReader::default();
    reader.push(&[5, 0xff, 0xff, 0xff, 0xff]);
    assert!(matches!(reader.next_frame(), Err(FrameError::TooLong(_) | FrameError::Text(_))));
    reader.push(&[0; 64]);
    assert!(reader.next_frame().is_err(), "it stays refused");
    for record in [[0x15, 3, 3, 0, 2, 2, 50], [0x16, 3, 1, 2, 0, 1, 0]] {
        let mut reader = FrameReader::default();
        reader.push(&record);
        assert_eq!(reader.next_frame(), Err(FrameError::Tls));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzz(&bytes);
    }

    #[test]
    fn bodies_that_nearly_are_messages_are_read_without_a_panic(
        which in 0_usize..18, place in any::<prop::sample::Index>(), change in any::<u8>(), cut in 0_usize..4,
    ) {
        let (kind, mut body) = some_messages()[which].encode();
        if !body.is_empty() {
            let place = place.index(body.len());
            body[place] = change;
            body.truncate(body.len().saturating_sub(cut));
        }
        body.insert(0, kind);
        fuzz(&body);
    }
}
