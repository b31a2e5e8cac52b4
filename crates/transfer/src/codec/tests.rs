use proptest::prelude::*;

use super::*;

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

fn text(length: usize) -> Vec<u8> {
    let words = ["wake ", "sleep ", "request ", "answer ", "cache ", "energy "];
    let mut state = 1_u32;
    let mut text = Vec::new();
    while text.len() < length {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(state >> 24) as usize % words.len()].as_bytes());
    }
    text.truncate(length);
    text
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn all_arms() -> Vec<Arm> {
    let mut arms = Arm::usual();
    arms.extend([Arm::new(Codec::Gzip, 1), Arm::new(Codec::Bzip2, 1), Arm::new(Codec::Xz, 0)]);
    arms
}

#[test]
fn every_arm_gives_back_what_it_was_given() {
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    let (mut bytes, mut block) = (Vec::new(), Vec::new());
    for data in
        [Vec::new(), vec![0; 1], text(3000), text(300_000), noise(70_000), vec![b'a'; 200_000]]
    {
        for arm in all_arms() {
            packer.pack(arm, &data, &mut bytes, &never()).unwrap();
            unpacker.unpack(arm.codec, &bytes, data.len(), &mut block).unwrap();
            assert_eq!(block, data, "{arm}");
            if data.len() == 300_000 && arm != Arm::NONE {
                assert!(bytes.len() < data.len() / 2, "{arm}: {}", bytes.len());
            }
        }
    }
}

#[test]
fn a_block_that_unpacks_to_more_or_less_is_refused() {
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    let (mut bytes, mut block) = (Vec::new(), Vec::new());
    let bomb = vec![0; MOST_BYTES];
    for arm in all_arms() {
        packer.pack(arm, &bomb, &mut bytes, &never()).unwrap();
        for length in [0, 1, 65_536, MOST_BYTES - 1] {
            assert!(
                unpacker.unpack(arm.codec, &bytes, length, &mut block).is_err(),
                "{arm} {length}"
            );
            assert!(block.capacity() <= MOST_BYTES * 2, "{arm} {length}: {}", block.capacity());
        }
        packer.pack(arm, &text(1000), &mut bytes, &never()).unwrap();
        assert!(unpacker.unpack(arm.codec, &bytes, 1001, &mut block).is_err(), "{arm}");
        assert!(unpacker.unpack(arm.codec, &bytes, MOST_BYTES + 1, &mut block).is_err());
    }
    assert!(packer.pack(Arm::NONE, &vec![0; MOST_BYTES + 1], &mut bytes, &never()).is_err());
}

#[test]
fn packing_stops_when_it_is_cancelled() {
    let mut packer = Packer::default();
    for arm in all_arms() {
        let error = packer.pack(arm, &text(1000), &mut Vec::new(), &AtomicBool::new(true));
        assert!(matches!(error, Err(CodecError::Cancelled)), "{arm}");
    }
    // Between two chunks as well.
    let cancelled = AtomicBool::new(false);
    let text = text(CHUNK * 2);
    let late = feed(Late(&cancelled), &text, &cancelled);
    assert_eq!(late.err().map(|error| error.kind()), Some(io::ErrorKind::Interrupted));
}

struct Late<'a>(&'a AtomicBool);

impl Write for Late<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.store(true, Ordering::Relaxed);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn cpu_time_grows_with_work_only() {
    let before = thread_seconds();
    let mut bytes = Vec::new();
    Packer::default().pack(Arm::new(Codec::Xz, 6), &text(100_000), &mut bytes, &never()).unwrap();
    assert!(thread_seconds() > before);
}

proptest! {
    #[test]
    fn rubbish_is_an_error_or_a_block_of_the_right_length(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        number in 0_u8..6,
        length in 0_usize..100_000,
    ) {
        let codec = Codec::of_number(number).unwrap();
        let mut block = Vec::new();
        if Unpacker::default().unpack(codec, &bytes, length, &mut block).is_ok() {
            prop_assert_eq!(block.len(), length);
        }
    }

    #[test]
    fn one_changed_byte_never_makes_a_longer_block(
        place in 0_usize..10_000, change in 1_u8..255, number in 1_u8..6,
    ) {
        let codec = Codec::of_number(number).unwrap();
        let data = text(20_000);
        let mut bytes = Vec::new();
        Packer::default()
            .pack(Arm::new(codec, 1), &data, &mut bytes, &never())
            .unwrap();
        let place = place % bytes.len();
        bytes[place] ^= change;
        let mut block = Vec::new();
        if Unpacker::default().unpack(codec, &bytes, data.len(), &mut block).is_ok() {
            prop_assert_eq!(block.len(), data.len());
        }
    }
}
