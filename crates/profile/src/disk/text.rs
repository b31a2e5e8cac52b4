//! The report for people.

use std::fmt::Write;

use crate::cells::end_of;

use super::report::{DeviceReport, DiskReport};
use super::row::DiskRow;
use super::totals::DiskTotal;

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
        let mut text = String::new();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n Bytes of processes on devices, {:.1} s:\n", self.elapsed_s);
        if self.rows.len() > FEW {
            write_totals(&mut text, "program", &self.programs);
            write_totals(&mut text, "folder", &self.folders);
        }
        let _ = writeln!(
            text,
            " {:<15} {:>7} {:<PATH$} {:<8} {:>9} {:>9} {:>6} {:>9} {:>9} {:>10}",
            "command", "pid", "file", "device", "dirtied", "written", "%", "direct", "read", "J"
        );
        // What was dirty before is in the devices' column of what is unknown.
        let mut rows = self.rows.iter().filter(|row| row.pid.is_some() || row.folded > 0);
        rows.by_ref().take(ROWS).for_each(|row| row.write(&mut text));
        let more = rows.count();
        if more > 0 {
            let _ = writeln!(text, " ... and {more} more rows (--json has all)");
        }
        let _ = writeln!(
            text,
            "\n {:<8} {:<9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9}",
            "device",
            "kind",
            "written",
            "by files",
            "journal",
            "metadata",
            "stacked",
            "unknown",
            "read",
            "J",
            "±"
        );
        for device in &self.devices {
            device.write(&mut text);
        }
        let modelled = self.devices.iter().find_map(|device| match device.provenance.as_ref()? {
            nightwatt_energy::energy::Provenance::Modelled { model } => Some(model),
            _ => None,
        });
        if let Some(model) = modelled {
            let _ = writeln!(text, "\n J: above the idle device, modelled: {model}");
        }
        if self.exit_status != 0 {
            let _ = writeln!(text, "\n the command ended with exit status {}", self.exit_status);
        }
        text
    }
}

/// The largest totals of a kind.
fn write_totals(text: &mut String, kind: &str, totals: &[DiskTotal]) {
    let _ = writeln!(
        text,
        " {kind:<PATH$} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "processes", "files", "dirtied", "written", "direct", "read", "J"
    );
    for total in totals.iter().take(TOTALS) {
        let _ = writeln!(
            text,
            " {:<PATH$} {:>9} {:>7} {:>9} {:>9} {:>9} {:>9} {:>10}",
            end_of(&total.name, PATH),
            total.processes,
            total.files,
            size(total.dirtied),
            size(total.written),
            size(total.direct),
            size(total.read),
            total.joules.map(figure).unwrap_or_default(),
        );
    }
    let more = totals.len().saturating_sub(TOTALS);
    if more > 0 {
        let _ = writeln!(text, " ... and {more} more (--json has all)");
    }
    text.push('\n');
}

impl DiskRow {
    fn write(&self, text: &mut String) {
        let pid = self.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let command = if self.pid.is_none() { "(others)" } else { &end_of(&self.command, COMMAND) };
        let percent = self.on_device_percent.map(|it| format!("{it:.0}")).unwrap_or_default();
        let _ = writeln!(
            text,
            " {command:<COMMAND$} {pid:>7} {:<PATH$} {:<8} {:>9} {:>9} {percent:>6} {:>9} {:>9} {:>10}",
            end_of(&self.what(), PATH),
            self.device,
            size(self.dirtied),
            size(self.written),
            size(self.direct),
            size(self.read),
            match (&self.carries, self.joules) {
                (Some(device), None) => format!("in {device}"),
                (_, joules) => joules.map(figure).unwrap_or_default(),
            }
        );
    }

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
    fn write(&self, text: &mut String) {
        let kind = match (self.class, self.lies_on.as_slice()) {
            (_, [first, ..]) => format!("on {first}"),
            (Some(class), _) => class.name().to_owned(),
            (None, _) => "?".to_owned(),
        };
        let _ = writeln!(
            text,
            " {:<8} {kind:<9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9}",
            self.device,
            size(self.written),
            size(self.attributed),
            size(self.journal),
            size(self.metadata),
            size(self.stacked),
            size(self.unattributed),
            size(self.read),
            self.joules.map(figure).unwrap_or_default(),
            self.uncertainty_j.map(figure).unwrap_or_default(),
        );
    }
}

/// `12.3 MB`; nothing of nothing.
fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        _ if bytes == 0.0 => String::new(),
        _ if bytes >= 1e9 => format!("{:.2} GB", bytes / 1e9),
        _ if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} kB", bytes / 1e3),
    }
}

/// Joules with three digits that count.
fn figure(joules: f64) -> String {
    let digits = if joules > 0.0 { 2 - joules.log10().floor() as i32 } else { 0 };
    let digits = digits.clamp(0, 6) as usize;
    format!("{joules:.digits$}")
}
