//! A site changes while its server sleeps, wakes and dies, and while the gateway restarts: no visitor gets a page that
//! is torn, another visitor's, or too old.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_gateway::control::Order;
use nightwatt_gateway::mirror::orders::MirrorOrder;

use crate::client::{Got, get, post};
use crate::disk_cache::{restart, with_disk};
use crate::mirror::{from, html, mirrored, order, told_by_proxies};
use crate::origin::{Says, Seen, status};
use crate::stage::{Stage, awake, secs};

const PAGES: u64 = 12;
const MAX_AGE: Duration = Duration::from_hours(2);
const BYPASS: Duration = Duration::from_mins(10);
const WRITER: &str = "203.0.113.99";

/// When each page was changed, and when nightwatt last learned of a change.
#[derive(Debug, Default)]
struct History {
    edits: Vec<Vec<Mono>>,
    reported: Vec<Mono>,
}

impl History {
    /// The version of a page at a time: how many edits it had by then.
    fn version_at(&self, page: u64, at: Mono) -> usize {
        self.edits[page as usize].iter().filter(|edit| **edit <= at).count()
    }

    fn current(&self, page: u64) -> usize {
        self.edits[page as usize].len()
    }
}

/// The site and what has happened to it.
#[derive(Clone)]
struct Content {
    history: Arc<Mutex<History>>,
    clock: Clock,
}

impl Content {
    fn new(clock: &Clock) -> Self {
        let none = || vec![Vec::new(); PAGES as usize];
        let start = vec![clock.now().mono; PAGES as usize];
        let history = History { edits: none(), reported: start };
        Self { history: Arc::new(Mutex::new(history)), clock: clock.clone() }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    fn edit(&self, page: u64) {
        let now = self.clock.now().mono;
        self.history().edits[page as usize].push(now);
    }

    fn serve(&self, seen: &Seen) -> Says {
        let Some((kind, page)) = seen.target[1..].split_once('/') else {
            let link = |it| format!("<a href=/page/{it}>x</a>");
            let links: String = (0..PAGES).map(link).collect();
            return if seen.target == "/" { html(&links) } else { status(404, "no") };
        };
        let page: u64 = page.parse().unwrap();
        if kind == "write" {
            self.edit(page);
            return status(204, "");
        }
        let reader = seen.field("cookie").unwrap_or("everyone");
        let version = self.history().current(page);
        let filling = "what it says ".repeat(200);
        html(&format!("page {page} version {version} for {reader} {filling} end"))
    }

    /// Whether a page is whole, for everyone, and as current as was promised.
    fn check(&self, page: u64, got: &Got, what: &str) {
        let words: Vec<&str> = got.text().split(' ').collect();
        let [_, number, _, version, _, reader, ..] = words.as_slice() else {
            panic!("{what}: {got:?}");
        };
        assert_eq!((words.len(), words.last()), (6 + 600 + 2, Some(&"end")), "{what}: torn");
        assert_eq!((*number, *reader), (page.to_string().as_str(), "everyone"), "{what}");
        let (version, now, history) =
            (version.parse::<usize>().unwrap(), self.clock.now().mono, self.history());
        let Some(replaced) = history.edits[page as usize].get(version) else { return };
        let old_for = now.since(*replaced);
        let is_known = version < history.version_at(page, history.reported[page as usize]);
        assert!(!is_known, "{what}: replaced {old_for:?} ago, and that was reported: {got:?}");
        assert!(old_for <= MAX_AGE, "{what}: replaced {old_for:?} ago: {got:?}");
    }
}

/// How the visits of a walk ended.
#[derive(Debug, Default)]
struct Tally {
    mirrored: u32,
    good: u32,
    failed: u32,
    deaths: u32,
}

/// Something that happens.
async fn event(stage: &mut Stage, content: &Content, dice: &mut Dice, tally: &mut Tally) {
    let page = dice.below(PAGES);
    match dice.below(24) {
        0 => {
            let ask = get(&format!("/page/{page}")).field("Cookie", "session=ann");
            let got = stage.ask(from(ask, "203.0.113.5")).await;
            assert!(got.status != 200 || got.text().contains("for session=ann"), "{got:?}");
        }
        1 | 2 => content.edit(page),
        3 => {
            content.edit(page);
            let places = vec![format!("/page/{page}")];
            order(stage, MirrorOrder::Refresh { places }).await;
            // `/page/1` is the beginning of `/page/10` too.
            let now = stage.now();
            content.history().reported[page as usize] = now;
        }
        4 => written(stage, content, dice).await,
        5 => {
            stage.order(Order::Wake { site: None }).await;
            stage.pass(secs(dice.below(60))).await;
            tally.deaths += u32::from(stage.state() == "awake");
            stage.members[0].dies().await;
        }
        6 => drop(stage.order(Order::Wake { site: None }).await),
        7 if dice.below(4) == 0 => restart(stage).await,
        _ => {
            let reader = format!("203.0.113.{}", dice.below(4));
            let got = stage.ask(from(get(&format!("/page/{page}")), &reader)).await;
            match got.status {
                200 => {
                    tally.good += 1;
                    tally.mirrored += u32::from(got.answer() == "mirror");
                    content.check(page, &got, &format!("/page/{page} for {reader}"));
                }
                502..=504 => tally.failed += 1,
                _ => panic!("{got:?}"),
            }
        }
    }
}

/// A client changes a page, and gets the server's own pages for ten minutes.
async fn written(stage: &Stage, content: &Content, dice: &mut Dice) {
    let page = dice.below(PAGES);
    let got = stage.ask(from(post(&format!("/write/{page}"), "x"), WRITER)).await;
    if got.status != 204 {
        return;
    }
    let now = stage.now();
    content.history().reported = vec![now; PAGES as usize];
    for _ in 0..dice.below(4) {
        stage.pass(secs(dice.below(180))).await;
        let other = dice.below(PAGES);
        content.edit(other);
        let got = stage.ask(from(get(&format!("/page/{other}")), WRITER)).await;
        assert!(stage.now().since(now) < BYPASS);
        let current = format!("page {other} version {} ", content.history().current(other));
        assert!(got.status != 200 || got.text().starts_with(&current), "{current}: {got:?}");
    }
}

/// xorshift64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn soak(seeds: std::ops::RangeInclusive<u64>) {
    for seed in seeds {
        let setup = mirrored(awake(), |mirror| mirror.max_age = MAX_AGE);
        told_by_proxies(with_disk(setup)).play(async move |stage| {
            let content = Content::new(&stage.clock);
            let served = content.clone();
            stage.origin.script(move |seen| served.serve(seen).acts());
            let (mut dice, mut tally) = (Dice(seed), Tally::default());
            stage.at(120).await;
            for _ in 0..300 {
                event(stage, &content, &mut dice, &mut tally).await;
                stage.pass(secs(dice.below(400))).await;
            }
            let Tally { mirrored, good, failed, deaths } = tally;
            assert!(mirrored > 40 && deaths > 0 && failed * 10 < good, "seed {seed}: {tally:?}");
        });
    }
}

#[test]
fn whatever_changes_no_visitor_gets_a_page_that_is_torn_personal_or_too_old() {
    soak(1..=4);
}

#[test]
#[ignore = "minutes: `make soak-mirror`"]
fn whatever_changes_no_visitor_gets_such_a_page_in_a_hundred_walks() {
    soak(5..=104);
    println!("100 walks of 300 events: no page torn, personal or too old");
}
