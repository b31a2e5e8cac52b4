//! Stored lessons: any file is taken up or refused with a reason, and a policy that took some up
//! decides, goes on learning, and can be stored again, however long it was stopped.

use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_gateway::lessons::{read, write};
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::{Idle, Lessons, Observation, PolicyChoice, Verdict};
use nightwatt_policy::visit::Visitor;

/// The seeds' time, a week later, and the end of time, s since 1970.
const TIMES: [i64; 3] = [1_795_500_000, 1_796_104_800, i64::MAX / 1000];

/// Runs the target on one input.
pub fn run(text: &[u8]) {
    for wall in TIMES.map(Wall::from_secs) {
        match read(text, wall) {
            Ok(lessons) => go_on(lessons, wall),
            Err(error) => {
                let said = error.to_string();
                assert!(!said.is_empty() && said.len() < 1_000, "{said}");
                assert!(!error.hint().is_empty());
            }
        }
    }
}

fn go_on(lessons: Lessons, wall: Wall) {
    let again = read(&write(&lessons).expect("they are finite"), wall);
    assert_eq!(again.expect("what was written can be read").at(), lessons.at());
    let terms = Scenario::default().terms();
    let now = |second| Now { mono: Mono::from_secs(second), wall, utc_offset: 0 };
    let mut policy = PolicyChoice::Learned.resume(&terms, Some(lessons), now(0));
    // At once, within the same visit, and after a day.
    for second in [0, 5, 86_400] {
        let now = now(second);
        let (visitor, class) = (Visitor(1), ClientClass::Human);
        policy.observe(now, &Observation { visitor, class, needs_server: true, delayed: false });
        let idle = Idle {
            since: now.mono,
            awake_since: Mono::ZERO,
            sla: None,
            wake_time: Duration::from_secs(5),
        };
        if let Verdict::AskAgainAt(then) = policy.verdict(now, &idle) {
            assert!(then > now.mono);
        }
        let lessons = policy.lessons(now).expect("it has learned");
        read(&write(&lessons).unwrap(), wall).expect("what it goes on with can be stored");
    }
}
