use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::*;

fn rule(min: u32, max: u32) -> StopRule {
    StopRule::new(min, max, 0.01).unwrap()
}

/// From numpy and scipy 1.17: the same backward recursion with `scipy.special.erf`, an even grid of 1200
/// roots and `scipy.optimize.brentq`. (Levels 0.05 and 0.001.)
#[test]
fn factors_are_those_of_a_computation_in_another_language() {
    for (min, max, at_95, at_999) in [
        (3, 60, 1.3382, 1.4252),
        (4, 60, 1.2439, 1.2715),
        (5, 30, 1.1776, 1.1958),
        (5, 60, 1.1949, 1.2040),
        (10, 60, 1.1034, 1.1028),
        (20, 100, 1.0636, 1.0626),
    ] {
        let rule = rule(min, max);
        assert!((rule.factor() - at_95).abs() < 0.002, "{min} to {max}: {}", rule.factor());
        let far = rule.factor_at(1e-3);
        // The even grid is coarse where intervals of three values end.
        let allowed = if min < 5 { 0.03 } else { 0.004 };
        assert!((far - at_999).abs() < allowed, "{min} to {max}: {far}");
    }
    assert!((rule(7, 7).factor() - 1.0).abs() < f64::EPSILON, "a number that is fixed");
}

/// How often an interval holds by a rule that sees n and the standard deviation in σ.
fn coverage(plans: u32, rule: &StopRule, factor: f64, stop: impl Fn(u64, f64) -> bool) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(21);
    let held = (0..plans).filter(|_| {
        let mut moments = Moments::default();
        loop {
            moments.add(StandardNormal.sample(&mut rng));
            let count = moments.count();
            let Some(sd) = moments.sd().filter(|_| count >= u64::from(rule.min())) else {
                continue;
            };
            if count == u64::from(rule.max()) || stop(count, sd) {
                let half = rule.half_width(&moments).unwrap() * factor / rule.factor();
                break moments.mean().unwrap().abs() <= half;
            }
        }
    });
    held.count() as f64 / f64::from(plans)
}

/// Of 20,000 the standard deviation is 0.16 %: three of them are allowed.
const CHANCE: f64 = 0.005;

#[test]
fn student_fails_where_the_rule_stops_itself_and_the_wider_interval_does_not() {
    let rule = rule(5, 30);
    // The forward recursion in numpy gives 92.1 % at a half width of 0.5 σ, 92.9 % at 0.7 σ.
    for (half_width, students) in [(0.5, 0.921), (0.7, 0.929)] {
        let until = |factor: f64| {
            let rule = &rule;
            move |n: u64, sd: f64| {
                let quantile = rule.quantile((n - 1) as f64) * factor / rule.factor();
                quantile * sd / (n as f64).sqrt() <= half_width
            }
        };
        let plain = coverage(20_000, &rule, 1.0, until(1.0));
        assert!((plain - students).abs() < CHANCE, "seed 21: {plain} at {half_width}");
        let wider = coverage(20_000, &rule, rule.factor(), until(rule.factor()));
        assert!(wider > 0.95 - CHANCE, "seed 21: {wider} at {half_width}");
    }
}

#[test]
fn the_interval_holds_by_rules_that_wait_for_a_spread_that_is_small_by_chance() {
    for (min, max) in [(3, 40), (5, 60), (10, 30)] {
        let rule = rule(min, max);
        for small in [0.6, 0.8, 0.9, 0.95] {
            let held = coverage(20_000, &rule, rule.factor(), |_, sd| sd < small);
            assert!(held > 0.95 - CHANCE, "seed 21: {held} for {small} from {min} to {max}");
        }
    }
}

#[test]
fn a_p_value_is_five_percent_where_the_interval_ends() {
    let rule = rule(5, 60);
    for df in [4.0, 9.5, 19.0, 59.0, 118.0] {
        let p = rule.p_value(rule.quantile(df), df);
        assert!((p - 0.05).abs() < 1e-6, "{p} at {df}");
        assert!((rule.tail(-1.0, df) + rule.tail(1.0, df) - 1.0).abs() < 1e-12);
    }
    assert!((rule.p_value(0.0, 9.0) - 1.0).abs() < 1e-9);
    assert!((rule.p_value(f64::INFINITY, 9.0) - LEAST_P).abs() < 1e-12);
    assert!((rule.p_value(1e6, 9.0) - LEAST_P).abs() < 1e-12);
}

#[test]
fn a_fixed_number_of_runs_has_students_p_values() {
    // scipy.stats.t.sf(2.5, 9) x 2.
    let p = rule(10, 10).p_value(2.5, 9.0);
    assert!((p - 0.033_861_827_682_985_7).abs() < 1e-6, "{p}");
}

#[test]
fn precise_is_at_least_min_runs_and_an_interval_within_the_share() {
    let rule = StopRule::new(3, 20, 0.05).unwrap();
    let close = Moments::of(&[100.0, 100.1]);
    assert!(!rule.is_precise(&close), "two runs are too few");
    assert!(rule.is_precise(&Moments::of(&[100.0, 100.1, 99.9])));
    let wide = Moments::of(&[90.0, 100.0, 110.0]);
    assert!(!rule.is_precise(&wide));
    // s = 10, mean 100: the first n at which t 10 factor / sqrt(n) is at most 5.
    let needed = rule.runs_needed(&wide).unwrap();
    let half =
        |n: u32| student_t(0.025, f64::from(n - 1)) * 10.0 * rule.factor() / f64::from(n).sqrt();
    assert!(needed == 20 || (half(needed) <= 5.0 && half(needed - 1) > 5.0), "{needed}");
    assert_eq!(rule.runs_needed(&close), Some(3));
    assert_eq!(rule.runs_needed(&Moments::of(&[1.0])), None);
}

#[test]
fn rules_that_stop_nowhere_are_refused() {
    for (min, max) in [(2, 10), (5, 4), (5, 1001)] {
        assert_eq!(StopRule::new(min, max, 0.03), Err(StopRuleError::Runs { min, max }));
    }
    for share in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        assert!(matches!(StopRule::new(5, 10, share), Err(StopRuleError::Share(_))));
    }
}
