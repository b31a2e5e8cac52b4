use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_policy::electricity::Electricity;
use nightwatt_policy::manager::Memory;

use super::*;

/// Monday, 23 November 2026, 00:00 UTC: day 20,780.
const MONDAY: i64 = 1_795_392_000;

fn rates() -> Rates {
    let states = PowerStates {
        on: Watts(100.0),
        off: Watts(10.0),
        switch: Joules(0.0),
        wake_time: Duration::ZERO,
        sleep_time: Duration::ZERO,
    };
    Rates {
        states,
        busy: Watts::ZERO,
        proxy: Watts(2.0),
        unsaid_proxy: true,
        electricity: Electricity::default(),
    }
}

fn record(second: i64, change: Option<Change>, (on, off): (u64, u64)) -> Record {
    let bill =
        Bill { on: Duration::from_secs(on), off: Duration::from_secs(off), ..Bill::default() };
    let cause = (change == Some(Change::Waking)).then_some(WakeCause::Operator);
    let memory = Memory { bill, ..Memory::default() };
    Record { v: 1, at: Wall::from_secs(MONDAY + second), change, cause, hour: None, memory }
}

/// An hour awake, two asleep, and awake again; two days of it.
fn two_days() -> Vec<Record> {
    let day = |day: i64, on: u64, off: u64| {
        let at = day * 86_400;
        vec![
            record(at + 3600, Some(Change::FallingAsleep), (on + 3600, off)),
            record(at + 3610, Some(Change::FellAsleep), (on + 3600, off + 10)),
            record(at + 10_800, Some(Change::Waking), (on + 3600, off + 7200)),
            record(at + 10_805, Some(Change::Woke), (on + 3600, off + 7205)),
        ]
    };
    let mut records = vec![record(0, Some(Change::FoundAwake), (0, 0))];
    records.extend(day(0, 0, 0));
    // The rest of Monday is awake.
    records.extend(day(1, 86_400 - 7205, 7205));
    records
}

fn write(dir: &Path, records: &[Record]) {
    let lines = records.iter().map(|it| serde_json::to_string(it).unwrap() + "\n");
    std::fs::write(dir.join("blog.ledger.jsonl"), lines.collect::<String>()).unwrap();
}

fn open(dir: &Path, second: i64) -> HistoryLog {
    let now = Now { wall: Wall::from_secs(MONDAY + second), ..Now::default() };
    HistoryLog::open(dir, "blog", rates(), now, false).unwrap()
}

fn take(chronicle: &mut HistoryLog, record: &Record) {
    let at = Now { wall: record.at, ..Now::default() };
    chronicle.take(record, at, &record.memory.bill);
}

/// Day and seconds asleep.
fn asleep(chronicle: &HistoryLog) -> Vec<(i64, u64)> {
    let days = chronicle.past.history.days();
    days.iter().map(|day| (day.day - 20_780, day.bill.off.as_secs())).collect()
}

#[test]
fn the_past_is_the_same_whether_it_was_lived_or_read() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[]);
    let mut lived = open(dir.path(), 0);
    for record in two_days() {
        take(&mut lived, &record);
    }
    let days = std::fs::read_to_string(dir.path().join("blog.days.jsonl")).unwrap();
    assert_eq!(days.lines().count(), 2, "a line a day");

    let other = tempfile::tempdir().unwrap();
    write(other.path(), &two_days());
    for read in [open(other.path(), 100_000), open(other.path(), 100_000)] {
        assert_eq!(asleep(&read), asleep(&lived));
        assert_eq!(asleep(&read), [(0, 7205), (1, 7205)]);
        assert_eq!(read.past.states, lived.past.states);
        let wakeups =
            |it: &HistoryLog| it.past.wakeups.iter().map(|it| (it.at, it.took)).collect::<Vec<_>>();
        assert_eq!(wakeups(&read), wakeups(&lived));
        assert_eq!(wakeups(&read)[1].1, Some(Duration::from_secs(5)));
        let now = Wall::from_secs(MONDAY + 86_400 + 10_805);
        let joules = |it: &HistoryLog| -> f64 {
            it.past.history.minutes(now).iter().map(|it| it.server.get()).sum()
        };
        // Of the second day: 3600 s at 100 W and 7205 s at 10 W; of the first, what came after 03:00.
        assert!(joules(&read) >= 432_050.0);
        if std::fs::read(other.path().join("blog.days.jsonl")).unwrap().len() == days.len() {
            continue;
        }
        panic!("the file of days grew by being read");
    }
}

#[test]
fn days_outlive_the_journal_that_told_of_them() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &two_days());
    drop(open(dir.path(), 100_000));
    // The journal started over with its last record, and a third day came.
    let mut rest = two_days().split_off(8);
    rest.push(record(3 * 86_400, None, (3 * 86_400 - 14_410, 14_410)));
    write(dir.path(), &rest);
    assert_eq!(asleep(&open(dir.path(), 3 * 86_400)), [(0, 7205), (1, 7205), (2, 0)]);
}

#[test]
fn a_ledger_that_began_anew_begins_new_days() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &two_days());
    drop(open(dir.path(), 100_000));
    // It was removed.
    write(dir.path(), &[record(100_000, None, (0, 0)), record(100_060, None, (60, 0))]);
    for _ in 0..2 {
        let chronicle = open(dir.path(), 100_060);
        assert_eq!(asleep(&chronicle), [(1, 0)]);
        let saved = chronicle.past.history.total().1.saved();
        // The proxy's 2 W for a minute, at 0.29 a kilowatt-hour.
        assert!((saved + 120.0 / 3.6e6 * 0.29).abs() < 1e-12, "{saved}");
    }
}

#[test]
fn a_line_torn_by_a_crash_costs_nothing_that_the_journal_knows() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &two_days());
    drop(open(dir.path(), 100_000));
    let path = dir.path().join("blog.days.jsonl");
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(asleep(&open(dir.path(), 100_000)), [(0, 7205), (1, 7205)], "cut at {cut}");
        assert_eq!(asleep(&open(dir.path(), 100_000)), [(0, 7205), (1, 7205)], "and again");
    }
}

#[test]
fn a_time_in_which_the_proxy_was_down_is_no_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut down = record(7200, None, (3600, 10));
    down.memory.bill.unobserved = Duration::from_secs(3590);
    let found = record(7201, Some(Change::FoundAwake), (3600, 10));
    let found = Record {
        memory: Memory {
            bill: Bill { unobserved: Duration::from_secs(3590), ..found.memory.bill },
            ..found.memory
        },
        ..found
    };
    let mut records = two_days();
    records.truncate(3);
    records.extend([down, found]);
    write(dir.path(), &records);
    let states: Vec<_> = open(dir.path(), 7201)
        .past
        .states
        .iter()
        .map(|(at, phase)| (at.secs() - MONDAY, *phase))
        .collect();
    assert_eq!(
        states,
        [
            (0, Some(Phase::Awake)),
            (3600, Some(Phase::FallingAsleep)),
            (3610, Some(Phase::Asleep)),
            (3610, None),
            (7201, Some(Phase::Awake)),
        ]
    );
}

#[test]
fn states_and_wake_ups_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[]);
    let mut chronicle = open(dir.path(), 0);
    for second in 0..20_000 {
        let change = if second % 2 == 0 { Change::Waking } else { Change::Woke };
        take(&mut chronicle, &record(second, Some(change), (second.unsigned_abs(), 0)));
    }
    assert_eq!(chronicle.past.states.len(), MOST_STATES);
    assert_eq!(chronicle.past.wakeups.len(), MOST_WAKEUPS);
    take(&mut chronicle, &record(300_000, Some(Change::FellAsleep), (300_000, 0)));
    assert_eq!(chronicle.past.states.len(), 2, "the last before a day ago, and this one");
}
