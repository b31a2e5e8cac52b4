//! Writes reports as pages and as tables, each file completely or not at all.

use std::fs;
use std::path::Path;

use nightwatt_clock::Clock;
use nightwatt_report::{Document, Table};
use serde::Serialize;

use crate::errors::Failure;
use crate::whole_file;

/// Writes a report as one HTML file.
pub(crate) fn page(path: &Path, document: impl FnOnce(String) -> Document) -> Result<(), Failure> {
    let page = document(generated()).to_html();
    whole_file::write(path, page.as_bytes()).map_err(|error| cannot_write(path, &error))
}

/// Writes a report in all its forms into the folder of its results.
pub(crate) fn folder(
    folder: &Path,
    report: &impl Serialize,
    document: impl FnOnce(String) -> Document,
    csv: &[(&str, Table)],
) -> Result<(), Failure> {
    page(&folder.join("report.html"), document)?;
    let json = serde_json::to_vec(report)
        .map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
    let path = folder.join("report.json");
    whole_file::write(&path, &json).map_err(|error| cannot_write(&path, &error))?;
    tables(folder, csv)
}

/// Writes tables as CSV into a folder, which it creates.
pub(crate) fn tables(folder: &Path, tables: &[(&str, Table)]) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    for (name, table) in tables {
        let path = folder.join(format!("{name}.csv"));
        whole_file::write(&path, table.to_csv().as_bytes())
            .map_err(|error| cannot_write(&path, &error))?;
    }
    Ok(())
}

/// What made a report, and when.
pub(crate) fn generated() -> String {
    let when = nightwatt_energy::civil::to_minute(Clock::real().now().wall.secs());
    format!("nightwatt {}, {when} UTC", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("name a file or a folder that you may write to")
}
