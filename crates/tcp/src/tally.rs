//! What becomes of all connections of a client: sums that take constant memory, and the first records.

use std::collections::BTreeMap;
use std::time::Duration;

use nightwatt_energy::histogram::Histogram;
use nightwatt_energy::stats::intervals::student;
use nightwatt_energy::stats::moments;
use nightwatt_energy::time::Mono;
use serde::Serialize;

use crate::connection::client::Moments;
use crate::fault::Fault;
use crate::info::{TcpInfo, TcpInfos};

/// Seconds of which each has a row of its own; of longer runs the rest is only in the sums.
pub(crate) const SECONDS: usize = 86_400;

/// One connection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Record {
    /// From 0, in the order in which they were started.
    pub number: u64,
    /// The client's port, by which a capture tells connections apart.
    pub port: Option<u16>,
    /// From the start of the run to its call of `connect`, s.
    pub at_s: f64,
    /// From `connect` to the end of the handshake, s.
    pub handshake_s: Option<f64>,
    /// To the first byte from the server, s.
    pub first_byte_s: Option<f64>,
    /// To the last one: its lifetime, s.
    pub lifetime_s: Option<f64>,
    /// Until both sides had closed, s.
    pub closed_s: Option<f64>,
    /// Bytes of payload.
    pub bytes: u64,
    /// What was wrong with it.
    pub fault: Option<Fault>,
    /// What the client's kernel said of it at its end.
    pub tcp: TcpInfo,
    /// The same of the server's, if it still knew it at the end of the run.
    pub server_tcp: Option<TcpInfo>,
}

/// One second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub struct Second {
    /// From 0.
    pub second: u64,
    /// Connections under way at its end.
    pub running: u64,
    /// Started in it.
    pub started: u64,
    /// Completed in it.
    pub completed: u64,
    /// Failed in it.
    pub failed: u64,
    /// Bytes of payload in it.
    pub bytes: u64,
}

/// How long something took, over many connections.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Spread {
    moments: moments::Moments,
    histogram: Histogram,
    least: Option<Duration>,
}

/// The same as figures, all in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// Connections of which it is known.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Standard deviation, with n - 1.
    pub sd: Option<f64>,
    /// The lower end of the mean's 95 % interval (Student's).
    pub low_95: Option<f64>,
    /// Its upper end.
    pub high_95: Option<f64>,
    /// The shortest.
    pub min: f64,
    /// Median; at most 0.4 % too high, as `p99`.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Spread {
    fn add(&mut self, time: Duration) {
        self.moments.add(time.as_secs_f64());
        self.histogram.record(time);
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
    }

    /// Nothing of nothing.
    pub(crate) fn times(&self) -> Option<Times> {
        let interval = student(&self.moments);
        let quantile = |q: f64| self.histogram.quantile(q).map(|time| time.as_secs_f64());
        Some(Times {
            count: self.moments.count(),
            mean: self.moments.mean()?,
            sd: self.moments.sd(),
            low_95: interval.map(|interval| interval.low),
            high_95: interval.map(|interval| interval.high),
            min: self.least?.as_secs_f64(),
            p50: quantile(0.5)?,
            p99: quantile(0.99)?,
            max: self.histogram.max().as_secs_f64(),
        })
    }

    /// Classes as pairs of their upper end in seconds and their count.
    pub(crate) fn classes(&self) -> Vec<(f64, u64)> {
        self.histogram.classes().map(|(time, count)| (time.as_secs_f64(), count)).collect()
    }
}

/// All connections so far.
#[derive(Debug)]
pub(crate) struct Tally {
    start: Mono,
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) cut: u64,
    /// Completed ones whose card could be polled, where that was asked for.
    pub(crate) busy_polled: u64,
    /// How long those had lived by then, together.
    pub(crate) cut_lived: Duration,
    pub(crate) bytes: u64,
    faults: [u64; Fault::COUNT],
    /// What a run that is given up reports, and how telling it is.
    decisive: Option<((bool, u64), Fault)>,
    /// Failed since the last one that was completed.
    pub(crate) in_vain: u64,
    pub(crate) handshake: Spread,
    pub(crate) first_byte: Spread,
    pub(crate) lifetime: Spread,
    pub(crate) closed: Spread,
    pub(crate) tcp: TcpInfos,
    pub(crate) records: Vec<Record>,
    pub(crate) seconds: Vec<Second>,
    /// The last one that has ended.
    pub(crate) latest: Option<Second>,
    second: Second,
}

impl Tally {
    /// Keeps records of at most this many connections. All memory that it will use is taken here.
    pub(crate) fn new(start: Mono, records: usize) -> Self {
        Self {
            start,
            started: 0,
            completed: 0,
            failed: 0,
            cut: 0,
            busy_polled: 0,
            cut_lived: Duration::ZERO,
            bytes: 0,
            faults: [0; Fault::COUNT],
            decisive: None,
            in_vain: 0,
            handshake: Spread::default(),
            first_byte: Spread::default(),
            lifetime: Spread::default(),
            closed: Spread::default(),
            tcp: TcpInfos::default(),
            records: Vec::with_capacity(records),
            seconds: Vec::with_capacity(SECONDS),
            latest: None,
            second: Second::default(),
        }
    }

    /// Time counts from now.
    pub(crate) const fn begin(&mut self, start: Mono) {
        self.start = start;
    }

    /// Connections under way.
    pub(crate) const fn running(&self) -> u64 {
        self.started - self.completed - self.failed - self.cut
    }

    /// When the second ends that is counted now.
    pub(crate) fn second_ends(&self) -> Mono {
        self.start + Duration::from_secs(self.second.second + 1)
    }

    /// Moves time on; must be called before what happens at that time is recorded.
    pub(crate) fn pass(&mut self, now: Mono) {
        while now >= self.second_ends() {
            self.end_second();
        }
    }

    fn end_second(&mut self) {
        self.second.running = self.running();
        if self.seconds.len() < self.seconds.capacity() {
            self.seconds.push(self.second);
        }
        self.latest = Some(self.second);
        self.second = Second { second: self.second.second + 1, ..Second::default() };
    }

    /// The run is over: what is left of a second counts as one.
    pub(crate) fn end(&mut self) {
        if self.second.started + self.second.completed + self.second.failed + self.second.bytes > 0
        {
            self.end_second();
        }
    }

    pub(crate) fn start_one(&mut self) {
        self.started += 1;
        self.second.started += 1;
    }

    pub(crate) fn moved(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.second.bytes += bytes;
    }

    /// A connection is over.
    pub(crate) fn finish(
        &mut self,
        number: u64,
        moments: &Moments,
        now: Mono,
        bytes: u64,
        fault: Option<Fault>,
        tcp: &TcpInfo,
    ) {
        let since = |moment: Option<Mono>| moment.map(|moment| moment.since(moments.called));
        let times =
            [moments.opened, moments.first_byte, moments.last_byte, moments.closed].map(since);
        match fault {
            None => {
                self.completed += 1;
                self.second.completed += 1;
                self.in_vain = 0;
                self.tcp.add(tcp);
                let spreads = [
                    &mut self.handshake,
                    &mut self.first_byte,
                    &mut self.lifetime,
                    &mut self.closed,
                ];
                for (spread, time) in spreads.into_iter().zip(times) {
                    if let Some(time) = time {
                        spread.add(time);
                    }
                }
            }
            Some(Fault::Cut) => {
                self.cut += 1;
                self.cut_lived += moments.last_byte.unwrap_or(now).since(moments.called);
            }
            Some(fault) => {
                self.failed += 1;
                self.second.failed += 1;
                self.in_vain += 1;
                self.faults[fault.code()] += 1;
                // Packets of different connections overtake each other: a connection that was cut may
                // learn of it after a later one was refused. The later one knows how things stand.
                let rank = (fault.ends_the_run(), number);
                if self.decisive.is_none_or(|(before, _)| before <= rank) {
                    self.decisive = Some((rank, fault));
                }
            }
        }
        if self.records.len() < self.records.capacity() {
            let [handshake_s, first_byte_s, lifetime_s, closed_s] =
                times.map(|time| time.map(|time| time.as_secs_f64()));
            self.records.push(Record {
                number,
                port: None,
                at_s: moments.called.since(self.start).as_secs_f64(),
                handshake_s,
                first_byte_s,
                lifetime_s,
                closed_s,
                bytes,
                fault,
                tcp: *tcp,
                server_tcp: None,
            });
        }
    }

    /// The port of the connection that was finished last.
    pub(crate) fn finished_port(&mut self, number: u64, port: Option<u16>) {
        if let Some(record) = self.records.last_mut().filter(|record| record.number == number) {
            record.port = port;
        }
    }

    /// The fault that explains why a run is given up: one that ends the run, or else that of the
    /// connection that was started last.
    pub(crate) fn decisive_fault(&self) -> Option<Fault> {
        self.decisive.map(|(_, fault)| fault)
    }

    /// How many failed by which fault.
    pub(crate) fn faults(&self) -> BTreeMap<&'static str, u64> {
        let each = self.faults.iter().enumerate().filter(|(_, count)| **count > 0);
        each.filter_map(|(code, count)| Some((Fault::of(code)?.name(), *count))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::Figure;

    fn ms(millis: u64) -> Mono {
        Mono(Duration::from_millis(millis))
    }

    fn moments(called: u64, lasted: u64) -> Moments {
        Moments {
            called: ms(called),
            opened: Some(ms(called + 1)),
            first_byte: Some(ms(called + 2)),
            last_byte: Some(ms(called + lasted)),
            closed: Some(ms(called + lasted + 1)),
        }
    }

    #[test]
    fn connections_are_summed_up_as_by_hand() {
        let mut tally = Tally::new(ms(0), 2);
        for (number, lasted) in [(0, 10), (1, 20), (2, 60)] {
            tally.start_one();
            let tcp = TcpInfo::default().with(Figure::RetransmittedSegments, number);
            tally.finish(number, &moments(0, lasted), ms(90), 100, None, &tcp);
        }
        tally.start_one();
        let none = TcpInfo::default();
        tally.finish(3, &moments(5, 7), ms(90), 50, Some(Fault::Reset), &none);
        // 10, 20 and 60: mean 30, squared deviations 400 + 100 + 900, so sd = sqrt(700) = 26.4575;
        // Student's quantile for 2 degrees of freedom is 4.30265 (tables).
        let times = tally.lifetime.times().unwrap();
        assert_eq!(times.count, 3);
        assert!((times.mean - 0.030).abs() < 1e-12);
        assert!((times.sd.unwrap() - 0.026_457_5).abs() < 1e-7);
        let half = 4.302_65 * 0.026_457_5 / 3.0_f64.sqrt();
        assert!((times.high_95.unwrap() - (0.030 + half)).abs() < 1e-6, "{times:?}");
        assert_eq!((times.min, times.max, times.p50), (0.010, 0.060, times.p50));
        assert!((0.020..0.0201).contains(&times.p50), "{times:?}");
        assert_eq!((tally.completed, tally.failed, tally.running()), (3, 1, 0));
        assert_eq!(tally.faults(), BTreeMap::from([("reset", 1)]));
        assert_eq!(tally.tcp.get(Figure::RetransmittedSegments).sum, 3);
        assert_eq!(tally.records.len(), 2, "more were not wanted");
        assert_eq!(tally.records[1].lifetime_s, Some(0.020));
        assert_eq!(tally.closed.times().map(|times| times.max), Some(0.061));
        assert_eq!(tally.in_vain, 1);
    }

    #[test]
    fn a_connection_that_fails_late_does_not_hide_why_the_later_ones_failed() {
        let mut tally = Tally::new(ms(0), 0);
        let mut fails = |number, fault| {
            tally.start_one();
            tally.finish(number, &moments(0, 10), ms(90), 0, Some(fault), &TcpInfo::default());
            tally.decisive_fault()
        };
        assert_eq!(fails(0, Fault::Reset), Some(Fault::Reset));
        assert_eq!(fails(2, Fault::Refused), Some(Fault::Refused));
        assert_eq!(fails(1, Fault::Reset), Some(Fault::Refused), "it was started earlier");
        assert_eq!(fails(3, Fault::Version), Some(Fault::Version));
        assert_eq!(fails(4, Fault::Reset), Some(Fault::Version), "the run ended for that one");
    }

    #[test]
    fn those_cut_are_in_no_mean_and_what_they_had_lived_is_told() {
        let mut tally = Tally::new(ms(0), 0);
        let none = TcpInfo::default();
        let cut = Some(Fault::Cut);
        for _ in 0..2 {
            tally.start_one();
        }
        // Cut at 100 ms: the first after 70 of them; the second had all after 40, and waited for the end.
        let first = Moments { called: ms(30), ..Moments::default() };
        tally.finish(0, &first, ms(100), 7, cut, &none);
        tally.finish(1, &Moments { closed: None, ..moments(5, 40) }, ms(100), 7, cut, &none);
        assert_eq!((tally.cut, tally.cut_lived), (2, Duration::from_millis(70 + 40)));
        assert_eq!(tally.lifetime.times(), None);
    }

    #[test]
    fn every_second_has_its_row_though_nothing_happened_in_it() {
        let mut tally = Tally::new(ms(0), 0);
        tally.start_one();
        tally.moved(7);
        tally.pass(ms(999));
        assert_eq!(tally.latest, None);
        tally.pass(ms(2500));
        assert_eq!(tally.latest, tally.seconds.last().copied());
        tally.finish(0, &moments(0, 2500), ms(2500), 7, None, &TcpInfo::default());
        tally.end();
        let row = |second, running, started, completed, bytes| Second {
            second,
            running,
            started,
            completed,
            failed: 0,
            bytes,
        };
        assert_eq!(tally.seconds, [row(0, 1, 1, 0, 7), row(1, 1, 0, 0, 0), row(2, 0, 0, 1, 0)]);
    }

    #[test]
    fn of_nothing_there_are_no_times() {
        assert_eq!(Spread::default().times(), None);
        let mut one = Spread::default();
        one.add(Duration::from_millis(3));
        let times = one.times().unwrap();
        assert_eq!((times.mean, times.sd, times.low_95), (0.003, None, None));
    }
}
