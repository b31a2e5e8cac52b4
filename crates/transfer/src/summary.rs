//! What sending took, for people and for programs.

use std::fmt::Write as _;

use nightwatt_energy::energy::Energy;
use serde::Serialize;

use crate::pure::bill::{Bill, Objective};
use crate::send::{Report, Session};

/// What sending took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// From the first message to the receipt, s.
    pub seconds: f64,
    /// What the arms were chosen by.
    pub bill: Bill,
    /// Of this machine.
    pub energy: Energy,
    /// By the same model and prices, had all blocks been sent as they are at the rate that was seen: J.
    pub uncompressed_joules: Option<f64>,
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
    /// Paths that were left out here.
    pub skipped: Vec<String>,
}

impl Summary {
    /// Of a session that is done.
    pub fn of(session: &Session, bill: Bill, seconds: f64, energy: Energy) -> Self {
        let receipt = session.receipt();
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let rejected = receipt.iter().flat_map(|receipt| &receipt.rejected);
        let sent = session.report().clone();
        Self {
            seconds,
            bill,
            energy,
            uncompressed_joules: uncompressed(&sent, &bill, seconds),
            entries: receipt.map_or(0, |receipt| receipt.entries),
            rejected: rejected.map(|it| [lossy(&it.path), it.reason.clone()]).collect(),
            rejected_count: receipt.map_or(0, |receipt| receipt.rejected_count),
            removed: receipt.map_or(0, |receipt| receipt.removed),
            skipped: Vec::new(),
            sent,
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let Report { total_bytes, had_bytes, hole_bytes, wire_bytes, .. } = self.sent;
        let mut text = String::new();
        let taken = total_bytes - had_bytes - hole_bytes.min(total_bytes - had_bytes);
        let mut line = |line: String| {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{line}");
        };
        let rate = bytes(total_bytes.saturating_sub(had_bytes) as f64 / self.seconds.max(1e-9));
        let time = format!("{:.1} s", self.seconds);
        line(format!(
            "sent       {} as {} in {time} ({rate}/s)",
            bytes(taken as f64),
            bytes(wire_bytes as f64)
        ));
        if had_bytes > 0 {
            line(format!("was there  {}", bytes(had_bytes as f64)));
        }
        if hole_bytes > 0 {
            line(format!("holes      {}, not sent", bytes(hole_bytes as f64)));
        }
        if !self.sent.arms.is_empty() {
            line(format!("codecs     {}", mix(&self.sent)));
        }
        line(format!("energy     {} ({})", joules(&self.energy), basis(&self.energy, &self.bill)));
        if let Some(uncompressed) = self.uncompressed_joules {
            line(format!("           {uncompressed:.1} J by the same model without compression"));
        }
        if self.removed > 0 {
            line(format!("deleted    {}, which are not here", self.removed));
        }
        if self.rejected_count > 0 {
            line(format!("not written: {}", self.rejected_count));
            for [path, reason] in &self.rejected {
                line(format!("  {path}: {reason}"));
            }
        }
        text
    }
}

/// The share of each arm: `zstd-3 82 %, none 18 %`.
pub fn mix(report: &Report) -> String {
    let all: u64 = report.arms.iter().map(|arm| arm.bytes).sum();
    let mut arms: Vec<_> = report.arms.iter().collect();
    arms.sort_by_key(|arm| std::cmp::Reverse(arm.bytes));
    let share = |arm: &&crate::send::ArmTotals| {
        format!("{} {:.0} %", arm.arm, arm.bytes as f64 * 100.0 / all.max(1) as f64)
    };
    arms.iter().map(share).collect::<Vec<_>>().join(", ")
}

fn uncompressed(report: &Report, bill: &Bill, seconds: f64) -> Option<f64> {
    let rate = report.link_rate?;
    let sent: u64 = report.arms.iter().map(|arm| arm.bytes).sum();
    // What was neither the link's time nor the packer's would have been the same: above all, the receiver's disk.
    let busy = (report.wire_bytes as f64 / rate).max(report.cpu_seconds);
    let seconds = sent as f64 / rate + (seconds - busy).max(0.0);
    let plain = Report { cpu_seconds: 0.0, wire_bytes: sent, ..report.clone() };
    Some(plain.modelled(&bill.prices, seconds))
}

fn joules(energy: &Energy) -> String {
    format!("{:.1} J ± {:.1} J", energy.joules.get(), energy.uncertainty.get())
}

fn basis(energy: &Energy, bill: &Bill) -> String {
    use nightwatt_energy::energy::Provenance;
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

/// Bytes in a unit that fits.
pub fn bytes(count: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut count = count;
    let mut place = 0;
    while count >= 999.5 && place + 1 < units.len() {
        count /= 1000.0;
        place += 1;
    }
    let digits = usize::from(place > 0 && count < 99.95);
    format!("{count:.digits$} {}", units[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_a_unit_that_fits() {
        let shown = [0.0, 999.0, 1000.0, 12_345.0, 999_600.0, 123_456_789.0, 5e15].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "12.3 kB", "1.0 MB", "123 MB", "5000 TB"]);
    }
}
