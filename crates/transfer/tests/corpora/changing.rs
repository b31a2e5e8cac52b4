//! Links whose rate changes (T4 and T6 of the design).

use nightwatt_transfer::pure::compress::{Compress, Settings};
use nightwatt_transfer::pure::policy::Policy;
use nightwatt_transfer::pure::replay::{Replay, Replayed};
use nightwatt_transfer::pure::rivals::{Fixed, Oracle};
use nightwatt_transfer::pure::trace::{Trace, TraceBlock};

use crate::{CORPORA, bill, recorded};

/// As many blocks are on the way as with the sender.
const WINDOW: usize = 4;

fn replay() -> Replay {
    Replay { bill: bill(), window: WINDOW, knows_length: true }
}

fn ours(trace: &Trace) -> Replayed {
    replay().run(trace, &mut Compress::new(Settings::new(trace.arms.clone(), bill())))
}

fn oracle(trace: &Trace) -> Replayed {
    replay().run(trace, &mut Oracle::of(trace, &bill()))
}

/// T4: within 5 % of the oracle after 8 blocks, and after as many as the link carries in a second if those are more.
#[test]
fn a_tenfold_change_of_the_rate_is_followed_on_recorded_content() {
    const BEFORE: usize = 100;
    let changes = [[1e4, 1e5], [1e5, 1e4], [1e5, 1e6], [1e6, 1e5], [1e6, 1e7], [1e7, 1e6]];
    for corpus in CORPORA {
        for [before, after] in changes {
            let mut trace = recorded(corpus, f64::min(before, after), 0);
            for (place, block) in trace.blocks.iter_mut().enumerate() {
                block.rate = if place < BEFORE { before } else { after };
            }
            let (ours, oracle) = (ours(&trace), oracle(&trace));
            let sent = ours.blocks[BEFORE..].iter().zip(&trace.blocks[BEFORE..]);
            let wire = sent.scan(0.0, |seconds, (sent, block)| {
                *seconds += block.work(sent.arm).wire;
                Some(*seconds)
            });
            let settled = BEFORE + wire.take_while(|seconds| *seconds < 1.0).count().max(8);
            let of = |it: &Replayed| it.blocks[settled..].iter().map(|it| it.bill).sum::<f64>();
            let ratio = of(&ours) / of(&oracle);
            let (blocks, left) = (settled - BEFORE, trace.blocks.len() - settled);
            println!(
                "{corpus:11} {before:>8} to {after:>8} B/s: after {blocks} blocks {ratio:.4} x the oracle, over {left}"
            );
            assert!(ratio <= 1.05, "T4, {corpus}, {before} to {after}: {ratio}");
        }
    }
}

/// Rates of a link that changes, from 30 kB/s to 30 MB/s.
const SLOWEST: f64 = 3e4;
const DECADES: f64 = 3.0;
/// Blocks of each trace, and of each stretch of the same content.
const BLOCKS: usize = 2000;
const STRETCH: usize = 100;

/// A pseudo-random number from 0 to 1, by the step.
fn drawn(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

/// Blocks of 128 KiB of these corpora by turns, over a link whose rate is given in decades above the slowest.
fn changing(corpora: &[&str], rate: &mut dyn FnMut(f64) -> f64) -> Trace {
    let traces: Vec<Trace> = corpora.iter().map(|corpus| recorded(corpus, 1e6, 0)).collect();
    let (mut blocks, mut seconds) = (Vec::with_capacity(BLOCKS), 0.0);
    for place in 0..BLOCKS {
        let from = &traces[place / STRETCH % traces.len()].blocks;
        let rate = SLOWEST * 10_f64.powf(rate(seconds));
        let block = TraceBlock { rate, ..from[place % from.len()].clone() };
        // As long as it would last as it is, so that the link is the same for all policies.
        seconds += f64::from(block.bytes) / rate;
        blocks.push(block);
    }
    Trace { blocks, ..traces[0].clone() }
}

/// Another rate every 5 s.
fn steps(state: &mut u64) -> impl FnMut(f64) -> f64 + '_ {
    let (mut until, mut decades) = (0.0, 0.0);
    move |seconds| {
        if seconds >= until {
            (until, decades) = (seconds + 5.0, drawn(state) * DECADES);
        }
        decades
    }
}

/// A random walk: up or down by up to a third of a decade each second, reflected at the ends.
fn walk(state: &mut u64) -> impl FnMut(f64) -> f64 + '_ {
    let (mut until, mut decades) = (1.0, DECADES / 2.0);
    move |seconds| {
        while seconds >= until {
            until += 1.0;
            let next: f64 = decades + (drawn(state) - 0.5) / 1.5;
            decades = if next < 0.0 {
                -next
            } else if next > DECADES {
                2.0 * DECADES - next
            } else {
                next
            };
        }
        decades
    }
}

/// T6: 38 % less than the next best choice (Singh 2014) depends on the trace: what the oracle saves is the limit. Ours
/// must save nearly as much.
#[test]
fn what_choosing_saves_on_a_changing_link() {
    let mut most = 0.0_f64;
    for (name, corpora) in
        [("text", &["canterbury"][..]), ("text and film", &["canterbury", "mp4"])]
    {
        for seed in 1..=3 {
            for kind in ["steps", "walk"] {
                let mut state = seed;
                let trace = match kind {
                    "steps" => changing(corpora, &mut steps(&mut state)),
                    _ => changing(corpora, &mut walk(&mut state)),
                };
                let (ours, oracle) = (ours(&trace).bill(), oracle(&trace).bill());
                let fixed =
                    |arm: usize| replay().run(&trace, &mut Fixed(arm) as &mut dyn Policy).bill();
                let (next, arm) = (0..trace.arms.len())
                    .map(|arm| (fixed(arm), arm))
                    .min_by(|one, other| one.0.total_cmp(&other.0))
                    .unwrap();
                let (saved, limit) = (1.0 - ours / next, 1.0 - oracle / next);
                println!(
                    "{name}, {kind} {seed}: {:.1} % less than the next best choice ({}); the oracle {:.1} %",
                    saved * 100.0,
                    trace.arms[arm],
                    limit * 100.0
                );
                assert!(saved > limit - 0.05, "T6, {name}, {kind} {seed}: {saved}, {limit}");
                most = most.max(saved);
            }
        }
    }
    println!("at most {:.1} %", most * 100.0);
}
