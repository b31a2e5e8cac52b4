mod losses;
mod rules;
mod slow;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, StatusCode};
use nightwatt_httpcache::{Rules, Times};

use super::*;
use crate::pure::admit::{Answer, Ended};
use crate::pure::complete::NotComplete;

/// 22 June 2026.
const START: Timestamp = Timestamp::from_secs(1_782_086_400);

fn rules() -> PlanRules {
    PlanRules {
        limits: Limits { rate: 10.0, ..Limits::default() },
        patterns: PatternRules::default(),
        traps: TrapRules::default(),
        admit: AdmitRules::new(&Rules::default(), 1_000_000, Vec::new()),
        refresh: RefreshRules::default(),
        seeds: Vec::new(),
        complete: true,
    }
}

fn at(text: &str) -> Address {
    Address::new(text).unwrap()
}

/// One page of a server that exists only here.
#[derive(Clone)]
struct Served {
    status: u16,
    fields: Vec<(&'static str, String)>,
    body: String,
}

fn html(body: &str) -> Served {
    let fields = vec![("content-type", "text/html".to_owned())];
    Served { status: 200, fields, body: body.to_owned() }
}

fn status(status: u16) -> Served {
    Served { status, ..html("") }
}

/// What a server answers; `None` if it does not.
type Serve = Box<dyn Fn(&str) -> Option<Served>>;

/// A server, a store and a clock around a plan.
struct World {
    planner: Planner,
    serve: Serve,
    store: BTreeMap<String, Entry>,
    now: Timestamp,
    asked: Vec<String>,
    /// What caches had to forget.
    forgotten: BTreeSet<String>,
    /// Forgotten at the end of a pass.
    dropped: BTreeSet<String>,
    most: usize,
}

impl World {
    fn new(rules: PlanRules, serve: impl Fn(&str) -> Option<Served> + 'static) -> Self {
        let site = Site::new("http://example.org").unwrap();
        Self {
            planner: Planner::new(site, rules),
            serve: Box::new(serve),
            store: BTreeMap::new(),
            now: START,
            asked: Vec::new(),
            forgotten: BTreeSet::new(),
            dropped: BTreeSet::new(),
            most: usize::MAX,
        }
    }

    fn of(pages: &[(&'static str, &str)]) -> Self {
        let pages: BTreeMap<&str, String> =
            pages.iter().map(|(path, body)| (*path, (*body).to_owned())).collect();
        Self::new(rules(), move |path| {
            Some(pages.get(path).map_or_else(|| status(404), |it| html(it)))
        })
    }

    fn later(&mut self, hours: u64) {
        self.now = self.now.plus(Duration::from_hours(hours));
    }

    fn change(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Put { entry, .. } | Change::Update(entry) => {
                    self.store.insert(entry.address.to_string(), *entry);
                }
                Change::Remove(address) => drop(self.store.remove(address.as_str())),
            }
        }
    }

    fn answer(&mut self, order: &Order) {
        let path = order.address.as_str();
        self.asked.push(path.to_owned());
        let before = self.store.get(path).cloned();
        let fields = order.fields(before.as_ref(), self.planner.rules());
        let Some(served) = (self.serve)(path) else {
            return self.planner.failed(order, self.now);
        };
        let tag = served.fields.iter().find(|(name, _)| *name == "etag").map(|(_, value)| value);
        let asked_tag = fields.get("if-none-match").map(|it| it.to_str().unwrap().to_owned());
        let is_same = tag.is_some() && tag == asked_tag.as_ref();
        let mut headers = HeaderMap::new();
        for (name, value) in &served.fields {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let answer = Answer {
            asked: fields,
            status: StatusCode::from_u16(if is_same { 304 } else { served.status }).unwrap(),
            headers,
            body: Bytes::from(if is_same { String::new() } else { served.body }),
            ended: Ended::Whole,
            times: Times::at(self.now),
        };
        let taken = self.planner.take(order, &answer, before.as_ref(), self.now);
        self.forgotten.extend(taken.forgotten.iter().map(Address::to_string));
        self.change(taken.changes);
    }

    /// Runs a pass to its end.
    fn run(&mut self, kind: PassKind, until: Option<Timestamp>) -> PassReport {
        self.planner.begin(kind, self.now, until);
        let mut waiting = Vec::new();
        loop {
            assert!(self.asked.len() <= self.most, "more requests than there may be");
            match self.planner.next(self.now) {
                Next::Fetch(order) => waiting.push(order),
                Next::WaitUntil(when) => self.now = when,
                Next::WaitForAnswer => self.answer(&waiting.remove(0)),
                Next::Done(report) => return self.ended(report),
                Next::Idle => panic!("no pass"),
            }
        }
    }

    fn whole(&mut self) -> PassReport {
        self.asked.clear();
        self.run(PassKind::Whole, None)
    }

    fn refresh(&mut self) -> PassReport {
        self.asked.clear();
        self.run(PassKind::Refresh, None)
    }

    /// Addresses that are mirrored as pages that exist.
    fn pages(&self) -> BTreeSet<&str> {
        let good = self.store.iter().filter(|(_, entry)| entry.status == 200);
        good.map(|(path, _)| path.as_str()).collect()
    }

    fn reason(&self, path: &str) -> Option<Reason> {
        self.planner.page(&at(path)).and_then(Page::refused)
    }
}

/// A page with links.
fn links(to: impl Iterator<Item = String>) -> String {
    to.map(|it| format!("<a href='{it}'>x</a>")).collect::<Vec<_>>().concat()
}

#[test]
fn a_small_site_is_found_whole_and_nothing_is_asked_for_twice() {
    let mut world = World::of(&[
        ("/", "<a href=a>a</a><link rel=stylesheet href=s.css><a href=//other.example/x>o</a>"),
        ("/a", "<a href=/>home</a><a href=b?x=1#y>b</a><a href=/gone>g</a><a href=/logout>l</a>"),
        ("/b?x=1", "<a rel=nofollow href=/never>n</a>"),
        ("/s.css", "body{}"),
    ]);
    let report = world.whole();
    assert_eq!(world.pages(), BTreeSet::from(["/", "/a", "/b?x=1", "/s.css"]));
    assert_eq!(world.asked[0], "/robots.txt", "first of all");
    let once: BTreeSet<&String> = world.asked.iter().collect();
    assert_eq!(once.len(), world.asked.len(), "{:?}", world.asked);
    // Negative knowledge: what a page links to, and what browsers and crawlers ask for by themselves.
    for missing in ["/gone", "/favicon.ico", "/robots.txt", "/sitemap.xml"] {
        assert_eq!(world.store[missing].status, 404, "{missing}");
    }
    assert_eq!(world.reason("/logout"), Some(Reason::Action));
    assert_eq!(world.reason("/never"), Some(Reason::NotFollowed));
    assert_eq!((report.kept, report.failed, report.was_cut), (8, 0, false));
    assert_eq!(world.planner.completeness().not_complete(), None);
    assert!(!world.planner.is_absent(&at("/logout")) && !world.planner.is_absent(&at("/never")));
    assert!(world.planner.is_absent(&at("/wp-content/x")));
}

#[test]
fn requests_are_no_more_frequent_than_the_rate_allows() {
    let links =
        links((0..50_usize).map(|it| format!("/{}", ["a", "b"][it % 2].repeat(1 + it / 2))));
    let mut world = World::of(&[("/", &links)]);
    let report = world.whole();
    assert!(report.requests > 50);
    let spent = report.ended.since(report.began);
    assert!(spent >= Duration::from_millis(100) * (report.requests - 1), "{spent:?}");
}

#[test]
fn unchanged_pages_are_confirmed_without_their_bodies() {
    let tagged = |path: &str| Served {
        fields: vec![("content-type", "text/html".into()), ("etag", format!("\"{path}\""))],
        ..html(if path == "/" { "<a href=/a>a</a><a href=/b>b</a>" } else { "x" })
    };
    let mut world = World::new(rules(), move |path| Some(tagged(path)));
    world.whole();
    world.later(24);
    let report = world.whole();
    // All but robots.txt, which is read each time.
    assert_eq!((report.confirmed, report.kept), (report.requests - 1, 1));
    assert_eq!(world.store["/a"].confirmed().since(START).as_secs() / 3600, 24);
}

#[test]
fn what_is_gone_or_closed_is_deleted_at_once() {
    let mut world = World::of(&[
        ("/", "<a href=/a>a</a><a href=/b>b</a><a href=/c>c</a><a href=/d>d</a>"),
        ("/a", "a"),
        ("/b", "b"),
        ("/c", "c"),
        ("/d", "d"),
    ]);
    world.whole();
    assert_eq!(world.pages().len(), 5);
    world.forgotten.clear();
    world.serve = Box::new(|path| {
        Some(match path {
            "/a" => status(404),
            "/b" => status(403),
            "/c" => Served { fields: vec![("location", "/login?next=/c".into())], ..status(302) },
            "/d" => Served { fields: vec![("cache-control", "private".into())], ..html("d") },
            "/e" => html("e"),
            _ => html("<a href=/a>a</a><a href=/e>e</a>"),
        })
    });
    world.later(24);
    let report = world.whole();
    assert_eq!(world.store["/a"].status, 404);
    for closed in ["/b", "/c", "/d"] {
        assert!(!world.store.contains_key(closed), "{closed}");
    }
    // What is new, and what has not changed, may stay.
    let others = ["/favicon.ico", "/robots.txt", "/sitemap.xml"];
    let expected = ["/", "/a", "/b", "/c", "/d"].into_iter().chain(others);
    assert_eq!(world.forgotten, expected.map(str::to_owned).collect());
    assert_eq!(report.deleted, 4, "a page that is replaced by an error is one of them");
    assert_eq!(
        (world.reason("/b"), world.reason("/d")),
        (Some(Reason::Refused), Some(Reason::Private))
    );
}

#[test]
fn a_server_that_fails_in_the_middle_of_a_pass_loses_nothing() {
    let links = links((b'a'..=b'z').map(|it| format!("/{}", char::from(it))));
    let all = links.clone();
    let mut world =
        World::new(rules(), move |path| Some(html(if path == "/" { &all } else { "x" })));
    world.whole();
    let before = world.pages().len();
    assert_eq!(world.planner.completeness().not_complete(), None);
    world.later(24);
    world.serve = Box::new(move |path| match path {
        "/" => Some(html(&links)),
        "/robots.txt" => Some(status(404)),
        path if path < "/d" => Some(status(500)),
        _ => None,
    });
    let report = world.whole();
    assert!(report.was_cut && report.requests < 15, "{report:?}");
    assert_eq!(world.pages().len() + 1, before, "only robots.txt is gone");
    assert_eq!(world.planner.completeness().not_complete(), Some(NotComplete::Errors));
    assert!(world.planner.wants_whole_pass(world.now));
    // A server that does not even give its robots.txt is not asked for more.
    world.serve = Box::new(|_| Some(status(503)));
    let report = world.whole();
    assert_eq!((report.requests, report.was_cut), (1, true));
}

#[test]
fn robots_txt_is_absolute_for_us_and_limits_discovery_for_others() {
    let serve = |robots: &'static str| {
        move |path: &str| {
            Some(match path {
                "/robots.txt" => html(robots),
                "/" => html("<a href=/open>o</a><a href=/closed/x>c</a>"),
                "/sitemap.xml" => Served {
                    fields: vec![("content-type", "text/xml".into())],
                    ..html("<urlset><url><loc>/closed/listed</loc></url></urlset>")
                },
                _ => html("x"),
            })
        }
    };
    let mut world = World::new(rules(), serve("User-agent: *\nDisallow: /closed\n"));
    world.whole();
    assert!(world.pages().contains("/open") && !world.pages().contains("/closed/x"));
    assert!(world.pages().contains("/closed/listed"), "a sitemap is meant for crawlers");
    assert_eq!(world.reason("/closed/x"), Some(Reason::Robots));
    // Everything is forbidden: the start page and what people ask for are mirrored nevertheless.
    let mut world = World::new(rules(), serve("User-agent: *\nDisallow: /\n"));
    world.whole();
    assert!(world.pages().contains("/") && !world.pages().contains("/open"));
    for client in [1, 2] {
        world.planner.requested(&at("/asked"), client, true, world.now);
    }
    world.later(24);
    world.whole();
    assert!(world.pages().contains("/asked"));
    // A group for us takes away what is there.
    let mut world = World::new(rules(), serve(""));
    world.whole();
    assert!(world.pages().contains("/closed/x"));
    world.serve = Box::new(serve("User-agent: nightwatt\nDisallow: /closed\n"));
    world.later(24);
    world.whole();
    assert!(!world.store.contains_key("/closed/x") && !world.store.contains_key("/closed/listed"));
    assert!(world.pages().contains("/open"));
}

#[test]
fn an_endless_calendar_ends() {
    let serve = |path: &str| {
        let numbers: Vec<i64> = path.split('/').filter_map(|part| part.parse().ok()).collect();
        let &[year, month] = numbers.as_slice() else {
            return Some(html("<a href=/events/2026/06/>now</a>"));
        };
        let month = year * 12 + month - 1;
        let link =
            |month: i64| format!("<a href=/events/{}/{:02}/>x</a>", month / 12, month % 12 + 1);
        Some(html(&(link(month - 1) + &link(month + 1))))
    };
    let mut world = World::new(rules(), serve);
    world.most = 100;
    let report = world.whole();
    assert!(report.reached_bound);
    assert_eq!(world.planner.completeness().not_complete(), Some(NotComplete::Bounds));
    assert_eq!(world.reason("/events/2026/09/"), Some(Reason::Calendar));
}

#[test]
fn a_million_filters_and_endless_lists_end() {
    let serve = |path: &str| {
        let links = |count: usize, form: &dyn Fn(usize) -> String| links((0..count).map(form));
        Some(html(&match path {
            "/" => {
                links(5000, &|it| format!("/shop?color={it}&amp;size={}", it % 7))
                    + "<a href=/blog>b</a>"
            }
            path if path.starts_with("/shop") => links(100, &|it| format!("{path}&amp;f{it}=1")),
            path if path.starts_with("/blog") => {
                let number: usize = path
                    .rsplit('/')
                    .find(|it| !it.is_empty())
                    .and_then(|it| it.parse().ok())
                    .unwrap_or(1);
                format!("<a href=/blog/page/{}/>next</a>", number + 1)
            }
            _ => String::new(),
        }))
    };
    let mut world = World::new(rules(), serve);
    world.most = 500;
    let report = world.whole();
    assert!(report.reached_bound);
    let count = |start: &str| world.pages().iter().filter(|it| it.starts_with(start)).count();
    assert_eq!((count("/shop?"), count("/blog/page/")), (200, 200));
    let again = world.whole();
    assert!(again.requests < 10, "what is young is not fetched again: {again:?}");
}

#[test]
fn a_loop_of_redirects_and_links_that_grow_end() {
    let serve = |path: &str| {
        let to =
            |target: &str| Served { fields: vec![("location", target.to_owned())], ..status(302) };
        Some(match path {
            "/" => html("<a href=/r1>r</a><a href=x/y/>g</a>"),
            "/r1" => to("/r2"),
            "/r2" => to("http://example.org/r1"),
            path if path.ends_with("/y/") => html("<a href=x/y/>deeper</a>"),
            _ => status(404),
        })
    };
    let mut world = World::new(rules(), serve);
    world.most = 50;
    world.whole();
    assert_eq!((world.store["/r1"].status, world.store["/r2"].status), (302, 302));
    assert!(world.pages().contains("/x/y/x/y/") && !world.pages().contains("/x/y/x/y/x/y/"));
}

#[test]
fn the_bound_on_pages_keeps_those_near_the_start() {
    let mut rules = rules();
    rules.limits.pages = 20;
    let serve = |path: &str| {
        let links =
            |prefix: &str| links((b'a'..=b'z').map(|it| format!("{prefix}{}/", char::from(it))));
        Some(if path.len() < 8 { html(&links(path)) } else { html("") })
    };
    let mut world = World::new(rules, serve);
    world.most = 25;
    let report = world.whole();
    assert!(report.reached_bound && world.store.len() <= 20);
    assert!(world.pages().contains("/a/") && world.reason("/z/") == Some(Reason::PagesBound));
}

#[test]
fn before_sleep_what_is_old_changed_or_popular_is_renewed() {
    let mut world =
        World::of(&[("/", "<a href=/a>a</a><a href=/b>b</a>"), ("/a", "a"), ("/b", "b")]);
    world.whole();
    assert_eq!(world.planner.due_before_sleep(world.now), 0);
    for _ in 0..3 {
        world.planner.requested(&at("/a"), 1, true, world.now);
    }
    world.later(4);
    assert_eq!(world.planner.due_before_sleep(world.now), 1);
    world.refresh();
    assert_eq!(world.asked, ["/robots.txt", "/a"]);
    // An extension ends when it ends.
    world.later(20);
    let until = world.now.plus(Duration::from_millis(250));
    world.asked.clear();
    let report = world.run(PassKind::Refresh, Some(until));
    assert!(report.was_cut && world.asked.len() <= 4, "{:?}", world.asked);
    assert_eq!(world.asked[1], "/a", "what is popular goes first");
}

#[test]
fn a_sitemap_says_what_has_changed() {
    let serve = |modified: &'static str| {
        move |path: &str| {
            let list = format!(
                "<urlset><url><loc>/old</loc><lastmod>2026-01-01</lastmod></url><url><loc>/new</loc>\
                 <lastmod>{modified}</lastmod></url></urlset>"
            );
            Some(match path {
                "/robots.txt" => html("Sitemap: http://example.org/maps/all.xml"),
                "/maps/all.xml" => {
                    Served { fields: vec![("content-type", "text/xml".into())], ..html(&list) }
                }
                "/old" | "/new" => html("x"),
                _ => status(404),
            })
        }
    };
    let mut world = World::new(rules(), serve("2026-06-01"));
    world.whole();
    assert_eq!(world.pages(), BTreeSet::from(["/maps/all.xml", "/new", "/old", "/robots.txt"]));
    world.serve = Box::new(serve("2026-06-22T05:00:00Z"));
    world.later(6);
    world.planner.outdate("/maps/");
    world.refresh();
    assert!(world.asked.contains(&"/new".to_owned()) && !world.asked.contains(&"/old".to_owned()));
    assert_eq!(world.asked[1], "/maps/all.xml", "{:?}", world.asked);
}

#[test]
fn after_a_change_negatives_go_and_pages_are_confirmed_before_sleep() {
    let mut world = World::of(&[("/", "<a href=/a>a</a><img src=i.png>"), ("/a", "a")]);
    world.whole();
    assert_eq!(world.store["/i.png"].status, 404);
    let changes = world.planner.changed_by_client(world.now);
    world.change(changes);
    assert!(!world.store.contains_key("/i.png") && world.store.contains_key("/a"));
    assert_eq!(world.planner.completeness().not_complete(), Some(NotComplete::Changed));
    assert!(!world.planner.is_absent(&at("/nothing")));
    world.refresh();
    for due in ["/", "/a", "/i.png"] {
        assert!(world.asked.contains(&due.to_owned()), "{due}");
    }
    assert_eq!(world.planner.due_before_sleep(world.now), 0);
}

#[test]
fn what_two_people_ask_for_is_mirrored_if_it_is_no_secret() {
    let mut world = World::new(rules(), |_| Some(html("x")));
    world.whole();
    let ask = |world: &mut World, path: &str, client, is_good| {
        world.planner.requested(&at(path), client, is_good, START);
        world.planner.page(&at(path)).is_some()
    };
    assert!(!ask(&mut world, "/hidden", 1, true) && !ask(&mut world, "/hidden", 1, true));
    assert!(ask(&mut world, "/hidden", 2, true));
    for secret in ["/s?token=x", "/reset/x", "/list?sort=x", "/blog/page/3"] {
        assert!(!ask(&mut world, secret, 1, true) && !ask(&mut world, secret, 2, true), "{secret}");
    }
    assert!(!ask(&mut world, "/bad", 1, false) && !ask(&mut world, "/bad", 2, false));
    world.later(1);
    world.refresh();
    assert!(world.pages().contains("/hidden"));
}

#[test]
fn a_plan_lives_through_a_restart_and_the_store_is_right_where_they_differ() {
    let mut world = World::of(&[
        ("/", "<a href=/a>a</a><a href=/b>b</a><a href=/logout>l</a>"),
        ("/a", "a"),
        ("/b", "b"),
    ]);
    world.whole();
    world.planner.requested(&at("/a"), 1, true, world.now);
    let text = serde_json::to_string(&world.planner.saved()).unwrap();
    world.store.remove("/b");
    let site = || Site::new("http://example.org").unwrap();
    let mut planner = Planner::new(site(), rules());
    let unwanted =
        planner.restore(serde_json::from_str(&text).unwrap(), world.store.values(), world.now);
    assert_eq!(unwanted, []);
    assert_eq!(planner.last_whole(), Some(START));
    assert_eq!(planner.completeness().not_complete(), None);
    assert!(!planner.is_absent(&at("/logout")) && planner.is_absent(&at("/nothing")));
    assert_eq!(planner.page(&at("/b")).unwrap().state, PageState::New);
    assert!(planner.page(&at("/a")).unwrap().popularity.at(world.now) > 0.9);
    world.planner = planner;
    world.refresh();
    assert_eq!(world.asked, ["/robots.txt", "/b"]);
    // The operator excludes something; and another site has nothing to do with this one.
    let strict = PatternRules { exclude: vec!["/a".to_owned()], ..PatternRules::default() };
    let mut planner = Planner::new(site(), PlanRules { patterns: strict, ..rules() });
    let unwanted =
        planner.restore(serde_json::from_str(&text).unwrap(), world.store.values(), START);
    assert_eq!(unwanted, [at("/a")]);
    let mut other = Planner::new(Site::new("http://other.example").unwrap(), rules());
    let unwanted = other.restore(serde_json::from_str(&text).unwrap(), world.store.values(), START);
    assert_eq!(unwanted.len(), world.store.len());
}

#[test]
fn a_sample_that_exists_after_all_suspends_complete() {
    let mut world = World::of(&[("/", "x")]);
    world.whole();
    assert!(world.planner.is_absent(&at("/unlinked")));
    let sample = world.planner.sample(world.now.plus(Duration::from_secs(5))).unwrap();
    assert_eq!(sample, at("/unlinked"));
    assert!(!world.planner.sampled(&sample, StatusCode::NOT_FOUND));
    assert!(world.planner.sampled(&sample, StatusCode::OK));
    assert_eq!(world.planner.completeness().not_complete(), Some(NotComplete::Refuted));
    assert!(!world.planner.is_absent(&at("/other")));
}

#[test]
fn the_server_is_woken_when_the_oldest_page_would_be_too_old() {
    let mut world = World::of(&[("/", "x")]);
    assert_eq!(world.planner.wake_at(&[]), None, "there is nothing to keep fresh");
    world.whole();
    let wake = world.planner.wake_at(&[]).unwrap();
    assert_eq!(wake.since(START).as_secs() / 3600, 24);
    world.later(15);
    world.refresh();
    assert!(world.planner.wake_at(&[]).unwrap().since(START).as_secs() / 3600 >= 38);
}

#[test]
fn a_page_with_a_cookie_is_fetched_twice_and_then_no_more() {
    let serve = |path: &str| {
        let cookie = ("set-cookie", "s=1".to_owned());
        Some(match path {
            "/" => Served {
                fields: vec![("content-type", "text/html".into()), cookie],
                ..html("<a href=/x>x</a>")
            },
            _ => html("x"),
        })
    };
    let mut world = World::new(rules(), serve);
    world.whole();
    assert_eq!(world.asked.iter().filter(|it| *it == "/").count(), 2);
    assert!(world.pages().contains("/") && world.pages().contains("/x"));
    world.later(24);
    world.whole();
    assert_eq!(world.asked.iter().filter(|it| *it == "/").count(), 1, "it is the same as before");
}

#[test]
fn what_was_to_be_confirmed_still_is_after_a_restart() {
    let mut world = World::of(&[("/", "<a href=/a>a</a>"), ("/a", "a")]);
    world.whole();
    world.planner.outdate("/a");
    let mut planner = Planner::new(Site::new("http://example.org").unwrap(), rules());
    planner.restore(world.planner.saved(), world.store.values(), world.now);
    let is_doubtful = |path: &str| planner.page(&at(path)).unwrap().is_doubtful();
    assert!(is_doubtful("/a") && !is_doubtful("/"));
}
