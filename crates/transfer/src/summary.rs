//! What sending took, for people and for programs.

use std::fmt::Write as _;

use nightwatt_energy::display::bytes;
use nightwatt_energy::energy::{Energy, Provenance};
use nightwatt_report::figures::{rounded, with_half_width};
use serde::Serialize;

use crate::pure::arm::Arm;
use crate::pure::bill::{Bill, Objective};
use crate::pure::shown::{self, between};
use crate::send::{ArmTotals, Report, Session};
use crate::wire::Spent;

/// Energy for packing with one codec, above idle.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CodecJoules {
    /// Which.
    pub arm: Arm,
    /// J.
    pub joules: f64,
    /// The lower and the upper end of what it may be (95 %), J.
    pub range: [f64; 2],
}

/// What sending took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// From the first message to the receipt, s.
    pub seconds: f64,
    /// What the arms were chosen by.
    pub bill: Bill,
    /// Of this machine.
    pub energy: Energy,
    /// The lower and the upper end of what the energy may be (95 %): J. A modelled one may be off by a factor.
    pub energy_range: [f64; 2],
    /// Of it, the network card's, by the watts that it needs to send: J. Modelled.
    pub nic_joules: f64,
    /// Of the receiver, if that is known.
    pub receiver: Option<Spent>,
    /// Packing by each codec, blocks and trials, by the watts of a busy core: J. Modelled.
    pub codec_joules: Vec<CodecJoules>,
    /// By the same model and prices, had all blocks been sent as they are, at the quicker and the slower of the rates
    /// between which half of the blocks were carried: J. Absent if that would say little.
    pub uncompressed_joules: Option<[f64; 2]>,
    /// What was sent.
    pub sent: Report,
    /// Entries that are in place at the receiver.
    pub entries: u64,
    /// Entries that were deleted there.
    pub removed: u64,
    /// Entries that the receiver did not write: path and reason, the first hundred.
    pub rejected: Vec<[String; 2]>,
    /// How many there are.
    pub rejected_count: u64,
    /// Paths that could not be read here.
    pub skipped: Vec<String>,
    /// Sockets, pipes and devices, and temporary files of nightwatt, which are left out.
    pub special: Vec<String>,
    /// What the user may not expect of what was sent.
    pub notes: Vec<String>,
    /// Files that grew while they were sent, the first hundred: what was listed of them is there.
    pub grown: Vec<String>,
}

impl Summary {
    /// Of a session that is done.
    pub fn of(session: &Session, bill: Bill, seconds: f64, basis: Basis) -> Self {
        let Basis { energy, core_doubt } = basis;
        let receipt = session.receipt();
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let rejected = receipt.iter().flat_map(|receipt| &receipt.rejected);
        let sent = session.report().clone();
        Self {
            seconds,
            bill,
            energy_range: range(&energy),
            energy,
            nic_joules: sent.nic_joules(&bill.prices, seconds),
            receiver: receipt.and_then(|receipt| receipt.spent.clone()),
            codec_joules: codec_joules(&sent, &bill, core_doubt),
            uncompressed_joules: uncompressed(&sent, &bill, seconds),
            entries: receipt.map_or(0, |receipt| receipt.entries),
            rejected: rejected.map(|it| [lossy(&it.path), it.reason.clone()]).collect(),
            rejected_count: receipt.map_or(0, |receipt| receipt.rejected_count),
            removed: receipt.map_or(0, |receipt| receipt.removed),
            skipped: Vec::new(),
            special: Vec::new(),
            notes: Vec::new(),
            grown: session.grown().map(lossy).collect(),
            sent,
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let Report { had_bytes, acknowledged_bytes, hole_bytes, wire_bytes, .. } = self.sent;
        let mut text = String::new();
        let taken = acknowledged_bytes.saturating_sub(hole_bytes);
        let mut line = |line: String| {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{line}");
        };
        let rate = bytes((taken as f64 / self.seconds.max(1e-9)) as u64);
        let time = format!("{:.1} s", self.seconds);
        line(format!("sent       {} as {} in {time} ({rate}/s)", bytes(taken), bytes(wire_bytes)));
        if had_bytes > 0 {
            line(format!("was there  {}", bytes(had_bytes)));
        }
        if hole_bytes > 0 {
            line(format!("holes      {}, not sent", bytes(hole_bytes)));
        }
        if self.sent.arms.iter().any(|arm| arm.blocks > 0) {
            line(format!("codecs     {}", mix(&self.sent)));
        }
        line(format!(
            "energy     {} ({})",
            joules_in_words(&self.energy, self.energy_range),
            basis(&self.energy, &self.bill)
        ));
        let nic = &self.bill.prices.nic;
        line(format!(
            "           {:.1} J of it the network card's (modelled: {nic:.1} while it sends)",
            self.nic_joules
        ));
        if let Some(spent) = &self.receiver {
            line(format!("receiver   {}", spent.text()));
        }
        if let Some([low, high]) = self.uncompressed_joules {
            let model = "by the same model without compression";
            line(format!("           {} J {model}", between(low, high)));
        }
        if self.sent.grown > 0 {
            line(format!(
                "grew       {} meanwhile, and are there as long as before:",
                self.sent.grown
            ));
            for path in &self.grown {
                line(format!("  {}", shown::line(path)));
            }
        }
        if self.removed > 0 {
            line(format!("deleted    {}, which are not here", self.removed));
        }
        if self.rejected_count > 0 {
            line(format!("not written: {}", self.rejected_count));
            for [path, reason] in &self.rejected {
                line(format!("  {}: {}", shown::line(path), shown::line(reason)));
            }
        }
        text
    }
}

fn joules_in_words(energy: &Energy, [low, high]: [f64; 2]) -> String {
    let Energy { joules, uncertainty, provenance } = energy;
    match provenance {
        Provenance::Measured { .. } => {
            let [joules, off] = with_half_width(joules.get(), uncertainty.get())
                .unwrap_or_else(|| [joules, uncertainty].map(|it| format!("{:.1}", it.get())));
            format!("{joules} J ± {off} J")
        }
        _ if high > low => {
            let all = [joules.get(), low, high].map(|it| rounded(it, Some((high - low) / 2.0)));
            let [joules, low, high] = all;
            format!("{joules} J, {low} to {high} J")
        }
        _ => format!("{:.1} J, {} J", joules.get(), between(low, high)),
    }
}

/// What the joules are known by.
#[derive(Debug, Clone, PartialEq)]
pub struct Basis {
    /// Of this machine.
    pub energy: Energy,
    /// How far the watts of a busy core may be off, as a share of them.
    pub core_doubt: f64,
}

fn codec_joules(report: &Report, bill: &Bill, doubt: f64) -> Vec<CodecJoules> {
    let of = |totals: &ArmTotals| {
        let joules = bill.prices.cpu.get() * totals.cpu_seconds;
        CodecJoules {
            arm: totals.arm,
            joules,
            range: [joules / (1.0 + doubt), joules * (1.0 + doubt)],
        }
    };
    report.arms.iter().map(of).collect()
}

/// The share of each arm: `zstd-3 82 %, none 18 %`.
pub fn mix(report: &Report) -> String {
    let all: u64 = report.arms.iter().map(|arm| arm.bytes).sum();
    let mut arms: Vec<_> = report.arms.iter().filter(|arm| arm.blocks > 0).collect();
    arms.sort_by_key(|arm| std::cmp::Reverse(arm.bytes));
    let share = |arm: &&crate::send::ArmTotals| {
        format!("{} {:.0} %", arm.arm, arm.bytes as f64 * 100.0 / all.max(1) as f64)
    };
    arms.iter().map(share).collect::<Vec<_>>().join(", ")
}

/// The two ends may not be further apart than this: what is said would be no help.
const SAYS_LITTLE: f64 = 3.0;

fn uncompressed(report: &Report, bill: &Bill, seconds: f64) -> Option<[f64; 2]> {
    let [slow, fast] = report.link_rates?;
    let sent: u64 = report.arms.iter().map(|arm| arm.bytes).sum();
    let at = |rate: f64| {
        // What was neither the link's time nor the packer's would have been the same: above all, the receiver's disk.
        let busy = (report.wire_bytes as f64 / rate).max(report.cpu_seconds);
        let seconds = sent as f64 / rate + (seconds - busy).max(0.0);
        let plain = Report {
            cpu_seconds: 0.0,
            process_seconds: (report.process_seconds - report.cpu_seconds).max(0.0),
            wire_bytes: sent,
            link_rate: Some(rate),
            ..report.clone()
        };
        plain.modelled(&bill.prices, seconds)
    };
    let [low, high] = [at(fast), at(slow)];
    (high <= low * SAYS_LITTLE).then_some([low, high])
}

/// A meter is off by an amount, a model by a factor: no machine draws less than nothing.
fn range(energy: &Energy) -> [f64; 2] {
    let (joules, off) = (energy.joules.get(), energy.uncertainty.get());
    match energy.provenance {
        Provenance::Measured { .. } => [(joules - off).max(0.0), joules + off],
        _ if joules > 0.0 => [joules / (1.0 + off / joules), joules + off],
        _ => [joules.max(0.0), joules + off],
    }
}

fn basis(energy: &Energy, bill: &Bill) -> String {
    let origin = match &energy.provenance {
        Provenance::Measured { meter } => format!("measured by {meter}"),
        Provenance::Modelled { model } => format!("modelled: {model}"),
        Provenance::Mixed { meter, model, .. } => {
            format!("measured by {meter} and modelled: {model}")
        }
    };
    let of = match bill.objective {
        Objective::Whole => "codecs chosen for the whole machine, idle power included",
        Objective::Dynamic => "codecs chosen for power above idle",
        Objective::Nic => "codecs chosen for the network card",
        Objective::Time => "codecs chosen for time",
    };
    format!("{origin}; {of}")
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::quantity::{Joules, Watts};

    use super::*;
    use crate::pure::bill::{Overlap, Prices};

    /// The case of an attack: 11.3 J, known to a factor of 7, was printed as 11.3 J ± 66.5 J.
    #[test]
    fn a_modelled_energy_is_never_negative() {
        let [low, high] = range(&Energy::modelled(Joules(11.3), 5.885, "typical"));
        assert!((low - 11.3 / 6.885).abs() < 1e-9 && (high - 11.3 * 6.885).abs() < 1e-9);
        let measured = Energy::measured(Joules(100.0), Joules(3.0), "plug");
        let [low, high] = range(&measured);
        assert!((low - 97.0).abs() < 1e-9 && (high - 103.0).abs() < 1e-9);
    }

    /// By hand, from the rule of two digits (JCGM 100:2008, 7.2.6), and from a factor of 6.8 about 7.8 J.
    #[test]
    fn joules_have_no_digit_beyond_what_is_known() {
        let shown = |energy: Energy| joules_in_words(&energy, range(&energy));
        assert_eq!(shown(Energy::modelled(Joules(7.8), 5.78, "typical")), "8 J, 1 to 53 J");
        let measured = |off| shown(Energy::measured(Joules(123.4), Joules(off), "plug"));
        assert_eq!(measured(3.0), "123.4 J ± 3.0 J");
        assert_eq!(measured(15.0), "123 J ± 15 J");
        assert_eq!(measured(0.0), "123.4 J ± 0.0 J");
    }

    /// 10 MB as 1 MB in 2 s over a link of 1 MB/s: 10 s by it, and the second that was not the link's. At 20 W that is
    /// 220 J; at 0.5 MB/s, where all time was the link's, 20 s and 400 J.
    #[test]
    fn without_compression_is_a_range_or_nothing() {
        let arm = ArmTotals {
            arm: Arm::CANARY,
            blocks: 10,
            bytes: 10_000_000,
            packed: 1_000_000,
            cpu_seconds: 0.1,
        };
        let report = |slow: f64| Report {
            wire_bytes: 1_000_000,
            cpu_seconds: 0.1,
            arms: vec![arm.clone()],
            link_rates: Some([slow, 1e6]),
            ..Report::default()
        };
        let prices = Prices {
            base: Watts(20.0),
            cpu: Watts(8.0),
            nic: Watts::ZERO,
            nic_byte: 0.0,
            receiver: Watts::ZERO,
        };
        let bill = Bill { objective: Objective::Whole, overlap: Overlap::Pipelined, prices };
        let [low, high] = uncompressed(&report(5e5), &bill, 2.0).unwrap();
        assert!((low - 220.0).abs() < 1e-9 && (high - 400.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(uncompressed(&report(1e5), &bill, 2.0), None, "it may be anything");
        let few = Report { link_rates: None, ..report(5e5) };
        assert_eq!(uncompressed(&few, &bill, 2.0), None);
    }
}
