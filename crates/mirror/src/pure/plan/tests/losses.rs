//! A server that says that everything is gone, or closed.

use std::cell::Cell;

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

impl World {
    /// What the plan forgets goes from the store at the end of a pass.
    pub(super) fn ended(&mut self, report: PassReport) -> PassReport {
        for address in self.planner.take_forgotten() {
            self.store.remove(address.as_str());
            self.dropped.insert(address.to_string());
        }
        report
    }

    /// Runs a whole pass until the server is put to sleep, after so many answers. An hour later it starts.
    fn interrupted_after(&mut self, answers: usize) {
        self.asked.clear();
        self.planner.begin(PassKind::Whole, self.now, None);
        while self.asked.len() < answers {
            match self.planner.next(self.now) {
                Next::Fetch(order) => self.answer(&order),
                Next::WaitUntil(when) => self.now = when,
                other => panic!("{other:?}"),
            }
        }
        self.later(1);
        self.planner.server_started();
    }

    /// Whether the store has anything that says that nothing is there.
    fn denies(&self) -> bool {
        self.store.values().any(|entry| entry.status == 404)
    }
}

/// A site of 27 pages, mirrored a day ago.
fn mirrored() -> World {
    let mut world = World::new(rules(), |path| Some(site(path)));
    world.whole();
    assert_eq!(world.pages().len(), 27);
    world.later(24);
    world.planner.server_started();
    world
}

fn site(path: &str) -> Served {
    let all = links((b'a'..=b'z').map(|it| format!("/{}/", char::from(it))));
    match path {
        "/" => html(&all),
        path if path.len() == 3 => html("x"),
        _ => status(404),
    }
}

#[test]
fn a_server_that_knows_no_page_while_it_starts_loses_nothing() {
    let mut world = mirrored();
    world.serve = Box::new(|_| Some(status(404)));
    let report = world.whole();
    assert!(report.was_cut && report.is_doubted && report.requests < 15, "{report:?}");
    assert_eq!(world.pages().len(), 27);
    assert_eq!(world.forgotten.len(), 3, "{:?}", world.forgotten);
    let is_doubtful = |world: &World| world.planner.pages().any(|(_, page)| page.is_doubtful());
    assert!(!is_doubtful(&world), "pages are given as before");
    assert_eq!(world.planner.completeness().not_complete(), Some(NotComplete::Errors));
    // It has started.
    world.serve = Box::new(|path| Some(site(path)));
    world.now = world.now.plus(MINUTE);
    let report = world.whole();
    assert!(!report.was_cut && !report.is_doubted && report.deleted == 0, "{report:?}");
    assert_eq!(world.pages().len(), 27);
}

#[test]
fn a_server_that_keeps_to_it_is_believed_after_some_minutes() {
    let mut world = mirrored();
    world.serve = Box::new(|_| Some(status(404)));
    world.whole();
    world.now = world.now.plus(MINUTE);
    assert!(world.whole().is_doubted, "it is too early");
    // Another start is another reason to know nothing.
    world.now = world.now.plus(10 * MINUTE);
    world.planner.server_started();
    assert!(world.whole().is_doubted);
    world.now = world.now.plus(2 * MINUTE);
    let report = world.whole();
    assert!(!report.was_cut && !report.is_doubted, "{report:?}");
    assert_eq!((report.deleted, world.pages().len()), (27, 0));
}

#[test]
fn what_a_server_says_is_closed_is_given_to_no_client_before_it_is_confirmed() {
    let mut world = mirrored();
    world.serve = Box::new(|_| Some(status(403)));
    assert!(world.whole().is_doubted);
    assert_eq!(world.pages().len(), 27, "nothing is deleted");
    let is_doubtful = |path: &str| world.planner.page(&at(path)).unwrap().is_doubtful();
    assert!(is_doubtful("/") && is_doubtful("/z/"));
    world.serve = Box::new(|path| Some(site(path)));
    let report = world.whole();
    assert_eq!((report.was_cut, report.deleted, world.pages().len()), (false, 0, 27));
    assert!(
        !world.planner.pages().any(|(_, page)| page.is_doubtful() && page.confirmed().is_some())
    );
}

#[test]
fn without_half_of_its_pages_a_site_is_out_of_order_and_with_some_less_it_is_not() {
    let only = |first: char, last: char| {
        move |path: &str| {
            let letter = path.chars().nth(1);
            let is_lost = path.len() == 3 && letter.is_some_and(|it| (first..=last).contains(&it));
            Some(if is_lost { status(410) } else { site(path) })
        }
    };
    let mut world = mirrored();
    world.serve = Box::new(only('a', 'z'));
    let report = world.whole();
    assert!(report.is_doubted && world.pages().len() == 27, "{report:?}");
    let mut world = mirrored();
    world.serve = Box::new(only('x', 'z'));
    let report = world.whole();
    assert_eq!((report.is_doubted, report.deleted, world.pages().len()), (false, 3, 24));
    for twice in ["/x/", "/y/", "/z/"] {
        assert_eq!(world.asked.iter().filter(|it| *it == twice).count(), 2, "{twice}");
    }
}

#[test]
fn of_a_few_lost_pages_the_start_page_decides() {
    let lost = |is_started: bool| {
        let mut world = mirrored();
        world.whole();
        world.planner.outdate("/a/");
        world.serve = Box::new(move |path| {
            let is_up = is_started && path != "/a/";
            Some(if is_up { site(path) } else { status(404) })
        });
        let report = world.refresh();
        assert!(world.asked.contains(&"/".to_owned()), "{:?}", world.asked);
        (report.is_doubted, world.pages().contains("/a/"))
    };
    assert_eq!(lost(true), (false, false));
    assert_eq!(lost(false), (true, true));
}

#[test]
fn what_a_first_pass_learns_from_a_server_that_starts_is_not_believed() {
    let mut world = World::new(rules(), |_| Some(status(404)));
    let report = world.whole();
    assert!(report.is_doubted && report.was_cut && world.planner.is_doubted(), "{report:?}");
    assert!(world.store.is_empty(), "{:?}", world.store.keys());
    assert_eq!(world.planner.completeness().not_complete(), Some(NotComplete::Errors));
    assert!(!world.planner.is_absent(&at("/")) && !world.planner.is_absent(&at("/x")));
    // It has started.
    world.serve = Box::new(|path| Some(site(path)));
    world.now = world.now.plus(MINUTE);
    let report = world.whole();
    assert!(!report.was_cut && !world.planner.is_doubted(), "{report:?}");
    assert_eq!(world.pages().len(), 27);
    assert_eq!(world.store["/robots.txt"].status, 404);
    assert_eq!(world.planner.completeness().not_complete(), None);
}

#[test]
fn that_a_site_has_no_start_page_is_believed_after_some_minutes_and_then_known() {
    let mut world = World::new(rules(), |_| Some(status(404)));
    assert!(world.whole().is_doubted);
    world.now = world.now.plus(MINUTE);
    assert!(world.whole().is_doubted, "it is too early");
    world.now = world.now.plus(2 * MINUTE);
    assert!(!world.whole().is_doubted);
    assert_eq!(world.store["/"].status, 404);
    // A change of content takes away what is missing, but not that the site is so.
    let changes = world.planner.changed_by_client(world.now);
    world.change(changes);
    assert!(!world.store.contains_key("/"));
    restart(&mut world);
    assert!(!world.whole().is_doubted);
    assert_eq!(world.store["/"].status, 404);
}

/// The plan as another start finds it.
fn restart(world: &mut World) {
    let mut planner = Planner::new(Site::new("http://example.org").unwrap(), rules());
    planner.restore(world.planner.saved(), world.store.values(), world.now);
    world.planner = planner;
}

#[test]
fn a_start_page_that_is_missing_beside_other_pages_is_requested_twice() {
    let list = "<urlset><url><loc>/a</loc></url></urlset>";
    let xml = vec![("content-type", "text/xml".to_owned())];
    let mut world = World::new(rules(), move |path| {
        Some(match path {
            "/sitemap.xml" => Served { fields: xml.clone(), ..html(list) },
            "/a" => html("a"),
            _ => status(404),
        })
    });
    let report = world.whole();
    assert!(!report.is_doubted, "{report:?}");
    assert_eq!(world.asked.iter().filter(|it| *it == "/").count(), 2);
    assert_eq!((world.store["/"].status, world.store["/a"].status), (404, 200));
}

#[test]
fn a_start_page_that_leads_elsewhere_is_not_lost_either() {
    let mut world = World::new(rules(), |path| {
        Some(match path {
            "/" => Served { fields: vec![("location", "/home".to_owned())], ..status(302) },
            "/home" => html("home"),
            _ => status(404),
        })
    });
    world.whole();
    world.later(24);
    world.planner.server_started();
    world.serve = Box::new(|_| Some(status(404)));
    assert!(world.whole().is_doubted);
    assert_eq!((world.store["/"].status, world.store["/home"].status), (302, 200));
}

#[test]
fn what_was_purged_is_not_believed_to_be_gone() {
    let mut world = mirrored();
    let all: Vec<Address> = world.store.keys().map(|it| at(it)).collect();
    world.planner.lost(&all);
    world.store.clear();
    world.serve = Box::new(|_| Some(status(404)));
    assert!(world.refresh().is_doubted);
    restart(&mut world);
    assert!(world.refresh().is_doubted, "it is known after a restart, too");
    assert!(world.store.is_empty(), "{:?}", world.store.keys());
    world.serve = Box::new(|path| Some(site(path)));
    assert!(!world.refresh().was_cut);
    assert_eq!(world.pages().len(), 27);
}

#[test]
fn of_a_purged_page_that_is_missing_the_start_page_decides() {
    for is_started in [true, false] {
        let mut world = mirrored();
        world.whole();
        world.planner.lost(&[at("/a/")]);
        world.store.remove("/a/");
        world.serve = Box::new(move |path| {
            let is_up = is_started && path != "/a/";
            Some(if is_up { site(path) } else { status(404) })
        });
        let report = world.refresh();
        assert_eq!((report.is_doubted, report.deleted), (!is_started, u32::from(is_started)));
        assert_eq!(world.store.contains_key("/a/"), is_started, "that it is gone is known");
        assert!(world.pages().contains("/"));
    }
}

#[test]
fn that_a_page_is_gone_is_not_given_after_a_client_got_it() {
    let mut world = World::of(&[("/", "<a href=/a>a</a>")]);
    world.whole();
    assert_eq!(world.store["/a"].status, 404);
    assert!(!world.planner.found_by_client(&at("/")), "it is a page");
    assert!(!world.planner.found_by_client(&at("/unknown")));
    assert_eq!(world.planner.due_before_sleep(world.now), 0);
    assert!(world.planner.found_by_client(&at("/a")));
    assert!(world.planner.page(&at("/a")).unwrap().is_doubtful());
    world.serve = Box::new(|_| Some(html("x")));
    world.refresh();
    assert_eq!(world.asked, ["/robots.txt", "/a"]);
    assert_eq!(world.store["/a"].status, 200);
}

#[test]
fn the_rules_of_robots_txt_do_not_go_with_it() {
    let serve = |path: &str| {
        let robots = || html("User-agent: nightwatt\nDisallow: /private/\n");
        Some(if path == "/robots.txt" { robots() } else { site(path) })
    };
    let mut world = World::new(rules(), serve);
    world.whole();
    world.later(24);
    world.planner.server_started();
    world.serve = Box::new(|_| Some(status(404)));
    assert!(world.whole().is_doubted);
    assert_eq!(world.planner.forbidden(&at("/private/x")), Some(Reason::Robots));
}

#[test]
fn a_first_pass_that_goes_on_while_the_server_starts_learns_nothing() {
    let mut world = World::new(rules(), |path| Some(site(path)));
    world.interrupted_after(8);
    let pages = world.pages().len();
    assert!(world.planner.is_running() && world.pages().contains("/") && pages < 27, "{pages}");
    world.serve = Box::new(|_| Some(status(404)));
    let report = world.whole();
    assert!(report.is_doubted && report.was_cut, "{report:?}");
    assert_eq!(world.asked.iter().filter(|it| *it == "/").count(), 1, "{:?}", world.asked);
    assert!(!world.denies(), "{:?}", world.store.keys());
    assert_eq!(world.pages().len(), pages);
    assert_eq!(world.planner.completeness().not_complete(), Some(NotComplete::Errors));
    assert!(!world.planner.is_absent(&at("/x")));
    // It has started.
    world.serve = Box::new(|path| Some(site(path)));
    world.now = world.now.plus(MINUTE);
    let report = world.whole();
    assert!(!report.was_cut && !report.is_doubted, "{report:?}");
    assert_eq!((world.pages().len(), world.store["/robots.txt"].status), (27, 404));
    assert_eq!(world.planner.completeness().not_complete(), None);
}

#[test]
fn of_a_new_address_where_nothing_is_the_start_page_decides() {
    for is_started in [true, false] {
        let mut world = mirrored();
        world.whole();
        for client in [1, 2] {
            world.planner.requested(&at("/hidden"), client, true, world.now);
        }
        world.serve = Box::new(move |path| {
            let served = if is_started { site(path) } else { status(404) };
            Some(served)
        });
        let report = world.refresh();
        assert_eq!(world.asked, ["/robots.txt", "/hidden", "/"]);
        assert_eq!((report.is_doubted, report.deleted), (!is_started, 0));
        assert_eq!(world.store.contains_key("/hidden"), is_started, "that it is gone is known");
        assert!(!world.planner.page(&at("/")).unwrap().is_doubtful());
        assert_eq!(world.pages().len(), 27);
    }
}

#[test]
fn a_site_that_has_only_seeds_is_mirrored_while_its_server_is_awake_for_a_minute_at_a_time() {
    let seeds = vec![at("/docs/")];
    let mut world = World::new(PlanRules { seeds, ..rules() }, |path| {
        Some(match path {
            "/docs/" => html("<a href=/docs/a/>a</a><a href=/docs/b/>b</a>"),
            "/docs/a/" | "/docs/b/" => html("x"),
            _ => status(404),
        })
    });
    // robots.txt, the sitemap, `/`, the icon and the seed.
    world.interrupted_after(5);
    assert_eq!(world.pages(), BTreeSet::from(["/docs/"]));
    let report = world.whole();
    assert!(!report.was_cut && !report.is_doubted, "{report:?}");
    assert_eq!(world.pages(), BTreeSet::from(["/docs/", "/docs/a/", "/docs/b/"]));
    assert_eq!(world.store["/"].status, 404, "it was requested a second time");
    assert_eq!(world.planner.completeness().not_complete(), None);
}

#[test]
fn that_a_site_has_no_start_page_is_believed_although_its_server_slept_in_between() {
    let mut world = World::new(rules(), |_| Some(status(404)));
    assert!(world.whole().is_doubted && !world.denies());
    world.now = world.now.plus(MINUTE);
    world.planner.server_started();
    assert!(world.whole().is_doubted && !world.denies(), "it is too early");
    world.later(1);
    world.planner.server_started();
    let report = world.whole();
    assert!(!report.is_doubted && !report.was_cut, "{report:?}");
    assert_eq!(world.store["/"].status, 404);
}

#[test]
fn a_redirect_is_not_lost_by_one_answer_either() {
    let serve = |path: &str| match path {
        "/" => html("<a href=/go>g</a>"),
        "/go" => Served { fields: vec![("location", "/home".to_owned())], ..status(301) },
        "/home" => html("home"),
        _ => status(404),
    };
    for is_purged in [false, true] {
        let mut world = World::new(rules(), move |path| Some(serve(path)));
        world.whole();
        assert_eq!(world.store["/go"].status, 301);
        world.later(24);
        world.planner.server_started();
        if is_purged {
            world.planner.lost(&[at("/go")]);
            world.store.remove("/go");
        }
        let is_missing = Cell::new(true);
        world.serve = Box::new(move |path| {
            let is_lost = path == "/go" && is_missing.replace(false);
            Some(if is_lost { status(404) } else { serve(path) })
        });
        let report = world.whole();
        assert_eq!((report.is_doubted, report.deleted), (false, 0));
        assert_eq!(world.asked.iter().filter(|it| *it == "/go").count(), 2);
        assert_eq!(world.store["/go"].status, 301);
        // It is gone indeed.
        world.later(24);
        world.serve = Box::new(move |path| {
            let is_lost = path == "/go";
            Some(if is_lost { status(404) } else { serve(path) })
        });
        assert_eq!((world.whole().deleted, world.store["/go"].status), (1, 404));
    }
}
