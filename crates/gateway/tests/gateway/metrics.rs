//! `/metrics`, held against the access log, `nightwatt status`, its documentation and promtool.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::Mono;
use nightwatt_gateway::Config;
use nightwatt_gateway::config::DiskConfig;
use nightwatt_gateway::control::Order;
use nightwatt_gateway::metering::Feed;
use nightwatt_gateway::status::SiteStatus;
use nightwatt_policy::ledger::Measure;

use crate::acme::without_authority;
use crate::client::{BROWSER, CRAWLER, get, post};
use crate::machines::on;
use crate::passthrough_programs::services;
use crate::stage::{Setup, Stage, asleep, awake, secs};
use crate::tls::{by_tls, certificate};

/// A page as a reader of its own sees it, which knows nothing of the writer.
#[derive(Debug, Default)]
struct Page {
    text: String,
    /// By name: type and help.
    families: BTreeMap<String, (String, String)>,
    /// By name with labels, as written.
    samples: BTreeMap<String, f64>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self { text: text.to_owned(), ..Self::default() };
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help text");
                let family = (String::new(), help.to_owned());
                assert!(page.families.insert(name.to_owned(), family).is_none(), "{name} twice");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                let family = page.families.get_mut(name).expect("its help before it");
                kind.clone_into(&mut family.0);
            } else {
                let (series, value) = line.rsplit_once(' ').expect("a value");
                let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
                assert!(value.is_finite(), "{line}");
                let known = page.samples.insert(series.to_owned(), value);
                assert!(known.is_none(), "{series} twice");
            }
        }
        page
    }

    fn value(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("no {series} in\n{}", self.text))
    }

    /// The sum of a family's samples whose labels contain all these.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of_family = self.samples.iter().filter(|(series, _)| {
            series.split('{').next() == Some(name)
                && labels.iter().all(|label| series.contains(label))
        });
        of_family.map(|(_, value)| value).sum()
    }
}

async fn scrape(stage: &Stage) -> Page {
    let got = stage.ask_admin(get("/metrics")).await;
    assert_eq!(got.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    Page::read(got.text())
}

fn close(ours: f64, theirs: f64, what: &str) {
    assert!((ours - theirs).abs() <= 1e-6 * theirs.abs().max(1.0), "{what}: {ours}, not {theirs}");
}

/// A site with an SLA, clients of all classes, answers of most kinds, two sleeps.
fn busy() -> Setup {
    awake().with(|config| {
        config.scenario.sla.enabled = true;
        config.scenario.sla.share = Some(0.9);
        config.limits.requests_per_client = Some("1/s burst 40".parse().unwrap());
    })
}

async fn a_busy_time(stage: &Stage) {
    for number in 0..12 {
        stage.ask(post(&format!("/{number}"), "x").agent(BROWSER)).await;
    }
    stage.ask(get("/page").by_browser()).await;
    stage.ask(get("/page").by_browser()).await;
    stage.at(100).await;
    assert_eq!(stage.state(), "asleep");
    stage.ask(get("/other").agent(CRAWLER)).await;
    stage.ask(get("/.env").agent("curl/8")).await;
    stage.ask(get("/healthz")).await;
    stage.ask(get("/favicon.ico").by_browser()).await;
    stage.ask(get("/page").by_browser()).await;
    stage.ask(get("/new").by_browser()).await;
    stage.ask(post("/form", "x")).await;
    stage.at(200).await;
    stage.order(Order::Wake { site: None }).await;
    stage.at(210).await;
    stage.say("GET / HTTP/1.1\r\nHost: one\r\nHost: two\r\n\r\n").await;
    stage.say("CONNECT blog:80 HTTP/1.1\r\nHost: blog\r\n\r\n").await;
    for _ in 0..50 {
        stage.ask(get("/healthz")).await;
    }
    stage.at(400).await;
}

#[test]
fn metrics_agree_with_the_access_log() {
    busy().play(async |stage| {
        a_busy_time(stage).await;
        let (page, logged) = (scrape(stage).await, stage.extras());
        let wish = "nightwatt_warmups_total{site=\"blog\",why=\"wish\",result=\"stored\"}";
        close(page.value(wish), 1.0, "what the crawler was sent away from");
        assert!(logged.len() > 60, "{}", logged.len());
        let mut by_answer: BTreeMap<(String, String), f64> = BTreeMap::new();
        let mut delays: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for line in &logged {
            *by_answer.entry((line.answer.clone(), line.class.clone())).or_default() += 1.0;
            let delay = delays.entry(line.answer.clone()).or_default();
            *delay = (delay.0 + 1.0, delay.1 + line.delay_s);
        }
        assert!(by_answer.len() >= 10, "{by_answer:?}");
        for ((answer, class), count) in &by_answer {
            let labels = [&*format!("answer=\"{answer}\""), &*format!("class=\"{class}\"")];
            close(page.sum("nightwatt_requests_total", &labels), *count, &labels.concat());
        }
        close(page.sum("nightwatt_requests_total", &[]), logged.len() as f64, "all requests");
        for (answer, (count, seconds)) in delays {
            let name = "nightwatt_request_delay_seconds";
            let labels = format!("{{site=\"blog\",answer=\"{answer}\"}}");
            close(page.value(&format!("{name}_count{labels}")), count, &answer);
            // The log has milliseconds.
            let sum = page.value(&format!("{name}_sum{labels}"));
            assert!((sum - seconds).abs() <= 0.001 * count, "{answer}: {sum}, not {seconds}");
        }
        let mut codes: BTreeMap<char, f64> = BTreeMap::new();
        for line in stage.log() {
            // Combined: `"GET / HTTP/1.1" 200 ...`.
            let status = line.split("\" ").nth(1).and_then(|rest| rest.chars().next());
            *codes.entry(status.expect("a status")).or_default() += 1.0;
        }
        for (hundreds, count) in codes {
            let code = format!("code=\"{hundreds}xx\"");
            close(page.sum("nightwatt_responses_total", &[&code]), count, &code);
        }
        let refused = |reason: &str| {
            page.sum("nightwatt_refused_requests_total", &[&format!("reason=\"{reason}\"")])
        };
        assert_eq!((refused("malformed") as u64, refused("method") as u64), (1, 1));
        close(
            refused("rate"),
            page.sum("nightwatt_requests_total", &["answer=\"limited\""]),
            "429",
        );
        assert!(refused("rate") > 0.0);
    });
}

fn agrees_with_status(page: &Page, status: &SiteStatus) {
    let site = "{site=\"blog\"}";
    for (name, value) in [
        ("nightwatt_delayed_requests_total", status.delayed_requests as f64),
        ("nightwatt_visits_total", status.visits as f64),
        ("nightwatt_delayed_visits_total", status.delayed_visits as f64),
        ("nightwatt_server_exchanges", f64::from(status.in_flight)),
        ("nightwatt_requests_held", status.held as f64),
        ("nightwatt_cache_objects", status.cache.0 as f64),
        ("nightwatt_cache_bytes", status.cache.1 as f64),
        ("nightwatt_sla_window_requests", status.sla.unwrap().0 as f64),
        ("nightwatt_sla_window_delayed_requests", status.sla.unwrap().1 as f64),
        ("nightwatt_sla_allowed_ratio", 0.9),
        ("nightwatt_sleeps_total", status.ledger.sleeps as f64),
        ("nightwatt_wake_duration_seconds_count", status.ledger.wakeups as f64),
        ("nightwatt_energy_uncertainty_ratio", 0.05),
        ("nightwatt_site_healthy", 1.0),
    ] {
        close(page.value(&format!("{name}{site}")), value, name);
    }
    let saving = page.samples.get("nightwatt_ledger_saving_ratio{site=\"blog\"}").copied();
    assert_eq!(saving.is_some(), status.ledger.saving.is_some(), "{saving:?}");
    close(saving.unwrap_or_default(), status.ledger.saving.unwrap_or_default(), "saving");
    for (answer, count) in &status.answers {
        let labels = ["site=\"blog\"", &*format!("answer=\"{answer}\"")];
        close(page.sum("nightwatt_requests_total", &labels), *count as f64, answer);
    }
    let ledger = &status.ledger;
    for (billed, seconds) in [
        ("awake", ledger.awake_s),
        ("asleep", ledger.asleep_s),
        ("unobserved", ledger.unobserved_s),
    ] {
        for name in ["nightwatt_ledger_seconds", "nightwatt_server_seconds_total"] {
            close(page.sum(name, &[&format!("billed=\"{billed}\"")]), seconds, billed);
        }
    }
    for (of, energy) in
        [("server", &ledger.server), ("proxy", &ledger.proxy), ("always-on", &ledger.always_on)]
    {
        let labels = format!("{{site=\"blog\",of=\"{of}\",provenance=\"modelled\"}}");
        for name in ["nightwatt_ledger_energy_joules", "nightwatt_energy_joules_total"] {
            close(page.value(&format!("{name}{labels}")), energy.joules.get(), of);
        }
    }
    let state = format!("nightwatt_server_state{{site=\"blog\",state=\"{}\"}}", status.state);
    close(page.value(&state), 1.0, &state);
    close(page.sum("nightwatt_server_state", &[]), 1.0, "one state");
}

#[test]
fn metrics_agree_with_status() {
    busy().play(async |stage| {
        agrees_with_status(&scrape(stage).await, &stage.status());
        a_busy_time(stage).await;
        let (page, status) = (scrape(stage).await, stage.status());
        assert_eq!((status.ledger.sleeps, status.ledger.wakeups), (3, 2), "{status:?}");
        assert!(status.ledger.saving.is_some(), "{status:?}");
        agrees_with_status(&page, &status);
        let wakeups = |cause: &str| {
            page.value(&format!("nightwatt_wakeups_total{{site=\"blog\",cause=\"{cause}\"}}"))
        };
        assert_eq!((wakeups("request") as u64, wakeups("operator") as u64), (1, 1));
        assert_eq!((wakeups("policy") as u64, wakeups("crawl-window") as u64), (0, 0));
        // The simulated server takes five seconds.
        close(page.value("nightwatt_wake_duration_seconds_sum{site=\"blog\"}"), 10.0, "wake time");
    });
}

#[test]
fn counters_begin_with_the_process_and_gauges_of_the_ledger_go_on() {
    busy().play(async |stage| {
        a_busy_time(stage).await;
        let before = scrape(stage).await;
        stage.stop().await;
        stage.start();
        stage.looked().await;
        let after = scrape(stage).await;
        for name in ["nightwatt_requests_total", "nightwatt_energy_joules_total"] {
            close(after.sum(name, &[]), 0.0, name);
        }
        for name in ["nightwatt_ledger_seconds", "nightwatt_ledger_energy_joules"] {
            close(after.sum(name, &[]), before.sum(name, &[]), name);
        }
    });
}

#[test]
fn failed_wake_ups_are_counted_and_the_site_is_not_healthy() {
    asleep().power(|power| power.never_wakes = true).play(async |stage| {
        stage.ask(post("/form", "x")).await;
        stage.at(400).await;
        let page = scrape(stage).await;
        close(page.value("nightwatt_wakeup_failures_total{site=\"blog\"}"), 1.0, "failures");
        close(page.value("nightwatt_site_healthy{site=\"blog\"}"), 0.0, "health");
        close(page.sum("nightwatt_wake_duration_seconds_count", &[]), 0.0, "none succeeded");
        close(page.sum("nightwatt_wakeups_total", &["cause=\"request\""]), 1.0, "begun");
    });
}

#[test]
fn no_counter_ever_falls_even_when_a_sleep_comes_to_nothing() {
    awake().play(async |stage| {
        let mut before = scrape(stage).await;
        let mut fell_asleep = false;
        for second in (2..300).step_by(2) {
            stage.at(second).await;
            if stage.state() == "falling-asleep" {
                fell_asleep = true;
                stage.power.come_up();
            }
            let now = scrape(stage).await;
            for (series, value) in &now.samples {
                let name = series.split('{').next().unwrap();
                if name.ends_with("_total") {
                    let earlier = before.samples.get(series).copied().unwrap_or(0.0);
                    assert!(*value >= earlier, "{series} fell from {earlier} to {value}");
                }
            }
            before = now;
        }
        assert!(fell_asleep, "the story has no sleep that comes to nothing");
        close(before.sum("nightwatt_sleeps_total", &[]), 0.0, "sleeps");
    });
}

#[test]
fn no_counter_ever_falls_while_a_meter_comes_and_goes() {
    let feed = Feed::new("plug/0");
    awake().metered("blog", &feed).play(async |stage| {
        let mut before = scrape(stage).await;
        for step in 1..300_u64 {
            let (begin, end) = (step * 10 - 10, step * 10);
            stage.at(end).await;
            if step % 40 == 0 {
                stage.ask(post("/form", "x")).await;
            }
            // There, then late, then away for longer than anybody waits.
            let (from, to) = (Mono::from_secs(begin), Mono::from_secs(end));
            let measure = Measure { from, to, joules: Joules(20.0), uncertainty: Joules(1.0) };
            if !(60..=200).contains(&step) {
                feed.add(measure);
            } else if step == 80 {
                feed.add(Measure { from: Mono::from_secs(590), ..measure });
            }
            let now = scrape(stage).await;
            for (series, value) in &now.samples {
                if series.split('{').next().unwrap().ends_with("_total") {
                    let earlier = before.samples.get(series).copied().unwrap_or(0.0);
                    assert!(*value >= earlier - 1e-9, "{series} fell from {earlier} to {value}");
                }
            }
            before = now;
        }
        let measured =
            "nightwatt_energy_joules_total{site=\"blog\",of=\"server\",provenance=\"measured\"}";
        // 59 of 20 J, one of 210 s, and 99 after the gap.
        close(before.value(measured), 20.0 * (59.0 + 1.0 + 99.0), "measured");
    });
}

#[test]
fn whatever_clients_send_makes_no_new_series() {
    busy().play(async |stage| {
        // Before the server has slept and woken there is no saving.
        let is_lasting = |it: &&String| !it.starts_with("nightwatt_ledger_saving_ratio");
        let series =
            |page: &Page| page.samples.keys().filter(is_lasting).cloned().collect::<BTreeSet<_>>();
        let before = series(&scrape(stage).await);
        a_busy_time(stage).await;
        for odd in ["/\"}", "/a\\nb", "/?site=x", "/%0a"] {
            let odd_fields = get(odd).agent("\"} 1").field("Host", "nowhere");
            stage.ask(odd_fields).await;
        }
        assert_eq!(series(&scrape(stage).await), before);
    });
}

#[test]
fn requests_to_no_site_are_counted_without_one() {
    let named = awake().site(|site| site.hosts = vec!["blog".into()]);
    named.play(async |stage| {
        stage.ask(get("/a")).await;
        stage.say("GET / HTTP/1.1\r\nHost: shop\r\n\r\n").await;
        let page = scrape(stage).await;
        let refused = "nightwatt_refused_requests_total{site=\"\",reason=\"no-such-site\"}";
        close(page.value(refused), 1.0, refused);
        close(page.sum("nightwatt_requests_total", &["site=\"\""]), 1.0, "to no site");
        close(page.sum("nightwatt_requests_total", &["site=\"blog\""]), 1.0, "to the site");
    });
}

#[test]
fn connections_are_counted() {
    awake().with(|config| config.limits.connections_per_client = 1).play(async |stage| {
        let mut client = stage.begin(get("/a")).await;
        assert_eq!(client.answer().await.status, 200);
        assert!(stage.say(get("/a").bytes()).await.is_none());
        let page = scrape(stage).await;
        close(page.value("nightwatt_connections_open"), 1.0, "open");
        close(page.value("nightwatt_connections_total"), 1.0, "served");
        close(page.value("nightwatt_connections_refused_total"), 1.0, "refused");
        drop(client);
        stage.pass(secs(1)).await;
        close(scrape(stage).await.value("nightwatt_connections_open"), 0.0, "open");
    });
}

#[test]
fn shadow_mode_says_what_would_have_been() {
    awake().observing().probed_by_http().play(async |stage| {
        stage.at(1000).await;
        stage.ask(post("/form", "x")).await;
        stage.at(1010).await;
        let (page, shadow) = (scrape(stage).await, stage.status().shadow.unwrap());
        close(page.value("nightwatt_shadow_mode"), 1.0, "shadow mode");
        let delayed = "nightwatt_shadow_requests_total{site=\"blog\",delayed=\"yes\"}";
        close(page.value(delayed), shadow.delayed_requests as f64, delayed);
        let joules = page.sum("nightwatt_shadow_energy_joules", &["of=\"server\""]);
        close(joules, shadow.ledger.server.joules.get(), "joules");
        close(page.sum("nightwatt_sleeps_total", &[]), 0.0, "in truth it never sleeps");
    });
}

/// A server with a meter that said something.
fn metered() -> Setup {
    let feed = Feed::new("plug/0");
    let (from, to, joules) = (Mono::ZERO, Mono::from_secs(1), Joules(50.0));
    feed.add(Measure { from, to, joules, uncertainty: Joules(1.0) });
    busy().metered("blog", &feed)
}

/// The rows of `docs/metrics.md` that this page calls for.
fn rows(page: &Page) -> BTreeSet<String> {
    let row = |(name, (kind, help)): (&String, &(String, String))| {
        let of_family = page.samples.keys().filter(|series| {
            let series = series.split('{').next().unwrap();
            let suffixes = ["", "_bucket", "_sum", "_count"];
            suffixes.iter().any(|suffix| series == format!("{name}{suffix}"))
        });
        let labels: BTreeSet<&str> = of_family
            .filter_map(|series| series.split_once('{'))
            .flat_map(|(_, labels)| labels.trim_end_matches('}').split(','))
            .map(|label| label.split('=').next().unwrap())
            .filter(|label| *label != "le")
            .collect();
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "))
    };
    page.families.iter().map(row).collect()
}

/// The values of labels that the configuration does not choose.
fn label_values(page: &Page) -> BTreeSet<String> {
    let labels = page.samples.keys().filter_map(|series| series.split_once('{'));
    let pairs = labels.flat_map(|(_, labels)| labels.trim_end_matches('}').split(','));
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(name, _)| !matches!(*name, "site" | "policy" | "version" | "le"))
        .map(|(_, value)| value.trim_matches('"').to_owned())
        .collect()
}

#[test]
fn the_documentation_lists_every_metric_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let Some(made) = certificate(dir.path()) else { return };
    let (mut needed, mut values) = (BTreeSet::new(), BTreeSet::new());
    busy().play(async |stage| {
        a_busy_time(stage).await;
        let page = scrape(stage).await;
        needed.extend(rows(&page));
        values.extend(label_values(&page));
    });
    busy().observing().probed_by_http().play(async |stage| {
        needed.extend(rows(&scrape(stage).await));
    });
    metered().play(async |stage| {
        let page = scrape(stage).await;
        needed.extend(rows(&page));
        values.extend(label_values(&page));
    });
    on(&["metal"], "", busy()).play(async |stage| {
        needed.extend(rows(&scrape(stage).await));
    });
    let disk = |config: &mut Config| {
        config.cache.disk = Some(DiskConfig::default());
        config.site[0].compression.enabled = true;
        config.scenario.sla.visits_per_day = Some(3);
        config.scenario.sla.longest_wait = Some(Duration::from_secs(10));
    };
    busy().with(disk).play(async |stage| {
        let page = scrape(stage).await;
        needed.extend(rows(&page));
        values.extend(label_values(&page));
    });
    let in_use = |config: &mut Config| {
        config.site[0].in_use.push(toml::from_str("preset = \"plex\"").unwrap());
        config.containers = Some(toml::from_str("docker = \"/no/such/socket\"").unwrap());
    };
    busy().with(in_use).play(async |stage| {
        let page = scrape(stage).await;
        needed.extend(rows(&page));
        values.extend(label_values(&page));
    });
    let mirror = |config: &mut Config| {
        config.site[0].mirror.enabled = None;
        config.site[0].mirror.url = Some("http://blog".to_owned());
    };
    busy().with(mirror).play(async |stage| {
        let page = scrape(stage).await;
        needed.extend(rows(&page));
        values.extend(label_values(&page));
    });
    busy().pool(&["one", "two"], "", "").play(async |stage| {
        let page = scrape(stage).await;
        needed.extend(rows(&page));
        let duties = page.samples.iter().filter(|it| it.0.starts_with("nightwatt_pool_servers{"));
        let count: f64 = duties.map(|(_, value)| *value).sum();
        assert!((count - 2.0).abs() < 1e-9, "each server has one duty: {count}");
    });
    let table =
        "[[tcp]]\nname = \"ssh\"\nlisten = [\"127.0.0.1:0\"]\non = \"blog\"\norigin = \":22\"\n";
    let more = table.replace("tcp", "udp").replace("ssh", "vpn");
    services(busy(), format!("{table}{more}")).play(async |stage| {
        needed.extend(rows(&scrape(stage).await));
    });
    let job = |config: &mut Config| {
        let job = "name = \"backup\"\non = \"blog\"\nat = \"03:00\"\ncommand = [\"true\"]";
        config.job.push(toml::from_str(job).unwrap());
        config.magic_packets = Some(toml::from_str("listen = [\"127.0.0.1:0\"]").unwrap());
    };
    busy().with(job).play(async |stage| {
        needed.extend(rows(&scrape(stage).await));
    });
    without_authority().play(async |stage| {
        stage.at(1).await;
        let page = rows(&scrape(stage).await);
        needed.extend(page.into_iter().filter(|it| it.contains("_renewal_seconds")));
    });
    by_tls(busy(), &made).play(async |stage| {
        needed.extend(rows(&scrape(stage).await));
    });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let told = text.lines().filter(|line| {
        ["| `nightwatt_", "| `process_"].iter().any(|start| line.starts_with(start))
    });
    let told: BTreeSet<String> = told.map(str::to_owned).collect();
    let missing: Vec<&String> = needed.difference(&told).collect();
    let wrong: Vec<&String> = told.difference(&needed).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "docs/metrics.md lacks\n{missing:#?}\nand should not have\n{wrong:#?}"
    );
    for value in values {
        assert!(text.contains(&format!("`{value}`")), "docs/metrics.md does not name `{value}`");
    }
}

/// Where promtool is, if it is here.
fn promtool() -> Option<String> {
    let named = std::env::var("PROMTOOL").ok();
    let promtool = named.clone().unwrap_or_else(|| "promtool".to_owned());
    if named.is_none() {
        nightwatt_needs::program(&promtool)?;
    }
    Some(promtool)
}

/// The alert rules, and their tests.
const RULES: [&str; 2] = ["nightwatt.rules.yml", "nightwatt.rules.test.yml"];

fn of_alerts(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus").join(file)
}

#[test]
fn alerts_are_about_metrics_that_there_are() {
    let docs = include_str!("../../../../docs/metrics.md");
    for file in RULES {
        let text = std::fs::read_to_string(of_alerts(file)).unwrap();
        let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let names: Vec<&str> =
            text.split(|it| !is_part(it)).filter(|it| it.starts_with("nightwatt_")).collect();
        assert!(names.len() > 10, "{file}");
        for name in names {
            // Histograms are three series each.
            let stems = ["_bucket", "_count", ""].iter().filter_map(|end| name.strip_suffix(end));
            let is_known = |stem: &str| docs.contains(&format!("| `{stem}` |"));
            assert!(stems.into_iter().any(is_known), "{file}: {name}");
        }
    }
}

#[test]
fn alerts_fire_when_they_should_and_only_then() {
    let Some(promtool) = promtool() else { return };
    for (what, file) in ["check", "test"].into_iter().zip(RULES) {
        let output = Command::new(&promtool).args([what, "rules"]).arg(of_alerts(file)).output();
        let output = output.unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn promtool_finds_nothing_wrong() {
    let Some(promtool) = promtool() else { return };
    let check = |text: &str| {
        let mut command = Command::new(&promtool);
        command.args(["check", "metrics"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    assert!(!check("# TYPE a_total gauge\na_total 1\n").0, "this promtool finds nothing at all");
    let accepts = |text: &str| {
        let (well, said) = check(text);
        assert!(well && said.is_empty(), "promtool says:\n{said}\nof\n{text}");
    };
    busy().play(async |stage| {
        a_busy_time(stage).await;
        accepts(&scrape(stage).await.text);
    });
    busy().observing().probed_by_http().play(async |stage| accepts(&scrape(stage).await.text));
    metered().play(async |stage| accepts(&scrape(stage).await.text));
}
