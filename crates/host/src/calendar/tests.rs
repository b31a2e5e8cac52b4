use super::*;

/// 2026-11-20 12:00 UTC, a Friday (`date -d @1795176000 -u`).
const FRIDAY_NOON: i64 = 1_795_176_000;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

fn calendar(events: &[&str]) -> Calendar {
    let events: String =
        events.iter().flat_map(|it| ["BEGIN:VEVENT\r\n", it, "\r\nEND:VEVENT\r\n"]).collect();
    Calendar::parse(&format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{events}END:VCALENDAR\r\n"))
}

/// Does it last at these moments, given in hours from Friday noon UTC?
fn lasts(event: &str, hours: &[f64]) -> Vec<bool> {
    let calendar = calendar(&[event]);
    let at = |hour: &f64| {
        let (running, broken) = calendar.at(FRIDAY_NOON + (hour * 3600.0) as i64);
        assert_eq!(broken, [], "{event}");
        running.len() == 1
    };
    hours.iter().map(at).collect()
}

#[test]
fn an_event_lasts_from_its_start_until_before_its_end() {
    let event = "DTSTART:20261120T110000Z\r\nDTEND:20261120T130000Z\r\nSUMMARY:Backup";
    assert_eq!(lasts(event, &[-1.01, -1.0, 0.0, 0.99, 1.0]), [false, true, true, true, false]);
    let event = "DTSTART:20261120T110000Z\r\nDURATION:PT1H30M";
    assert_eq!(lasts(event, &[-1.01, -1.0, 0.49, 0.5]), [false, true, true, false]);
    let name = calendar(&["SUMMARY:Back\r\n up\r\nDTSTART:20261120T110000Z\r\nDURATION:P1D"]);
    assert_eq!(name.at(FRIDAY_NOON).0, ["Backup"], "a folded line");
}

#[test]
fn zones_and_their_summer_times_are_known() {
    // 13:00 in Berlin is noon in UTC in winter, and eleven in summer.
    let event = "DTSTART;TZID=Europe/Berlin:20260601T130000\r\nDTEND;TZID=Europe/Berlin:20260601T140000\r\n\
                 RRULE:FREQ=DAILY";
    assert_eq!(lasts(event, &[-0.01, 0.0, 0.99, 1.0]), [false, true, true, false]);
    let july = (1_783_944_000 - FRIDAY_NOON) as f64 / 3600.0; // 2026-07-13 12:00 UTC
    assert_eq!(
        lasts(event, &[july - 1.01, july - 1.0, july - 0.01, july]),
        [false, true, true, false]
    );
}

#[test]
fn rules_exceptions_and_moved_instances_hold() {
    // Every weekday at noon for an hour, but not this Friday.
    let weekdays = "UID:a\r\nDTSTART:20260105T120000Z\r\nDURATION:PT1H\r\nRRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR";
    assert_eq!(lasts(weekdays, &[0.5, 24.5, 72.5, -24.0]), [true, false, true, true]);
    let without = format!("{weekdays}\r\nEXDATE:20261120T120000Z");
    assert_eq!(lasts(&without, &[0.5, -24.0]), [false, true]);
    // This Friday's was moved to 15:00.
    let moved =
        "UID:a\r\nRECURRENCE-ID:20261120T120000Z\r\nDTSTART:20261120T150000Z\r\nDURATION:PT1H";
    let both = calendar(&[weekdays, moved]);
    let runs = |at: i64| both.at(FRIDAY_NOON + at).0.len();
    assert_eq!((runs(HOUR / 2), runs(3 * HOUR), runs(4 * HOUR), runs(3 * DAY)), (0, 1, 0, 1));
    // Or cancelled.
    let both = calendar(&[weekdays, &format!("{moved}\r\nSTATUS:CANCELLED")]);
    assert_eq!(both.at(FRIDAY_NOON + 3 * HOUR).0.len(), 0);
    assert_eq!(both.at(FRIDAY_NOON + HOUR / 2).0.len(), 0);
}

#[test]
fn a_rule_that_ends_has_ended() {
    let event =
        "DTSTART:20261101T120000Z\r\nDURATION:PT1H\r\nRRULE:FREQ=DAILY;UNTIL=20261119T120000Z";
    assert_eq!(lasts(event, &[-24.0, 0.0]), [true, false]);
    let event = "DTSTART:20261118T120000Z\r\nDURATION:PT1H\r\nRRULE:FREQ=DAILY;COUNT=3";
    assert_eq!(lasts(event, &[0.0, 24.0]), [true, false]);
    let event = "DTSTART:20261101T120000Z\r\nDURATION:PT1H\r\nRDATE:20261120T113000Z";
    assert_eq!(lasts(event, &[0.0, 0.6]), [true, false]);
}

#[test]
fn what_cannot_be_understood_is_said() {
    let broken = |event: &str| {
        let (running, broken) = calendar(&[event]).at(FRIDAY_NOON);
        assert_eq!(running, Vec::<String>::new());
        broken
    };
    assert_eq!(broken("SUMMARY:x")[0], ("x".to_owned(), "it has no DTSTART".to_owned()));
    assert_eq!(broken("SUMMARY:x\r\nDTSTART:tomorrow").len(), 1);
    assert_eq!(broken("DTSTART:20261101T000000Z\r\nRRULE:FREQ=SOMETIMES").len(), 1);
    assert_eq!(broken("DTSTART:20261101T000000Z\r\nDURATION:an hour").len(), 1);
    assert_eq!(broken("DTSTART;TZID=Customer Zone 7:20261101T000000").len(), 1);
    // An alarm within the event is not the event.
    let with_alarm =
        "DTSTART:20261120T110000Z\r\nBEGIN:VALARM\r\nDURATION:P9D\r\nEND:VALARM\r\nDURATION:PT2H";
    assert_eq!(lasts(with_alarm, &[0.0, 1.0]), [true, false]);
    assert_eq!(Calendar::parse("no calendar at all"), Calendar::default());
}

#[test]
fn whole_days_are_local_days() {
    // Whatever the zone of this machine, the 20th has begun everywhere by noon UTC and is nowhere over,
    // but for the far Pacific.
    let event = "DTSTART;VALUE=DATE:20261120\r\nDTEND;VALUE=DATE:20261121";
    assert_eq!(lasts(event, &[0.0, -48.0, 48.0]), [true, false, false]);
    assert_eq!(lasts("DTSTART;VALUE=DATE:20261120", &[0.0, 48.0]), [true, false]);
    let weekly = "DTSTART;VALUE=DATE:20261106\r\nRRULE:FREQ=WEEKLY";
    assert_eq!(lasts(weekly, &[0.0, 48.0, 168.0]), [true, false, true]);
}

/// 2026-12-24, in days since 1970.
const CHRISTMAS_EVE: i64 = 20_811;

fn whole_days(event: &str) -> Vec<i64> {
    let found = calendar(&[event]).whole_days();
    assert_eq!((found.broken, found.timed), (vec![], vec![]), "{event}");
    found.days.into_iter().collect()
}

#[test]
fn whole_days_are_those_from_the_first_until_before_the_end() {
    let one = CHRISTMAS_EVE;
    for (event, days) in [
        ("DTSTART;VALUE=DATE:20261224", vec![one]),
        ("DTSTART;VALUE=DATE:20261224\r\nDTEND;VALUE=DATE:20261227", vec![one, one + 1, one + 2]),
        ("DTSTART;VALUE=DATE:20261224\r\nDTEND;VALUE=DATE:20261224", vec![one]),
        ("DTSTART;VALUE=DATE:20261224\r\nDURATION:P2D", vec![one, one + 1]),
    ] {
        assert_eq!(whole_days(event), days, "{event}");
    }
}

#[test]
fn holidays_recur_until_the_end_of_the_century() {
    // Labour Day in the USA: the first Monday of September, in 2026 the 7th (day 20,703).
    let days = whole_days("DTSTART;VALUE=DATE:20260907\r\nRRULE:FREQ=YEARLY;BYMONTH=9;BYDAY=1MO");
    assert_eq!((days[0], days.len()), (20_703, 2100 - 2026));
    assert!(days.iter().all(|day| (day + 3) % 7 == 0), "Mondays");
    let daily = "DTSTART;VALUE=DATE:20261224\r\nRRULE:FREQ=DAILY;UNTIL=20261226";
    assert_eq!(whole_days(daily).len(), 3, "the last day counts");
    let without = format!("{daily}\r\nEXDATE;VALUE=DATE:20261225");
    assert_eq!(whole_days(&without), [CHRISTMAS_EVE, CHRISTMAS_EVE + 2]);
    let with = "DTSTART;VALUE=DATE:20261224\r\nRDATE;VALUE=DATE:20261231";
    assert_eq!(whole_days(with), [CHRISTMAS_EVE, CHRISTMAS_EVE + 7]);
}

#[test]
fn a_moved_holiday_is_on_its_new_day_and_a_cancelled_one_on_none() {
    let yearly = "UID:a\r\nDTSTART;VALUE=DATE:20251224\r\nRRULE:FREQ=YEARLY;COUNT=2";
    let moved = "UID:a\r\nRECURRENCE-ID;VALUE=DATE:20261224\r\nDTSTART;VALUE=DATE:20261228";
    let days = |events: &[&str]| calendar(events).whole_days().days;
    let expected = [CHRISTMAS_EVE - 365, CHRISTMAS_EVE + 4];
    assert_eq!(days(&[yearly, moved]), expected.into());
    // The values of `STATUS` have no case (RFC 5545, 2).
    for status in ["CANCELLED", "cancelled", "Cancelled "] {
        let cancelled = format!("{moved}\r\nSTATUS:{status}");
        assert_eq!(days(&[yearly, &cancelled]), [expected[0]].into(), "{status}");
    }
}

#[test]
fn what_is_no_whole_day_or_cannot_be_understood_is_named() {
    let found = calendar(&[
        "SUMMARY:Meeting\r\nDTSTART:20261224T100000Z\r\nDURATION:PT1H",
        "SUMMARY:No date\r\nDTSTART;VALUE=DATE:2026122",
        "SUMMARY:No day\r\nDTSTART;VALUE=DATE:20260230",
        "SUMMARY:No start",
        "SUMMARY:Too many\r\nDTSTART;VALUE=DATE:20000101\r\nRRULE:FREQ=DAILY",
        "SUMMARY:Too long\r\nDTSTART;VALUE=DATE:20000101\r\nDTEND;VALUE=DATE:20990101",
    ])
    .whole_days();
    assert_eq!(found.days, [].into());
    assert_eq!(found.timed, ["Meeting"]);
    let broken: Vec<_> = found.broken.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(broken, ["No date", "No day", "No start", "Too many", "Too long"]);
}

/// Debian's python3-icalendar writes the calendar, and python3-dateutil expands its rules: neither knows of ours.
#[test]
fn other_programs_find_the_same_days() {
    const SCRIPT: &str = "
import datetime, icalendar
from dateutil import rrule
rules = [
    ((2020, 1, 1), {'FREQ': 'YEARLY'}),
    ((2020, 2, 29), {'FREQ': 'YEARLY'}),
    ((2020, 5, 25), {'FREQ': 'YEARLY', 'BYMONTH': 5, 'BYDAY': '-1MO'}),
    ((2020, 11, 26), {'FREQ': 'YEARLY', 'BYMONTH': 11, 'BYDAY': '4TH'}),
    ((2021, 1, 4), {'FREQ': 'MONTHLY', 'BYDAY': 'MO', 'BYSETPOS': 1, 'COUNT': 30}),
    ((2022, 3, 2), {'FREQ': 'WEEKLY', 'INTERVAL': 3, 'BYDAY': ['WE', 'FR'], 'UNTIL': datetime.date(2023, 3, 31)}),
]
calendar, days = icalendar.Calendar(), set()
for at, (start, rule) in enumerate(rules):
    event = icalendar.Event()
    event.add('uid', str(at))
    event.add('summary', 'Feiertag, mit Umlaut: \\u00fc ' * 8)
    event.add('dtstart', datetime.date(*start))
    event.add('rrule', rule)
    calendar.add_component(event)
    text = icalendar.vRecur(rule).to_ical().decode()
    found = rrule.rrulestr(text, dtstart=datetime.datetime(*start))
    days |= {(day.date() - datetime.date(1970, 1, 1)).days for day in
             found.between(datetime.datetime(1970, 1, 1), datetime.datetime(2100, 1, 1))}
print(*sorted(days))
print(calendar.to_ical().decode(), end='')
";
    // Debian's own, which has Debian's modules.
    let ran = std::process::Command::new("/usr/bin/python3").args(["-c", SCRIPT]).output();
    let Some(output) = ran.ok().filter(|ran| ran.status.success()) else {
        println!("skipped: needs python3 with icalendar and dateutil (python3-icalendar)");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let (days, calendar) = text.split_once('\n').unwrap();
    let days: std::collections::BTreeSet<i64> =
        days.split(' ').map(|day| day.parse().unwrap()).collect();
    let found = Calendar::parse(calendar).whole_days();
    assert_eq!((found.broken, found.timed), (vec![], vec![]));
    assert_eq!(found.days, days);
}

/// Programs that write what RFC 5545 (3.3.10, 3.8.5.1) does not allow beside a whole day.
#[test]
fn a_time_of_day_beside_a_whole_day_is_left_out() {
    let days = |lines: &str| {
        let days = whole_days(&format!("DTSTART;VALUE=DATE:20261224\r\n{lines}"));
        days.into_iter().map(|day| day - CHRISTMAS_EVE).collect::<Vec<_>>()
    };
    for until in ["20261226", "20261226T235959", "20261226T225959Z"] {
        assert_eq!(days(&format!("RRULE:FREQ=DAILY;UNTIL={until}")), [0, 1, 2], "{until}");
        let without = format!("RRULE:FREQ=DAILY;UNTIL={until}\r\nEXDATE:20261225T000000Z");
        assert_eq!(days(&without), [0, 2], "{until}");
    }
    assert_eq!(days("RDATE:20261231T000000"), [0, 7]);
    for (end, expected) in [
        ("20261226T000000", &[0, 1][..]),
        ("20261226T000000Z", &[0, 1]),
        ("20261225T235959", &[0, 1]),
        ("20261224T235959Z", &[0]),
        ("20261224T000000", &[0]),
    ] {
        assert_eq!(days(&format!("DTEND:{end}")), expected, "{end}");
    }
    for start in ["20261224T000000", "20261224T000000Z"] {
        let event = format!("DTSTART;VALUE=DATE:{start}\r\nRRULE:FREQ=YEARLY;COUNT=1");
        assert_eq!(whole_days(&event), [CHRISTMAS_EVE], "{start}");
    }
}
