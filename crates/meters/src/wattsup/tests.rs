use std::sync::mpsc;

use nightwatt_clock::meter::monotonic;

use crate::fixture::Tell;
use crate::sampler::{Opened, Sampler};
use crate::serial::tests::{LONG, Plugged, failed_turn, turn};
use crate::testdata;

use super::*;

fn packets(chunks: &[&[u8]]) -> Vec<Packet> {
    let (mut parser, mut packets) = (Parser::default(), Vec::new());
    for chunk in chunks {
        parser.feed(chunk, |packet| packets.push(packet));
    }
    packets
}

fn data(watts: f64) -> Packet {
    Packet::Data(Some(Watts(watts)))
}

const FAN: &[u8] = b"#d,-,18,387,1201,271,80,0,35,2,388,1201,359,387,1198,191,91,0,0,600,423;";

#[test]
fn packets_have_18_or_16_fields_and_the_first_is_tenths_of_watts() {
    assert_eq!(packets(&[FAN]), [data(38.7)]);
    let short = b"#d,-,16,1153,1201,271,80,0,35,2,388,1201,359,387,1198,191,91,0,0;";
    assert_eq!(packets(&[short]), [data(115.3)]);
    let only_watts = b"#d,-,18,2,_,_,_,_,_,_,_,_,_,_,_,_,_,_,_,_,_;";
    assert_eq!(packets(&[only_watts]), [data(0.2)]);
    let no_watts = b"#d,-,18,_,1201,271,80,0,35,2,388,1201,359,387,1198,191,91,0,0,600,423;";
    assert_eq!(packets(&[no_watts]), [Packet::Data(None)]);
    assert_eq!(packets(&[b"#v,-,2,1,2;", b"#x,-,0;"]), [Packet::Other, Packet::Other]);
}

#[test]
fn damaged_packets_are_no_data_and_the_next_is_found() {
    for damaged in [
        &b"#d,-,18,387,1201,271,80,0,35,2,388,1201,359,387,1198,191,91,0,0,600;"[..],
        b"#d,-,18,38\xff7,1201,271,80,0,35,2,388,1201,359,387,1198,191,91,0,0,600,423;",
        b"#d,-,18,,1201,271,80,0,35,2,388,1201,359,387,1198,191,91,0,0,600,423;",
        b"#d,-,17,387,1201,271,80,0,35,2,388,1201,359,387,1198,191,91,0,0,600;",
        // Two packets, of which the ends of one and the beginning of the other were lost.
        b"#d,-0,0,1210,0,100,0,0,600,0;",
        b"#d,-,18,387,12",
    ] {
        assert_eq!(packets(&[damaged, FAN]), [Packet::Damaged, data(38.7)], "{damaged:?}");
    }
    assert_eq!(packets(&[b"\0\xff;;,#;#d;#!", FAN]), [data(38.7)]);
}

#[test]
fn a_recorded_stream_adds_up_however_it_is_cut() {
    let Some(path) = testdata::path("power/wattsup_raw/fan.raw") else { return };
    let stream = std::fs::read(path).unwrap();
    for cut in [1, 7, 64, 4096, stream.len()] {
        let chunks: Vec<_> = stream.chunks(cut).collect();
        let packets = packets(&chunks);
        let watts = packets.iter().map(|packet| match packet {
            Packet::Data(Some(watts)) => watts.get(),
            packet => panic!("{packet:?}"),
        });
        // tr -d '\000' < fan.raw | awk -F, '/^#d,-,18,/ {s += $4; n++} END {print n, s / 10}'
        let sum: f64 = watts.sum();
        assert_eq!(packets.len(), 1792);
        assert!((sum - 75_565.8).abs() < 1e-6, "{sum}");
    }
}

#[test]
fn the_meter_is_asked_to_log_and_nothing_else() {
    let mut plugged = Plugged::new();
    drop(plugged.open("wattsup", ""));
    assert_eq!(plugged.baud(), 115_200);
    let mut meter = plugged.open("wattsup", ",interval=1s,baud=115200");
    assert_eq!(meter.pace(), Pace::Pushed { about: Duration::from_secs(1) });
    assert_eq!(plugged.baud(), 115_200);
    let waits = std::thread::spawn(move || turn(meter.as_mut(), LONG).unwrap());
    assert_eq!(plugged.hears(b';'), "#V,R,0;");
    assert_eq!(plugged.hears(b';'), "#L,W,3,E,,1;");
    // Half a packet, garbage, and a whole one in two pieces.
    plugged.say(b"18,0,600,423;\r\n#d,-,18,387,12\0\0#");
    plugged.say(&FAN[1..20]);
    plugged.say(&FAN[20..]);
    let readings = waits.join().unwrap();
    let [(0, _, reading)] = readings[..] else { panic!("{readings:?}") };
    assert_eq!(reading, Reading::MeanPower { watts: Watts(38.7), over: Duration::from_secs(1) });
}

#[test]
fn the_other_speed_and_the_other_forms_of_the_command_are_tried_in_turn() {
    let mut plugged = Plugged::new();
    // It is at one speed for as long: an answer must not come when it is at the next.
    let mut meter = plugged.open("wattsup", ",interval=5s");
    let waits = std::thread::spawn(move || turn(meter.as_mut(), LONG).unwrap());
    let mut heard: Vec<String> = Vec::new();
    // An old one: slow, and it wants a `0`.
    let wanted = "#L,W,3,E,0,5;";
    let understood = |baud, heard: &[String]| {
        baud == 19_200 && heard.last().is_some_and(|command| command == wanted)
    };
    while !understood(plugged.baud(), &heard) {
        let command = plugged.hears(b';');
        if command == "#V,R,0;" && plugged.baud() == 19_200 {
            plugged.say(b"#v,-,2,1,1;");
        }
        heard.push(command);
    }
    plugged.say(FAN);
    assert_eq!(waits.join().unwrap().len(), 1);
    assert_eq!(heard[..2], ["#V,R,0;", "#L,W,3,E,,5;"]);
    let first = |wanted: &str| heard.iter().position(|command| command == wanted);
    assert!(first("#L,W,3,E,,5;") < first(wanted), "{heard:?}");
    let mut starts = RESERVED.iter().map(|reserved| format!("#L,W,3,E,{reserved},5;"));
    let known: Vec<_> = starts.by_ref().chain(["#V,R,0;".to_owned()]).collect();
    assert!(heard.iter().all(|command| known.contains(command)), "{heard:?}");
}

#[test]
fn the_speed_and_the_interval_can_be_said() {
    let mut plugged = Plugged::new();
    let mut meter = plugged.open("wattsup", ",baud=19200,interval=10s");
    assert_eq!(plugged.baud(), 19_200);
    let waits = std::thread::spawn(move || turn(meter.as_mut(), LONG).unwrap());
    assert_eq!(plugged.hears(b';'), "#V,R,0;");
    assert_eq!(plugged.hears(b';'), "#L,W,3,E,,10;");
    plugged.say(FAN);
    let Reading::MeanPower { over, .. } = waits.join().unwrap()[0].2 else { panic!() };
    assert_eq!(over, Duration::from_secs(10));
    for wrong in [",interval=1500ms", ",interval=0s", ",baud=fast", ",colour=red"] {
        let opened = crate::open(&plugged.fixture.host, &Plugged::spec("wattsup", wrong));
        assert!(matches!(opened, Err(MeterError::Spec { .. })), "{wrong}");
    }
}

#[test]
fn an_unplugged_meter_leaves_a_gap_and_the_run_goes_on() {
    let mut plugged = Plugged::new();
    let spec = Plugged::spec("wattsup", ",baud=115200");
    let opened = Opened::open(&plugged.fixture.host, &spec).unwrap();
    let (sender, told) = mpsc::channel();
    let begun = monotonic();
    let sampler = Sampler::start(vec![opened], None, |_| Box::new(Tell(sender.clone()))).unwrap();
    plugged.hears(b';');
    plugged.say(FAN);
    told.recv_timeout(LONG).unwrap();
    plugged.say(&FAN[..30]);
    let mut plugged = plugged.again();
    // It is opened again, and told again what to do.
    while plugged.hears(b';') != "#L,W,3,E,,1;" {}
    plugged.say(&FAN[30..]);
    plugged.say(FAN);
    told.recv_timeout(LONG).unwrap();
    let (measured, _) = sampler.finish(monotonic());
    let totals = measured[0].totals[0];
    assert_eq!(totals.readings, 2, "halves of two packets are none");
    assert!(measured[0].errors >= 1);
    let known = totals.covered + totals.gap_time;
    assert!(known <= monotonic().since(begun), "{totals:?}");
    // What is covered is covered by 38.7 W, and the rest is no energy.
    let expected = 38.7 * totals.covered.as_secs_f64();
    assert!((totals.joules.get() - expected).abs() < 1e-9 * expected, "{totals:?}");
}

#[test]
fn an_hour_of_garbage_costs_no_memory_and_is_one_error_in_a_turn() {
    // As much as comes in at 115200 baud.
    let garbage: Vec<u8> =
        (0_u32..11_520).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut parser = Parser::default();
    let before = parser.framer.capacity();
    let mut data = 0;
    for _ in 0..3600 {
        parser.feed(&garbage, |packet| data += u32::from(matches!(packet, Packet::Data(_))));
    }
    assert_eq!((parser.framer.capacity(), data), (before, 0));

    let mut plugged = Plugged::new();
    let mut meter = plugged.open("wattsup", ",baud=115200");
    plugged.say(b"#?;");
    let talks = plugged.babbles(garbage);
    let error = failed_turn(meter.as_mut(), Duration::from_millis(30));
    assert!(matches!(error, MeterError::Nonsense { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("is 115200 baud its speed") && text.len() < 400, "{text}");
    meter.release();
    talks.stops();
}

#[test]
fn a_meter_that_babbles_can_be_stopped_and_nothing_of_it_is_counted() {
    let mut plugged = Plugged::new();
    let spec = Plugged::spec("wattsup", ",baud=115200");
    let opened = Opened::open(&plugged.fixture.host, &spec).unwrap();
    plugged.say(b"#?;");
    let talks = plugged.babbles(b"#d,-,18,1,2,3;\0\xff".to_vec());
    let sampler = Sampler::start(vec![opened], None, |_| Box::new(())).unwrap();
    let (measured, meters) = sampler.finish(monotonic());
    talks.stops();
    assert_eq!((measured[0].totals[0].readings, meters.len()), (0, 1));
    // The last turn ended without a reading.
    assert_eq!(measured[0].errors, 1);
    let error = measured[0].last_error.clone().unwrap();
    assert!(error.contains("and no record, as `"), "{error}");
}
