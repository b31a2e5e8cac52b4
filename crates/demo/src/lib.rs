//! Plays a day of requests against a site behind the sleeping proxy (`nightwatt demo`), and reports what was saved
//! and who waited.
//!
//! Only time and watts are not real: the proxy is that of `serve` (`nightwatt_gateway`), and requests, sent by
//! `nightwatt_load`, go over TCP to a server that is started and stopped as a process. All run by one virtual clock
//! (`nightwatt_clock`), so a day needs seconds; energy is modelled from the scenario's power states.

mod error;
mod records;
mod report;
mod server;
mod shown;
mod stage;
mod text;
mod yardstick;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_load::{Options as ReplayOptions, Run, SiteFiles, Target, replay};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::scenario::Scenario;
use nightwatt_traffic::reader::{Counts, LogReader};
use nightwatt_traffic::synthetic::SyntheticSite;
use nightwatt_traffic::{Arrival, Classifier, ClientFacts};

pub use self::error::Error;
pub use self::report::DemoReport;
pub use self::shown::{PASSWORD, Shown};
use self::stage::Stage;

const DAY: Duration = Duration::from_hours(24);

/// What to play.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// For the generated traffic.
    pub seed: u64,
    /// How many days; default: one generated day, or the whole log.
    pub days: Option<u32>,
    /// An access log instead of generated traffic.
    pub log: Option<PathBuf>,
    /// Server, proxy, SLA, cache, policy.
    pub scenario: Scenario,
    /// Turn the site's mirror on, and play the same requests again without it. A log does not show what a site links
    /// to, so only generated traffic has a mirror.
    pub mirror: bool,
    /// Drop the virtual clock: a day takes a day.
    pub real_time: bool,
    /// Where logs and ledgers go; default: a temporary folder that is removed.
    pub out: Option<PathBuf>,
    /// A dashboard for a viewer.
    pub shown: Option<Shown>,
    /// The program whose command `origin` is the log-backed server: `nightwatt` itself.
    pub origin_program: PathBuf,
}

/// Progress of a demo.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Requests done.
    pub done: u64,
    /// Requests in all.
    pub total: u64,
    /// Virtual time of day and so on.
    pub at: Wall,
    /// Local time minus UTC, s.
    pub utc_offset: i32,
    /// State of the server.
    pub state: &'static str,
    /// It is the second time, without the mirror.
    pub is_without_mirror: bool,
}

/// The requests to be played, and where they come from.
struct Script {
    arrivals: Vec<Arrival>,
    counts: Option<Counts>,
    name: String,
    span: Duration,
    /// What the server has, if that is known.
    site: Option<SiteFiles>,
}

/// Plays it, and with a mirror a second time without it, unless it is shown. `opened` is told where the dashboard
/// is, if there is one; where its audience leaves before the end, there is no report.
pub fn run(
    options: &DemoOptions,
    opened: impl FnOnce(SocketAddr),
    mut progress: impl FnMut(Progress),
) -> Result<Option<DemoReport>, Error> {
    options.scenario.check()?;
    let script = Script::read(options)?;
    let options =
        &DemoOptions { mirror: options.mirror && script.site.is_some(), ..options.clone() };
    let Some(mut report) = run_once(options, &script, opened, &mut progress)? else {
        return Ok(None);
    };
    // A viewer who has left does not wait for a second run.
    if options.mirror && options.shown.is_none() {
        let plain = DemoOptions { mirror: false, real_time: false, out: None, ..options.clone() };
        let again = |now| progress(Progress { is_without_mirror: true, ..now });
        report.without_mirror = run_once(&plain, &script, |_| {}, again)?.map(Box::new);
    }
    Ok(Some(report))
}

fn run_once(
    options: &DemoOptions,
    script: &Script,
    opened: impl FnOnce(SocketAddr),
    mut progress: impl FnMut(Progress),
) -> Result<Option<DemoReport>, Error> {
    let first = &script.arrivals[0];
    let clock = if options.real_time {
        Clock::real()
    } else {
        Clock::virtual_at(first.at, first.utc_offset)
    };
    let runtime =
        clock.runtime().map_err(|source| Error::System { what: "start the runtime", source })?;
    runtime.block_on(play(options, script, &clock, opened, &mut progress))
}

impl Script {
    fn read(options: &DemoOptions) -> Result<Self, Error> {
        let Some(path) = &options.log else { return Ok(Self::generated(options)) };
        let name = path.display().to_string();
        let mut reader = LogReader::open(path)?;
        let arrivals = nightwatt_traffic::reader::arrivals(&mut reader, options.days)?;
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            return Err(Error::Empty(name));
        };
        let logged = u64::try_from(last.at.0 - first.at.0).unwrap_or(0);
        let logged = Duration::from_millis(logged) + Duration::from_secs(1);
        let span = options.days.map_or(logged, |days| (DAY * days).min(logged.max(DAY)));
        Ok(Self { counts: Some(reader.counts().clone()), arrivals, name, span, site: None })
    }

    fn generated(options: &DemoOptions) -> Self {
        let days = options.days.unwrap_or(1).max(1);
        let site = SyntheticSite { seed: options.seed, days, ..SyntheticSite::default() };
        let name = format!("generated traffic, seed {}", options.seed);
        let files = Some(site.files().into_iter().collect());
        Self { arrivals: site.arrivals(), counts: None, name, span: DAY * days, site: files }
    }

    /// The site's own name: the one that most `Referer`s carry, since pages ask for their parts. It tells
    /// the classifier which requests come from the site itself.
    fn host(&self) -> Option<&str> {
        let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
        for arrival in &self.arrivals {
            let referer = arrival.referer.as_deref().and_then(|it| it.split_once("://"));
            let host = referer.and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
            let plain = |it: &&str| {
                !it.is_empty()
                    && it.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.:".contains(&c))
            };
            if let Some(host) = host.filter(plain) {
                *hosts.entry(host).or_default() += 1;
            }
        }
        hosts.into_iter().max_by_key(|(_, count)| *count).map(|(host, _)| host)
    }
}

async fn play(
    options: &DemoOptions,
    script: &Script,
    clock: &Clock,
    opened: impl FnOnce(SocketAddr),
    progress: &mut impl FnMut(Progress),
) -> Result<Option<DemoReport>, Error> {
    let stage = Stage::set(options, script, clock).await?;
    if let Some(address) = stage.running.admin {
        opened(address);
    }
    let started = clock.now();
    let end = started.mono + script.span;
    // The bill is drawn up at the end of the day, even if clients come back later.
    let bill = {
        let (clock, gateway) = (clock.clone(), Arc::clone(&stage.running.gateway));
        tokio::spawn(async move {
            clock.sleep_until(end).await;
            gateway.status()
        })
    };
    let mut target = Target::at(stage.running.addresses[0]);
    if let Some(host) = script.host() {
        target = target.with_host(host)?;
    }
    let replay_options = ReplayOptions {
        id_prefix: "demo".to_owned(),
        class_of: class_of(started),
        ..ReplayOptions::default()
    };
    let gateway = Arc::clone(&stage.running.gateway);
    let told = |at: nightwatt_load::Progress| {
        let now = clock.now();
        let server = gateway.state_of(0);
        let (done, total) = (at.done as u64, at.total as u64);
        let (at, utc_offset) = (now.wall, now.utc_offset);
        progress(Progress { done, total, at, utc_offset, state: server, is_without_mirror: false });
    };
    let played = replay(&script.arrivals, &target, &replay_options, clock, told);
    let run: Run = match &options.shown {
        None => played.await?,
        Some(shown) => tokio::select! {
            run = played => run?,
            () = shown.pace(clock, shown.speed()) => {
                stage.close().await?;
                return Ok(None);
            }
        },
    };
    if let Some(shown) = &options.shown {
        (shown.day_is_over)();
        shown.pace(clock, Some(1.0)).await;
    }
    let status = bill.await.map_err(|error| Error::System {
        what: "draw up the bill",
        source: std::io::Error::other(error),
    })?;
    let records = stage.close().await?;
    let report = DemoReport::draw_up(options, script, &run, &records, &status, started.mono, end);
    Ok(Some(report))
}

/// Classifies the log's clients for the tables, in order of time.
fn class_of(started: Now) -> nightwatt_load::ClassOf {
    let classifier = Mutex::new((Classifier::default(), None::<Wall>));
    Arc::new(move |arrival: &Arrival| -> ClientClass {
        let mut guard = classifier.lock().unwrap_or_else(PoisonError::into_inner);
        let (classifier, first) = &mut *guard;
        let first = *first.get_or_insert(arrival.at);
        let since = u64::try_from(arrival.at.0 - first.0).unwrap_or(0);
        let mono: Mono = started.mono + Duration::from_millis(since);
        let now = Now { mono, wall: arrival.at, utc_offset: arrival.utc_offset };
        let facts = ClientFacts::from(arrival);
        let class = classifier.classify(now, &facts);
        classifier.learn(now, &facts, arrival.status);
        class
    })
}
