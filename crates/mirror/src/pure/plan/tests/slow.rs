//! Pages that take long, for which the server's sleep does not wait again and again.

use super::*;

/// The next order of the running pass.
fn ordered(world: &mut World) -> Order {
    loop {
        match world.planner.next(world.now) {
            Next::Fetch(order) => return order,
            Next::WaitUntil(when) => world.now = when,
            other => panic!("{other:?}"),
        }
    }
}

/// Runs a pass in which `/slow` takes too long; returns how often it was requested.
fn waits(world: &mut World, kind: PassKind) -> usize {
    world.planner.begin(kind, world.now, None);
    let mut times = 0;
    loop {
        match world.planner.next(world.now) {
            Next::Fetch(order) if order.address.as_str() == "/slow" => {
                times += 1;
                world.now = world.now.plus(Duration::from_secs(30));
                world.planner.timed_out(&order, world.now);
            }
            Next::Fetch(order) => world.answer(&order),
            Next::WaitUntil(when) => world.now = when,
            Next::Done(_) => return times,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_page_that_takes_too_long_is_requested_once_in_a_whole_pass() {
    let mut world = World::of(&[("/", "<a href=/slow>s</a>"), ("/slow", "x")]);
    world.whole();
    assert!(world.pages().contains("/slow"));
    world.later(13);
    assert_eq!(waits(&mut world, PassKind::Refresh), 1);
    let changes = world.planner.changed_by_client(world.now);
    world.change(changes);
    assert_eq!(waits(&mut world, PassKind::Refresh), 0);
    assert_eq!(world.planner.due_before_sleep(world.now), 0, "sleep does not wait for it");
    assert!(world.planner.page(&at("/slow")).unwrap().is_doubtful(), "it is not given");
    assert!(world.pages().contains("/slow"), "it is still there");
    world.later(24);
    assert_eq!(waits(&mut world, PassKind::Whole), 1);
    assert_eq!(waits(&mut world, PassKind::Refresh), 0);
    // The operator says that it is another one now.
    world.planner.outdate("/slow");
    assert_eq!(waits(&mut world, PassKind::Refresh), 1);
    world.later(24);
    world.whole();
    assert!(!world.planner.page(&at("/slow")).unwrap().is_doubtful());
    world.later(13);
    world.refresh();
    assert!(world.asked.contains(&"/slow".to_owned()), "as any other page");
}

#[test]
fn a_page_that_always_took_too_long_is_not_due_before_sleep() {
    let mut world = World::of(&[("/", "<a href=/slow>s</a>")]);
    assert_eq!(waits(&mut world, PassKind::Whole), 1);
    assert_eq!(world.reason("/slow"), Some(Reason::TimedOut));
    world.later(13);
    assert_eq!(waits(&mut world, PassKind::Refresh), 0);
    world.later(24);
    assert_eq!(waits(&mut world, PassKind::Whole), 1);
}

#[test]
fn a_request_that_was_given_up_is_sent_first_when_the_pass_goes_on() {
    let mut world = World::of(&[("/", "<a href=/a>a</a>"), ("/a", "a")]);
    world.planner.begin(PassKind::Whole, world.now, None);
    let robots = ordered(&mut world);
    assert!(robots.is_robots);
    world.planner.put_back(&robots);
    assert_eq!(ordered(&mut world), robots);
    world.answer(&robots);
    let page = ordered(&mut world);
    world.planner.put_back(&page);
    assert_eq!(ordered(&mut world), page);
    world.planner.put_back(&page);
    // It is put back once.
    world.planner.put_back(&page);
    let report = world.whole();
    assert_eq!((report.failed, report.was_cut), (0, false), "{report:?}");
    assert_eq!(world.asked.first().map(String::as_str), Some(page.address.as_str()));
    assert_eq!(world.asked.iter().filter(|it| *it == page.address.as_str()).count(), 1);
    assert_eq!(world.pages(), BTreeSet::from(["/", "/a"]));
}
