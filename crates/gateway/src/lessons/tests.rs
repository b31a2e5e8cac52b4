use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::Observation;
use nightwatt_policy::visit::Visitor;

use super::*;

/// A Tuesday.
const DRAWN: Wall = Wall::from_secs(1_795_500_000);

/// Of a visitor a minute for two hours, drawn at the last one.
fn lessons() -> Lessons {
    let mut policy = PolicyChoice::Learned.build(&Scenario::default().terms());
    let at = |minute: u64| Now {
        mono: Mono::from_secs(60 * minute),
        wall: Wall::from_secs(DRAWN.secs() - 7200 + 60 * minute.cast_signed()),
        utc_offset: 0,
    };
    for minute in 0..=120 {
        let (visitor, class) = (Visitor(minute), ClientClass::Human);
        let seen = Observation { visitor, class, needs_server: true, delayed: false };
        policy.observe(at(minute), &seen);
    }
    policy.lessons(at(120)).unwrap()
}

fn later(hours: u64) -> Wall {
    DRAWN + Duration::from_hours(hours)
}

/// The file's text with something else in one place.
fn changed(place: &str, value: serde_json::Value) -> Vec<u8> {
    let mut text: serde_json::Value = serde_json::from_slice(&write(&lessons()).unwrap()).unwrap();
    *text.pointer_mut(place).expect(place) = value;
    serde_json::to_vec(&text).unwrap()
}

#[test]
fn what_is_written_can_be_read_at_any_later_time() {
    let text = write(&lessons()).unwrap();
    for hours in [0, 1, 24 * 7, 24 * 365 * 100] {
        let read = read(&text, later(hours)).unwrap();
        assert_eq!(read.watched(), Duration::from_hours(2));
        assert_eq!(read.age(later(hours)), Duration::from_hours(hours));
    }
}

#[test]
fn a_clock_that_is_a_little_behind_was_set_back_and_one_far_behind_is_wrong() {
    let text = write(&lessons()).unwrap();
    let earlier = |hours: i64| Wall::from_secs(DRAWN.secs() - hours * 3600);
    assert_eq!(read(&text, earlier(24)).unwrap().age(earlier(24)), Duration::ZERO);
    let error = read(&text, earlier(25)).unwrap_err();
    assert_eq!(error.to_string(), "it was written 1d1h from now");
    assert!(matches!(read(&text, Wall(i64::MIN)), Err(LessonsError::Future(_))));
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let text = write(&lessons()).unwrap();
    // Without the line break at its end it is whole.
    for length in 0..text.len() - 1 {
        let refused = read(&text[..length], DRAWN);
        assert!(matches!(refused, Err(LessonsError::Damaged(_))), "{length}: {refused:?}");
    }
}

#[test]
fn what_others_wrote_is_refused_by_name() {
    use serde_json::json;
    let said = |text: &[u8]| read(text, DRAWN).unwrap_err().to_string();
    let version = said(&changed("/v", json!(2)));
    assert_eq!(version, "its form is version 2, and this nightwatt knows version 1");
    assert_eq!(
        said(br#"{"v":7,"policy":"x","what":[]}"#).split(',').next(),
        version.replace('2', "7").split(',').next()
    );
    let policy = said(&changed("/policy", json!("prophet")));
    assert_eq!(policy, "the policy `prophet` has learned it");
    assert!(said(&changed("/policy", json!("y".repeat(5_000)))).len() < 200);
    let wrong = said(&changed("/lessons/arrivals/long/count", json!(-1)));
    assert!(wrong.starts_with("it is damaged: a count of arrivals"), "{wrong}");
    assert!(said(&vec![b' '; LONGEST + 1]).starts_with("it is longer than"));
    assert!(said(b"\0\xff garbage").starts_with("it is damaged"));
}

#[test]
fn a_file_of_no_use_is_kept_aside_and_the_next_one_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blog.lessons.json");
    let bad = dir.path().join("blog.lessons.json.bad");
    let open = || LessonsStore::open("blog", path.clone(), DRAWN, true);
    let (shelf, none) = open();
    assert_eq!(none, None);
    assert!(!path.exists() && !bad.exists(), "nothing to take up is nothing to complain about");
    for garbage in ["{", "[]", ""] {
        std::fs::write(&path, garbage).unwrap();
        let (shelf, none) = open();
        assert!(shelf.is_some() && none.is_none());
        assert_eq!(std::fs::read_to_string(&bad).unwrap(), garbage);
        assert!(!path.exists());
    }
    shelf.unwrap().store(&lessons());
    let (_, taken_up) = open();
    assert_eq!(taken_up.unwrap().watched(), Duration::from_hours(2));
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names, 2, "nothing else is left lying about");
}

#[test]
fn what_cannot_be_moved_out_of_the_way_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blog.lessons.json");
    std::fs::write(&path, "precious").unwrap();
    // A folder with something in it cannot be replaced by a file.
    std::fs::create_dir_all(dir.path().join("blog.lessons.json.bad/full")).unwrap();
    let (shelf, none) = LessonsStore::open("blog", path.clone(), DRAWN, false);
    assert!(shelf.is_none() && none.is_none());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn an_unfinished_file_of_a_crash_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blog.lessons.json");
    let (shelf, _) = LessonsStore::open("blog", path.clone(), DRAWN, true);
    let shelf = shelf.unwrap();
    shelf.store(&lessons());
    std::fs::write(dir.path().join("blog.lessons.json.new"), vec![b'x'; 100_000]).unwrap();
    assert!(LessonsStore::open("blog", path.clone(), DRAWN, true).1.is_some());
    shelf.store(&lessons());
    assert!(LessonsStore::open("blog", path, DRAWN, true).1.is_some());
}
