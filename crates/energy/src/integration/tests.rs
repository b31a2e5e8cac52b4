use proptest::prelude::*;

use super::*;

const POWER: TrackSpec = TrackSpec { counter: None, longest_gap: Duration::from_secs(10) };

fn ms(millis: u64) -> Mono {
    Mono(Duration::from_millis(millis))
}

fn power(at: u64, watts: f64) -> (Mono, Reading) {
    (ms(at), Reading::Power(Watts(watts)))
}

fn mean(at: u64, watts: f64, over: u64) -> (Mono, Reading) {
    (ms(at), Reading::MeanPower { watts: Watts(watts), over: Duration::from_millis(over) })
}

fn totals(spec: TrackSpec, readings: &[(Mono, Reading)]) -> Totals {
    let mut track = Track::new(spec, Mono::ZERO);
    for &(at, reading) in readings {
        track.add(at, reading);
    }
    track.totals()
}

fn close(joules: Joules, expected: f64) {
    assert!((joules.get() - expected).abs() <= 1e-9 * expected.abs(), "{joules} {expected}");
}

#[test]
fn trapezoids_over_uneven_times_are_what_numpy_says() {
    // np.trapezoid([40, 44, 43, 80, 60.5], [0, 1, 1.25, 3, 3.004])
    let readings = [
        power(0, 40.0),
        power(1000, 44.0),
        power(1250, 43.0),
        power(3000, 80.0),
        power(3004, 60.5),
    ];
    let totals = totals(POWER, &readings);
    close(totals.joules, 42.0 + 10.875 + 107.625 + 0.281);
    assert_eq!((totals.covered, totals.gaps), (Duration::from_millis(3004), 0));
    let (least, most) = totals.span.unwrap();
    assert_eq!((least, most), (Watts(40.0), Watts(80.0)));
}

#[test]
fn a_stalled_meter_leaves_a_gap_and_no_energy() {
    let totals = totals(
        POWER,
        &[power(0, 40.0), power(1000, 40.0), power(61_000, 40.0), power(62_000, 40.0)],
    );
    close(totals.joules, 80.0);
    assert_eq!(totals.covered, Duration::from_secs(2));
    assert_eq!((totals.gaps, totals.gap_time), (1, Duration::from_mins(1)));
    assert_eq!(totals.last_gap, Some(Gap::Stalled));
}

#[test]
fn means_are_no_trapezoids() {
    // A load that alternates between 10 and 50 W each second: trapezoids of the means say 30 W
    // in any second, and are wrong by 20 J over an odd number of them.
    let totals =
        totals(POWER, &[mean(1000, 10.0, 1000), mean(2000, 50.0, 1000), mean(3000, 10.0, 1000)]);
    close(totals.joules, 70.0);
    assert_eq!(totals.covered, Duration::from_secs(3));
}

#[test]
fn means_that_come_a_little_late_or_early_touch_and_a_missing_one_is_a_gap() {
    let totals = totals(
        POWER,
        &[
            mean(1000, 10.0, 1000),
            mean(2100, 20.0, 1000),
            mean(3000, 30.0, 1000),
            mean(5000, 40.0, 1000),
        ],
    );
    close(totals.joules, 10.0 + 22.0 + 27.0 + 40.0);
    assert_eq!(totals.covered, Duration::from_secs(4));
    assert_eq!((totals.gaps, totals.gap_time), (1, Duration::from_secs(1)));
}

#[test]
fn a_mean_does_not_reach_back_before_the_beginning() {
    let mut track = Track::new(POWER, ms(700));
    track.add(ms(1000), Reading::MeanPower { watts: Watts(10.0), over: Duration::from_secs(1) });
    close(track.totals().joules, 3.0);
    assert_eq!(track.totals().covered, Duration::from_millis(300));
}

#[test]
fn only_what_lies_in_the_window_counts_however_it_was_measured() {
    // From 1.25 to 2.5 s of a power that rises by 10 W a second from 10 W: 12.5 to 35 W.
    let window = |readings: [(Mono, Reading); 2], spec: TrackSpec| {
        let mut track = Track::new(spec, ms(1250));
        track.end(ms(2500));
        for (at, reading) in readings {
            track.add(at, reading);
        }
        assert_eq!(track.totals().covered, Duration::from_millis(1250));
        track.totals().joules
    };
    close(window([power(1000, 10.0), power(3000, 30.0)], POWER), 12.5 * 1.25 + 12.5 * 1.25 / 2.0);
    // 40 J in the two seconds, evenly.
    close(window([mean(1000, 99.0, 1000), mean(3000, 20.0, 2000)], POWER), 25.0);
    let counter = CounterSpec { joules_per_count: 0.1, range: None, most: Watts(1000.0) };
    let spec = TrackSpec { counter: Some(counter), ..POWER };
    let counts = [(ms(1000), Reading::Counter(7)), (ms(3000), Reading::Counter(407))];
    close(window(counts, spec), 25.0);
}

#[test]
fn what_is_no_number_or_out_of_order_is_left_out() {
    let totals = totals(
        POWER,
        &[
            power(0, 40.0),
            power(500, f64::NAN),
            power(500, f64::INFINITY),
            power(1000, 44.0),
            power(900, 1e9),
        ],
    );
    close(totals.joules, 42.0);
    assert_eq!((totals.readings, totals.ignored, totals.gaps), (2, 3, 0));
}

#[test]
fn a_meter_that_falls_silent_before_the_end_leaves_a_gap() {
    let mut track = Track::new(POWER, Mono::ZERO);
    track.add(ms(0), Reading::Power(Watts(5.0)));
    track.add(ms(1000), Reading::Power(Watts(5.0)));
    track.end(ms(9000));
    track.close();
    let totals = track.totals();
    assert_eq!((totals.gaps, totals.gap_time), (1, Duration::from_secs(8)));
    // One that spoke after the end has none.
    track.add(ms(9500), Reading::Power(Watts(5.0)));
    track.close();
    assert_eq!(track.totals().gaps, 1);
}

#[test]
fn a_suspended_host_makes_a_gap_even_where_the_counter_went_on() {
    let counter = CounterSpec { joules_per_count: 1e-6, range: None, most: Watts(1000.0) };
    let mut track = Track::new(TrackSpec { counter: Some(counter), ..POWER }, Mono::ZERO);
    track.add(ms(0), Reading::Counter(5_000_000));
    track.add(ms(1000), Reading::Counter(6_000_000));
    track.interrupt(Gap::Suspended);
    assert_eq!(track.add(ms(1600), Reading::Counter(3)), Piece::Gap(Gap::Suspended));
    track.add(ms(2600), Reading::Counter(2_000_003));
    let totals = track.totals();
    close(totals.joules, 3.0);
    assert_eq!((totals.gaps, totals.last_gap), (1, Some(Gap::Suspended)));
    assert_eq!(totals.covered, Duration::from_secs(2));
    assert_eq!(totals.gap_time, Duration::from_millis(600), "up to the next reading");
}

#[test]
fn a_figure_that_cannot_be_true_is_left_out() {
    let mut track = Track::new(POWER, Mono::ZERO);
    track.add(ms(0), Reading::Power(Watts(10.0)));
    for broken in [1e308, -1e308, f64::NAN, f64::INFINITY, 1e12] {
        assert_eq!(track.add(ms(500), Reading::Power(Watts(broken))), Piece::Ignored);
    }
    // What feeds into the grid draws less than nothing.
    track.add(ms(1000), Reading::Power(Watts(-10.0)));
    let totals = track.totals();
    close(totals.joules, 0.0);
    assert_eq!((totals.ignored, totals.readings), (5, 2));
    let mut machine = Track::new(POWER, Mono::ZERO).at_least(Watts::ZERO);
    machine.add(ms(0), Reading::Power(Watts(10.0)));
    assert_eq!(machine.add(ms(500), Reading::Power(Watts(-5.0))), Piece::Ignored);
    machine.add(ms(1000), Reading::Power(Watts(0.0)));
    close(machine.totals().joules, 5.0);
}

/// A counter of joules that draws 500 W and is brought up to date every 100 ms, 30 ms after a reading.
fn in_steps(every: u64, until: u64) -> (Track, Vec<Piece>) {
    let counter = CounterSpec { joules_per_count: 1e-3, range: None, most: Watts(5000.0) };
    let spec = TrackSpec { counter: Some(counter), longest_gap: Duration::from_millis(50) };
    let mut track = Track::new(spec, Mono::ZERO);
    let shown = |at: u64| Reading::Counter(1_000_000 + (at + 70) / 100 * 50_000);
    let pieces = (0..=until / every).map(|step| track.add(ms(step * every), shown(step * every)));
    let pieces = pieces.collect();
    (track, pieces)
}

#[test]
fn a_counter_in_steps_says_the_same_power_however_fast_it_is_read() {
    for every in [1, 5, 10, 20] {
        let (mut track, pieces) = in_steps(every, 1000);
        let watts: Vec<f64> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Covers { joules, time } => Some((*joules / *time).get()),
                _ => None,
            })
            .collect();
        assert!(watts.len() == 9 && watts.iter().all(|it| (it - 500.0).abs() < 1e-6), "{watts:?}");
        assert!(pieces.iter().filter(|it| **it == Piece::Holds).count() > 30);
        track.end(ms(1000));
        track.close();
        let totals = track.totals();
        // From its first step to its last one.
        close(totals.joules, 450.0);
        assert_eq!((totals.covered, totals.gaps), (Duration::from_millis(900), 0));
    }
}

#[test]
fn a_counter_that_holds_for_long_draws_nothing() {
    let counter = CounterSpec { joules_per_count: 1.0, range: None, most: Watts(5000.0) };
    let spec = TrackSpec { counter: Some(counter), longest_gap: Duration::from_secs(3) };
    // One that was seen to count, and one that never was.
    for (first, zeros) in [(5, 2), (0, 1)] {
        let mut track = Track::new(spec, Mono::ZERO);
        track.add(ms(0), Reading::Counter(0));
        let mut held = 0;
        for second in 1..=12 {
            match track.add(ms(second * 1000), Reading::Counter(first)) {
                Piece::Covers { joules: Joules::ZERO, .. } => held += 1,
                Piece::Covers { .. } | Piece::Holds => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(held, zeros, "{first}");
        track.end(ms(12_000));
        track.close();
        close(track.totals().joules, first as f64);
    }
    // Less than a second of one that never moved says nothing, and more says that it drew nothing.
    for (time, covered) in [(500, 0), (2000, 2000)] {
        let mut track = Track::new(spec, Mono::ZERO);
        track.add(ms(0), Reading::Counter(7));
        track.add(ms(time), Reading::Counter(7));
        track.end(ms(time));
        track.close();
        let totals = track.totals();
        assert_eq!((totals.covered, totals.gaps), (Duration::from_millis(covered), 0));
    }
}

#[test]
fn a_step_covers_the_part_of_it_that_lies_in_the_window() {
    let (mut track, _) = in_steps(10, 500);
    track.begin(ms(480));
    track.end(ms(700));
    for at in (510..=760).step_by(10) {
        track.add(ms(at), Reading::Counter(1_000_000 + (at + 70) / 100 * 50_000));
    }
    track.close();
    // 500 W from 480 to 700 ms, though it steps at 430, 530, 630 and 730 ms.
    close(track.totals().joules, 110.0);
    assert_eq!(track.totals().covered, Duration::from_millis(220));
}

#[test]
fn a_year_of_microjoules_adds_up() {
    let mut sum = Sum::default();
    sum.add(1e9);
    let plain = (0..10_000_000).fold(1e9, |plain, _| {
        sum.add(1e-6);
        plain + 1e-6
    });
    assert!((sum.value() - 1_000_000_010.0).abs() < 1e-6, "{}", sum.value());
    assert!((plain - 1_000_000_010.0_f64).abs() > 0.1, "or the test is none: {plain}");
}

proptest! {
    /// Time is either covered or in a gap, and energy is mean power times covered time.
    #[test]
    fn no_time_is_lost_or_counted_twice(
        steps in proptest::collection::vec((1_u64..30_000, 0.0_f64..500.0, any::<bool>()), 2..80),
    ) {
        let mut track = Track::new(POWER, Mono::ZERO);
        let (mut at, mut first) = (0, None);
        for &(step, watts, is_mean) in &steps {
            at += step;
            let (at, reading) = if is_mean { mean(at, watts, 1000) } else { power(at, watts) };
            let piece = track.add(at, reading);
            let covered = if let Piece::Covers { time, .. } = piece { time } else { Duration::ZERO };
            first.get_or_insert_with(|| at - covered);
        }
        let totals = track.totals();
        let all = ms(at).since(first.unwrap());
        prop_assert_eq!(totals.covered + totals.gap_time, all);
        let (least, most) = totals.span.unwrap_or_default();
        let time = totals.covered.as_secs_f64();
        prop_assert!(totals.joules.get() >= least.get() * time * (1.0 - 1e-9));
        prop_assert!(totals.joules.get() <= most.get() * time * (1.0 + 1e-9));
    }
}
