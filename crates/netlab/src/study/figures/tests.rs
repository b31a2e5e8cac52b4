//! From made-up counters to figures worked out by hand.

use serde_json::json;

use super::*;

fn fetched() -> Fetched {
    let text = json!({
        "duration_s": 2.5, "completed": 99, "failed": 0, "cut": 1, "cut_s": 0.024, "bytes": 1_460_000,
        "bytes_per_connection": 14_600, "congestion": "cubic", "records": [],
        "lifetime_s": {"count": 99, "mean": 0.024, "sd": 0.001, "p50": 0.023, "p99": 0.03},
        "tcp": {"segments_in": {"connections": 99, "sum": 1200, "mean": 12.1, "min": 1, "max": 14}},
        "server": {"tcp": {
            "rtt_us": {"connections": 99, "mean": 1500.0, "min": 1, "max": 9},
            "min_rtt_us": {"connections": 99, "mean": 500.0, "min": 200, "max": 900},
            "retransmitted_segments": {"connections": 99, "sum": 5, "mean": 0.05, "min": 0, "max": 2},
            "data_segments_out": {"connections": 99, "sum": 1000, "mean": 10, "min": 10, "max": 12},
            "pacing": null,
        }},
    });
    Fetched::read(&text.to_string()).unwrap()
}

fn whole(received_bytes: u64) -> RunCounts {
    let receiver = Network { received_bytes, ..Network::default() };
    RunCounts { receiver, ..RunCounts::default() }
}

fn machine(idle_us: u64, wakes: u64) -> Machine {
    Machine {
        cpus: 2,
        idle_us,
        idle_entries: [("C1".to_owned(), wakes)].into(),
        traced_wake_ups: Some(2 * wakes),
        interrupts: 10 * wakes,
        ..Machine::default()
    }
}

#[test]
fn connections_that_failed_are_told_with_their_number_and_in_which_way() {
    assert_eq!(fetched().failures(), None);
    let faults = [("reset".to_owned(), 1), ("stalled".to_owned(), 2)].into();
    let some = Fetched { failed: 3, faults, ..fetched() };
    assert_eq!(some.failures().unwrap(), "3 of 103 connections failed: 1 reset, 2 stalled");
    let faults = [("refused".to_owned(), 1)].into();
    let all = Fetched { completed: 0, cut: 0, failed: 1, faults, ..fetched() };
    assert_eq!(all.failures().unwrap(), "1 of 1 connection failed: 1 refused");
}

#[test]
fn the_energy_of_a_connection_is_what_is_drawn_beyond_idle_in_its_share_of_the_time() {
    // 100 connections in 2.5 s; the window has 80 % of the bytes, so 80 of them. 3 W more than idle for
    // 2 s are 6 J: 0.075 J each. Of 2 x 2 s, 3 s were idle: 1 s busy, less the 0.2 s that idle has in 2 s: 0.01 s
    // each. 1000 wake-ups, less the 200 of idle: 10 each, 0.001 J a piece.
    let window = Window {
        seconds: 2.0,
        machine: Some(machine(3_000_000, 1000)),
        receiver: Network { received_bytes: 1_250_000, ..Network::default() },
        sending: Process { cpu_ns: 160_000_000, ..Process::default() },
        watts: Some(23.0),
        ..Window::default()
    };
    let idle = Idle {
        seconds: 1.0,
        machine: Some(machine(1_900_000, 100)),
        watts: Some(20.0),
        ..Idle::default()
    };
    let of = |cost| figures(&fetched(), &window, &whole(1_562_500), &idle, 10, cost);
    let close = |name: &str, value: Option<f64>, wanted: f64| {
        let value = value.unwrap_or_else(|| panic!("no {name}"));
        assert!((value - wanted).abs() < 1e-9 * wanted.abs(), "{name}: {value}, not {wanted}");
    };
    let plain = of(None);
    for (name, wanted) in [
        ("lifetime", 0.024),
        ("connections_per_second", 40.0),
        ("rate", 5e6),
        ("goodput", 4_672_000.0),
        ("round_trip", 1.5e-3),
        ("least_round_trip", 2e-4),
        ("retransmitted", 0.005),
        ("sender_cpu", 0.002),
        ("active", 0.01),
        ("wake_ups", 10.0),
        ("traced_wake_ups", 20.0),
        ("interrupts", 100.0),
        ("energy", 0.075),
        ("energy_per_segment", 0.0075),
    ] {
        close(name, plain.get(name), wanted);
    }
    close("energy with wake-ups", of(Some(WakeCost { joules: 1e-3 })).energy, 0.085);
    assert_eq!((plain.relay_cpu, plain.loss), (None, None), "what is not there is not 0");
}

#[test]
fn a_window_in_which_the_link_rested_has_fewer_connections_and_not_cheaper_ones() {
    // A tenth of the bytes, so ten of 100 connections, and 220 frames; it had half of the time.
    let window = Window {
        seconds: 1.25,
        sender: Network { sent_frames: 120, ..Network::default() },
        receiver: Network { sent_frames: 100, received_bytes: 156_250, ..Network::default() },
        ..Window::default()
    };
    let all = figures(&fetched(), &window, &whole(1_562_500), &Idle::default(), 10, None);
    assert_eq!(all.frames, Some(22.0));
    assert_eq!(all.connections_per_second, Some(40.0), "that is of the whole run");
    let nothing = Window { receiver: Network::default(), ..window };
    let none = figures(&fetched(), &nothing, &whole(1_562_500), &Idle::default(), 10, None);
    assert_eq!(none.frames, None, "where nothing came nothing is known");
}

#[test]
fn what_the_sender_says_at_the_end_is_no_part_of_what_connections_took() {
    // 29,600 bytes of report are as many as 20.44 full frames of 1514 bytes with 1448 of payload have: 30,949 bytes.
    let mut told = fetched();
    told.server.as_mut().unwrap()["report_bytes"] = json!(29_600);
    let window = Window {
        seconds: 2.0,
        receiver: Network { received_bytes: 781_250, ..Network::default() },
        sending: Process { cpu_ns: 160_000_000, ..Process::default() },
        ..Window::default()
    };
    let cpu = |fetched: &Fetched, bytes| {
        let all = figures(fetched, &window, &whole(bytes), &Idle::default(), 10, None);
        all.sender_cpu.unwrap()
    };
    let without = cpu(&fetched(), 1_562_500);
    let with = cpu(&told, 1_562_500 + 30_949);
    assert!((with / without - 1.0).abs() < 1e-6, "{with}, not {without}");
}

#[test]
fn ends_that_are_machines_of_their_own_are_told_apart_each_by_its_own_clock() {
    // The receiver's window has all bytes, so 100 connections, in 2.5 s; of its 5 s 2.5 s were active,
    // and none with nothing on the link: 0.025 s each. At 40 connections in a second the sender's
    // window of 2 s has 80; it was active for 1 s, and idle has 0.05 s a second: 0.9 s.
    let side = |seconds, idle_us, wakes| Side { seconds, machine: machine(idle_us, wakes) };
    let window = Window {
        seconds: 2.1,
        sides: Some([side(2.0, 3_000_000, 1000), side(2.5, 2_500_000, 300)]),
        sender: Network { sent_frames: 800, ..Network::default() },
        receiver: Network { sent_frames: 500, received_bytes: 1_250_000, ..Network::default() },
        receiving: Process { cpu_ns: 500_000_000, ..Process::default() },
        ..Window::default()
    };
    let idle = Idle {
        seconds: 1.0,
        sides: Some([side(1.0, 1_950_000, 100), side(1.0, 2_000_000, 20)]),
        ..Idle::default()
    };
    let all = figures(&fetched(), &window, &whole(1_250_000), &idle, 10, None);
    for (name, wanted) in [
        ("sender_active", 0.9 / 80.0),
        ("receiver_active", 0.025),
        ("sender_wake_ups", 10.0),
        ("receiver_wake_ups", 2.5),
        ("receiver_traced_wake_ups", 5.0),
        ("sender_interrupts", 100.0),
        ("receiver_cpu", 0.005),
        ("sender_frames", 10.0),
        ("receiver_frames", 5.0),
        ("frames", 15.0),
        ("rate", 4e6),
    ] {
        let value = all.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert!((value - wanted).abs() < 1e-9 * wanted, "{name}: {value}, not {wanted}");
    }
    for name in ["active", "wake_ups", "interrupts", "energy", "power"] {
        assert_eq!(all.get(name), None, "{name}: no machine is both");
    }
}

#[test]
fn those_cut_off_count_with_what_they_had_lived() {
    // 99 of 24 ms, and one that had all its bytes after 24 ms.
    let close = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < 1e-12;
    assert!(close(fetched().lifetime(), 0.024), "{:?}", fetched().lifetime());
    // Half of each of ten connections in 2.5 s: they would take 5 s.
    let none = Fetched { lifetime_s: None, bytes: 73_000, cut_s: 25.0, ..fetched() };
    assert!(close(none.lifetime(), 5.0), "{:?}", none.lifetime());
    // Lives of 0.1 and of 1 s by turns (mean 0.55), cut after 5 s: nine were completed, of 0.5 s in the
    // mean, and a long one is half done. With that one it is 0.526.
    let lifetimes = Lifetimes { count: 9, mean: 4.5 / 9.0, p50: 0.1, p99: 1.0 };
    let bytes = 9 * 14_600 + 7_300;
    let cut = Fetched { lifetime_s: Some(lifetimes), bytes, cut_s: 0.5, ..fetched() };
    assert!(close(cut.lifetime(), 5.0 / 9.5), "{:?}", cut.lifetime());
    let nothing = Fetched { lifetime_s: None, bytes: 0, cut_s: 0.0, ..fetched() };
    assert_eq!(nothing.lifetime(), None);
}

#[test]
fn books_that_do_not_agree_are_told() {
    let network = |frames, segments| Network {
        received_frames: frames,
        received_bytes: 2_000_000,
        protocols: [("Tcp.InSegs".to_owned(), segments)].into(),
        ..Network::default()
    };
    let whole = |frames, segments, lost| RunCounts {
        receiver: network(frames, segments),
        sender: Network {
            protocols: [("Tcp.RetransSegs".to_owned(), 6)].into(),
            ..Network::default()
        },
        planted: Some(InjectedLoss { came: frames, lost }),
    };
    let of =
        |frames, segments, joined| disagreements(&fetched(), &whole(frames, segments, 10), joined);
    assert_eq!(of(1300, 1290, false), Vec::<String>::new());
    assert_eq!(of(1300, 1300, false).len(), 1);
    assert_eq!(of(300, 1300, true).len(), 0, "a frame has several segments there");
    assert_eq!(of(1300, 900, true).len(), 0, "and what is joined is one for the network");
    assert_eq!(of(1110, 1100, false).len(), 1, "1200 were told");
}

#[test]
fn every_figure_is_found_by_its_name() {
    let figures = Figures { energy: Some(1.0), ..Figures::default() };
    assert_eq!(
        (figures.get("energy"), figures.get("power"), figures.get("x")),
        (Some(1.0), None, None)
    );
    assert!(FIGURES.iter().any(|it| it.name == "wake_ups"));
}
