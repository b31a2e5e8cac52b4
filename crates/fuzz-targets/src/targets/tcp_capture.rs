//! Captures of any bytes, and packets of any bytes: whatever is counted adds up.

use nightwatt_tcp::capture::{At, CaptureReport, Counts, check};

/// Link types that are known.
const LINKS: [u8; 8] = [0, 1, 12, 101, 113, 108, 228, 229];

fn adds_up(report: &CaptureReport) {
    let p = &report.packets;
    let sorts = p.tcp + p.other + p.unknown_link + p.fragments + p.short + p.malformed;
    assert_eq!(sorts, p.all);
    let totals = &report.totals;
    assert!(totals.at_sender + totals.at_receiver <= totals.connections);
    let mut sum = Counts::default();
    for row in &report.connections {
        assert!(row.duration_s >= 0.0);
        for counts in [&row.from_client.counts, &row.from_server.counts] {
            sum.add(counts);
            assert!(counts.bytes <= counts.bytes_sent);
            assert!(counts.retransmitted_packets + counts.reordered_packets <= counts.packets);
            let kinds = counts.fast_segments
                + counts.timeout_segments
                + counts.probe_segments
                + counts.syn_segments
                + counts.unclear_segments;
            assert_eq!(kinds, counts.retransmitted_segments);
        }
    }
    if report.connections.len() as u64 == totals.connections {
        assert_eq!(sum, totals.counts);
    }
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    if let Ok(report) = check(input, None, usize::MAX) {
        adds_up(&report);
        let sender = check(input, Some(At::Sender), 0).expect("it could be read before");
        assert_eq!(sender.packets, report.packets);
    }
    // The same as packets of a file that is well-formed: a byte for the link, and a byte of length before each.
    let Some((&link, mut rest)) = input.split_first() else { return };
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    file.extend([LINKS[usize::from(link) % LINKS.len()], 0, 0, 0]);
    let mut now = 0u32;
    while let Some((&length, after)) = rest.split_first() {
        let (packet, left) = after.split_at(after.len().min(length.into()));
        now += u32::from(length);
        file.extend([0, 0, 0, 0]);
        file.extend(now.to_le_bytes());
        file.extend((packet.len() as u32).to_le_bytes());
        file.extend((packet.len() as u32).to_le_bytes());
        file.extend(packet);
        rest = left;
    }
    adds_up(&check(&file[..], None, usize::MAX).expect("a well-formed file"));
}
