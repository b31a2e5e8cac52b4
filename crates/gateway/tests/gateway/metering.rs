//! Meters that feed the bill.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use nightwatt_clock::Clock;
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::Mono;
use nightwatt_gateway::metering::Feed;
use nightwatt_gateway::status::{LedgerStatus, SiteStatus};
use nightwatt_policy::ledger::Measure;

use crate::client::{get, post};
use crate::stage::{Stage, asleep, awake, secs};

/// Every five seconds the plug says what the server drew: it is not what the scenario says.
async fn plugged(stage: &Stage, feed: &Feed, time: Range<u64>, metered: &mut f64) {
    for end in (time.start + 5..=time.end).step_by(5) {
        let watts = if stage.power.is_up() { 61.0 } else { 2.5 };
        stage.at(end).await;
        add(feed, end - 5..end, watts);
        *metered += watts * 5.0;
    }
}

fn add(feed: &Feed, time: Range<u64>, watts: f64) {
    let joules = Joules(watts * (time.end - time.start) as f64);
    let (from, to) = (Mono::from_secs(time.start), Mono::from_secs(time.end));
    feed.add(Measure { from, to, joules, uncertainty: joules * 0.02 });
}

fn is_within_a_hundredth(ours: f64, plug: f64) -> bool {
    (ours - plug).abs() <= 0.01 * plug
}

fn provenance(ledger: &LedgerStatus) -> &'static str {
    ledger.server.provenance.as_str()
}

#[test]
fn a_bill_with_a_plug_is_measured_and_says_what_the_plug_says() {
    let (feed, proxy) = (Feed::new("plug/0"), Feed::new("board/0"));
    asleep().metered("blog", &feed).metered("", &proxy).play(async |stage| {
        let mut metered = 0.0;
        plugged(stage, &feed, 0..100, &mut metered).await;
        stage.ask(get("/a")).await;
        // Woke at 105, was told to sleep at 165.
        add(&feed, 100..105, 61.0);
        metered += 305.0;
        plugged(stage, &feed, 105..600, &mut metered).await;
        add(&proxy, 0..600, 3.0);
        let status = stage.status();
        let ledger = &status.ledger;
        assert_eq!((ledger.sleeps, ledger.wakeups), (1, 1));
        assert_eq!((provenance(ledger), ledger.proxy.provenance.as_str()), ("measured", "measured"));
        assert!(is_within_a_hundredth(ledger.server.joules.get(), metered), "{ledger:?}");
        assert!((ledger.proxy.joules.get() - 1800.0).abs() < 1e-6, "{ledger:?}");
        assert!((ledger.server_parts.measured_s - 600.0).abs() < 1e-6, "{ledger:?}");
        assert_eq!(ledger.always_on.provenance.as_str(), "modelled");
        let names: Vec<_> = status.meters.iter().map(|it| (&*it.of, &*it.meter)).collect();
        assert_eq!(names, [("server", "plug/0"), ("proxy", "board/0")]);
        assert_eq!(status.meters[1].watts, Some(3.0));
        let page = stage.ask_admin(get("/metrics")).await;
        let measured = "nightwatt_energy_joules_total{site=\"blog\",of=\"proxy\",provenance=\"measured\"} 1800";
        assert!(page.text().contains(measured), "{}", page.text());
    });
}

#[test]
fn an_hour_without_the_plug_is_modelled_and_marked_so() {
    let feed = Feed::new("plug/0");
    asleep().metered("blog", &feed).play(async |stage| {
        let mut metered = 0.0;
        // From noon to three; from one to two the plug is away.
        plugged(stage, &feed, 0..3600, &mut metered).await;
        assert_eq!(provenance(&stage.status().ledger), "measured");
        stage.at(7200).await;
        plugged(stage, &feed, 7200..10_800, &mut metered).await;
        let status = stage.status();
        let hours: Vec<_> = status.hours.iter().map(|it| provenance(&it.ledger)).collect();
        assert_eq!(hours, ["measured", "modelled", "measured"]);
        let parts = status.ledger.server_parts;
        assert!((parts.measured_j - metered).abs() < 1e-6, "{parts:?}");
        assert!((parts.modelled_j - 1.6 * 3600.0).abs() < 1e-6, "{parts:?}");
        let sum = parts.measured_j + parts.modelled_j;
        assert!((sum - status.ledger.server.joules.get()).abs() < 1e-6);
        assert_eq!(provenance(&status.ledger), "mixed");
        let of_hours: f64 = status.hours.iter().map(|it| it.ledger.server.joules.get()).sum();
        assert!((of_hours - sum).abs() < 1e-6, "{of_hours}, not {sum}");
    });
}

#[test]
fn a_restart_keeps_what_was_measured() {
    let feed = Feed::new("plug/0");
    awake().metered("blog", &feed).play(async |stage| {
        let mut metered = 0.0;
        plugged(stage, &feed, 0..4000, &mut metered).await;
        stage.stop().await;
        stage.start();
        stage.looked().await;
        let status = stage.status();
        assert!((status.ledger.server_parts.measured_j - metered).abs() < 1e-6, "{status:?}");
        assert_eq!(provenance(&status.ledger), "measured");
        let spans: Vec<_> = status.hours.iter().map(|it| it.ledger.span_s).collect();
        assert_eq!(spans, [3600.0, 400.0], "the hour that did not end is there too");
    });
}

#[test]
fn a_plug_that_dies_for_good_leaves_the_bill_to_the_model() {
    let feed = Feed::new("plug/0");
    awake().metered("blog", &feed).play(async |stage| {
        let mut metered = 0.0;
        plugged(stage, &feed, 0..50, &mut metered).await;
        stage.at(80_000).await;
        stage.ask(post("/form", "x")).await;
        let status = stage.status();
        assert_eq!(status.hours.len(), 21, "those that nobody will measure any more");
        assert!(status.hours[1..].iter().all(|hour| provenance(&hour.ledger) == "modelled"));
        assert!((status.ledger.server_parts.measured_j - metered).abs() < 1e-6);
        let age = status.meters[0].read_s_ago.unwrap();
        assert!(age > 79_000.0, "{age}");
    });
}

/// A Shelly of the second generation, as far as it is asked: it says 40 W.
const SAYS: [&str; 3] = [
    r#"{"id":"shellyplugsg3-1","gen":3,"app":"PlugSG3"}"#,
    r#"{"switch:0":{"id":0,"output":true,"apower":40.0,"voltage":231.0,"aenergy":{"total":9.5}}}"#,
    r#"{"id":0,"output":true,"apower":40.0,"voltage":231.0,"aenergy":{"total":9.5}}"#,
];
const WELL: u8 = 0;
const GARBAGE: u8 = 1;
const SILENT: u8 = 2;

/// A plug, and its mood.
fn shelly() -> (SocketAddr, Arc<AtomicU8>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mood = Arc::new(AtomicU8::new(WELL));
    let theirs = Arc::clone(&mood);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            match theirs.load(Ordering::SeqCst) {
                SILENT => kept.push(stream),
                mood => answer(stream, mood),
            }
        }
    });
    (address, mood)
}

fn answer(mut stream: TcpStream, mood: u8) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    for line in lines {
        if line.is_empty() {
            break;
        }
    }
    let body = match first.split(' ').nth(1) {
        _ if mood == GARBAGE => "{\"apower\": \"\u{fffd}",
        Some("/shelly") => SAYS[0],
        Some("/rpc/Shelly.GetStatus") => SAYS[1],
        _ => SAYS[2],
    };
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    let _ = write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{body}");
}

/// Waits, by the operating system's clock, until that is so.
async fn until(stage: &Stage, what: &str, so: impl Fn(&SiteStatus) -> bool) -> SiteStatus {
    let clock = Clock::real();
    let waiting = async {
        loop {
            let status = stage.status();
            if so(&status) {
                return status;
            }
            clock.sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    clock.timeout(secs(60), waiting).await.unwrap_or_else(|_| {
        panic!("waited for {what}: {:?} {:?}", stage.status().meters, stage.status().ledger)
    })
}

#[test]
fn a_shelly_is_believed_and_its_garbage_and_silence_cost_nothing() {
    if nightwatt_meters::driver("shelly").is_err() {
        println!("skipped: this build has no driver for Shelly");
        return;
    }
    let (address, mood) = shelly();
    let table = format!("driver = \"shelly\"\naddress = \"http://{address}\"\nevery = \"1s\"");
    let meter = toml::from_str(&table).unwrap();
    awake().real().site(|site| site.meter = Some(meter)).play(async |stage| {
        let status = until(stage, "three seconds of the plug", |status| {
            status.ledger.server_parts.measured_s >= 3.0
        })
        .await;
        let parts = status.ledger.server_parts;
        assert!(is_within_a_hundredth(parts.measured_j, 40.0 * parts.measured_s), "{parts:?}");
        assert_eq!(status.meters[0].meter, "shelly/switch-0");
        // All but the moments before its first reading and after its last.
        let rest = status.ledger.span_s - parts.measured_s;
        assert!((parts.modelled_j - 43.3 * rest).abs() < 1e-6 * parts.modelled_j, "{parts:?}");
        for trouble in [GARBAGE, SILENT] {
            let before = stage.status();
            mood.store(trouble, Ordering::SeqCst);
            until(stage, "the plug to fail", |it| it.meters[0].errors > before.meters[0].errors)
                .await;
            assert_eq!(stage.ask(get("/a")).await.status, 200, "the proxy does not care");
            mood.store(WELL, Ordering::SeqCst);
            let settled = before.ledger.server_parts;
            let after = until(stage, "the plug to come back", |status| {
                status.ledger.server_parts.measured_s >= settled.measured_s + 2.0
            })
            .await;
            let parts = after.ledger.server_parts;
            assert!(is_within_a_hundredth(parts.measured_j, 40.0 * parts.measured_s), "{parts:?}");
        }
    });
}

#[test]
fn a_meter_that_is_not_there_costs_nothing_but_a_word_in_the_status() {
    let meter = toml::from_str("driver = \"rapl\"\npick = \"no such channel\"").unwrap();
    awake().real().site(|site| site.meter = Some(meter)).play(async |stage| {
        let status =
            until(stage, "the meter to be missed", |status| status.meters[0].errors > 0).await;
        assert!(!status.meters[0].open, "{status:?}");
        assert!(status.meters[0].last_error.is_some(), "{status:?}");
        assert_eq!(stage.ask(get("/a")).await.status, 200);
        assert_eq!(provenance(&stage.status().ledger), "modelled");
    });
}
