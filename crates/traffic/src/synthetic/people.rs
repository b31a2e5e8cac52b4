//! Visits of people.

use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_policy::admission::ClientClass;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{LogNormal, Zipf};

use super::site::{File, ORIGIN, Page, Site};
use super::{
    Client, Exchange, Stream, SyntheticSite, Traffic, address, exponential, moments, poisson,
};

/// Relative rate of visits by hour of the local day.
const HOURS: [f64; 24] = [
    0.35, 0.20, 0.13, 0.10, 0.10, 0.15, 0.35, 0.70, 1.10, 1.40, 1.55, 1.65, 1.75, 1.60, 1.45, 1.35,
    1.30, 1.35, 1.50, 1.80, 2.00, 1.80, 1.20, 0.70,
];

/// Relative rate of visits on weekends; the week's mean stays what was asked for.
const WEEKEND: f64 = 0.72;
const WEEKDAY: f64 = (7.0 - 2.0 * WEEKEND) / 5.0;

const REGULARS: u32 = 200;
const BURST_VISITS: f64 = 25.0;
const BURST_DELAY_S: f64 = 1200.0;

const AGENTS: [&str; 6] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
];

/// How often people come at this moment, against the mean of a week.
pub(super) fn rate(at: Wall, utc_offset: i32) -> f64 {
    let now = Now { mono: Mono::ZERO, wall: at, utc_offset };
    let week = now.hour_of_week();
    let mean: f64 = HOURS.iter().sum::<f64>() / 24.0;
    let day = if week / 24 < 5 { WEEKDAY } else { WEEKEND };
    HOURS[(week % 24) as usize] / mean * day
}

/// All visits, the bursts' included.
pub(super) fn visits(model: &SyntheticSite, site: &Site, traffic: &mut Traffic) {
    let mut random = model.stream(Stream::Visits);
    let mut visitors = Visitors::new(&mut random);
    for at in busy_moments(model, &mut random, traffic.end, model.visits_per_day) {
        let visitor = visitors.next(&mut random);
        let landing = site.popular(&mut random);
        let referer = match random.random_range(0u32..10) {
            0..4 => None,
            4..8 => Some("https://www.google.com/"),
            _ => Some("https://blog.example/links"),
        };
        Visit { site, traffic, random: &mut random, visitor }.run(at, landing, referer);
    }

    let mut random = model.stream(Stream::Bursts);
    for start in busy_moments(model, &mut random, traffic.end, model.bursts_per_week / 7.0) {
        let landing = site.any(&mut random);
        for _ in 0..poisson(&mut random, BURST_VISITS) {
            let at = start + exponential(&mut random, BURST_DELAY_S);
            let visitor = Visitor { client: stranger(&mut random), returns: false };
            Visit { site, traffic, random: &mut random, visitor }.run(
                at,
                landing,
                Some("https://news.example/"),
            );
        }
    }
}

/// A Poisson process that follows the hours: drawn at the highest rate, then thinned.
fn busy_moments(
    model: &SyntheticSite,
    random: &mut ChaCha8Rng,
    end: Wall,
    per_day: f64,
) -> Vec<Wall> {
    let highest = 3.0;
    moments(random, model.start, end, per_day * highest)
        .into_iter()
        .filter(|&at| random.random_range(0.0..highest) < rate(at, model.utc_offset))
        .collect()
}

/// A person with a browser.
struct Visitor {
    client: Client,
    /// Was here before, so the browser holds most of the site.
    returns: bool,
}

fn stranger(random: &mut ChaCha8Rng) -> Client {
    Client {
        address: address(random, 0, 128),
        agent: Some(AGENTS[random.random_range(0..AGENTS.len() as u32) as usize].to_owned()),
        class: ClientClass::Human,
    }
}

/// The visitors: regulars, the first of them most often, and strangers.
struct Visitors {
    regulars: Vec<(Client, bool)>,
    often: Zipf<f64>,
}

impl Visitors {
    fn new(random: &mut ChaCha8Rng) -> Self {
        Self {
            regulars: (0..REGULARS).map(|_| (stranger(random), false)).collect(),
            often: Zipf::new(f64::from(REGULARS), 1.0).expect("some regulars, exponent 1"),
        }
    }

    fn next(&mut self, random: &mut ChaCha8Rng) -> Visitor {
        if random.random_bool(2.0 / 3.0) {
            return Visitor { client: stranger(random), returns: false };
        }
        let rank = random.sample(self.often) as usize;
        let (client, was_here) = &mut self.regulars[rank.clamp(1, REGULARS as usize) - 1];
        Visitor { client: client.clone(), returns: std::mem::replace(was_here, true) }
    }
}

/// One visit under way.
struct Visit<'a> {
    site: &'a Site,
    traffic: &'a mut Traffic,
    random: &'a mut ChaCha8Rng,
    visitor: Visitor,
}

impl Visit<'_> {
    fn run(mut self, start: Wall, landing: &Page, referer: Option<&str>) {
        let think = LogNormal::new(25f64.ln(), 1.0).expect("a finite sigma");
        let (mut at, mut page, mut from) = (start, landing, referer.map(str::to_owned));
        let mut first = true;
        loop {
            self.page(at, page, from.as_deref(), first);
            first = false;
            if self.random.random_bool(0.4) {
                return;
            }
            let seconds = self.random.sample(think).clamp(1.0, 1800.0);
            at = at + Duration::from_millis((seconds * 1e3) as u64);
            from = Some(format!("{ORIGIN}{}", page.file.path));
            if self.random.random_bool(0.02) {
                at = self.form(at, from.as_deref());
            }
            let site = self.site;
            page = site.popular(self.random);
        }
    }

    /// A page, and within 2.5 seconds what belongs to it.
    fn page(&mut self, at: Wall, page: &Page, referer: Option<&str>, first: bool) {
        self.get(at, &page.file, referer, 0.25);
        let url = format!("{ORIGIN}{}", page.file.path);
        let site = self.site;
        // What the browser holds already is asked for again only now and then.
        let again = if self.visitor.returns { 0.1 } else { 1.0 };
        for file in site.shared.iter().filter(|_| first) {
            if self.random.random_bool(again) {
                let at = self.soon(at, 900);
                self.get(at, file, Some(&url), 0.9);
            }
        }
        for image in &page.images {
            if self.random.random_bool(again.max(0.4)) {
                let at = self.soon(at, 2500);
                self.get(at, image, Some(&url), 0.7);
            }
        }
        if first && !self.visitor.returns && self.random.random_bool(0.6) {
            let icon = File { path: "/favicon.ico".to_owned(), bytes: 1150 };
            let at = self.soon(at, 2500);
            self.get(at, &icon, Some(&url), 0.0);
        }
    }

    /// A form is sent, answered by a redirection to a page that says thanks.
    fn form(&mut self, at: Wall, referer: Option<&str>) -> Wall {
        let client = &self.visitor.client;
        let post = Exchange { method: "POST", target: "/contact", status: 303, bytes: 0, referer };
        self.traffic.push(at, client, &post);
        let thanks =
            Exchange { method: "GET", target: "/thanks", status: 200, bytes: 2100, referer };
        let then = at + Duration::from_millis(150);
        self.traffic.push(then, client, &thanks);
        then + Duration::from_secs(5)
    }

    /// Between 50 and this many milliseconds later.
    fn soon(&mut self, at: Wall, within_ms: u64) -> Wall {
        at + Duration::from_millis(self.random.random_range(50..within_ms))
    }

    /// A file, which a browser that holds it asks for with a condition: then that is the chance of
    /// a 304.
    fn get(&mut self, at: Wall, file: &File, referer: Option<&str>, unchanged: f64) {
        let held = self.visitor.returns && self.random.random_bool(unchanged);
        let (status, bytes) = if held { (304, 0) } else { (200, file.bytes) };
        let exchange = Exchange { method: "GET", target: &file.path, status, bytes, referer };
        self.traffic.push(at, &self.visitor.client, &exchange);
    }
}
