//! Crawlers, scanners, the monitor, and programs of people.

use std::time::Duration;

use nightwatt_energy::time::Wall;
use nightwatt_policy::admission::ClientClass;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::site::Site;
use super::{
    Client, Exchange, Stream, SyntheticSite, Traffic, address, exponential, moments, poisson,
};

/// A crawler: its agent, its share of all crawlers' requests, the mean length of a session in
/// requests and the mean seconds between two of them.
struct Crawler {
    agent: &'static str,
    share: f64,
    session: f64,
    gap_s: f64,
}

const CRAWLERS: [Crawler; 8] = [
    Crawler {
        agent: "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        share: 0.25,
        session: 2.0,
        gap_s: 20.0,
    },
    Crawler {
        agent: "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
        share: 0.17,
        session: 3.0,
        gap_s: 10.0,
    },
    Crawler {
        agent: "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
        share: 0.2,
        session: 20.0,
        gap_s: 2.0,
    },
    Crawler {
        agent: "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
        share: 0.12,
        session: 4.0,
        gap_s: 30.0,
    },
    Crawler {
        agent: "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
        share: 0.1,
        session: 1.5,
        gap_s: 60.0,
    },
    Crawler {
        agent: "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
        share: 0.08,
        session: 12.0,
        gap_s: 3.0,
    },
    Crawler {
        agent: "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)",
        share: 0.05,
        session: 5.0,
        gap_s: 5.0,
    },
    Crawler {
        agent: "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
        share: 0.03,
        session: 1.0,
        gap_s: 1.0,
    },
];

/// Sessions of every crawler, at all hours alike.
pub(super) fn crawlers(model: &SyntheticSite, site: &Site, traffic: &mut Traffic) {
    for (number, crawler) in CRAWLERS.iter().enumerate() {
        let mut random = model.stream(Stream::Crawlers);
        random.set_stream(Stream::Crawlers as u64 + number as u64);
        let client = Client {
            address: address(&mut random, 200 + number as u32, 1),
            agent: Some(crawler.agent.to_owned()),
            class: ClientClass::Crawler,
        };
        let sessions = model.crawler_requests_per_day * crawler.share / crawler.session;
        let mut rules_read = None;
        for mut at in moments(&mut random, traffic.start, traffic.end, sessions) {
            if rules_read.is_none_or(|then| at > then + Duration::from_hours(24)) {
                rules_read = Some(at);
                traffic.push(at, &client, &get("/robots.txt", 200, 120));
                at = at + exponential(&mut random, crawler.gap_s);
            }
            for _ in 0..=poisson(&mut random, crawler.session - 1.0) {
                crawl(&mut random, site, traffic, at, &client);
                at = at + exponential(&mut random, crawler.gap_s);
            }
        }
    }
}

fn crawl(random: &mut ChaCha8Rng, site: &Site, traffic: &mut Traffic, at: Wall, client: &Client) {
    let page = &site.any(random).file;
    match random.random_range(0u32..100) {
        0..10 => {
            let gone = format!("/old/{}", random.random_range(0u32..500));
            traffic.push(at, client, &get(&gone, 404, 150));
        }
        10..35 => traffic.push(at, client, &get(&page.path, 304, 0)),
        _ => traffic.push(at, client, &get(&page.path, 200, page.bytes)),
    }
}

/// What scanners try, the paths that our own rules name and others.
const SCANNED: [&str; 30] = [
    "/wp-login.php",
    "/.env",
    "/.git/config",
    "/phpmyadmin/index.php",
    "/admin/",
    "/administrator/index.php",
    "/backup.zip",
    "/config.php",
    "/old/index.php",
    "/test.php",
    "/shell.php",
    "/upload.php",
    "/login.action",
    "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php",
    "/cgi-bin/luci",
    "/boaform/admin/formLogin",
    "/api/v1/pods",
    "/owa/auth/logon.aspx",
    "/xmlrpc.php?rsd",
    "/console/login/LoginForm.jsp",
    "/.aws/credentials",
    "/db.sql",
    "/dump.sql.gz",
    "/index.php?s=/Index/invokefunction",
    "/ab2g",
    "/nice%20ports",
    "/setup.php",
    "/mysql/index.php",
    "/web.config",
    "/_profiler/phpinfo",
];

/// Bursts from new addresses; the names differ, the paths do not.
pub(super) fn scanners(model: &SyntheticSite, traffic: &mut Traffic) {
    let agents = [
        None,
        Some("python-requests/2.32.3"),
        Some(
            "Mozilla/5.0 (Windows NT 6.1; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/78.0.3904.108 Safari/537.36",
        ),
        Some("Hello, World"),
    ];
    let mut random = model.stream(Stream::Scanners);
    for mut at in moments(&mut random, traffic.start, traffic.end, model.scans_per_day) {
        let client = Client {
            address: address(&mut random, 220, 8),
            agent: agents[random.random_range(0..agents.len() as u32) as usize].map(str::to_owned),
            class: ClientClass::Scanner,
        };
        let first = random.random_range(0..SCANNED.len() as u32) as usize;
        let count = random.random_range(25u32..=60) as usize;
        for path in SCANNED.iter().cycle().skip(first).take(count) {
            traffic.push(at, &client, &get(path, 404, 150));
            at = at + Duration::from_millis(random.random_range(100..800));
        }
    }
}

/// Checks that do not care for the hour.
pub(super) fn monitor(model: &SyntheticSite, traffic: &mut Traffic) {
    if model.monitor_every_s == 0 {
        return;
    }
    let mut random = model.stream(Stream::Monitor);
    let client = Client {
        address: address(&mut random, 230, 1),
        agent: Some(
            "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)".to_owned(),
        ),
        class: ClientClass::Monitor,
    };
    let every = Duration::from_secs(model.monitor_every_s.into());
    evenly(&mut random, traffic.start, traffic.end, every)
        .for_each(|at| traffic.push(at, &client, &get("/healthz", 200, 2)));
}

/// curl on a timer, and an app that posts.
pub(super) fn api(model: &SyntheticSite, traffic: &mut Traffic) {
    if model.api_requests_per_day <= 0.0 {
        return;
    }
    let mut random = model.stream(Stream::Api);
    let mut client = |agent: &str| Client {
        address: address(&mut random, 231, 1),
        agent: Some(agent.to_owned()),
        class: ClientClass::Api,
    };
    let (curl, app) = (client("curl/8.14.1"), client("okhttp/4.12.0"));
    let every = Duration::from_secs_f64(86_400.0 / model.api_requests_per_day.min(1e6));
    let moments = evenly(&mut random, traffic.start, traffic.end, every);
    for (number, at) in moments.enumerate() {
        if number % 4 == 3 {
            let post = Exchange { method: "POST", ..get("/api/readings", 201, 40) };
            traffic.push(at, &app, &post);
        } else {
            traffic.push(at, &curl, &get("/api/status.json", 200, 350));
        }
    }
}

/// A timer: the first at a random moment of its period, each within half a second of its due.
fn evenly(
    random: &mut ChaCha8Rng,
    start: Wall,
    end: Wall,
    every: Duration,
) -> impl Iterator<Item = Wall> {
    let every = every.max(Duration::from_secs(1));
    let phase = every.mul_f64(random.random_range(0.0..1.0));
    let due = std::iter::successors(Some(start + phase), move |&at| Some(at + every));
    due.map(|at| at + Duration::from_millis(random.random_range(0..500)))
        .take_while(move |&at| at < end)
}

fn get(target: &str, status: u16, bytes: u64) -> Exchange<'_> {
    Exchange { method: "GET", target, status, bytes, referer: None }
}
