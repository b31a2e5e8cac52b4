//! Answers as the vendor's reference shows them.

use crate::device::{Device, ReceivedRequest, json, line, open, poll, refused, status};

use super::*;

const PLUG_S: &str = r#"{"type":"SHPLG-S","mac":"7C87CEB4E2C0","auth":false,
    "fw":"20230913-113421/v1.14.0-gcb84623","discoverable":false,"num_outputs":1,"num_meters":1}"#;

const OLD_METER: &str = r#"{"power":48.52,"overpower":0.00,"is_valid":true,"timestamp":1625146880,
    "counters":[48.490, 48.543, 48.511],"total":394}"#;

const PLUS_PLUG: &str = r#"{"name":null,"id":"shellyplusplugs-b0b21c1023a8","mac":"B0B21C1023A8",
    "slot":0,"model":"SNPL-00112EU","gen":2,"fw_id":"20231031-165617/1.0.8-g","ver":"1.0.8",
    "app":"PlusPlugS","auth_en":false,"auth_domain":null}"#;

const SWITCH: &str = r#"{"id":0,"source":"WS_in","output":true,"apower":8.9,"voltage":237.5,
    "current":0.063,"aenergy":{"total":6532.384,"by_minute":[63.371,148.3,148.2],
    "minute_ts":1626935779},"temperature":{"tC":23.5,"tF":74.4}}"#;

fn old(status: &'static str) -> Device {
    Device::http(move |ask| match ask.path.as_str() {
        "/shelly" => json(PLUG_S),
        "/status" => json(&format!(r#"{{"relays":[{{}}],"meters":[{status}],"ram_total":51}}"#)),
        "/meter/0" => json(status),
        _ => nothing(),
    })
}

fn nothing() -> String {
    status(404, "", "Not Found")
}

fn plus(ask: &ReceivedRequest) -> String {
    match ask.path.as_str() {
        "/shelly" => json(PLUS_PLUG),
        "/rpc/Shelly.GetStatus" => json(&format!(
            r#"{{"ble":{{}},"cloud":{{"connected":false}},"switch:0":{SWITCH},"sys":{{"ram":1}}}}"#
        )),
        "/rpc/Switch.GetStatus?id=0" => json(SWITCH),
        _ => nothing(),
    }
}

fn watts(readings: &[(String, Reading)]) -> Vec<(&str, f64)> {
    let each = readings.iter().map(|(name, reading)| match reading {
        Reading::Power(Watts(watts)) => (name.as_str(), *watts),
        other => panic!("{other:?}"),
    });
    each.collect()
}

#[test]
fn a_plug_of_generation_1_tells_its_power() {
    let device = old(OLD_METER);
    let mut meter = open(&format!("shelly={}", device.address())).unwrap();
    assert_eq!(watts(&poll(meter.as_mut()).unwrap()), [("meter-0", 48.52)]);
    assert_eq!(meter.channels()[0].scope, Scope::Wall);
    let paths: Vec<_> = device.asked().into_iter().map(|ask| ask.path).collect();
    assert_eq!(paths, ["/shelly", "/status", "/meter/0"]);
}

#[test]
fn a_plug_that_has_not_measured_yet_leaves_a_gap() {
    let device = old(r#"{"power":0.00,"is_valid":false,"timestamp":0,"total":0}"#);
    let mut meter = open(&format!("shelly={}", device.address())).unwrap();
    assert_eq!(poll(meter.as_mut()).unwrap(), []);
}

#[test]
fn a_plug_of_generation_2_tells_its_power_or_counts() {
    let device = Device::http(plus);
    let mut meter = open(&format!("shelly={}", device.address())).unwrap();
    assert_eq!(watts(&poll(meter.as_mut()).unwrap()), [("switch-0", 8.9)]);
    let mut meter = open(&format!("shelly={},kind=energy", device.address())).unwrap();
    // 6532.384 Wh are 23516582.4 J.
    let expected = [("switch-0".to_owned(), Reading::Counter(23_516_582_400))];
    assert_eq!(poll(meter.as_mut()).unwrap(), expected);
    assert_eq!(meter.pace().interval(None), Duration::from_mins(1));
    let counter = meter.channels()[0].counter.unwrap();
    // A kilowatt for two minutes, shown at once after one, is no reset.
    let mut energy = nightwatt_energy::wrapping_counter::Counter::new(counter);
    energy.read(nightwatt_energy::time::Mono::from_secs(0), 0);
    let step = energy.read(nightwatt_energy::time::Mono::from_secs(60), 120_000_000);
    assert_eq!(step, nightwatt_energy::wrapping_counter::Counted::Counts(120_000_000));
}

#[test]
fn of_generation_1_a_total_is_in_watt_minutes() {
    let device = old(OLD_METER);
    let mut meter = open(&format!("shelly={},kind=energy", device.address())).unwrap();
    // 394 W min are 23640 J.
    assert_eq!(poll(meter.as_mut()).unwrap()[0].1, Reading::Counter(23_640_000));
}

#[test]
fn of_several_channels_each_is_a_part_and_one_can_be_chosen() {
    let device = Device::http(|ask| match ask.path.as_str() {
        "/shelly" => json(r#"{"id":"shellypro3em-08f9e0e5","gen":2,"app":"Pro3EM"}"#),
        "/rpc/Shelly.GetStatus" => json(
            r#"{"em1:0":{"id":0,"act_power":121.5},"em1:1":{"id":1,"act_power":-3.25},
                "switch:100":{"id":100,"output":false}}"#,
        ),
        "/rpc/EM1.GetStatus?id=1" => json(r#"{"id":1,"act_power":-3.5}"#),
        _ => nothing(),
    });
    let mut meter = open(&format!("shelly={}", device.address())).unwrap();
    assert_eq!(watts(&poll(meter.as_mut()).unwrap()), [("em1-0", 121.5), ("em1-1", -3.25)]);
    assert!(meter.channels().iter().all(|channel| channel.scope == Scope::Part));
    let mut one = open(&format!("shelly={},channel=1", device.address())).unwrap();
    assert_eq!(watts(&poll(one.as_mut()).unwrap()), [("em1-1", -3.5)]);
    assert_eq!(one.channels()[0].scope, Scope::Wall);
    let error = refused(&format!("shelly={},channel=2", device.address())).to_string();
    assert!(error.contains("no `channel=2`: there are `0`, `1`"), "{error}");
    let error = refused(&format!("shelly={},kind=energy", device.address())).to_string();
    assert!(error.contains("reports no energy"), "{error}");
}

#[test]
fn generation_2_asks_for_a_digest_and_gets_it() {
    // /shelly needs no password. What is right is the login's own test (RFC 7616).
    let device = Device::http(|ask| {
        let known = ask.header("authorization").is_some_and(|it| {
            it.starts_with("Digest username=\"admin\", realm=\"shellyplusplugs-b0b21c1023a8\"")
                && it.contains(&format!("uri=\"{}\"", ask.path))
                && it.contains("nonce=\"60dc2c69\"")
        });
        if ask.path == "/shelly" || known {
            return plus(ask);
        }
        let challenge = "WWW-Authenticate: Digest qop=\"auth\", \
                         realm=\"shellyplusplugs-b0b21c1023a8\", nonce=\"60dc2c69\", \
                         algorithm=SHA-256\r\n";
        status(401, challenge, "")
    });
    let file = line("the password");
    let text = format!("shelly={},password-file={}", device.address(), file.path().display());
    let mut meter = open(&text).unwrap();
    poll(meter.as_mut()).unwrap();
    poll(meter.as_mut()).unwrap();
    let refused_once = device.asked().iter().filter(|ask| ask.path.starts_with("/rpc")).count();
    assert_eq!(refused_once, 4, "the challenge is used again");
    let error = refused(&format!("shelly={}", device.address()));
    assert!(error.hint().unwrap().contains("password-file="), "{error}");
}

#[test]
fn what_is_no_shelly_or_measures_nothing_is_told() {
    let device = Device::http(|_| nothing());
    let error = refused(&format!("shelly={}", device.address())).to_string();
    assert!(error.contains("is it the right device?"), "{error}");
    let device = Device::http(|_| json(r#"{"hello":"world"}"#));
    let error = refused(&format!("shelly={}", device.address())).to_string();
    assert!(error.contains("no Shelly"), "{error}");
    let device = Device::http(|ask| match ask.path.as_str() {
        "/shelly" => json(PLUS_PLUG),
        _ => json(r#"{"switch:0":{"id":0,"output":true}}"#),
    });
    let error = refused(&format!("shelly={}", device.address())).to_string();
    assert!(error.contains("measures no power"), "{error}");
}

#[test]
fn a_device_that_falls_silent_or_mad_fails_one_turn_at_a_time() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let device =
        Device::http(move |ask| match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            2 => "\u{7f}\u{7f}\u{7f}".to_owned(),
            3 => json(r#"{"id":0,"apower":null}"#),
            4 => json(&"[".repeat(60_000)),
            _ => plus(ask),
        });
    let mut meter = open(&format!("shelly={}", device.address())).unwrap();
    for expected in ["", "`/apower` is no number but null", "is no JSON"] {
        let error = poll(meter.as_mut()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(watts(&poll(meter.as_mut()).unwrap()), [("switch-0", 8.9)]);
}

#[test]
fn the_sampler_turns_a_plugs_power_into_energy_and_counts_what_fails() {
    use crate::fixture::Tell;
    use crate::sampler::{Opened, Sampler};
    // The fourth question is the first after those of the opening and the first reading.
    let count = std::sync::atomic::AtomicU32::new(0);
    let device =
        Device::http(move |ask| match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            3 => status(503, "", "busy"),
            _ => plus(ask),
        });
    let spec = format!("shelly={},name=plug", device.address()).parse().unwrap();
    let opened = Opened::open(&Host::default(), &spec).unwrap();
    let (sender, told) = std::sync::mpsc::channel();
    // A busy device is waited for as long.
    let wish = Some(Duration::from_secs(4));
    let sampler = Sampler::start(vec![opened], wish, |_| Box::new(Tell(sender.clone()))).unwrap();
    for _ in 0..2 {
        told.recv().unwrap();
    }
    let (measured, _) = sampler.finish(nightwatt_clock::meter::monotonic());
    let (measured, totals) = (&measured[0], measured[0].totals[0]);
    assert_eq!(measured.meter, "plug");
    assert_eq!(measured.errors, 1, "{:?}", measured.last_error);
    assert!(measured.last_error.as_ref().unwrap().contains("status 503, `busy`"));
    let seconds = totals.covered.as_secs_f64();
    assert!(seconds > 0.0 && (totals.joules.get() - 8.9 * seconds).abs() < 1e-9, "{totals:?}");
}

/// A device of generation 2 with that status.
fn with(status: &'static str) -> Device {
    Device::http(move |ask| match ask.path.as_str() {
        "/shelly" => json(PLUS_PLUG),
        path if path.starts_with("/rpc/") => json(status),
        _ => nothing(),
    })
}

/// What a turn says, and why parts could not be read.
fn turn(meter: &mut dyn Meter) -> (Vec<(usize, Reading)>, Vec<String>) {
    let stop = nightwatt_clock::meter::Stop::new().unwrap();
    let turn = Turn { stop: &stop, until: monotonic() + Duration::from_secs(10) };
    let mut readings = Readings::default();
    let result = meter.read(&turn, &mut readings);
    // Where nothing could be read that is the error of all.
    let failed = readings.outcome(result).unwrap_or_else(|error| vec![error]);
    let said = readings.iter().map(|&(channel, _, reading)| (channel, reading)).collect();
    (said, failed.iter().map(ToString::to_string).collect())
}

#[test]
fn a_channel_without_a_figure_does_not_silence_the_others() {
    let device = with(
        r#"{"switch:0":{"apower":12.5},"switch:1":{"apower":null},"switch:2":{"apower":3.5}}"#,
    );
    let mut meter = open(&format!("shelly={}", device.address())).unwrap();
    let (said, failed) = turn(meter.as_mut());
    let power = |watts| Reading::Power(Watts(watts));
    assert_eq!(said, [(0, power(12.5)), (2, power(3.5))]);
    assert!(failed.len() == 1 && failed[0].contains("`switch-1`"), "{failed:?}");
    // Of energy likewise: what does not count is left out and named.
    let device =
        with(r#"{"switch:0":{"apower":1,"aenergy":{"total":2.0}},"em:0":{"total_act_power":5}}"#);
    let meter = open(&format!("shelly={},kind=energy", device.address())).unwrap();
    let names: Vec<_> = meter.channels().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["switch-0"]);
    assert_eq!(meter.remarks(), ["`em-0` reports no energy, and is left out"]);
}

#[test]
fn a_total_that_is_not_the_sum_of_its_phases_is_not_believed() {
    for (total, is_believed) in [("180.5", true), ("1800", false), ("0", false)] {
        let status = format!(
            r#"{{"em:0":{{"total_act_power":{total},"a_act_power":60,"b_act_power":70.5,"c_act_power":50}}}}"#
        );
        let alone = status.trim_start_matches(r#"{"em:0":"#).trim_end_matches('}').to_owned() + "}";
        let device = Device::http(move |ask| match ask.path.as_str() {
            "/shelly" => json(PLUS_PLUG),
            "/rpc/Shelly.GetStatus" => json(&status),
            _ => json(&alone),
        });
        let mut meter = open(&format!("shelly={}", device.address())).unwrap();
        let (said, failed) = turn(meter.as_mut());
        assert_eq!((said.len(), failed.len()), if is_believed { (1, 0) } else { (0, 1) });
        for error in failed {
            assert!(error.contains("60, 70.5 and 50 W") && error.contains(total), "{error}");
        }
    }
}
