use nightwatt_policy::visit::Visitor;

use super::*;
use crate::classifier::{ClassifierConfig, ClientFacts, Fetch};
use crate::traits::{AgentMemo, Rules, client_key};

/// Asks of one agent, some seconds after the log's beginning.
struct Site {
    rules: Rules,
    memo: AgentMemo,
    suspects: Suspects,
}

struct Ask<'a> {
    at: i64,
    client: &'a str,
    agent: &'a str,
    method: &'a str,
    target: &'a str,
    referer: Option<&'a str>,
    status: u16,
}

impl Site {
    fn new() -> Self {
        let rules = Rules::new(ClassifierConfig::default());
        Self { rules, memo: AgentMemo::new(100), suspects: Suspects::new() }
    }

    fn ask(&mut self, ask: &Ask<'_>) {
        let facts = ClientFacts {
            client: client_key(ask.client),
            agent: Some(ask.agent),
            method: ask.method,
            target: ask.target,
            host: None,
            referer: ask.referer,
            accepts_html: None,
            credential: None,
            fetch: Fetch::Unknown,
        };
        let traits = self.rules.traits(&mut self.memo, &facts);
        self.suspects.observe(&Logged {
            at: Wall::from_secs(1_700_000_000 + ask.at),
            utc_offset: 0,
            client: ask.client,
            visitor: Visitor(0),
            method: ask.method,
            target: ask.target,
            status: ask.status,
            bytes: 1,
            referer: ask.referer,
            agent: Some(ask.agent),
            traits,
        });
    }

    /// People: each page with two images, by day, from page to page.
    fn people(&mut self) {
        const SITE: Option<&str> = Some("https://site.example/");
        for day in 0..5 {
            for n in 0..100_i64 {
                let at = day * 86_400 + n * 300;
                let client = format!("10.0.{}.{}", day, n % 20);
                let agent = format!("Mozilla/5.0 (X11; Linux) Firefox/{}", 100 + n % 5);
                let page = format!("/page/{}", n % 40);
                for target in [page.as_str(), "/a.png", "/b.css"] {
                    let (client, agent) = (client.as_str(), agent.as_str());
                    self.ask(&Ask {
                        at,
                        client,
                        agent,
                        method: "GET",
                        target,
                        referer: SITE,
                        status: 200,
                    });
                }
            }
        }
    }

    /// A crawler in the guise of a browser: a page each quarter of an hour, day and night.
    fn crawler(&mut self, agent: &str) {
        for n in 0..400 {
            let target = if n == 0 { "/robots.txt".to_owned() } else { format!("/page/{n}") };
            let (client, target) = ("192.0.2.1", target.as_str());
            self.ask(&Ask {
                at: n * 900,
                client,
                agent,
                method: "GET",
                target,
                referer: None,
                status: 200,
            });
        }
    }
}

const QUIET: &str = "Mozilla/5.0 (Windows NT 10.0) Quiet/1.0";

#[test]
fn a_crawler_in_the_guise_of_a_browser_is_suspected_and_people_are_not() {
    let mut site = Site::new();
    site.people();
    site.crawler(QUIET);
    let [suspect] = &site.suspects.list()[..] else { panic!("{:?}", site.suspects.list()) };
    assert_eq!((suspect.agent.as_str(), suspect.requests), (QUIET, 400));
    let [Habit::LeavesOutParts { pages, parts: 0, others }, rest @ ..] = &suspect.habits[..] else {
        panic!("{:?}", suspect.habits)
    };
    assert!((380..=399).contains(pages) || (399..=420).contains(pages), "{pages}");
    assert!((others - 2.0).abs() < 1e-9, "two parts a page: {others}");
    assert_eq!(
        rest,
        [
            Habit::AroundTheClock { hours: 24, clients: 1 },
            Habit::ReadsRobotsTxt(1),
            Habit::ComesFromNowhere(1.0)
        ]
    );
    assert_eq!(rest[0].to_string(), "asked around the clock, in 24 of 24 hours, from 1 client");
}

#[test]
fn where_pages_have_no_parts_nobody_leaves_them_out() {
    let mut site = Site::new();
    site.crawler(QUIET);
    assert!(site.suspects.list().is_empty());
}

#[test]
fn listed_crawlers_and_libraries_are_known_already() {
    let mut site = Site::new();
    site.people();
    for agent in
        ["Googlebot/2.1", "curl/8.5.0", "Mozilla/5.0 (compatible; quux; +http://q.example)"]
    {
        site.crawler(agent);
    }
    assert!(site.suspects.list().is_empty(), "{:?}", site.suspects.list());
}

#[test]
fn a_reader_of_one_feed_is_no_crawler() {
    let mut site = Site::new();
    site.people();
    for n in 0..500 {
        let (client, agent, target) = ("192.0.2.1", "Reeder/1.5", "/feed.xml");
        site.ask(&Ask {
            // When its reader is at the desk, and then about every quarter of an hour.
            at: n * 900 + (n * n * 7_919) % 600,
            client,
            agent,
            method: "GET",
            target,
            referer: None,
            status: 200,
        });
    }
    assert!(site.suspects.list().is_empty());
}

#[test]
fn a_client_that_asks_for_one_url_at_a_steady_period_is_offered_as_a_monitor() {
    /// Requests of a client: seconds between two, how far the gap is off at random, and requests.
    struct Period {
        agent: &'static str,
        every: i64,
        off: i64,
        requests: i64,
        is_steady: bool,
    }
    let period =
        |agent, every, off, requests, is_steady| Period { agent, every, off, requests, is_steady };
    for period in [
        period("AcmeWatch", 60, 0, 4320, true),
        period("Wget/1.21", 60, 2, 1500, true),
        period("AcmeWatch", 300, 15, 400, true),
        period(QUIET, 3600, 60, 60, true),
        // Not for a day, not often enough, not steady, listed.
        period("AcmeWatch", 60, 0, 1100, false),
        period("AcmeWatch", 3600, 0, 49, false),
        period("AcmeWatch", 60, 40, 4320, false),
        period("Googlebot/2.1", 60, 0, 4320, false),
    ] {
        let mut site = Site::new();
        let mut at = 0;
        for n in 0..period.requests {
            // An outage of five hours in the middle.
            at += if n == period.requests / 2 { 18_000 } else { 0 };
            let shift =
                if period.off > 0 { (n * n * 7_919) % (2 * period.off) - period.off } else { 0 };
            let (agent, target) = (period.agent, "/clock");
            let at = at + n * period.every + shift;
            let client = "192.0.2.1";
            site.ask(&Ask { at, client, agent, method: "GET", target, referer: None, status: 200 });
        }
        let found = site.suspects.list();
        assert_eq!(found.len(), usize::from(period.is_steady), "{}: {found:?}", period.agent);
        let Some(suspect) = found.first() else { continue };
        assert_eq!(suspect.agent, period.agent);
        assert_eq!(suspect.requests, period.requests as u64);
        let [Habit::AsksSteadily { every_s, target }] = &suspect.habits[..] else {
            panic!("{:?}", suspect.habits)
        };
        assert!((every_s / period.every as f64 - 1.0).abs() < 0.02, "{every_s}");
        assert_eq!(target, "/clock");
    }
}

#[test]
fn a_checker_of_dead_links_gives_itself_away() {
    let mut site = Site::new();
    site.people();
    for n in 0..100 {
        let target = format!("/old/{n}");
        let (client, target) = ("192.0.2.1", target.as_str());
        let referer = Some("https://links.example/");
        site.ask(&Ask {
            at: n,
            client,
            agent: QUIET,
            method: "HEAD",
            target,
            referer,
            status: 404,
        });
    }
    let [suspect] = &site.suspects.list()[..] else { panic!() };
    let words: Vec<String> = suspect.habits[1..].iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["100 % of its requests were HEAD", "100 % of what it asked for is not there"]
    );
}

#[test]
fn any_number_of_agents_fits() {
    let mut site = Site::new();
    for n in 0..20_000 {
        let agent = format!("Mozilla/5.0 (X11) Made/{n}");
        let (client, agent) = ("192.0.2.1", agent.as_str());
        site.ask(&Ask {
            at: n,
            client,
            agent,
            method: "GET",
            target: "/",
            referer: None,
            status: 200,
        });
        assert!(site.suspects.agents.len() <= AGENTS);
    }
}
