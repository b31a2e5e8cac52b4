use std::io::{Cursor, Write as _};

use super::*;
use crate::encoding::MARK;

type Packer = fn(&[u8]) -> Vec<u8>;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

fn xz(text: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

const PACKERS: [(&str, Packer); 4] = [("gzip", gzip), ("bzip2", bzip2), ("zstd", zstd), ("xz", xz)];

fn unpack(packed: Vec<u8>) -> (Vec<u8>, Option<io::Error>, bool) {
    let mut unpacked = Unpacked::new(Cursor::new(packed)).unwrap();
    let mut text = Vec::new();
    let error = unpacked.read_to_end(&mut text).err();
    (text, error, unpacked.is_damaged())
}

/// Text that does not pack to nothing.
fn text() -> Vec<u8> {
    (0..60_000_u64).flat_map(|n| format!("/{}\n", n * n * 7919).into_bytes()).collect()
}

#[test]
fn a_byte_order_mark_is_no_text() {
    let marked = [MARK, b"one\n", MARK].concat();
    let pack = |(_, packer): (&str, Packer)| packer(&marked);
    for packed in PACKERS.into_iter().map(pack).chain([marked.clone()]) {
        let (text, error, _) = unpack(packed);
        assert_eq!((text, error.is_none()), ([b"one\n", MARK].concat(), true), "one, in front");
    }
    for short in [&b""[..], b"\xef", b"\xef\xbb", b"\xef\xbbx", b"ab"] {
        assert_eq!(unpack(short.to_vec()).0, short);
    }
}

#[test]
fn what_was_packed_comes_out_again() {
    let text = text();
    for (name, pack) in PACKERS {
        assert!(unpack(pack(&text)).0 == text, "{name}");
        assert!(unpack(pack(b"")).0.is_empty(), "{name}: nothing");
        assert!(unpack(pack(b"")).1.is_none(), "{name}: nothing");
        let many: Vec<u8> = text.chunks(100_000).flat_map(pack).collect();
        let (unpacked, error, _) = unpack(many);
        assert!(unpacked == text && error.is_none(), "{name}: of many parts: {error:?}");
    }
    assert!(unpack(text.clone()).0 == text, "not packed at all");
}

#[test]
fn frames_without_text_are_skipped() {
    let mut packed = vec![0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    packed.extend(zstd(b"one"));
    packed.extend([0x5f, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
    packed.extend(zstd(b"two"));
    assert_eq!(unpack(packed).0, b"onetwo");
}

#[test]
fn what_is_cut_off_or_damaged_gives_what_came_before() {
    let text = text();
    for (name, pack) in PACKERS {
        // Two parts, and the second broken: the first is whole whatever the size of blocks.
        let first = pack(&text);
        for damage in [
            |second: &mut Vec<u8>| second.truncate(second.len() / 2),
            |second: &mut Vec<u8>| {
                let middle = second.len() / 2;
                second[middle..middle + 8].fill(0x55);
            },
        ] {
            let mut second = pack(&text);
            damage(&mut second);
            let (unpacked, error, damaged) = unpack([first.clone(), second].concat());
            assert!(unpacked.len() >= text.len(), "{name}: {}", unpacked.len());
            assert!(error.is_some() && damaged, "{name}: {error:?}");
        }
    }
}

#[test]
fn a_source_that_fails_is_no_damage() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    for (name, pack) in PACKERS {
        let packed = pack(&text());
        let half = packed[..packed.len() / 2].to_vec();
        let mut unpacked = Unpacked::new(Cursor::new(half).chain(Failing)).unwrap();
        assert!(unpacked.read_to_end(&mut Vec::new()).is_err(), "{name}");
        assert!(!unpacked.is_damaged(), "{name}");
    }
}
