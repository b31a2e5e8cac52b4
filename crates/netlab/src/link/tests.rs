//! What is done to which card, and what is read from it.

use super::*;
use crate::scenario::published;

const ALL: Offers = Offers { netem: true, tbf: true, nftables: true, tap: true };

fn scenario(name: &str) -> Scenario {
    published().into_iter().find(|it| it.name == name).unwrap()
}

fn means(name: &str, offers: Offers) -> [EmulatedBy; 3] {
    let emulation = Emulation::of(&scenario(name), offers).unwrap();
    [emulation.rate, emulation.loss, emulation.delay]
}

#[test]
fn what_the_kernel_has_is_used_and_a_relay_does_the_rest() {
    use EmulatedBy::{Netem, Nftables, None, Relay, Tbf};
    let without = Offers { netem: false, ..ALL };
    assert_eq!(means("d", ALL), [Tbf, None, None]);
    assert_eq!(means("b", ALL), [Tbf, Netem, None]);
    assert_eq!(means("f", ALL), [Tbf, None, Netem]);
    assert_eq!(means("b", without), [Tbf, Nftables, None]);
    assert_eq!(means("f", without), [Tbf, None, Relay]);
    let bare = Offers { netem: false, tbf: false, nftables: false, tap: true };
    assert_eq!(means("b", bare), [Relay, Relay, None]);
    let nothing = Offers { tap: false, ..bare };
    let error = Emulation::of(&scenario("d"), nothing).unwrap_err().to_string();
    assert!(error.contains("sch_netem") && error.contains("10 Mbit/s"), "{error}");
}

#[test]
fn queues_hold_what_is_in_flight_and_a_hundred_frames_at_least() {
    let of = |name| Emulation::of(&scenario(name), ALL).unwrap();
    // 10 Mbit/s x 10 ms = 12.5 kB; 1 Gbit/s x 10 ms = 1.25 MB; a hundred frames are 151.4 kB.
    assert_eq!((of("f").queue, of("c").queue, of("a").queue), (151_400, 1_250_000, 151_400));
    // A millisecond of 10 Mbit/s is less than two frames; of 1 Gbit/s it is 125 kB.
    assert_eq!((of("d").burst, of("a").burst), (Some(3028), Some(125_000)));
    let bare = Emulation::of(&Scenario::bare(), ALL).unwrap();
    assert_eq!(bare.burst, None, "all may leave at once");
    assert_eq!(of("c").one_way, Duration::from_millis(5), "half of it in each direction");
}

#[test]
fn what_a_machine_learns_of_connections_is_put_back_only_where_it_was_changed() {
    let echo = "echo 0 >/proc/sys/net/ipv4/tcp_no_metrics_save";
    assert!(restoring("eth1", true).contains(echo));
    assert!(!restoring("eth1", false).contains(echo));
}

#[test]
fn what_a_machine_has_learned_of_the_other_end_is_forgotten_or_told() {
    // An `ip` that keeps what it knows in $has, and forgets as iproute2 does: it fails where there is nothing.
    let ip = r#"ip() {
        case "$1 $2" in
        'tcp_metrics flush')
            test -z "$stuck" && case $has in *"$3 age"*) has=$others ;; *) return 2 ;; esac ;;
        'tcp_metrics show') printf '%s' "$has" ;;
        esac
    }"#;
    let other = "10.0.0.22 age 1.020sec cwnd 18 rtt 17us source 10.0.0.1\n";
    let both = format!("10.0.0.2 age 2.1sec cwnd 9 source 10.0.0.1\n{other}");
    let stays = |ip: &str, has: &str, stuck: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("{ip}\n{}", forgetting("10.0.0.2"))]);
        shell.envs([("has", has), ("others", other), ("stuck", stuck)]);
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(stays(ip, &both, ""), "", "what it knows of others is nothing to us");
    assert_eq!(stays(ip, other, "") + &stays(ip, "", ""), "", "there was nothing to forget");
    assert_eq!(stays(ip, &both, "yes"), "10.0.0.2 age 2.1sec cwnd 9 source 10.0.0.1\n");
    let busybox = "ip() { echo \"ip: invalid argument 'tcp_metrics' to 'ip'\" >&2; return 1; }";
    assert_eq!(stays(busybox, "", ""), "ip: invalid argument 'tcp_metrics' to 'ip'\n");
    let mut emulation = Emulation::of(&scenario("d"), ALL).unwrap();
    assert_eq!(emulation.text(), "rate by tbf");
    emulation.remembered.push("the sender may know it".to_owned());
    assert_eq!(emulation.text(), "rate by tbf; the sender may know it");
}

#[test]
fn on_a_card_with_other_traffic_only_what_the_other_end_sends_is_lost() {
    let netem = Offers { netem: false, ..ALL };
    let emulation = Emulation::of(&scenario("b"), netem).unwrap();
    let lines = emulation.lines(&scenario("b"), "eth1", Some("10.0.0.2"));
    assert_eq!(lines.matches("iifname \"eth1\" ip saddr 10.0.0.2 ").count(), 2, "{lines}");
    assert!(lines.contains("< 5000 counter name lost drop"), "half a per cent: {lines}");
}

#[test]
fn counters_are_read_as_nft_writes_them() {
    // nft 1.0.6: `nft -j list counters`.
    let said = r#"{"nftables": [{"metainfo": {"version": "1.0.6", "release_name": "Lester Gooch #5", "json_schema_version": 1}}, {"counter": {"family": "inet", "name": "came", "table": "nightwatt_link", "handle": 2, "packets": 1000, "bytes": 5}}, {"counter": {"family": "inet", "name": "lost", "table": "nightwatt_link", "handle": 3, "packets": 7, "bytes": 5}}]}"#;
    assert_eq!(planted(said).unwrap(), InjectedLoss { came: 1000, lost: 7 });
    assert!(planted("{}").is_err() && planted("").is_err());
    // As tc of iproute2 6.1 writes it: `tc -s -j qdisc show dev link0 root`.
    let said = r#"[{"kind":"tbf","handle":"6e77:","root":true,"refcnt":2,"options":{"rate":1250000,"burst":3027,"lat":118698},"bytes":5228,"packets":6,"drops":4,"overlimits":9,"requeues":0,"backlog":0,"qlen":0}]"#;
    assert_eq!(dropped_by_queue(said).unwrap(), 4);
    assert!(dropped_by_queue("[]").is_err() && dropped_by_queue("").is_err());
}
