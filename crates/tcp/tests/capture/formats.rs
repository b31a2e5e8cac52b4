//! The same conversation in every form gives the same figures.

use nightwatt_tcp::capture::{CaptureReport, FileEnd, FrameKind, check, packet};

use crate::made::{Talk, ip, pcap, pcapng};

const ETHERNET: [u8; 14] = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 8, 0];

fn talk() -> Talk {
    let mut talk = Talk { stamps: true, ..Talk::default() };
    talk.handshake();
    for seq in [1, 1001, 2001] {
        talk.data(seq);
        talk.ack(seq + 1000);
    }
    talk.data(2001);
    talk.farewell(3001);
    talk
}

fn read(bytes: &[u8]) -> CaptureReport {
    check(bytes, None, 10).unwrap()
}

/// What of a report does not depend on the form.
fn core(report: &CaptureReport) -> String {
    serde_json::to_string(&(&report.totals, &report.connections)).unwrap()
}

#[test]
fn pcap_in_either_order_and_both_resolutions_and_pcapng_say_the_same() {
    let talk = talk();
    let expected = read(&pcap(&talk.packets, 1, &ETHERNET, 65_535, (false, true)));
    // By hand: three segments of 1000 bytes, and one of them again.
    let counts = expected.totals.counts;
    assert_eq!((counts.bytes, counts.bytes_sent), (3000, 4000));
    assert_eq!((counts.retransmitted_segments, counts.needless_segments), (1, 1));
    assert_eq!(expected.packets.all, talk.packets.len() as u64);
    for big in [false, true] {
        for nano in [false, true] {
            let report = read(&pcap(&talk.packets, 1, &ETHERNET, 65_535, (big, nano)));
            assert_eq!(core(&report), core(&expected), "{big} {nano}");
        }
        let report = read(&pcapng(&talk.packets, 1, &ETHERNET, big));
        assert_eq!(report.format, "pcapng");
        assert_eq!((core(&report), report.file_end), (core(&expected), FileEnd::Whole), "{big}");
    }
}

#[test]
fn every_link_layer_says_the_same() {
    let packets = talk().packets;
    let expected = core(&read(&pcap(&packets, 1, &ETHERNET, 65_535, (false, true))));
    let vlan = [&ETHERNET[..12], &[0x81, 0, 0, 5, 8, 0]].concat();
    let twice = [&ETHERNET[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]].concat();
    let cooked = [&[0; 14][..], &[8, 0]].concat();
    let cooked2 = [&[8, 0][..], &[0; 18]].concat();
    let forms: [(u32, &[u8]); 9] = [
        (1, &vlan),
        (1, &twice),
        (113, &cooked),
        (276, &cooked2),
        (101, &[]),
        (12, &[]),
        (228, &[]),
        (0, &[2, 0, 0, 0]),
        (108, &[0, 0, 0, 2]),
    ];
    for (link, before) in forms {
        let report = read(&pcap(&packets, link, before, 65_535, (false, true)));
        assert_eq!(core(&report), expected, "{link}");
    }
}

#[test]
fn of_ipv6_with_extension_headers_the_figures_are_the_same() {
    let mut packets = talk().packets;
    let expected = read(&pcap(&packets, 101, &[], 65_535, (false, true))).totals;
    for packet in &mut packets {
        let six = |port: u16| format!("[2001:db8::{}]:{port}", port % 7).parse().unwrap();
        (packet.from, packet.to) = (six(packet.from.port()), six(packet.to.port()));
    }
    assert_eq!(read(&pcap(&packets, 229, &[], 65_535, (false, true))).totals, expected);
}

#[test]
fn packets_that_were_captured_in_part_have_their_whole_length() {
    let packets = talk().packets;
    let expected = core(&read(&pcap(&packets, 1, &ETHERNET, 65_535, (false, true))));
    // All headers, and no payload: Ethernet 14, IP 20, TCP 20 with 12 of timestamps and 4 of MSS.
    let report = read(&pcap(&packets, 1, &ETHERNET, 70, (false, true)));
    assert_eq!(core(&report), expected);
    assert_eq!(report.packets.cut, 4);
    // Not even a TCP header.
    let report = read(&pcap(&packets, 1, &ETHERNET, 50, (false, true)));
    assert_eq!((report.packets.short, report.packets.tcp), (packets.len() as u64, 0));
}

#[test]
fn options_that_were_cut_are_counted() {
    let talk = talk();
    let cut = |to| read(&pcap(&talk.packets, 1, &ETHERNET, to, (false, true))).packets.options_cut;
    // 14 of Ethernet, 20 of IP, 20 of TCP, and 12 of options where there are timestamps; SYNs have 4 more.
    let all = talk.packets.len() as u64;
    let syns = talk.packets.iter().filter(|it| it.options.mss.is_some()).count() as u64;
    assert_eq!((cut(70), cut(66), cut(60)), (0, syns, all));
}

#[test]
fn a_file_that_ends_too_soon_counts_as_far_as_it_goes_and_says_so() {
    let packets = talk().packets;
    for file in
        [pcap(&packets, 1, &ETHERNET, 65_535, (false, false)), pcapng(&packets, 1, &ETHERNET, true)]
    {
        let whole = read(&file);
        assert_eq!((whole.file_end, whole.packets.all), (FileEnd::Whole, packets.len() as u64));
        let report = read(&file[..file.len() - 3]);
        assert_eq!(report.file_end, FileEnd::CutShort);
        assert_eq!(report.packets.all, packets.len() as u64 - 1);
    }
    // A length that cannot be.
    let mut file = pcap(&packets, 1, &ETHERNET, 65_535, (false, false));
    file[24 + 8..24 + 12].fill(0xff);
    assert_eq!(read(&file).file_end, FileEnd::Damaged);
    let error = check(&b"GIF89a, and so on"[..], None, 1).unwrap_err().to_string();
    assert!(error.contains("neither pcap nor pcapng; capture with"), "{error}");
}

#[test]
fn super_segments_without_a_length_have_that_of_their_frame() {
    let mut talk = Talk::default();
    talk.handshake();
    talk.data(1).payload = 5000;
    let mut bytes = ip(talk.packets.last().unwrap());
    bytes[2..4].fill(0);
    let length = bytes.len() as u32;
    // Two of its bytes were captured behind the headers.
    let FrameKind::Tcp(read) = packet(101, &bytes[..42], length, 0) else { panic!("no TCP") };
    assert_eq!(read.payload, 5000);
    // 5000 bytes are five segments of 1000.
    let counts = talk.only().from_server.counts;
    assert_eq!((counts.data_packets, counts.data_segments), (1, 5));
}

#[test]
fn parts_of_packets_and_other_protocols_are_counted_apart() {
    let packets = talk().packets;
    let whole = ip(&packets[3]);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        packet(101, &bytes, bytes.len() as u32, 0)
    };
    assert!(matches!(with(&|_| {}), FrameKind::Tcp(_)));
    assert_eq!(with(&|bytes| bytes[7] = 9), FrameKind::Fragment);
    assert_eq!(with(&|bytes| bytes[6] |= 0x20), FrameKind::Fragment);
    assert_eq!(with(&|bytes| bytes[9] = 17), FrameKind::Other);
    assert_eq!(with(&|bytes| bytes[32] = 0x10), FrameKind::Malformed);
    assert_eq!(with(&|bytes| bytes[0] = 0x95), FrameKind::Malformed);
    assert_eq!(packet(147, &whole, 60, 0), FrameKind::UnknownLink);
}
