//! Captures by hand beside what kernels would have said of the same.

use nightwatt_tcp::capture::{ACK, Compared, FIN, Fetched, beside};

use crate::made::{MS, Talk};

/// Beside a sender whose kernel has sent this many segments again.
fn compared(talk: &Talk, direction: &str, again: u64) -> Compared {
    let (own, theirs) = if direction == "send" { (again, 0) } else { (0, again) };
    let fetched: Fetched = serde_json::from_value(serde_json::json!({
        "direction": direction,
        "records": [{
            "number": 0, "port": 40000,
            "tcp": {"retransmitted_segments": own},
            "server_tcp": {"retransmitted_segments": theirs},
        }],
    }))
    .unwrap();
    beside(&[talk.only()], &fetched).connections[0]
}

#[test]
fn a_fin_that_a_client_repeats_is_in_no_figure_that_it_has_read_before() {
    let mut talk = Talk::default();
    talk.handshake();
    // Sent twice, and confirmed; then the server closes, and then the client, in vain at first.
    for _ in 0..2 {
        talk.after(MS).say(0, ACK, (1, 1), 1000);
    }
    talk.after(MS).say(1, FIN | ACK, (1, 1001), 0);
    talk.after(MS).say(0, FIN | ACK, (1001, 2), 0);
    talk.after(300 * MS).say(0, FIN | ACK, (1001, 2), 0);
    let counts = talk.only().from_client.counts;
    assert_eq!((counts.retransmitted_segments, counts.fin_segments), (2, 1));
    assert!(compared(&talk, "send", 1).equal);
    assert!(!compared(&talk, "send", 2).equal, "its data was sent again once");
}

#[test]
fn a_fin_that_a_server_repeats_is_in_the_figures_that_it_reads_when_all_is_acknowledged() {
    let mut talk = Talk::default();
    talk.handshake();
    talk.data(1);
    talk.after(MS).say(1, FIN | ACK, (1001, 1), 0);
    talk.after(300 * MS).say(1, FIN | ACK, (1001, 1), 0);
    assert!(compared(&talk, "fetch", 1).equal);
    assert!(!compared(&talk, "fetch", 0).equal);
}
