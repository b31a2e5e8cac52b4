//! The report for people.

use nightwatt_energy::display::bytes;
use nightwatt_energy::energy::Provenance;
use nightwatt_report::{Table, figures};

use super::report::{DeviceReport, DiskReport};
use super::row::DiskRow;
use super::totals::DiskTotal;
use crate::cells::end_of;
use crate::text::ended;

/// Rows that people are shown; `--json` has all.
const ROWS: usize = 30;
/// So few rows need no totals above them.
const FEW: usize = 10;
/// Totals of each kind that are shown.
const TOTALS: usize = 10;
/// Paths longer than this are cut.
const PATH: usize = 40;

/// As long as the kernel has them.
const COMMAND: usize = 15;

impl DiskReport {
    /// The rows with the most bytes, then the devices.
    pub fn text(&self) -> String {
        // What was dirty before is in the devices' column of what is unknown.
        let rows = self.rows.iter().filter(|row| row.pid.is_some() || row.folded > 0);
        let rows = Table::of("", rows)
            .text("command", |it| match it.pid {
                Some(_) => end_of(&it.command, COMMAND),
                None => "(others)".to_owned(),
            })
            .written("pid", "", |it| it.pid.map(|pid| pid.to_string()).unwrap_or_default())
            .text("file", |it| end_of(&it.what(), PATH))
            .text("device", |it| it.device.as_str())
            .written("dirtied", "", |it| size(it.dirtied))
            .written("written", "", |it| size(it.written))
            .number("%", "", 0, |it| it.on_device_percent)
            .written("direct", "", |it| size(it.direct))
            .written("read", "", |it| size(it.read))
            .written("energy", "J", |it| match (&it.carries, it.joules) {
                (Some(device), None) => format!("in {device}"),
                (_, joules) => energy(joules, it.uncertainty_j),
            })
            .most(ROWS);
        let devices = Table::of("", &self.devices)
            .text("device", |it| it.device.as_str())
            .text("kind", DeviceReport::kind)
            .written("written", "", |it| size(it.written))
            .written("by files", "", |it| size(it.attributed))
            .written("journal", "", |it| size(it.journal))
            .written("metadata", "", |it| size(it.metadata))
            .written("stacked", "", |it| size(it.stacked))
            .written("unknown", "", |it| size(it.unattributed))
            .written("read", "", |it| size(it.read))
            .written("energy", "J", |it| energy(it.joules, it.uncertainty_j))
            .written("±", "J", |it| energy(it.uncertainty_j, it.uncertainty_j));
        let modelled = self.devices.iter().find_map(|device| match device.provenance.as_ref()? {
            Provenance::Modelled { model } => {
                Some(format!("\n J: above the idle device, modelled: {model}\n"))
            }
            _ => None,
        });
        let added_up = if self.rows.len() > FEW {
            totals("program", &self.programs) + &totals("folder", &self.folders)
        } else {
            String::new()
        };
        format!(
            "\n Bytes of processes on devices, {:.1} s:\n\n{added_up}{}\n{}{}{}",
            self.elapsed_s,
            Table::from(rows).to_text(),
            Table::from(devices).to_text(),
            modelled.unwrap_or_default(),
            ended(self.exit_status)
        )
    }
}

/// The largest totals of a kind.
fn totals(kind: &str, totals: &[DiskTotal]) -> String {
    let table = Table::of("", totals)
        .text(kind, |it| end_of(&it.name, PATH))
        .count("processes", |it| it.processes)
        .count("files", |it| it.files)
        .written("dirtied", "", |it| size(it.dirtied))
        .written("written", "", |it| size(it.written))
        .written("direct", "", |it| size(it.direct))
        .written("read", "", |it| size(it.read))
        .written("energy", "J", |it| energy(it.joules, it.uncertainty_j))
        .most(TOTALS);
    Table::from(table).to_text() + "\n"
}

impl DiskRow {
    fn what(&self) -> String {
        match (&self.path, self.inode, self.folded) {
            (Some(path), ..) => path.clone(),
            (None, Some(inode), _) => format!("(inode {inode})"),
            (None, None, 0) => "(past the page cache, or no file's)".to_owned(),
            (None, None, files) => format!("({files} files)"),
        }
    }
}

impl DeviceReport {
    fn kind(&self) -> String {
        match (self.class, self.lies_on.as_slice()) {
            (_, [first, ..]) => format!("on {first}"),
            (Some(class), _) => class.name().to_owned(),
            (None, _) => "?".to_owned(),
        }
    }
}

/// A byte count, empty for 0.
fn size(count: u64) -> String {
    if count == 0 { String::new() } else { bytes(count) }
}

/// Joules with the digits that the model leaves sure, empty where there are none.
fn energy(joules: Option<f64>, uncertainty_j: Option<f64>) -> String {
    joules.map(|joules| figures::rounded(joules, uncertainty_j)).unwrap_or_default()
}
