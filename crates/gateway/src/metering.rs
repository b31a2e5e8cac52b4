//! Meters of servers and of the proxy: each has a thread of its own, which may block; supervisors book the readings
//! whenever they settle their bill.
//!
//! A meter that cannot be opened, or fails, is retried forever. Time without readings is modelled.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::integration::Piece;
use nightwatt_energy::time::{Mono, Now};
use nightwatt_meters::sampler::{Opened, Sample, Sampler, Sink};
use nightwatt_meters::{Accuracy, Channel, Host, MeterError, Scope};
use nightwatt_policy::ledger::{Hour, Measure, Part};
use nightwatt_policy::manager::PowerManager;
use nightwatt_policy::sleep::SleepPolicy;

use crate::config::MeterConfig;
use crate::status::MeterStatus;

/// Number of measures kept per meter, a second each or more: longer than any task waits before it books them.
const KEPT: usize = 2048;

/// Faster readings are combined to this length.
const GRAIN: Duration = Duration::from_secs(1);

/// First and longest pause before a meter that cannot be opened is retried; the pause doubles each time.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));

/// The bill is settled at least this often while a meter feeds it.
pub(crate) const SETTLE_EVERY: Duration = Duration::from_mins(5);

/// Hours in `status`: two days.
pub(crate) const HOURS: usize = 48;

/// Readings of a meter, on their way to the ledgers. Clones share it.
#[derive(Clone)]
pub struct Feed {
    state: Arc<Mutex<FeedState>>,
    /// The reader of the meter, once it is open. Its threads lock `state`, so this must not be locked while `state` is.
    sampler: Arc<Mutex<Option<Sampler>>>,
}

struct FeedState {
    name: String,
    measures: VecDeque<Measure>,
    /// Sequence number of the first of them.
    first: u64,
    /// How many times it could not be opened, and why.
    refused: (u64, Option<String>),
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Feed").field(&self.name()).finish()
    }
}

impl Feed {
    /// The feed of a meter with this name, without readings.
    pub fn new(name: impl Into<String>) -> Self {
        let state = FeedState {
            name: name.into(),
            measures: VecDeque::new(),
            first: 0,
            refused: (0, None),
        };
        Self { state: Arc::new(Mutex::new(state)), sampler: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sampler(&self) -> MutexGuard<'_, Option<Sampler>> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The meter and its channel: `shelly/switch-0`.
    pub(crate) fn name(&self) -> String {
        self.lock().name.clone()
    }

    /// Adds a measure, on the time line of the gateway's clock.
    pub fn add(&self, measure: Measure) {
        let mut state = self.lock();
        if state.measures.len() >= KEPT {
            state.measures.pop_front();
            state.first += 1;
        }
        state.measures.push_back(measure);
    }

    /// The measures since number `next`, which advances.
    fn since(&self, next: &mut u64) -> Vec<Measure> {
        let state = self.lock();
        let known = usize::try_from(next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        *next = state.first + state.measures.len() as u64;
        state.measures.iter().skip(known).copied().collect()
    }

    /// The status of the meter of that part.
    pub(crate) fn status(&self, of: Part, now: Mono) -> MeterStatus {
        let measured = self.sampler().as_ref().and_then(|sampler| sampler.so_far().pop());
        let state = self.lock();
        let (refused, why) = &state.refused;
        let last = state.measures.back();
        MeterStatus {
            of: of.as_str().to_owned(),
            meter: state.name.clone(),
            open: measured.is_some(),
            watts: last.map(|last| (last.joules / last.to.since(last.from)).get()),
            read_s_ago: last.map(|last| now.since(last.to).as_secs_f64()),
            errors: refused + measured.as_ref().map_or(0, |it| it.errors),
            last_error: measured.and_then(|it| it.last_error).or_else(|| why.clone()),
        }
    }
}

/// A meter that is being read; dropping this closes it.
pub(crate) struct Metering {
    feed: Feed,
    stop: Stop,
}

impl Metering {
    /// Its readings.
    pub(crate) const fn feed(&self) -> &Feed {
        &self.feed
    }
}

impl Drop for Metering {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// Starts to read a meter. Never waits for it.
pub(crate) fn begin(config: &MeterConfig, clock: &Clock) -> std::io::Result<Metering> {
    let feed = Feed::new(config.spec().name());
    let stop = Stop::new()?;
    let reader = Reader {
        config: config.clone(),
        feed: feed.clone(),
        stop: stop.clone(),
        origin: (monotonic(), clock.now().mono),
    };
    let thread = std::thread::Builder::new().name(format!("meter of {}", feed.name()));
    // Detached: it may have to wait for a meter that does not answer.
    drop(thread.spawn(move || reader.run())?);
    Ok(Metering { feed, stop })
}

/// The thread that opens and closes a meter.
struct Reader {
    config: MeterConfig,
    feed: Feed,
    stop: Stop,
    /// The same moment on the meters' time line, and on the gateway's.
    origin: (Mono, Mono),
}

impl Reader {
    fn run(self) {
        let (mut pause, longest) = RETRY;
        let mut complained = String::new();
        loop {
            match self.open() {
                Ok(sampler) => {
                    *self.feed.sampler() = Some(sampler);
                    self.stop.wait_until(Mono::NEVER);
                    let sampler = self.feed.sampler().take();
                    drop(sampler.map(|sampler| sampler.finish(monotonic())));
                    return;
                }
                Err(error) => {
                    let why = error.to_string();
                    let hint = error.hint().unwrap_or("what it does not say is modelled");
                    if why != complained {
                        tracing::warn!(meter = self.feed.name(), error = why, hint, "no meter");
                        complained.clone_from(&why);
                    }
                    let refused = &mut self.feed.lock().refused;
                    *refused = (refused.0 + 1, Some(why));
                }
            }
            if self.stop.wait_until(monotonic() + pause) == Woken::Stopped {
                return;
            }
            pause = (pause * 2).min(longest);
        }
    }

    fn open(&self) -> Result<Sampler, MeterError> {
        let spec = self.config.spec();
        let opened = Opened::open(&Host::default(), &spec)?;
        let channel = whole(opened.channels(), self.config.pick())
            .map_err(|why| MeterError::Spec { meter: spec.name().to_owned(), why })?;
        let Channel { name, accuracy, .. } = &opened.channels()[channel];
        let (name, accuracy) = (format!("{}/{name}", opened.name()), *accuracy);
        let sink =
            Booker { feed: self.feed.clone(), channel, accuracy, origin: self.origin, open: None };
        let mut sink = Some(sink);
        let every = self.config.every()?;
        let began = Sampler::start(vec![opened], Some(every), |_| match sink.take() {
            Some(sink) => Box::new(sink),
            None => Box::new(()),
        });
        let sampler =
            began.map_err(|error| MeterError::Io { what: "begin to read".to_owned(), error })?;
        sampler.begin(monotonic());
        tracing::info!(meter = name, every_s = every.as_secs_f64(), "reads a meter");
        self.feed.lock().name = name;
        Ok(sampler)
    }
}

/// The channel for the whole machine: the one picked by name, else the only one at the wall, else the only one of the
/// whole system.
fn whole(channels: &[Channel], pick: Option<&str>) -> Result<usize, String> {
    let names = |those: &[&Channel]| {
        those.iter().map(|it| format!("`{}`", it.name)).collect::<Vec<_>>().join(", ")
    };
    let measured: Vec<&Channel> = channels.iter().filter(|it| !it.is_modelled).collect();
    if let Some(pick) = pick {
        let picked = channels.iter().position(|it| it.name == pick && !it.is_modelled);
        return picked.ok_or_else(|| {
            format!("there is no channel `{pick}` to `pick`: there are {}", names(&measured))
        });
    }
    for scope in [Scope::Wall, Scope::System] {
        let of_scope: Vec<usize> = (0..channels.len())
            .filter(|&it| channels[it].scope == scope && !channels[it].is_modelled)
            .collect();
        match of_scope[..] {
            [] => {}
            [only] => return Ok(only),
            _ => break,
        }
    }
    Err(format!(
        "it is not plain which channel is the whole machine: say `pick = \"NAME\"`, one of {}",
        names(&measured)
    ))
}

/// Passes the sums of a meter's readings on, in pieces of at least [`GRAIN`].
struct Booker {
    feed: Feed,
    channel: usize,
    accuracy: Accuracy,
    origin: (Mono, Mono),
    open: Option<Measure>,
}

impl Booker {
    fn on_our_line(&self, moment: Mono) -> Mono {
        let (theirs, ours) = self.origin;
        ours + moment.since(theirs)
    }
}

impl Sink for Booker {
    fn take(&mut self, sample: &Sample) {
        if sample.channel != self.channel {
            return;
        }
        let Piece::Covers { joules, time } = sample.piece else {
            if let (Piece::Gap(_), Some(open)) = (sample.piece, self.open.take()) {
                self.feed.add(open);
            }
            return;
        };
        let from = self.on_our_line(sample.mono - time);
        let to = self.on_our_line(sample.mono);
        let mut measure = Measure { from, to, joules, uncertainty: self.accuracy.of(joules, time) };
        if let Some(open) = self.open.take() {
            if open.to == from {
                measure.from = open.from;
                measure.joules += open.joules;
                measure.uncertainty += open.uncertainty;
            } else {
                self.feed.add(open);
            }
        }
        if measure.to.since(measure.from) >= GRAIN {
            self.feed.add(measure);
        } else {
            self.open = Some(measure);
        }
    }
}

impl Drop for Booker {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            self.feed.add(open);
        }
    }
}

/// The meters that feed one bill.
#[derive(Default)]
pub(crate) struct Meters {
    taps: Vec<Tap>,
    /// The last [`HOURS`] that ended.
    hours: VecDeque<Hour>,
    /// Of these, hours that are not in the journal yet.
    unwritten: Vec<Hour>,
}

struct Tap {
    part: Part,
    feed: Feed,
    next: u64,
}

impl Meters {
    /// These meters; `hours` are the earlier ones.
    pub(crate) fn new(server: Option<Feed>, proxy: Option<Feed>, hours: Vec<Hour>) -> Self {
        let parts = [(Part::Server, server), (Part::Proxy, proxy)];
        let taps =
            parts.into_iter().filter_map(|(part, feed)| Some(Tap { part, feed: feed?, next: 0 }));
        let mut meters = Self { taps: taps.collect(), ..Self::default() };
        meters.keep(hours);
        meters
    }

    /// Whether there are none.
    pub(crate) fn are_none(&self) -> bool {
        self.taps.is_empty()
    }

    /// Tells the manager which parts have a meter.
    pub(crate) fn announce<P: SleepPolicy>(&self, manager: &mut PowerManager<P>) {
        self.taps.iter().for_each(|tap| manager.expect_meter(tap.part));
    }

    /// Books the measures, and settles the bill up to them; all of it if the gateway stops.
    pub(crate) fn book<P: SleepPolicy>(
        &mut self,
        manager: &mut PowerManager<P>,
        now: Now,
        stops: bool,
    ) {
        if self.are_none() {
            return;
        }
        for tap in &mut self.taps {
            for measure in tap.feed.since(&mut tap.next) {
                manager.measured(tap.part, measure);
            }
        }
        let ended = if stops { manager.settle_all(now) } else { manager.settle(now) };
        self.unwritten.extend(&ended);
        self.keep(ended);
    }

    fn keep(&mut self, hours: Vec<Hour>) {
        self.hours.extend(hours);
        let excess = self.hours.len().saturating_sub(HOURS);
        self.hours.drain(..excess);
    }

    /// The last hours that ended, oldest first.
    pub(crate) fn hours(&self) -> Vec<Hour> {
        self.hours.iter().copied().collect()
    }

    /// Hours for the journal, once each.
    pub(crate) fn take_unwritten(&mut self) -> Vec<Hour> {
        std::mem::take(&mut self.unwritten)
    }
}
