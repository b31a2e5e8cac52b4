use proptest::prelude::*;

use super::*;

/// 2023-10-29 00:00 UTC; at 01:00 UTC clocks in Berlin went from 03:00 back to 02:00.
const AUTUMN: i64 = 1_698_537_600;
const SUMMER: i32 = 7200;
const WINTER: i32 = 3600;

#[test]
fn where_clocks_go_back_two_hours_have_one_name() {
    let mut hours = Hours::default();
    // 02:30 twice, an hour apart.
    hours.add(Wall::from_secs(AUTUMN + 1800), SUMMER, 10);
    hours.add(Wall::from_secs(AUTUMN + 5400), WINTER, 20);
    assert_eq!(hours.iter().count(), 2);
    let two = hours.of_day()[2];
    assert_eq!((two.hours, two.mean, two.median), (2, 15.0, 15.0));
}

#[test]
fn where_clocks_go_forward_no_hour_is_empty() {
    // 2023-03-26 01:00 UTC: 02:00 in Berlin became 03:00.
    let change = 1_679_792_400;
    let mut hours = Hours::default();
    hours.add(Wall::from_secs(change - 1), WINTER, 1);
    hours.add(Wall::from_secs(change), SUMMER, 3);
    let of_day = hours.of_day();
    assert_eq!(of_day.map(|typical| typical.hours).iter().sum::<u64>(), 2);
    assert_eq!((of_day[1].hours, of_day[2].hours, of_day[3].hours), (1, 0, 1));
}

#[test]
fn around_a_change_empty_hours_are_named_as_the_clock_named_them() {
    // Noon to 13:00, before and after the night in which clocks went back: 25 hours later.
    let mut hours = Hours::default();
    hours.add(Wall::from_secs(AUTUMN - 14 * 3600), SUMMER, 1);
    hours.add(Wall::from_secs(AUTUMN + 11 * 3600), WINTER, 1);
    let of_day = hours.of_day();
    assert_eq!(of_day[12], Typical { hours: 2, mean: 1.0, median: 1.0 });
    for hour in (0..24).filter(|&hour| hour != 12) {
        // One of the night stands twice.
        assert!((1..=2).contains(&of_day[hour].hours), "{hour}: {:?}", of_day[hour]);
    }
    assert_eq!(of_day.map(|typical| typical.hours).iter().sum::<u64>(), 26);
}

#[test]
fn zones_of_half_an_hour_have_hours_of_their_own() {
    let mut hours = Hours::default();
    let india = 19_800;
    // 05:29 and 05:30 local time are 23:59 and 00:00 UTC.
    hours.add(Wall::from_secs(-60), india, 1);
    hours.add(Wall::from_secs(0), india, 1);
    assert_eq!(hours.iter().next(), Some((-1800, Hour { requests: 2, utc_offset: india })));
}

#[test]
fn hours_without_requests_count() {
    let mut hours = Hours::default();
    // Three days, all requests at noon of the first and the last.
    hours.add(Wall::from_secs(12 * 3600), 0, 6);
    hours.add(Wall::from_secs((48 + 12) * 3600), 0, 3);
    let of_day = hours.of_day();
    assert_eq!(of_day[12], Typical { hours: 3, mean: 3.0, median: 3.0 });
    assert_eq!(of_day[11], Typical { hours: 2, mean: 0.0, median: 0.0 });
    assert_eq!(hours.of_week().iter().map(|typical| typical.hours).sum::<u64>(), 49);
}

#[test]
fn a_hole_of_two_years_is_two_years_of_nothing() {
    let mut hours = Hours::default();
    let days = 731;
    hours.add(Wall::from_secs(0), 0, 5);
    hours.add(Wall::from_secs(days * 86_400), 0, 5);
    let of_day = hours.of_day();
    assert_eq!((of_day[0].hours, of_day[0].median), (732, 0.0));
    assert_eq!(of_day[7].hours, 731);
    assert!((of_day[0].mean - 10.0 / 732.0).abs() < 1e-12);
}

#[test]
fn of_more_hours_than_there_is_room_for_the_latest_stay() {
    let mut hours = Hours::default();
    for hour in 0..i64::try_from(KEPT).unwrap() + 100 {
        hours.add(Wall::from_secs(hour * 3600), 0, 1);
    }
    assert_eq!((hours.hours.len(), hours.forgotten()), (KEPT, 100));
    assert_eq!(hours.iter().next().unwrap().0, 100 * 3600);
}

proptest! {
    /// Each hour looked at one by one.
    #[test]
    fn gaps_are_counted_as_a_walk_counts_them(
        times in proptest::collection::btree_map(0i64..2000, 1u64..9, 1..20), offset in -12i32..13
    ) {
        let mut hours = Hours::default();
        for (&hour, &requests) in &times {
            hours.add(Wall::from_secs(hour * 3600), offset * 3600, requests);
        }
        let mut walked = vec![Vec::new(); 168];
        let (first, last) = (*times.keys().next().unwrap(), *times.keys().last().unwrap());
        for hour in first..=last {
            let now = Now {
                mono: Mono::ZERO,
                wall: Wall::from_secs(hour * 3600),
                utc_offset: offset * 3600,
            };
            walked[now.hour_of_week() as usize].push(times.get(&hour).copied().unwrap_or(0));
        }
        for (typical, mut counts) in hours.of_week().into_iter().zip(walked) {
            prop_assert_eq!(typical.hours, counts.len() as u64);
            if !counts.is_empty() {
                counts.sort_unstable();
                let middle = f64::midpoint(counts[(counts.len() - 1) / 2] as f64, counts[counts.len() / 2] as f64);
                prop_assert!((typical.median - middle).abs() < 1e-9);
            }
        }
    }
}
