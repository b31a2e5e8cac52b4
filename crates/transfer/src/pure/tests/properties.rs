use proptest::prelude::*;

use super::super::arm::Arm;
use super::super::bill::{Bill, Objective, Overlap, Prices};
use super::super::compress::{Compress, Settings};
use super::super::policy::{Acknowledged, Block, BlockKind, Outcome, Policy, Step, sample_bytes};
use super::made::small_server;
use nightwatt_energy::quantity::Watts;

/// What the world answers to one block.
#[derive(Debug, Clone)]
struct World {
    bytes: u32,
    speeds: Vec<f64>,
    ratios: Vec<f64>,
    rate: f64,
}

fn worlds() -> impl Strategy<Value = Vec<World>> {
    let arms = Arm::usual().len();
    let world = (
        1_u32..(4 << 20),
        proptest::collection::vec(-10.0..-4.0, arms),
        proptest::collection::vec(0.0..1.2, arms),
        3.0..9.0,
    );
    let world =
        world.prop_map(|(bytes, speeds, ratios, rate): (u32, Vec<f64>, Vec<f64>, f64)| World {
            bytes,
            speeds: speeds.iter().map(|power| 10_f64.powf(*power)).collect(),
            ratios,
            rate: 10_f64.powf(rate),
        });
    proptest::collection::vec(world, 1..60)
}

fn bills() -> impl Strategy<Value = Bill> {
    (0_usize..4, any::<bool>(), 0.0..100.0, 0.0..50.0).prop_map(|(objective, serial, base, cpu)| {
        Bill {
            objective: Objective::ALL[objective],
            overlap: if serial { Overlap::Serial } else { Overlap::Pipelined },
            prices: Prices { base: Watts(base), cpu: Watts(cpu), ..small_server().prices },
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn trials_never_start_beyond_their_budget_and_the_state_stays_finite(
        worlds in worlds(), bill in bills(), knows in any::<bool>(),
    ) {
        let settings = Settings::new(Arm::usual(), bill);
        let mut policy = Compress::new(settings.clone());
        for (number, world) in worlds.iter().enumerate() {
            let ahead = worlds[number + 1..].iter().map(|it| u64::from(it.bytes)).sum();
            let block = Block {
                number: number as u64,
                bytes: world.bytes,
                sample: sample_bytes(world.bytes),
                kind: BlockKind::Zeros,
                ahead: knows.then_some(ahead),
            };
            let outcome = |arm: usize, extent, bytes: u32| Outcome {
                arm,
                extent,
                bytes,
                packed: (f64::from(bytes) * world.ratios[arm]) as u32,
                seconds: world.speeds[arm] * f64::from(bytes),
            };
            let mut steps = 0;
            loop {
                steps += 1;
                prop_assert!(steps < 10, "a block needs few steps");
                let trials = policy.counts().trials;
                let step = policy.next(&block);
                // A trial that starts is paid for: its expected cost is within the budget.
                prop_assert!(policy.counts().trials == trials || policy.budget().room() >= 0.0);
                match step {
                    Step::Try(arm, extent) => {
                        let bytes = if extent == super::super::policy::Extent::Whole { block.bytes } else { block.sample };
                        policy.tried(&outcome(arm, extent, bytes));
                    }
                    Step::Send(arm) => {
                        prop_assert!(arm < policy.arms().len());
                        policy.sent(&outcome(arm, super::super::policy::Extent::Whole, block.bytes));
                        break;
                    }
                }
            }
            let bytes = f64::from(world.bytes);
            policy.acknowledged(&Acknowledged { bytes, seconds: bytes / world.rate });
            prop_assert!(policy.link().seconds_per_byte().is_finite());
            prop_assert!(policy.budget().spent().is_finite() && policy.budget().bill().is_finite());
        }
    }

    #[test]
    fn figures_that_are_no_numbers_do_no_harm(
        seconds in proptest::collection::vec(
            prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.0), Just(1e-3)], 20..60,
        ),
    ) {
        let mut policy = Compress::new(Settings::new(Arm::usual(), small_server()));
        for (number, seconds) in seconds.iter().enumerate() {
            let block = Block { number: number as u64, bytes: 1 << 16, sample: 4096, kind: BlockKind::Text, ahead: None };
            loop {
                let outcome = |arm, extent| Outcome { arm, extent, bytes: 1 << 16, packed: 1 << 15, seconds: *seconds };
                match policy.next(&block) {
                    Step::Try(arm, extent) => policy.tried(&outcome(arm, extent)),
                    Step::Send(arm) => {
                        policy.sent(&outcome(arm, super::super::policy::Extent::Whole));
                        break;
                    }
                }
            }
            policy.acknowledged(&Acknowledged { bytes: 65536.0, seconds: *seconds });
            policy.unpacked(1, *seconds, *seconds);
            prop_assert!(policy.link().seconds_per_byte().is_finite());
            prop_assert!(policy.budget().spent().is_finite());
        }
    }
}

#[test]
fn none_alone_is_never_tried() {
    let mut policy = Compress::new(Settings::new(Vec::new(), small_server()));
    let block = Block { number: 0, bytes: 1, sample: 1, kind: BlockKind::Other, ahead: None };
    assert_eq!(policy.next(&block), Step::Send(0));
    assert_eq!(policy.arms(), [Arm::NONE]);
}
