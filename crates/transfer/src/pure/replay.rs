//! Runs a policy over a trace.

use std::collections::VecDeque;

use serde::Serialize;

use super::bill::{Bill, Work};
use super::policy::{Acknowledged, Extent, Outcome, Policy, Step};
use super::trace::{Trace, TraceBlock};

/// How a trace is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Replay {
    /// What is added up.
    pub bill: Bill,
    /// A block is acknowledged when this many later ones were sent: what is on the way.
    pub window: usize,
    /// Whether the policy knows how much is still to come.
    pub knows_length: bool,
}

/// What came of a block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sent {
    /// The arm's place.
    pub arm: usize,
    /// The bill, trials included.
    pub bill: f64,
    /// The part of it that trials and the canary added.
    pub trials: f64,
}

/// What came of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replayed {
    /// By block.
    pub blocks: Vec<Sent>,
}

impl Replayed {
    /// The bill.
    pub fn bill(&self) -> f64 {
        self.blocks.iter().map(|block| block.bill).sum()
    }

    /// The part of it that trials and the canary added.
    pub fn trials(&self) -> f64 {
        self.blocks.iter().map(|block| block.trials).sum()
    }

    /// How many blocks each arm sent.
    pub fn mix(&self, arms: usize) -> Vec<usize> {
        let mut mix = vec![0; arms];
        for block in &self.blocks {
            mix[block.arm] += 1;
        }
        mix
    }
}

/// Steps that a policy may take for one block; after them it is sent as it is.
const MOST_STEPS: usize = 64;

impl Replay {
    /// Sends the whole trace.
    pub fn run(&self, trace: &Trace, policy: &mut (impl Policy + ?Sized)) -> Replayed {
        let mut ahead: u64 = trace.blocks.iter().map(|block| u64::from(block.bytes)).sum();
        let mut on_the_way = VecDeque::new();
        let mut blocks = Vec::with_capacity(trace.blocks.len());
        for (number, block) in trace.blocks.iter().enumerate() {
            ahead -= u64::from(block.bytes);
            let known = self.knows_length.then_some(ahead);
            let (sent, work) = self.block(block, number as u64, known, policy);
            blocks.push(sent);
            on_the_way.push_back(Acknowledged { bytes: work.bytes, seconds: work.wire });
            if on_the_way.len() > self.window
                && let Some(acknowledged) = on_the_way.pop_front()
            {
                policy.acknowledged(&acknowledged);
            }
        }
        Replayed { blocks }
    }

    fn block(
        &self,
        block: &TraceBlock,
        number: u64,
        ahead: Option<u64>,
        policy: &mut (impl Policy + ?Sized),
    ) -> (Sent, Work) {
        let asked = block.block(number, ahead);
        let mut trials = 0.0;
        let mut packed = Vec::new();
        let outcome = |arm: usize, extent: Extent| {
            let figures = block.figures(arm, extent);
            let bytes = if extent == Extent::Whole { asked.bytes } else { asked.sample };
            Outcome { arm, extent, bytes, packed: figures.packed, seconds: figures.seconds }
        };
        for _ in 0..MOST_STEPS {
            let arm = match policy.next(&asked) {
                Step::Try(arm, extent) => {
                    let outcome = outcome(arm, extent);
                    trials += outcome.seconds;
                    if extent == Extent::Whole {
                        packed.push((arm, outcome.seconds));
                    }
                    policy.tried(&outcome);
                    continue;
                }
                Step::Send(arm) => arm,
            };
            let mut sent = outcome(arm, Extent::Whole);
            // What was packed whole is sent, and is no loss.
            if let Some((_, seconds)) = packed.iter().find(|(packed, _)| *packed == arm) {
                trials -= seconds;
                sent.seconds = 0.0;
            }
            policy.sent(&sent);
            return self.charged(block, arm, trials);
        }
        self.charged(block, 0, trials)
    }

    fn charged(&self, block: &TraceBlock, arm: usize, trials: f64) -> (Sent, Work) {
        let work = block.work(arm);
        let trials = self.bill.more(&work, trials.max(0.0));
        let bill = self.bill.of(&work) + trials;
        (Sent { arm, bill, trials }, work)
    }
}
