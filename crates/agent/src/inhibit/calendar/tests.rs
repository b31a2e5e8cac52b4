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
