//! Rules that change, and paths that the mirror may not judge.

use super::*;

/// The plan and the store of a world, as another start with these rules finds them.
fn restart(world: &mut World, rules: PlanRules) {
    let text = serde_json::to_string(&world.planner.saved()).unwrap();
    let mut planner = Planner::new(Site::new("http://example.org").unwrap(), rules);
    let saved = serde_json::from_str(&text).unwrap();
    for address in planner.restore(saved, world.store.values(), world.now) {
        world.store.remove(address.as_str());
    }
    world.planner = planner;
}

fn excluding(patterns: &[&str]) -> PlanRules {
    let exclude = patterns.iter().map(|it| (*it).to_owned()).collect();
    PlanRules { patterns: PatternRules { exclude, ..PatternRules::default() }, ..rules() }
}

fn including(patterns: &[&str]) -> PlanRules {
    let include = patterns.iter().map(|it| (*it).to_owned()).collect();
    PlanRules { patterns: PatternRules { include, ..PatternRules::default() }, ..rules() }
}

fn overriding(patterns: &[&str]) -> PlanRules {
    let overrides = patterns.iter().map(|it| (*it).to_owned()).collect();
    PlanRules { admit: AdmitRules::new(&Rules::default(), 1_000_000, overrides), ..rules() }
}

#[test]
fn a_private_page_goes_when_no_override_names_it_any_more() {
    let serve = |path: &str| {
        let private = ("cache-control", "private".to_owned());
        Some(match path {
            "/" => html("<a href=/mine>m</a>"),
            "/mine" => Served { fields: vec![private], ..html("mine") },
            _ => status(404),
        })
    };
    let mut world = World::new(overriding(&["/mine"]), serve);
    world.whole();
    assert!(world.pages().contains("/mine"));
    restart(&mut world, overriding(&["/mi*"]));
    assert!(world.pages().contains("/mine"), "another pattern still names it");
    restart(&mut world, rules());
    assert!(!world.pages().contains("/mine"));
    world.whole();
    assert!(!world.pages().contains("/mine") && world.reason("/mine") == Some(Reason::Private));
    // Named again, it does not wait for `max_age`.
    restart(&mut world, overriding(&["/mine"]));
    world.refresh();
    assert!(world.pages().contains("/mine"));
}

#[test]
fn what_the_mirror_may_not_look_into_is_not_judged() {
    let serve = |path: &str| {
        Some(match path {
            "/robots.txt" => html("User-agent: nightwatt\nDisallow: /private/\n"),
            "/" => html("<a href=/a>a</a><a href=/admin/>b</a><a href=/private/>c</a>"),
            "/a" => html("<a rel=nofollow href=/unfollowed/>n</a><a href=/closed/>d</a>"),
            "/closed/" => status(403),
            _ => status(404),
        })
    };
    let mut world = World::new(excluding(&["/api/*"]), serve);
    world.whole();
    let check = |world: &mut World| {
        assert_eq!(world.planner.completeness().not_complete(), None);
        for unknown in [
            "/api/v1/status",
            "/api",
            "/%61pi/v1/status",
            "/private/x.html",
            "/admin/users",
            "/unfollowed/x",
            "/closed/x",
            "/wp-login.php",
            "/search/x",
            "/logout",
        ] {
            assert!(!world.planner.is_absent(&at(unknown)), "{unknown}");
        }
        for absent in ["/b", "/apis/x", "/a/x", "/administration"] {
            assert!(world.planner.is_absent(&at(absent)), "{absent}");
        }
    };
    check(&mut world);
    restart(&mut world, excluding(&["/api/*"]));
    check(&mut world);
    // A plan of an earlier version does not say what robots.txt forbids.
    let mut json = serde_json::to_value(world.planner.saved()).unwrap();
    json["robots"] = serde_json::Value::Null;
    let mut planner = Planner::new(Site::new("http://example.org").unwrap(), rules());
    planner.restore(serde_json::from_value(json).unwrap(), world.store.values(), world.now);
    assert!(!planner.is_absent(&at("/b")));
}

#[test]
fn a_site_that_forbids_crawlers_everything_is_not_complete() {
    let serve = |path: &str| {
        Some(match path {
            "/robots.txt" => html("User-agent: *\nDisallow: /\n"),
            "/" => html("<a href=/blog/>b</a>"),
            "/blog/" => html("<a href=/blog/two>b</a>"),
            "/blog/two" => html("two"),
            _ => status(404),
        })
    };
    let mut world = World::new(rules(), serve);
    world.whole();
    assert!(!world.planner.is_absent(&at("/blog/two")) && !world.planner.is_absent(&at("/x")));
    assert_eq!(world.planner.sample(world.now), None);
}

#[test]
fn a_sample_that_is_elsewhere_or_closed_exists_and_a_failure_says_nothing() {
    let exists = |path: &str, code: u16| {
        let mut world = World::of(&[("/", "x")]);
        world.whole();
        let status = StatusCode::from_u16(code).unwrap();
        let exists = world.planner.sampled(&at(path), status);
        let is_complete = world.planner.completeness().not_complete().is_none();
        assert_eq!(is_complete, !exists, "{path} {code}");
        exists
    };
    for code in [200, 206, 301, 302, 401, 403, 405] {
        assert!(exists("/go", code), "{code}");
    }
    for code in [404, 410, 429, 500, 503, 400, 414] {
        assert!(!exists("/go", code), "{code}");
    }
    // Servers refuse hidden files, whether they exist or not.
    assert!(!exists("/.git/config", 403) && exists("/.git/config", 200));
}

#[test]
fn another_spelling_of_what_is_excluded_is_not_requested() {
    let mut world = World::of(&[
        ("/", "<a href=/%64rafts/b>b</a><a href=/drafts%2Fi>i</a><a href=/draft>d</a>"),
        ("/draft", "d"),
        ("/%64rafts/b", "b"),
        ("/drafts%2Fi", "i"),
    ]);
    restart(&mut world, excluding(&["/drafts/*"]));
    world.whole();
    assert_eq!(world.pages(), BTreeSet::from(["/", "/draft"]));
    for spelling in ["/%64rafts/b", "/drafts%2Fi"] {
        assert_eq!(world.reason(spelling), Some(Reason::Operator), "{spelling}");
        assert!(!world.asked.contains(&spelling.to_owned()), "{:?}", world.asked);
        assert!(world.planner.is_closed_to_us(&at(spelling)), "{spelling}");
    }
}

#[test]
fn what_is_excluded_later_is_never_requested_again() {
    let mut world = World::of(&[
        ("/", "<a href=/a>a</a><a href=/drafts/x>x</a>"),
        ("/a", "a"),
        ("/drafts/x", "x"),
    ]);
    world.whole();
    assert!(world.pages().contains("/drafts/x"));
    restart(&mut world, excluding(&["/drafts/*"]));
    assert_eq!(world.reason("/drafts/x"), Some(Reason::Operator));
    world.planner.outdate("/");
    world.refresh();
    assert!(world.asked.contains(&"/a".to_owned()));
    world.later(24);
    let asked = world.asked.clone();
    world.whole();
    for asked in [asked, world.asked.clone()] {
        assert!(!asked.contains(&"/drafts/x".to_owned()), "{asked:?}");
    }
    assert_eq!(world.pages(), BTreeSet::from(["/", "/a"]));
    // And back again: the page is known, and no one has to link to it again.
    restart(&mut world, rules());
    world.refresh();
    assert!(world.pages().contains("/drafts/x"));
}

#[test]
fn what_is_included_later_is_fetched_and_is_in_no_trap() {
    let mut world = World::of(&[
        ("/", "<a href=/report>r</a><a href=/events/2027-03-12-conf>c</a><a href=/2027/03/>m</a>"),
        ("/report", "annual report"),
        ("/events/2027-03-12-conf", "conf"),
        ("/2027/03/", "March"),
    ]);
    world.whole();
    assert_eq!(world.reason("/report"), Some(Reason::Action));
    assert_eq!(world.reason("/events/2027-03-12-conf"), Some(Reason::Calendar));
    restart(&mut world, including(&["/report", "/events/*"]));
    world.refresh();
    let all = BTreeSet::from(["/", "/events/2027-03-12-conf", "/report"]);
    assert_eq!(world.pages(), all);
    // Not included any more: it goes.
    restart(&mut world, rules());
    assert!(!world.pages().contains("/report"));
    // A calendar is one until the day comes near.
    assert_eq!(world.reason("/2027/03/"), Some(Reason::Calendar));
    world.later(24 * 240);
    world.whole();
    assert!(world.pages().contains("/2027/03/"));
}

#[test]
fn addresses_that_are_gone_make_room_and_are_forgotten() {
    let serve = |build: char| {
        move |path: &str| {
            let assets = (b'a'..=b'j').map(|it| format!("/assets/app-{build}{}.js", it as char));
            Some(match path {
                "/" => html(&links(assets.chain(["/gone".to_owned(), "/also-gone".to_owned()]))),
                path if path.starts_with(&format!("/assets/app-{build}")) => html("x"),
                _ => status(404),
            })
        }
    };
    let mut small = rules();
    // `/` and robots.txt, which may exist, and the assets of two builds.
    small.limits.pages = 23;
    let mut world = World::new(small, serve('1'));
    for build in ['1', '2', '3', '4'] {
        world.serve = Box::new(serve(build));
        world.later(24);
        let report = world.whole();
        assert!(!report.reached_bound, "{build}");
        world.later(24);
        world.whole();
        assert_eq!(world.pages().len(), 11, "{build}: {:?}", world.pages());
    }
    let dropped = &world.dropped;
    assert!(dropped.contains("/assets/app-1a.js") && !dropped.contains("/gone"));
    assert!(world.planner.page(&at("/assets/app-1a.js")).is_none());
    assert!(world.planner.page(&at("/gone")).is_some(), "a page links to it");
    assert!(world.planner.take_forgotten().is_empty());
}

#[test]
fn what_is_gone_stays_known_while_an_unchanged_page_links_to_it() {
    let serve = |version: &'static str| {
        move |path: &str| {
            let tag = ("etag", format!("\"{version}\""));
            let body = if version == "1" { "<a href=/gone>g</a>" } else { "nothing" };
            Some(match path {
                "/" => {
                    Served { fields: vec![("content-type", "text/html".into()), tag], ..html(body) }
                }
                _ => status(404),
            })
        }
    };
    let mut world = World::new(rules(), serve("1"));
    world.whole();
    for _ in 0..2 {
        world.later(24);
        let report = world.whole();
        assert_eq!(report.confirmed, 1, "its links are not read again");
        assert!(world.planner.page(&at("/gone")).is_some());
        let rules = world.planner.rules().clone();
        restart(&mut world, rules);
    }
    world.serve = Box::new(serve("2"));
    world.later(24);
    world.whole();
    assert_eq!(world.dropped, BTreeSet::from(["/gone".to_owned()]));
    assert_eq!(world.planner.page(&at("/gone")), None);
}

#[test]
fn what_was_refused_for_its_answer_is_tried_again_when_content_changes() {
    let form = "<form><input name=_token value=a></form>";
    let mut world = World::of(&[("/", "<a href=/form>f</a>"), ("/form", form)]);
    world.whole();
    assert_eq!(world.reason("/form"), Some(Reason::FormToken));
    world.serve = Box::new(|path| Some(if path == "/form" { html("fixed") } else { html("x") }));
    world.planner.outdate("/other");
    assert_eq!(world.planner.page(&at("/form")).and_then(Page::refused), Some(Reason::FormToken));
    world.planner.outdate("/form");
    assert_eq!(world.planner.due_before_sleep(world.now), 1);
    world.refresh();
    assert!(world.pages().contains("/form"));
}

#[test]
fn a_robots_txt_that_is_elsewhere_is_followed_five_times() {
    let serve = |last: u32| {
        move |path: &str| {
            let number: Option<u32> = if path == "/robots.txt" {
                Some(0)
            } else {
                path.strip_prefix("/r").and_then(|it| it.parse().ok())
            };
            Some(match number {
                Some(number) if number < last => Served {
                    fields: vec![("location", format!("/r{}", number + 1))],
                    ..status(301)
                },
                Some(_) => html("User-agent: nightwatt\nDisallow: /nope/\n"),
                None if path == "/" => html("<a href=/nope/x>x</a><a href=/open>o</a>"),
                None => html("x"),
            })
        }
    };
    for (redirects, is_followed) in [(1, true), (5, true), (6, false)] {
        let mut world = World::new(rules(), serve(redirects));
        world.whole();
        assert!(world.pages().contains("/open"), "{redirects}");
        assert_eq!(!world.pages().contains("/nope/x"), is_followed, "{redirects}");
        assert_eq!(world.planner.is_closed_to_us(&at("/nope/x")), is_followed, "{redirects}");
        assert_eq!(world.store["/robots.txt"].status, 301, "clients get what there is");
    }
}

#[test]
fn pages_that_always_fail_do_not_end_every_pass() {
    let serve = |path: &str| {
        let bad = (b'a'..=b'h').map(|it| format!("/bad{}", char::from(it)));
        Some(match path {
            "/" => html(&links(bad.chain(["/tail/".to_owned()]))),
            path if path.starts_with("/bad") => status(500),
            "/tail/" => html("<a href=/tail/x>x</a>"),
            "/tail/x" => html("x"),
            _ => status(404),
        })
    };
    let mut world = World::new(rules(), serve);
    assert!(world.whole().was_cut);
    let passes = (0..3).map(|_| {
        world.later(24);
        world.whole().was_cut
    });
    let passes: Vec<bool> = passes.collect();
    assert_eq!(passes.last(), Some(&false), "{passes:?}");
    assert_eq!(world.pages(), BTreeSet::from(["/", "/tail/", "/tail/x"]));
    assert!(world.planner.last_whole().is_some());
    assert_eq!(world.planner.completeness().not_complete(), Some(NotComplete::Errors));
}

#[test]
fn what_a_sitemap_dates_in_the_future_is_not_due_for_ever() {
    let list = "<urlset><url><loc>/new</loc><lastmod>2026-12-25</lastmod></url></urlset>";
    let xml = vec![("content-type", "text/xml".to_owned())];
    let serve = move |path: &str| {
        Some(match path {
            "/sitemap.xml" => Served { fields: xml.clone(), ..html(list) },
            "/" | "/new" => html("x"),
            _ => status(404),
        })
    };
    let mut world = World::new(rules(), serve);
    world.whole();
    let is_doubtful = |world: &World| world.planner.page(&at("/new")).unwrap().is_doubtful();
    assert!(!is_doubtful(&world));
    world.later(1);
    assert_eq!(world.planner.due_before_sleep(world.now), 0);
}

#[test]
fn of_two_fetches_that_differ_neither_is_kept() {
    let counts = std::cell::RefCell::new(BTreeMap::<String, u32>::new());
    let serve = move |path: &str| {
        let mut counts = counts.borrow_mut();
        let number = counts.entry(path.to_owned()).or_default();
        *number += 1;
        let cookie =
            vec![("content-type", "text/html".to_owned()), ("set-cookie", "s=1".to_owned())];
        Some(match path {
            "/" => html("<a href=/u>u</a><a href=/shop>s</a><a href=/r>r</a><a href=/same>f</a>"),
            // Only the first of two answers sets a cookie.
            "/u" if *number % 2 == 1 => Served { fields: cookie, ..html(&format!("you {number}")) },
            "/u" => html(&format!("you {number}")),
            "/shop" => html(&format!("<a href='/item;jsessionid={number}AB'>x</a>")),
            "/r" => {
                Served { fields: vec![("location", format!("/(S(lit{number}))/x"))], ..status(302) }
            }
            "/same" => html("<form><input type=hidden name=post value=9f8a7c6b5d4e></form>"),
            _ => status(404),
        })
    };
    let mut world = World::new(rules(), serve);
    world.whole();
    world.later(24);
    world.whole();
    for differs in ["/u", "/shop", "/r"] {
        assert_eq!(world.reason(differs), Some(Reason::Differs), "{differs}");
        assert!(!world.store.contains_key(differs), "{differs}");
    }
    assert!(world.pages().contains("/same"));
}
