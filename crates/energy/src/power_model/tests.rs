use proptest::prelude::*;

use super::*;
use crate::uncertainty::Accuracy;

fn server() -> Machine {
    // RS720-E9/RS8 of the SPECpower result of December 2018: 48.2 W idle, 385 W at full load.
    Machine {
        cpu: "Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz".to_owned(),
        sockets: 2,
        cores: 56,
        threads: 112,
        memory_bytes: 192 << 30,
        ..Machine::default()
    }
}

fn desktop() -> Machine {
    let cpu = "Intel(R) Core(TM) i7-2700K CPU @ 3.50GHz".to_owned();
    Machine { cpu, sockets: 1, cores: 4, threads: 8, memory_bytes: 16 << 30, ..Machine::default() }
}

fn guest(threads: u32) -> Machine {
    Machine { is_virtual: true, cores: threads, threads, memory_bytes: 4 << 30, ..server() }
}

fn at(machine: &Machine, utilisation: f64) -> Estimate {
    PowerModel::typical(machine).power(&Activity { utilisation, ..Activity::default() })
}

fn holds(estimate: Estimate, watts: f64) -> bool {
    estimate.low <= Watts(watts) && Watts(watts) <= estimate.high
}

/// Upper end over lower end.
fn width(estimate: Estimate) -> f64 {
    estimate.high / estimate.low
}

#[test]
fn published_readings_lie_within_the_intervals() {
    let board = Machine { board: Some("Raspberry Pi 4 Model B".to_owned()), ..Machine::default() };
    let laptop = Machine { has_battery: true, ..desktop() };
    for (what, machine, idle, full) in [
        ("SPECpower, RS720-E9/RS8", server(), 48.2, 385.0),
        // Percentiles 5 and 95 of the desktop in tracebase.
        ("tracebase, desktop D337C9", desktop(), 62.0, 151.0),
        // pidramble.com, power consumption benchmarks: 540 mA and 1280 mA at 5 V.
        ("Raspberry Pi 4", board, 2.7, 6.4),
        // codinghorror.com, "How Much Power Does My Laptop Really Use?"
        ("Dell Inspiron 300m", laptop, 15.0, 26.0),
    ] {
        assert!(holds(at(&machine, 0.0), idle), "{what}: {:?}", at(&machine, 0.0));
        assert!(holds(at(&machine, 1.0), full), "{what}: {:?}", at(&machine, 1.0));
    }
}

#[test]
fn the_less_is_known_the_wider_the_interval() {
    let nameless = Machine { cpu: "Intel Xeon".to_owned(), ..server() };
    let [known, unknown] = [&server(), &nameless].map(|machine| width(at(machine, 0.5)));
    assert!(known < unknown, "{known} {unknown}");
    assert!(unknown < width(at(&guest(112), 0.5)));
    let nowhere_else = Machine { cores: 800, memory_bytes: 1 << 30, ..server() };
    assert!(known < width(at(&nowhere_else, 0.5)), "unlike any machine that was fitted to");
}

#[test]
fn a_guest_has_its_threads_share() {
    let [small, large] = [2, 8].map(|threads| at(&guest(threads), 0.3).watts);
    assert!((large / small - 4.0).abs() < 1e-9);
}

#[test]
fn figures_say_that_they_are_modelled_and_how() {
    for (machine, words) in [
        (server(), ["typical server", "of about 2017", "by regression over SPECpower"]),
        (guest(4), ["typical virtual machine", "4 threads", "the host is not seen"]),
        (desktop(), ["typical desktop", "range", "without screen"]),
    ] {
        let Provenance::Modelled { model } = PowerModel::typical(&machine).provenance() else {
            panic!("a model measures nothing")
        };
        assert!(words.iter().all(|word| model.contains(word)), "{model}");
    }
    let readings: Vec<_> = (0..20).map(|step| (f64::from(step) / 20.0, Watts(50.0))).collect();
    let fitted = Fitted::line(&readings, Accuracy::relative(0.01), "a plug on 2026-11-21").unwrap();
    let model = "power curve fitted to a plug on 2026-11-21".to_owned();
    assert_eq!(PowerModel::Fitted(fitted).provenance(), Provenance::Modelled { model });
}

#[test]
fn an_hour_is_no_better_known_than_a_second() {
    let model = PowerModel::typical(&server());
    let activity = Activity { utilisation: 0.25, ..Activity::default() };
    let power = model.power(&activity);
    let second = model.energy([(activity, Duration::from_secs(1))]);
    let hour = model.energy((0..3600).map(|_| (activity, Duration::from_secs(1))));
    assert!((second.joules.get() - power.watts.get()).abs() < 1e-9);
    assert!((second.uncertainty.get() - power.uncertainty().get()).abs() < 1e-9);
    assert!((hour.joules / second.joules - 3600.0).abs() < 1e-6);
    assert!((hour.uncertainty / second.uncertainty - 3600.0).abs() < 1e-6);
    assert!(matches!(hour.provenance, Provenance::Modelled { .. }));
    assert_eq!(model.energy([]).joules, Joules::ZERO);
}

#[test]
fn disks_and_wake_ups_add_what_the_documentation_says() {
    let model = PowerModel::typical(&server());
    let idle = model.power(&Activity::default());
    let busy = model.power(&Activity { disks_busy: 1.5, wake_ups: 1000.0, ..Activity::default() });
    // 1.5 disks x 2 W + 1000/s x 0.2 mJ; at most 1.5 x 6 W + 1000/s x 1 mJ.
    assert!(((busy.watts - idle.watts).get() - 3.2).abs() < 1e-9);
    assert!(((busy.high - idle.high).get() - 10.0).abs() < 1e-9);
    assert_eq!(busy.low, idle.low);
}

#[test]
fn a_curve_of_the_machines_own_readings_has_its_wake_ups_in_it() {
    let readings: Vec<_> = (0..=20)
        .map(|step| (f64::from(step) / 20.0, Watts(40.0 + 3.0 * f64::from(step))))
        .collect();
    let model =
        PowerModel::Fitted(Fitted::line(&readings, Accuracy::relative(0.01), "a plug").unwrap());
    let at =
        |wake_ups| model.power(&Activity { utilisation: 0.5, wake_ups, ..Activity::default() });
    assert_eq!(at(0.0), at(10_000.0));
}

#[test]
fn a_machine_that_only_wakes_up_draws_no_more_than_a_busy_one() {
    let model = PowerModel::typical(&server());
    let frantic = model.power(&Activity { wake_ups: f64::INFINITY, ..Activity::default() });
    let full = model.power(&Activity { utilisation: 1.0, ..Activity::default() });
    assert_eq!(frantic.watts, full.watts);
    assert_eq!(frantic.high, full.high);
}

#[test]
fn the_utilisation_is_the_mean_over_the_threads_that_are_known() {
    let utilisation = |busy: &[f64]| Activity::of_threads(busy).utilisation;
    assert!((utilisation(&[0.0, 1.0, 0.5, 0.5]) - 0.5).abs() < 1e-12);
    assert!((utilisation(&[0.4, f64::NAN]) - 0.4).abs() < 1e-12);
    assert!((utilisation(&[3.0, -1.0]) - 0.5).abs() < 1e-12, "each within 0 ..= 1");
    assert!(utilisation(&[]).abs() < f64::EPSILON);
}

#[test]
fn a_model_that_is_written_is_read_back() {
    for machine in [server(), desktop(), guest(2)] {
        let model = PowerModel::typical(&machine);
        let text = serde_json::to_string(&model).unwrap();
        let again: PowerModel = serde_json::from_str(&text).unwrap();
        let activity = Activity { utilisation: 0.37, ..Activity::default() };
        let [was, is] = [&model, &again].map(|model| model.power(&activity).watts.get());
        assert!((was - is).abs() < 1e-9 * was, "{was} {is}");
        assert_eq!(model.provenance(), again.provenance());
    }
}

fn any_machine() -> impl Strategy<Value = Machine> {
    let named = prop::sample::select(vec![
        "Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz",
        "AMD EPYC 9965 192-Core Processor",
        "Intel Xeon 5160",
        "Intel Xeon",
        "QEMU Virtual CPU",
        "",
    ]);
    let nearly = "(Xeon|EPYC|Opteron|Core)? ?(E[357]-|i7-|[EXLW])?[0-9]{0,5}[vV]?[0-9]{0,3}";
    let cpus = prop_oneof![named.prop_map(str::to_owned), any::<String>(), nearly];
    let odd = || prop_oneof![Just(0), Just(1), 1..300_u32, Just(u32::MAX)];
    let memory = prop_oneof![Just(0), Just(u64::MAX), 0..1_u64 << 42];
    let kinds = (any::<bool>(), any::<bool>(), any::<Option<u8>>(), any::<bool>());
    let numbers = prop::sample::select(vec![(0, 0), (6, 106), (25, 17), (u32::MAX, u32::MAX)]);
    (cpus, numbers, odd(), odd(), odd(), memory, kinds).prop_map(
        |(cpu, numbers, sockets, cores, threads, memory_bytes, kinds)| {
            let (cpu_family, cpu_model) = numbers;
            let (is_virtual, has_battery, chassis, board) = kinds;
            Machine {
                cpu,
                cpu_family,
                cpu_model,
                sockets,
                cores,
                threads,
                memory_bytes,
                is_virtual,
                chassis,
                has_battery,
                board: board.then(|| "board".to_owned()),
            }
        },
    )
}

proptest! {
    #[test]
    fn every_machine_has_a_sane_power_whatever_it_is_said_to_do(
        machine in any_machine(),
        [utilisation, disks_busy, wake_ups] in [any::<f64>(), any::<f64>(), any::<f64>()],
    ) {
        let model = PowerModel::typical(&machine);
        let Estimate { watts, low, high } =
            model.power(&Activity { utilisation, disks_busy, wake_ups });
        prop_assert!(0.0 < low.get() && low <= watts && watts <= high, "{low} {watts} {high}");
        prop_assert!(high.get().is_finite(), "{high}");
    }

    #[test]
    fn who_does_more_never_draws_less(
        machine in any_machine(),
        [less, more] in [0.0..=1.0, 0.0..=1.0],
        [disks_busy, wake_ups] in [0.0..10.0, 0.0..1e5],
    ) {
        let (less, more) = if less <= more { (less, more) } else { (more, less) };
        let model = PowerModel::typical(&machine);
        let power = |utilisation| model.power(&Activity { utilisation, disks_busy, wake_ups });
        let (below, above) = (power(less), power(more));
        prop_assert!(below.watts <= above.watts, "{below:?} {above:?}");
        prop_assert!(below.low <= above.low, "{below:?} {above:?}");
        prop_assert!(below.high <= above.high, "{below:?} {above:?}");
    }

    #[test]
    fn a_fitted_curve_is_as_sane_as_a_typical_one(
        watts in prop::collection::vec(0.1..1000.0f64, 2..6),
        [residual_sd, relative, offset] in [0.0..50.0f64, 0.0..0.5f64, 0.0..5.0f64],
        [less, more] in [any::<f64>(), any::<f64>()],
    ) {
        let last = (watts.len() - 1) as f64;
        let points = watts.iter().enumerate().map(|(knot, &watts)| Point {
            utilisation: knot as f64 / last,
            watts: Watts(watts),
        });
        let accuracy = Accuracy { relative, watts: Watts(offset) };
        let fitted = Fitted::new(points.collect(), Watts(residual_sd), accuracy, "test").unwrap();
        let model = PowerModel::Fitted(fitted);
        let power = |utilisation| model.power(&Activity { utilisation, ..Activity::default() });
        let (below, above) = (power(less.min(more)), power(less.max(more)));
        // Where the curve is level, mixtures of the same two figures differ in their last digits.
        let rises = |below: Watts, above: Watts| below <= above * (1.0 + 1e-12);
        prop_assert!(rises(below.watts, above.watts) && rises(below.high, above.high));
        for Estimate { watts, low, high } in [below, above] {
            prop_assert!(0.0 < watts.get() && low <= watts && watts <= high, "{low} {watts} {high}");
            prop_assert!(0.0 <= low.get() && high.get().is_finite(), "{low} {high}");
        }
    }
}
