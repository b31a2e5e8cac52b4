//! Links whose rate changes (T4 and T6 of the design).

use nightwatt_transfer::pure::compress::{Compress, Settings};
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

/// A trace whose link has one rate, and another one from a block on.
fn changed(trace: &Trace, [before, after]: [f64; 2], from: usize) -> Trace {
    let mut trace = trace.at_rate(after);
    trace.blocks[..from].iter_mut().for_each(|block| block.rate = before);
    trace
}

/// T4: after 8 blocks, and after as many as the link carries in a second if those are more, the policy costs at most 5 %
/// more than the oracle, pooled. Single cells of text miss that beside a link whose rate was never another one; they are
/// counted.
#[test]
fn a_tenfold_change_of_the_rate_is_followed_on_recorded_content() {
    const BEFORE: usize = 100;
    const BLOCKS: usize = 1000;
    let changes = [[1e4, 1e5], [1e5, 1e4], [1e5, 1e6], [1e6, 1e5], [1e6, 1e7], [1e7, 1e6]];
    let (mut pooled, mut missed) = ([0.0; 3], 0);
    for corpus in CORPORA {
        for rates in changes {
            let recorded = recorded(corpus, f64::min(rates[0], rates[1]), 0);
            let steady = recorded.repeated(BLOCKS).at_rate(rates[1]);
            let trace = changed(&steady, rates, BEFORE);
            let replayed = [ours(&trace), ours(&steady), oracle(&trace)];
            let sent = replayed[0].blocks[BEFORE..].iter().zip(&trace.blocks[BEFORE..]);
            let wire = sent.scan(0.0, |seconds, (sent, block)| {
                *seconds += block.work(sent.arm).wire;
                Some(*seconds)
            });
            let settled = BEFORE + wire.take_while(|seconds| *seconds < 1.0).count().max(8);
            let bills =
                replayed.map(|it| it.blocks[settled..].iter().map(|it| it.bill).sum::<f64>());
            let ratio = bills[0] / bills[1];
            println!(
                "{corpus:11} {:>8} to {:>8} B/s: from block {:3} on {ratio:.4} x steady, {:.4} x the oracle",
                rates[0],
                rates[1],
                settled - BEFORE,
                bills[0] / bills[2]
            );
            missed += u32::from(ratio > 1.05);
            pooled.iter_mut().zip(bills).for_each(|(sum, bill)| *sum += bill / bills[2]);
        }
    }
    let [ours, steady, oracles] = pooled;
    println!("{missed} of 24 cells over 1.05 x steady");
    println!("pooled: {:.4} x steady, {:.4} x the oracle", ours / steady, ours / oracles);
    assert!(ours / oracles <= 1.05, "T4, pooled, of the oracle: {}", ours / oracles);
}

/// Rates of a link that changes, from 100 kB/s to 10 MB/s.
const SLOWEST: f64 = 1e5;
const DECADES: f64 = 2.0;
/// For how long each trace lasts if nothing is packed, and each stretch of the same content, s.
const LASTS: f64 = 600.0;
const STRETCH: f64 = 20.0;

/// A pseudo-random number from 0 to 1, by the step.
fn drawn(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

/// These corpora by turns, in blocks as long as they were recorded for the rate, which is given in decades above the
/// slowest for each second.
fn changing(corpora: &[&str], rate: &mut dyn FnMut(f64) -> f64) -> Trace {
    let of = |corpus: &&str| [1e5, 1e6, 1e7].map(|rate| recorded(corpus, rate, 0));
    let traces: Vec<[Trace; 3]> = corpora.iter().map(of).collect();
    let (mut blocks, mut seconds) = (Vec::new(), 0.0);
    while seconds < LASTS {
        let decades = rate(seconds);
        let from =
            &traces[(seconds / STRETCH) as usize % traces.len()][decades.round() as usize].blocks;
        let rate = SLOWEST * 10_f64.powf(decades);
        let block = TraceBlock { rate, ..from[blocks.len() % from.len()].clone() };
        seconds += f64::from(block.bytes) / rate;
        blocks.push(block);
    }
    Trace { blocks, ..traces[0][0].clone() }
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

/// T6: the published 38 % less than the next best choice (Singh 2014) is out of reach here: the oracle itself saves less.
/// Ours costs a tenth more than the oracle at most, pooled: while acknowledgements are on the way, it does not know that
/// the rate has changed.
#[test]
fn what_choosing_saves_on_a_changing_link() {
    let mut ratios = Vec::new();
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
                let fixed = (0..trace.arms.len()).map(|arm| replay().run(&trace, &mut Fixed(arm)));
                let next = fixed.map(|it| it.bill()).fold(f64::INFINITY, f64::min);
                let [saved, limit] = [ours, oracle].map(|bill| 1.0 - bill / next);
                println!(
                    "{name}, {kind} {seed}: {:.1} % less than the best fixed codec; the oracle {:.1} %",
                    saved * 100.0,
                    limit * 100.0
                );
                assert!(limit > 0.0 && limit < 0.38, "T6, {name}, {kind} {seed}: {limit}");
                ratios.push(ours / oracle);
            }
        }
    }
    let pooled = ratios.iter().sum::<f64>() / ratios.len() as f64;
    println!("pooled {pooled:.4} x the oracle");
    assert!(pooled <= 1.10, "T6: {pooled}");
}
