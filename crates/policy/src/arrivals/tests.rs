use proptest::prelude::*;

use super::*;

/// How far the distribution of `values` is from `cdf`, times the root of their number: the
/// statistic of Kolmogorov and Smirnov. Above 1.95 with a probability of 1 in 1000.
fn kolmogorov_smirnov(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let apart = values.iter().enumerate().map(|(index, &value)| {
        let (below, upto) = (index as f64 / n, (index + 1) as f64 / n);
        (cdf(value) - below).abs().max((upto - cdf(value)).abs())
    });
    apart.fold(0.0, f64::max) * n.sqrt()
}

/// 1 in 1000.
const REJECTED_ABOVE: f64 = 1.95;

fn exponential_cdf(mean: f64) -> impl Fn(f64) -> f64 {
    move |gap| 1.0 - (-gap / mean).exp()
}

fn gaps(times: impl Iterator<Item = f64>) -> Vec<f64> {
    let gap = |last: &mut f64, time: f64| Some(time - std::mem::replace(last, time));
    times.scan(0.0, gap).collect()
}

fn rate(per_second: f64) -> Rate {
    Rate::new(per_second).unwrap()
}

#[test]
fn gaps_of_a_poisson_process_are_exponential() {
    let poisson = Arrivals::Poisson(rate(2000.0));
    for seed in 1..=10 {
        let gaps = gaps(poisson.times(seed).take(20_000));
        let right = kolmogorov_smirnov(gaps.clone(), exponential_cdf(1.0 / 2000.0));
        let wrong = kolmogorov_smirnov(gaps, exponential_cdf(1.0 / 1900.0));
        println!("seed {seed}: {right:.3}, and {wrong:.3} for a rate 5 % off");
        assert!(right < REJECTED_ABOVE, "seed {seed}: {right}");
        assert!(wrong > REJECTED_ABOVE, "the test has no power: {wrong}");
    }
}

#[test]
fn gaps_of_a_poisson_process_do_not_depend_on_each_other() {
    let gaps = gaps(Arrivals::Poisson(rate(1.0)).times(3).take(100_000));
    let product = gaps.windows(2).map(|two| (two[0] - 1.0) * (two[1] - 1.0)).sum::<f64>();
    // The correlation of n independent pairs has the standard deviation 1 / sqrt(n).
    let correlation = product / gaps.len() as f64;
    println!("seed 3: correlation {correlation:.5}");
    assert!(correlation.abs() < 3.3 / (gaps.len() as f64).sqrt(), "{correlation}");
}

#[test]
fn constant_arrivals_are_exact_however_many_came_before() {
    let times: Vec<f64> = Arrivals::Constant(rate(8.0)).times(1).take(4).collect();
    assert_eq!(times, [0.0, 0.125, 0.25, 0.375]);
    // 3/s: a third is no binary fraction, and its error must not grow with the count.
    let late = Arrivals::Constant(rate(3.0)).times(1).nth(3_000_000).unwrap();
    assert!((late - 1e6).abs() < f64::EPSILON, "{late}");
}

#[test]
fn a_day_has_its_mean_its_peak_and_its_trough() {
    let day = Profile::day(rate(20.0), 1.8, 600.0).unwrap();
    let steps = 600_000;
    let sum = (0..steps).map(|n| day.rate_at((f64::from(n) + 0.5) / 1000.0)).sum::<f64>();
    assert!((sum / f64::from(steps) - 20.0).abs() < 1e-9, "the integral is the mean");
    // Of the steps beside the extremes, within a quarter of an hour of a day of them: 1 - cos is
    // at most (2 pi / 96)^2 / 2 = 0.0021 there.
    assert!((day.rate_at(300.1) / 20.0 - 1.8).abs() < 0.8 * 0.0022, "{}", day.rate_at(300.1));
    assert!((day.rate_at(0.1) / 20.0 - 0.2).abs() < 0.8 * 0.0022, "{}", day.rate_at(0.1));
    assert!((day.rate_at(150.0) / 20.0 - 1.0).abs() < 0.06, "a quarter of the way it is the mean");
    assert!((day.rate_at(900.1) - day.rate_at(300.1)).abs() < 1e-12, "the next day is the same");
}

/// The integral of the rate from the start to `time`, step by step.
fn passed(rates: &[f64], step: f64, time: f64) -> f64 {
    let whole = (time / step) as usize;
    let before: f64 = (0..whole).map(|n| rates[n % rates.len()] * step).sum();
    before + rates[whole % rates.len()] * (time - whole as f64 * step)
}

#[test]
fn arrivals_along_a_profile_are_exponential_in_the_rate_that_has_passed() {
    // Time rescaling: with the integral of the rate for a clock, any such process is Poisson.
    let rates = [3.0, 0.0, 12.0, 0.5, 40.0];
    let profile = Arrivals::Profile(Profile::new(&rates, 7.0, true).unwrap());
    for seed in 1..=5 {
        let times = profile.times(seed).take(5_000);
        let gaps = gaps(times.map(|time| passed(&rates, 7.0, time)));
        let right = kolmogorov_smirnov(gaps, exponential_cdf(1.0));
        println!("seed {seed}: {right:.3}");
        assert!(right < REJECTED_ABOVE, "seed {seed}: {right}");
    }
}

#[test]
fn a_day_brings_as_many_as_its_integral() {
    let day = Profile::day(rate(50.0), 1.9, 200.0).unwrap();
    let process = Arrivals::Profile(day);
    for seed in 1..=10 {
        // Ten days: 100,000 in the mean, with the standard deviation 316.
        let count = process.times(seed).take_while(|time| *time < 2000.0).count() as f64;
        let nights = process.times(seed).take_while(|time| *time < 2000.0);
        let nights = nights.filter(|time| time % 200.0 < 50.0 || time % 200.0 >= 150.0);
        // The half of the day around midnight has 1/2 - 0.9 / pi of them.
        let expected = 100_000.0 * (0.5 - 0.9 / std::f64::consts::PI);
        let nights = nights.count() as f64;
        println!("seed {seed}: {count}, {nights} of them at night ({expected:.0})");
        assert!((count - 100_000.0).abs() < 3.9 * 316.2, "seed {seed}: {count}");
        assert!((nights - expected).abs() < 3.9 * expected.sqrt(), "seed {seed}: {nights}");
    }
}

#[test]
fn a_profile_that_does_not_repeat_ends() {
    let once = Profile::new(&[0.0, 100.0, 0.0], 2.0, false).unwrap();
    assert!((once.length() - 6.0).abs() < f64::EPSILON);
    let rates = [7.0, -1.0, 3.0].map(|time| format!("{}", once.rate_at(time)));
    assert_eq!(rates, ["0", "0", "100"]);
    let times: Vec<f64> = Arrivals::Profile(once).times(5).collect();
    // 200 in the mean, with the standard deviation 14.1.
    assert!((145..=255).contains(&times.len()), "{}", times.len());
    assert!(times.iter().all(|time| (2.0..4.0).contains(time)));
}

#[test]
fn a_trace_is_told_from_its_first_time_in_order_and_faster_if_wanted() {
    let trace = Trace::new(vec![107.0, 100.0, 103.0, 103.0]).unwrap();
    let told = |trace: &Trace| Arrivals::Trace(trace.clone()).times(1).collect::<Vec<_>>();
    assert_eq!(told(&trace), [0.0, 3.0, 3.0, 7.0]);
    assert_eq!(trace.mean_rate(), Some(3.0 / 7.0));
    let faster = trace.faster(2.0).unwrap();
    assert_eq!(told(&faster), [0.0, 1.5, 1.5, 3.5]);
    assert_eq!(Arrivals::Trace(faster).mean_rate(), Some(6.0 / 7.0));
    assert_eq!(Trace::new(vec![5.0]).unwrap().mean_rate(), None);
    assert!(told(&Trace::new(Vec::new()).unwrap()).is_empty());
}

#[test]
fn what_is_no_process_says_why() {
    let said = |error: Result<(), ArrivalsError>| error.unwrap_err().to_string();
    let bursts = |factor, share| said(Bursts::new(rate(1.0), factor, share, 1.0).map(drop));
    assert_eq!(said(Rate::new(0.0).map(drop)), "the rate is 0; it must be a number above 0");
    assert!(said(Rate::new(f64::INFINITY).map(drop)).starts_with("the rate is inf;"));
    assert!(bursts(11.0, 0.1).starts_with("bursts at 11 times the mean rate cannot fill 0.1 of"));
    assert!(bursts(0.5, 0.1).contains("factor between 1 and"));
    assert!(bursts(2.0, f64::NAN).contains("cannot fill NaN"));
    assert!(said(Bursts::new(rate(1.0), 2.0, 0.1, -1.0).map(drop)).contains("length of a burst"));
    let profile = |rates: &[f64]| said(Profile::new(rates, 1.0, true).map(drop));
    assert!(profile(&[1.0, -2.0]).starts_with("step 1 of the profile is -2;"));
    assert!(profile(&[0.0, 0.0]).contains("not all of them 0"));
    assert!(profile(&[]).contains("no steps"));
    assert!(said(Profile::day(rate(1.0), 2.5, 1.0).map(drop)).contains("between 1 and 2"));
    let trace = said(Trace::new(vec![1.0, f64::NAN]).map(drop));
    assert!(trace.starts_with("time 1 of the trace is NaN"), "{trace}");
}

fn processes() -> impl Strategy<Value = Arrivals> {
    let positive = 1e-3..1e6;
    prop_oneof![
        positive.clone().prop_map(|n| Arrivals::Constant(rate(n))),
        positive.clone().prop_map(|n| Arrivals::Poisson(rate(n))),
        (positive.clone(), 0.01..0.99, 0.0..=1.0, 1e-3..1e3).prop_map(
            |(n, share, part, length)| {
                let factor = 1.0 + part * (1.0 / share - 1.0);
                Arrivals::Bursts(Bursts::new(rate(n), factor, share, length).unwrap())
            }
        ),
        (positive.clone(), 1.0..=2.0, positive.clone()).prop_map(|(n, peak, length)| {
            Arrivals::Profile(Profile::day(rate(n), peak, length).unwrap())
        }),
        (proptest::collection::vec(-1e6..1e6, 0..50), positive).prop_map(|(times, speed)| {
            Arrivals::Trace(Trace::new(times).unwrap().faster(speed).unwrap())
        }),
    ]
}

proptest! {
    #[test]
    fn times_ascend_from_zero_and_come_again_with_the_seed(
        process in processes(),
        seed: u64,
    ) {
        let times: Vec<f64> = process.times(seed).take(200).collect();
        prop_assert!(times.iter().all(|time| *time >= 0.0 && time.is_finite()));
        prop_assert!(times.is_sorted());
        prop_assert_eq!(&times, &process.times(seed).take(200).collect::<Vec<_>>());
        let random = !matches!(process, Arrivals::Constant(_) | Arrivals::Trace(_));
        let other: Vec<f64> = process.times(seed ^ 1).take(200).collect();
        prop_assert_eq!(random, times != other);
    }
}
