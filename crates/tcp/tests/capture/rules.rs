//! Each rule of `docs/tcp-check.md`, on packets whose truth is known by hand.

use nightwatt_tcp::capture::{ACK, At, Closed, Counts, FIN, RST, SYN, Table};

use crate::made::{MS, Talk};

fn opened() -> Talk {
    let mut talk = Talk::default();
    talk.handshake();
    talk
}

fn server(talk: &Talk) -> Counts {
    talk.only().from_server.counts
}

#[test]
fn the_handshake_tells_the_round_trip_and_the_side() {
    let mut talk = opened();
    talk.data(1);
    talk.ack(1001);
    talk.farewell(1001);
    let row = talk.only();
    // 10 us to the server and back, 20 ms to the client and back.
    assert_eq!((row.initial_rtt_s, row.at), (Some(0.02001), Some(At::Sender)));
    assert_eq!((row.mss, row.mss_known, row.from_its_start), (1000, true, true));
    assert_eq!(row.closed, Some(Closed::ServerFin));
    assert_eq!(row.from_server.round_trips.samples, 3, "of SYN-ACK, a segment and FIN");
    assert_eq!(row.from_server.round_trips.min_s, Some(0.001));
    assert!((row.duration_s - 0.02501).abs() < 1e-9);
}

#[test]
fn of_sides_that_are_both_near_the_handshake_does_not_tell_which_is_nearer() {
    let at = |near_ns, far_ns| {
        let mut talk = Talk::default();
        talk.say(0, SYN, (0, 0), 0);
        talk.after(near_ns).say(1, SYN | ACK, (0, 1), 0);
        talk.after(far_ns).say(0, ACK, (1, 1), 0);
        talk.data(1);
        talk.only().at
    };
    // As between two namespaces, captured at the receiver: it took longer to answer than the sender.
    assert_eq!(at(5_000, 40_000), None);
    assert_eq!(at(5_000, 199_999), None);
    assert_eq!(at(5_000, 200_000), Some(At::Sender));
    assert_eq!(at(60_000, 200_000), None, "not four times as far");
}

#[test]
fn a_connection_is_one_however_many_short_ones_come_and_go_beside_it() {
    // Four times as many as may be open at once.
    const SHORT: u32 = 4 * 65_536 + 1;
    let mut long = opened();
    long.data(1);
    let mut short = Talk::default();
    let mut table = Table::new(None, 0);
    long.packets.iter().for_each(|packet| table.take(packet));
    // One port, used again and again: two are open at any time.
    for number in 0..SHORT {
        short.packets.clear();
        short.isn[0] = 1 + number * 7;
        short.after(MS).say(0, SYN, (0, 0), 0).from.set_port(40_001);
        table.take(&short.packets[0]);
    }
    long.packets.clear();
    long.ack(1001);
    long.farewell(1001);
    long.packets.iter().for_each(|packet| table.take(packet));
    let (totals, _) = table.end();
    assert_eq!((totals.connections, totals.given_up), (u64::from(SHORT) + 1, 0));
    assert_eq!((totals.from_their_start, totals.closed), (u64::from(SHORT) + 1, 1));
}

#[test]
fn of_more_than_may_be_open_at_once_the_oldest_is_taken_as_it_is() {
    let mut table = Table::new(None, 0);
    for number in 0..65_537_u32 {
        let mut talk = Talk::default();
        let packet = talk.say(0, SYN, (0, 0), 0);
        packet.from = ([192, 0, 2 + (number >> 16) as u8, 1], number as u16).into();
        table.take(packet);
    }
    let (totals, _) = table.end();
    assert_eq!((totals.connections, totals.given_up), (65_537, 1));
}

#[test]
fn three_duplicates_make_a_fast_retransmit() {
    let mut talk = opened();
    for seq in [1, 1001, 2001, 3001, 4001] {
        talk.data(seq);
    }
    // The first was lost behind the capture.
    for _ in 0..4 {
        talk.ack(1);
    }
    talk.data(1);
    talk.ack(5001);
    let row = talk.only();
    let counts = row.from_server.counts;
    assert_eq!((counts.retransmitted_segments, counts.fast_segments), (1, 1));
    assert_eq!((counts.retransmitted_bytes, counts.bytes, counts.bytes_sent), (1000, 5000, 6000));
    assert_eq!((counts.fast_recoveries, counts.timeouts, counts.needless_segments), (1, 0, 0));
    // The ACK of the handshake said 1 first: all four repeat it.
    assert_eq!(row.from_client.counts.duplicate_acks, 4);
}

#[test]
fn one_selective_acknowledgement_is_enough_and_what_it_asks_for_is_one_recovery() {
    let mut talk = opened();
    for seq in [1, 1001, 2001, 3001] {
        talk.data(seq);
    }
    let ack = talk.ack(1);
    (ack.options.sack[0], ack.options.sacks) = ((3001, 4001), 1);
    talk.data(1);
    talk.data(1001);
    talk.data(2001);
    talk.ack(4001);
    let counts = server(&talk);
    assert_eq!((counts.retransmitted_segments, counts.fast_segments), (3, 3));
    assert_eq!(counts.fast_recoveries, 1);
    assert_eq!(talk.only().from_client.counts.sacks, 1);
}

#[test]
fn silence_makes_a_time_out_and_what_follows_it_belongs_to_it() {
    let mut talk = opened();
    for seq in [1, 1001, 2001] {
        talk.data(seq);
    }
    talk.after(250 * MS).data(1);
    talk.ack(1001);
    talk.data(1001);
    talk.data(2001);
    // Again, in vain, for longer.
    talk.after(500 * MS).data(1001);
    talk.ack(3001);
    let counts = server(&talk);
    assert_eq!((counts.retransmitted_segments, counts.timeout_segments), (4, 4));
    assert_eq!((counts.timeouts, counts.fast_segments), (2, 0));
}

#[test]
fn the_last_one_again_soon_is_a_probe_and_its_report_a_duplicate() {
    let mut talk = opened();
    talk.data(1);
    talk.data(1001);
    talk.after(40 * MS).data(1001);
    talk.ack(2001);
    let ack = talk.ack(2001);
    (ack.options.sack[0], ack.options.sacks) = ((1001, 2001), 1);
    let row = talk.only();
    assert_eq!((row.from_server.counts.probe_segments, row.from_server.counts.timeouts), (1, 0));
    assert_eq!((row.from_client.counts.dsacks, row.from_client.counts.duplicate_acks), (1, 0));
}

#[test]
fn what_was_acknowledged_before_was_sent_again_in_vain() {
    let mut talk = opened();
    talk.data(1);
    talk.ack(1001);
    talk.data(1);
    assert_eq!(server(&talk).needless_segments, 1);
}

/// Captured at the receiver: the client is here, the server far away.
fn at_receiver(stamps: bool) -> Talk {
    let mut talk = Talk { stamps, ..Talk::default() };
    talk.say(0, SYN, (0, 0), 0).options.mss = Some(1012);
    talk.after(20 * MS).say(1, SYN | ACK, (0, 1), 0).options.mss = Some(1012);
    talk.after(10_000).say(0, ACK, (1, 1), 0);
    talk
}

#[test]
fn what_comes_within_a_round_trip_was_overtaken_and_what_comes_later_was_sent_again() {
    let mut talk = at_receiver(false);
    for seq in [1, 2001, 1001, 3001, 5001] {
        talk.data(seq);
    }
    // 4001 is missing still, and comes a round trip after 5001 did.
    talk.after(20 * MS).data(4001);
    let row = talk.only();
    let counts = row.from_server.counts;
    assert_eq!(row.at, Some(At::Receiver));
    assert_eq!((counts.reordered_packets, counts.reordered_bytes), (1, 1000));
    assert_eq!((counts.retransmitted_segments, counts.gaps), (1, 2));
    assert_eq!((counts.bytes, counts.bytes_sent, counts.missed_bytes), (6000, 6000, 0));
}

#[test]
fn timestamps_tell_what_was_sent_first_whatever_the_time() {
    let mut talk = at_receiver(true);
    talk.data(1);
    // Sent before, comes after, and late at that: RFC 7323.
    talk.data(2001).options.stamp = Some((5000, 0));
    talk.after(100 * MS).data(1001).options.stamp = Some((4999, 0));
    // Sent after, and comes soon.
    talk.data(4001).options.stamp = Some((6000, 0));
    talk.data(3001).options.stamp = Some((6001, 0));
    let counts = server(&talk);
    assert_eq!((counts.reordered_packets, counts.retransmitted_segments), (1, 1));
}

#[test]
fn of_timestamps_that_are_as_old_the_identification_tells_what_was_sent_first() {
    let mut talk = at_receiver(false);
    let ids = [65_530, 65_532, 65_534, 65_535, 2, 4, 9, 3, 10];
    // In order until 4001; 6001 before 5001, and 7001 is lost and comes again, both after as long.
    let seqs = [1, 1001, 2001, 3001, 4001, 6001, 8001, 5001, 7001];
    for (seq, id) in seqs.into_iter().zip(ids) {
        talk.after(25 * MS).data(seq).id = Some(id);
    }
    let counts = server(&talk);
    assert_eq!((counts.reordered_packets, counts.retransmitted_segments), (1, 1));
}

#[test]
fn a_first_copy_that_comes_behind_its_retransmit_is_no_retransmit() {
    let mut talk = at_receiver(false);
    // In order until 4001. Then 5001 (12) is late: its retransmit (20) comes first. And 7001 comes twice (16,
    // 24), though nothing was missing.
    let ids = [4, 6, 8, 10, 11, 14, 16, 20, 12, 22, 24];
    let seqs = [1, 1001, 2001, 3001, 4001, 6001, 7001, 5001, 5001, 8001, 7001];
    for (seq, id) in seqs.into_iter().zip(ids) {
        talk.after(25 * MS).data(seq).id = Some(id);
    }
    let counts = server(&talk);
    assert_eq!((counts.reordered_packets, counts.reordered_bytes), (1, 1000));
    assert_eq!(counts.retransmitted_segments, 2, "5001 and 7001, each once");
    assert_eq!((counts.bytes, counts.bytes_sent), (9000, 11_000));
}

#[test]
fn where_data_is_sent_from_nothing_is_overtaken() {
    let mut talk = opened();
    for seq in [1, 2001, 1001] {
        talk.data(seq);
    }
    let counts = server(&talk);
    assert_eq!((counts.reordered_packets, counts.retransmitted_segments), (0, 1));
    assert_eq!(counts.unclear_segments, 1);
}

#[test]
fn what_was_acknowledged_and_never_captured_is_told() {
    let mut talk = opened();
    talk.data(1);
    talk.data(3001);
    talk.ack(4001);
    // And at the end, without anything behind it.
    talk.ack(6001);
    let counts = server(&talk);
    assert_eq!((counts.missed_bytes, counts.retransmitted_segments), (4000, 0));
}

#[test]
fn keep_alives_and_probes_of_a_closed_window_are_no_retransmits() {
    let mut talk = opened();
    talk.data(1);
    talk.ack(1001).window = 0;
    talk.after(MS).say(1, ACK, (1000, 1), 0);
    talk.after(MS).say(1, ACK, (1000, 1), 1);
    talk.after(MS).say(1, ACK, (1001, 1), 1);
    talk.ack(1001).window = 0;
    let row = talk.only();
    let counts = row.from_server.counts;
    assert_eq!((counts.keep_alives, counts.retransmitted_segments, counts.bytes), (3, 0, 1000));
    assert_eq!(
        (row.from_client.counts.zero_windows, row.from_client.counts.duplicate_acks),
        (2, 0)
    );
}

#[test]
fn a_syn_that_is_sent_again_is_a_retransmit_and_no_round_trip() {
    let mut talk = Talk::default();
    talk.say(0, SYN, (0, 0), 0);
    talk.after(1000 * MS).say(0, SYN, (0, 0), 0);
    talk.after(MS).say(1, SYN | ACK, (0, 1), 0);
    talk.after(MS).say(0, ACK, (1, 1), 0);
    let row = talk.only();
    let counts = row.from_client.counts;
    assert_eq!((counts.syn_segments, counts.timeouts, counts.retransmitted_bytes), (1, 1, 0));
    assert_eq!((counts.retransmitted_segments, row.initial_rtt_s), (1, None));
}

#[test]
fn numbers_that_wrap_change_nothing() {
    let tell = |isn| {
        let mut talk = Talk { isn, ..Talk::default() };
        talk.handshake();
        for seq in [1, 1001, 2001, 2001, 4001, 3001] {
            talk.data(seq);
        }
        talk.ack(5001);
        talk.farewell(5001);
        talk.only()
    };
    let expected = tell([0, 0]);
    assert_eq!(expected.from_server.counts.retransmitted_segments, 2);
    for isn in [[u32::MAX, u32::MAX - 2500], [u32::MAX - 1, u32::MAX], [1 << 31, (1 << 31) - 3000]]
    {
        assert_eq!(tell(isn), expected, "{isn:?}");
    }
}

#[test]
fn the_same_ports_again_are_another_connection_and_a_repeated_syn_is_not() {
    let mut talk = opened();
    talk.say(0, SYN, (0, 0), 0);
    talk.data(1);
    talk.farewell(1001);
    talk.isn = [70_000, 90_000];
    talk.handshake();
    talk.data(1);
    let row = talk.after(MS).say(1, RST, (1001, 0), 0).time_ns;
    let (totals, rows) = talk.counted();
    assert_eq!(
        (totals.connections, totals.closed, rows[1].closed),
        (2, 2, Some(Closed::ServerReset))
    );
    assert_eq!(totals.counts.retransmitted_segments, 1, "the SYN");
    assert_eq!(row, talk.packets.last().unwrap().time_ns);
}

#[test]
fn connections_that_are_half_captured_are_counted_as_far_as_they_were() {
    // In the middle of it.
    let mut talk = Talk { isn: [5, 4_000_000_000], ..Talk::default() };
    for seq in [500_001, 501_001, 500_001] {
        talk.data(seq);
    }
    let row = talk.only();
    assert_eq!((row.from_its_start, row.mss_known, row.mss), (false, false, 1460));
    // The server spoke first, and is taken for the client.
    let counts = row.from_client.counts;
    assert_eq!((counts.bytes, counts.retransmitted_segments, counts.missed_bytes), (2000, 1, 0));
    // One direction of it.
    let mut talk = opened();
    for seq in [1, 1001, 1] {
        talk.data(seq);
    }
    talk.ack(2001);
    talk.packets.retain(|packet| packet.from.port() == 80);
    let row = talk.only();
    assert_eq!(row.from_server.counts.retransmitted_segments, 1);
    talk = opened();
    talk.ack(1001);
    talk.ack(1001);
    talk.packets.retain(|packet| packet.from.port() != 80);
    let row = talk.only();
    assert_eq!(row.from_server.counts.packets, 0);
    assert_eq!(row.from_server.counts.bytes, 0);
}

#[test]
fn a_fin_that_is_sent_again_is_a_segment_without_bytes() {
    let mut talk = opened();
    talk.data(1);
    talk.ack(1001);
    talk.say(1, FIN | ACK, (1001, 1), 0);
    talk.after(300 * MS).say(1, FIN | ACK, (1001, 1), 0);
    let counts = server(&talk);
    assert_eq!((counts.retransmitted_segments, counts.retransmitted_bytes), (1, 0));
    assert_eq!((counts.timeout_segments, counts.fins, counts.fin_segments), (1, 2, 1));
}

#[test]
fn the_reset_of_what_nobody_saw_is_no_connection() {
    let mut talk = Talk::default();
    talk.say(0, RST, (7, 0), 0);
    assert_eq!(talk.counted().0.connections, 0);
}
