//! Traffic of a small site, where there is no log: the same seed gives the same requests.
//!
//! Every kind of client draws from a random stream of its own, so changing the rate of one leaves
//! the others as they are. All times are whole milliseconds, all sizes whole bytes.

mod people;
mod programs;
mod site;

use std::time::Duration;

use nightwatt_energy::time::Wall;
use nightwatt_policy::admission::ClientClass;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Exp, Poisson};
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use site::Site;
pub use site::SiteFile;

/// A site and its clients.
///
/// What is generated, with the default numbers (some 1,600 requests a day in all, so the site is
/// mostly idle):
///
/// - **People**: 60 visits a day, a Poisson process whose rate follows the local hour (trough at 3
///   to 4 with 1/20 of the evening peak at 20, a lower peak at noon) and is a third lower on
///   Saturday and Sunday. A visit has 2.5 pages in the mean (geometric), picked by Zipf's law
///   (exponent 1) over 300 pages; 25 s pass between two (log-normal, median; sigma 1; 30 min at
///   most). A page brings up to 8 images of its own and, at the visit's first page, 2 styles and 2
///   scripts, within 2.5 s. Sizes are log-normal around 8 kB (pages) to 60 kB (scripts). One visit
///   in three is by one of 200 regulars, whose browser holds most of it and asks again for little,
///   answered mostly by 304. One page in 50 leads to a form (POST, 303).
/// - **Bursts**: once a week somewhere a link to one page brings 25 more visits, with a mean delay
///   of 20 min.
/// - **Crawlers**: 300 requests a day at all hours, in sessions, by eight agents with rates of
///   their own; each reads `robots.txt` daily; 25 % are answered 304, 10 % 404.
/// - **A scanner**: once a day, each time from a new address, 25 to 60 usual paths within seconds,
///   all 404.
/// - **A monitor**: `/healthz` every 5 minutes.
/// - **Programs**: hourly, curl reads a status; every fourth time an app posts a reading instead.
///
/// The generator computes in `f64`: where a platform's `exp` or `ln` differs in the last bit, a
/// value may in principle round to the next millisecond or byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyntheticSite {
    /// Chooses the site and its traffic.
    pub seed: u64,
    /// Length, in days of 86,400 s.
    pub days: u32,
    /// First moment.
    pub start: Wall,
    /// Local time minus UTC, in seconds: shifts the daily cycle, and is in each request.
    pub utc_offset: i32,
    /// Visits of people a day, bursts not counted.
    pub visits_per_day: f64,
    /// Bursts of 25 visits a week.
    pub bursts_per_week: f64,
    /// Pages of the site, at least 1.
    pub pages: u32,
    /// Requests of all crawlers a day.
    pub crawler_requests_per_day: f64,
    /// Scanners that pass a day.
    pub scans_per_day: f64,
    /// Seconds from one check of the monitor to the next; 0 for no monitor.
    pub monitor_every_s: u32,
    /// Requests of programs a day, evenly spread.
    pub api_requests_per_day: f64,
}

impl Default for SyntheticSite {
    fn default() -> Self {
        Self {
            seed: 1,
            days: 1,
            // Monday 2026-01-05, midnight UTC.
            start: Wall::from_secs(1_767_571_200),
            utc_offset: 0,
            visits_per_day: 60.0,
            bursts_per_week: 1.0,
            pages: 300,
            crawler_requests_per_day: 300.0,
            scans_per_day: 1.0,
            monitor_every_s: 300,
            api_requests_per_day: 24.0,
        }
    }
}

impl SyntheticSite {
    /// All requests, in the order of time.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.labelled().into_iter().map(|(arrival, _)| arrival).collect()
    }

    /// All files of the site with their links: the front page and a sitemap lead to every page, and a page links to
    /// what it shows.
    pub fn files(&self) -> Vec<SiteFile> {
        Site::new(self.pages, &mut self.stream(Stream::Site)).files()
    }

    /// All requests, in the order of time, each with what its client really is.
    pub fn labelled(&self) -> Vec<(Arrival, ClientClass)> {
        let site = Site::new(self.pages, &mut self.stream(Stream::Site));
        let mut traffic = Traffic {
            end: self.start + Duration::from_hours(24) * self.days,
            start: self.start,
            utc_offset: self.utc_offset,
            requests: Vec::new(),
        };
        people::visits(self, &site, &mut traffic);
        programs::crawlers(self, &site, &mut traffic);
        programs::scanners(self, &mut traffic);
        programs::monitor(self, &mut traffic);
        programs::api(self, &mut traffic);
        traffic.requests.sort_by_key(|(arrival, _)| arrival.at);
        traffic.requests
    }

    fn stream(&self, stream: Stream) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(stream as u64);
        random
    }
}

/// Which part of the generator draws from which random stream.
#[derive(Debug, Clone, Copy)]
enum Stream {
    Site,
    Visits,
    Bursts,
    Scanners,
    Monitor,
    Api,
    /// And one for each further crawler.
    Crawlers,
}

/// What was generated so far.
struct Traffic {
    start: Wall,
    end: Wall,
    utc_offset: i32,
    requests: Vec<(Arrival, ClientClass)>,
}

/// A client.
#[derive(Debug, Clone)]
struct Client {
    address: String,
    agent: Option<String>,
    class: ClientClass,
}

/// A request and its answer, without client and time.
struct Exchange<'a> {
    method: &'a str,
    target: &'a str,
    status: u16,
    bytes: u64,
    referer: Option<&'a str>,
}

impl Traffic {
    /// Adds a request; what lies outside of the time wanted is dropped.
    fn push(&mut self, at: Wall, client: &Client, exchange: &Exchange<'_>) {
        if !(self.start..self.end).contains(&at) {
            return;
        }
        let arrival = Arrival {
            at,
            utc_offset: self.utc_offset,
            client: client.address.clone(),
            method: exchange.method.to_owned(),
            target: exchange.target.to_owned(),
            status: exchange.status,
            bytes: exchange.bytes,
            referer: exchange.referer.map(str::to_owned),
            agent: client.agent.clone(),
        };
        self.requests.push((arrival, client.class));
    }
}

/// An address of network `10.block.0.0/16`, or of the 64 such networks from there on.
fn address(random: &mut ChaCha8Rng, block: u32, blocks: u32) -> String {
    let [network, high, low] = [
        random.random_range(0..blocks) + block,
        random.random_range(0..256),
        random.random_range(1..255),
    ];
    format!("10.{network}.{high}.{low}")
}

/// A time drawn from the exponential distribution of this mean, at most 100 years.
fn exponential(random: &mut ChaCha8Rng, mean_s: f64) -> Duration {
    let seconds = Exp::new(1.0).map_or(0.0, |unit| random.sample(unit)) * mean_s;
    Duration::from_millis((seconds.clamp(0.0, 3.15e9) * 1e3) as u64)
}

/// A count drawn from the Poisson distribution of this mean; 0 where the mean is no such.
fn poisson(random: &mut ChaCha8Rng, mean: f64) -> u32 {
    Poisson::new(mean).map_or(0, |counts| random.sample(counts) as u32)
}

/// Moments of a Poisson process with a constant rate a day; none where the rate is no such.
fn moments(random: &mut ChaCha8Rng, from: Wall, to: Wall, per_day: f64) -> Vec<Wall> {
    let mut all = Vec::new();
    if per_day > 0.0 {
        let mut at = from + exponential(random, 86_400.0 / per_day);
        while at < to {
            all.push(at);
            at = at + exponential(random, 86_400.0 / per_day);
        }
    }
    all
}

#[cfg(test)]
#[path = "synthetic/tests.rs"]
mod tests;
