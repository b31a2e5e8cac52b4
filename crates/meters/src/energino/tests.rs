use crate::serial::tests::{LONG, Plugged, turn};

use super::*;

fn lines(stream: &[u8]) -> Vec<Line> {
    let (mut parser, mut lines) = (Parser::default(), Vec::new());
    parser.feed(stream, |line| lines.push(line));
    lines
}

const fn parsed(watts: f64, millis: u64) -> Line {
    Line { watts: Watts(watts), over: Duration::from_millis(millis) }
}

#[test]
fn all_revisions_and_variants_are_understood() {
    for (line, expected) in [
        ("#Energino,1,12.26,0.343,4.205,1,2000,21700,12,26", parsed(4.205, 2000)),
        // Revision 0 has no errors.
        ("#Energino,0,12.26,0.343,4.205,1,2000,21700", parsed(4.205, 2000)),
        // 12 fields: errors, and a battery.
        ("#EnerginoAbs,1,12.26,0.3,3.678,0,200,2170,12,26,87.5,12", parsed(3.678, 200)),
        // 14 fields: no errors, but addresses.
        (
            "#EnerginoEthernet,1,11.9,0.1,1.19,0,2000,9,10.0.0.7,80,216.52.233.121,80,0,-",
            parsed(1.19, 2000),
        ),
        ("#EnerginoPOE,0,47.9,0.1,-0.02,0,2000,9,12,26,0,http://x/feeds/,-\r", parsed(-0.02, 2000)),
    ] {
        assert_eq!(lines(format!("{line}\n").as_bytes()), [expected], "{line}");
    }
}

#[test]
fn settings_garbage_and_half_lines_are_left_out() {
    let good = "#Energino,1,12.26,0.343,4.205,1,2000,21700,12,26\n";
    let stream =
        format!("5,1,2000,3\n@0,100,10,2500,185,2000\n#Energino,1,12.2{good}\0\u{1}#,,\n{good}");
    assert_eq!(lines(stream.as_bytes()), [parsed(4.205, 2000), parsed(4.205, 2000)]);
    for wrong in [
        "#Watts,1,12.26,0.343,4.205,1,2000,21700",
        "#Energino,x,12.26,0.343,4.205,1,2000,21700",
        "#Energino,1,12.26,0.343,nan,1,2000,21700",
        "#Energino,1,12.26,0.343,inf,1,2000,21700",
        "#Energino,1,12.26,0.343,4.205,7,2000,21700",
        "#Energino,1,12.26,0.343,4.205,1,0,21700",
        "#Energino,1,12.26,0.343,4.205,1,2000,0",
        "#Energino,1,12.26,0.343,4.205,1,1e30,5",
        "#Energino,1,12.26,0.343,4.205,1",
    ] {
        assert_eq!(lines(format!("{wrong}\n").as_bytes()), [], "{wrong}");
    }
}

#[test]
fn an_hour_of_garbage_costs_no_memory() {
    let garbage = b"#Energino,1,1\xff2.26;".repeat(640);
    let mut parser = Parser::default();
    let before = parser.framer.capacity();
    for _ in 0..3600 {
        parser.feed(&garbage, |line| panic!("{line:?}"));
    }
    assert_eq!(parser.framer.capacity(), before);
}

#[test]
fn a_meter_with_another_period_is_told_ours_once_it_has_booted() {
    let mut plugged = Plugged::new();
    let mut meter = plugged.open("energino", ",period=200ms");
    assert_eq!(plugged.baud(), 115_200);
    assert_eq!(meter.pace(), Pace::Pushed { about: Duration::from_millis(200) });
    let waits = std::thread::spawn(move || {
        let first = turn(meter.as_mut(), LONG).unwrap();
        (first, turn(meter.as_mut(), LONG).unwrap(), meter)
    });
    plugged.say(b"#Energino,1,12.26,0.343,4.205,1,2000,21700,12,26\n");
    // It says nothing more, for its period may be long.
    assert_eq!(plugged.hears(b'\n'), "#P200\n");
    plugged.say(b"#Energino,1,12.26,0.343,4.1,1,203,2170,12,26\n");
    let (first, second, _) = waits.join().unwrap();
    let [(0, before, Reading::MeanPower { watts, over })] = first[..] else { panic!() };
    assert_eq!((watts, over), (Watts(4.205), Duration::from_secs(2)));
    let [(0, after, Reading::MeanPower { watts, over })] = second[..] else { panic!() };
    assert_eq!((watts, over), (Watts(4.1), Duration::from_millis(203)));
    assert!(after > before);
}

#[test]
fn lines_that_came_in_together_are_means_one_after_the_other() {
    let mut plugged = Plugged::new();
    let mut meter = plugged.open("energino", ",period=1s");
    plugged.say(&b"#Energino,1,12,1,12.5,1,1000,21700,12,26\n".repeat(3));
    let mut readings = Vec::new();
    while readings.len() < 3 {
        readings.extend(turn(meter.as_mut(), LONG).unwrap());
    }
    assert!(readings.windows(2).all(|two| two[0].1 < two[1].1), "{readings:?}");
    assert!(crate::open(&plugged.fixture.host, &Plugged::spec("energino", ",period=1ms")).is_err());
}
