use nightwatt_energy::integration::Reading::{Counter, Power};

use crate::serial::tests::{LONG, Plugged, failed_turn, turn};

use super::*;

fn messages(stream: &[u8]) -> Vec<Message> {
    let (mut parser, mut messages) = (Parser::default(), Vec::new());
    parser.feed(stream, |message| messages.push(message));
    messages
}

const fn clamps(sensor: u8, clamps: [Option<i64>; 3]) -> Message {
    Message { sensor, figures: Figures::Clamps(clamps) }
}

const CC128: &[u8] = b"<msg><src>CC128-v1.29</src><dsb>02616</dsb><time>23:45:32</time><tmpr>23.6</tmpr><sensor>0</sensor><id>00077</id><type>1</type><ch1><watts>00750</watts></ch1></msg>\r\n";
const PHASES: &[u8] = b"<msg><src>CC128-v1.29</src><dsb>00007</dsb><time>00:00:01</time><tmpr>  .0</tmpr><sensor>2</sensor><id>00079</id><type>1</type><ch1><watts>00345</watts></ch1><ch2><watts>02151</watts></ch2><ch3><watts>00000</watts></ch3></msg>";
const IMPULSES: &[u8] = b"<msg><src>CC128-v1.48</src><dsb>00002</dsb><time>14:28:32</time><tmpr>25.5</tmpr><sensor>9</sensor><id>01039</id><type>2</type><imp>0000014768</imp><ipu>1000</ipu></msg>";
/// The older kind: the date in pieces, `src` nested, and history in the same message.
const CLASSIC: &[u8] = b"<msg><date><dsb>00101</dsb><hr>20</hr><min>16</min><sec>58</sec></date><src><name>CC02</name><id>00077</id><type>1</type><sver>1.06</sver></src><ch1><watts>02350</watts></ch1><ch2><watts>00004</watts></ch2><ch3><watts>00000</watts></ch3><tmpr>13.4</tmpr><hist><hrs><h02>000.3</h02></hrs><ch1><watts>99999</watts></ch1></hist></msg>";
/// What the newer ones send every odd hour.
const HISTORY: &[u8] = b"<msg><src>CC128-v1.29</src><dsb>00089</dsb><time>13:00:14</time><hist><dsw>00090</dsw><type>1</type><units>kwhr</units><data><sensor>0</sensor><h004>0.000</h004></data></hist></msg>";

#[test]
fn newer_and_older_displays_are_understood_and_history_is_left_out() {
    assert_eq!(messages(CC128), [clamps(0, [Some(750), None, None])]);
    assert_eq!(messages(PHASES), [clamps(2, [Some(345), Some(2151), Some(0)])]);
    assert_eq!(messages(CLASSIC), [clamps(0, [Some(2350), Some(4), Some(0)])]);
    assert_eq!(messages(HISTORY), []);
    let figures = Figures::Impulses { count: 14_768, per_kwh: 1000 };
    assert_eq!(messages(IMPULSES), [Message { sensor: 9, figures }]);
}

#[test]
fn garbage_and_half_messages_are_left_out_and_the_next_is_found() {
    let mut stream = Vec::new();
    for piece in [&CC128[40..], b"\0\xff<msg>", &CC128[..90], PHASES, &IMPULSES[..100], CC128] {
        stream.extend_from_slice(piece);
    }
    let found = [clamps(2, [Some(345), Some(2151), Some(0)]), clamps(0, [Some(750), None, None])];
    assert_eq!(messages(&stream), found);
    for wrong in [
        "<ch1><watts>00x50</watts></ch1>",
        "<ch1></ch1>",
        "<sensor>10</sensor><ch1><watts>1</watts></ch1>",
        "<sensor>0</sensor><imp>12</imp>",
        "<hist><ch1><watts>1</watts></ch1>",
        "</hist><hist><ch1><watts>1</watts></ch1>",
        "",
    ] {
        assert_eq!(messages(format!("<msg>{wrong}</msg>").as_bytes()), [], "{wrong}");
    }
}

#[test]
fn an_hour_of_garbage_costs_no_memory() {
    // 57600 baud: ten bits a byte.
    let garbage = b"<msg><ch1><watts>00750</watts></ch1>".repeat(160);
    let mut parser = Parser::default();
    let before = parser.framer.capacity();
    for _ in 0..3600 {
        parser.feed(&garbage, |message| panic!("{message:?}"));
    }
    assert_eq!(parser.framer.capacity(), before);
}

#[test]
fn sensors_and_clamps_that_were_asked_for_are_channels() {
    let mut plugged = Plugged::new();
    let mut meter = plugged.open("currentcost", ",sensors=0+2+2.2,impulses=9:1000");
    assert_eq!(plugged.baud(), 57_600);
    let names: Vec<_> = meter.channels().iter().map(|channel| channel.name.clone()).collect();
    assert_eq!(names, ["sensor-9-impulses", "sensor-0", "sensor-2", "sensor-2-2"]);
    // 1000 impulses are a kWh, of 3.6 MJ.
    let counter = meter.channels()[0].counter.unwrap();
    assert!((counter.joules_per_count - 3600.0).abs() < 1e-9);
    let mut said = Vec::new();
    let other = "<msg><sensor>5</sensor><ch1><watts>1</watts></ch1></msg>";
    let sum = [(1, Power(Watts(750.0)))];
    let phases = [(2, Power(Watts(2496.0))), (3, Power(Watts(2151.0)))];
    for (message, readings) in
        [(CC128, &sum[..]), (PHASES, &phases[..]), (IMPULSES, &[(0, Counter(14_768))][..])]
    {
        plugged.say(other.as_bytes());
        plugged.say(HISTORY);
        plugged.say(message);
        said.clear();
        said.extend(
            turn(meter.as_mut(), LONG).unwrap().into_iter().map(|(it, _, what)| (it, what)),
        );
        assert_eq!(said, readings);
    }
}

#[test]
fn what_is_wrong_with_the_options_is_told() {
    let plugged = Plugged::new();
    for wrong in [
        ",sensors=10",
        ",sensors=a",
        ",sensors=0.4",
        ",sensors=0+0",
        ",impulses=9:0",
        ",impulses=x",
        ",baud=1",
    ] {
        let opened = crate::open(&plugged.fixture.host, &Plugged::spec("currentcost", wrong));
        assert!(matches!(opened, Err(MeterError::Spec { .. })), "{wrong}");
    }
}

#[test]
fn another_program_s_speed_is_told_as_such() {
    let mut plugged = Plugged::new();
    let mut meter = plugged.open("currentcost", ",baud=9600");
    assert_eq!(plugged.baud(), 9600);
    plugged.say(b"\x80\x80\xf8\x00");
    let error = failed_turn(meter.as_mut(), Duration::from_millis(20)).to_string();
    assert!(error.contains("4 bytes and no record") && error.contains("9600 baud"), "{error}");
    assert_eq!(turn(meter.as_mut(), Duration::from_millis(1)).unwrap(), [], "and once");
}
