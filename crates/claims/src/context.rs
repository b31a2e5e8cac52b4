//! What several claims share: a log, and what comes of it.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use nightwatt_traffic::synthetic::SyntheticSite;

use super::{Error, Printed, ReproduceOptions, silent};
use nightwatt_savings::analyze::{self, Analysis, AnalyzeOptions};
use nightwatt_savings::published::{self, Comparison, PublishedOptions};

/// Works out what is asked for, once.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a ReproduceOptions,
    /// The demo's day, written down.
    day: Option<tempfile::NamedTempFile>,
    comparison: Option<Comparison>,
    analysis: Option<Analysis>,
    log_was_read: bool,
    /// The claim that is being answered is about the log.
    is_of_log: bool,
    /// Folders of results that a claim was answered with.
    results: BTreeSet<PathBuf>,
}

impl<'a> Context<'a> {
    pub(super) const fn new(options: &'a ReproduceOptions) -> Self {
        Self {
            options,
            day: None,
            comparison: None,
            analysis: None,
            log_was_read: false,
            is_of_log: false,
            results: BTreeSet::new(),
        }
    }

    /// As the report calls the log; nothing, if no claim was about it.
    pub(super) fn log_name(&self) -> Option<String> {
        if !self.log_was_read {
            return None;
        }
        if self.options.logs.is_empty() {
            return Some("the demo's day (generated, seed 1)".to_owned());
        }
        let names = self.options.logs.iter().map(|log| log.display().to_string());
        Some(names.collect::<Vec<_>>().join(", "))
    }

    /// Was a claim since the last call about a generated log, whose requests were never sent to a server?
    pub(super) fn is_of_generated_log(&mut self) -> bool {
        std::mem::take(&mut self.is_of_log) && self.options.logs.is_empty()
    }

    /// A claim was answered with these results.
    pub(crate) fn used(&mut self, results: &Path) {
        self.results.insert(results.to_owned());
    }

    /// What was given in vain, in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.options.logs.is_empty() && !self.log_was_read {
            notes.push(
                "`--log` was not read: O2 to O5 are about a log, and none of them was asked for"
                    .to_owned(),
            );
        }
        for folder in self.options.results.iter().filter(|it| !self.results.contains(*it)) {
            notes.push(format!(
                "`--results {}` answers no claim that was asked for: folders of `compare` are for O7, V6, H2 \
                 and H3, each of the plan in `experiments` that names it, files of `tcp lab --json` for B1 to B5",
                folder.display()
            ));
        }
        notes
    }

    /// Is what this claim takes of the machine wanted? It is where the claim was named.
    pub(crate) fn measures(&self, claim: &Printed) -> bool {
        let is_named = self.options.ids.iter().any(|id| id.eq_ignore_ascii_case(&claim.id));
        self.options.measure || is_named
    }

    /// Five configurations over the log.
    pub(crate) fn comparison(&mut self) -> Result<&Comparison, Error> {
        (self.log_was_read, self.is_of_log) = (true, true);
        if self.comparison.is_none() {
            let options = PublishedOptions { logs: self.logs()?, ..PublishedOptions::default() };
            self.comparison = Some(published::run(&options, silent)?);
        }
        self.comparison.as_ref().ok_or_else(|| Error::Data("no comparison".to_owned()))
    }

    /// What sleeping would save on the log.
    pub(crate) fn analysis(&mut self) -> Result<&Analysis, Error> {
        (self.log_was_read, self.is_of_log) = (true, true);
        if self.analysis.is_none() {
            let options = AnalyzeOptions { logs: self.logs()?, ..AnalyzeOptions::default() };
            self.analysis = Some(analyze::run(&options, |_| ControlFlow::Continue(()))?);
        }
        self.analysis.as_ref().ok_or_else(|| Error::Data("no analysis".to_owned()))
    }

    fn logs(&mut self) -> Result<Vec<PathBuf>, Error> {
        if !self.options.logs.is_empty() {
            return Ok(self.options.logs.clone());
        }
        let day = match self.day.take() {
            Some(day) => day,
            None => written_day()
                .map_err(|source| crate::Error::System { what: "write down a day", source })?,
        };
        let path = day.path().to_owned();
        self.day = Some(day);
        Ok(vec![path])
    }
}

/// The demo's day as a Combined log.
fn written_day() -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().suffix(".log").tempfile()?;
    let mut out = std::io::BufWriter::new(file.as_file_mut());
    for it in SyntheticSite::default().arrivals() {
        let time = jiff::Timestamp::from_second(it.at.secs()).map_err(std::io::Error::other)?;
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        writeln!(
            out,
            "{} - - [{}] \"{} {} HTTP/1.1\" {} {} \"{}\" \"{}\"",
            it.client,
            time.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            it.method,
            it.target,
            it.status,
            it.bytes,
            or_dash(&it.referer),
            or_dash(&it.agent),
        )?;
    }
    out.flush()?;
    drop(out);
    Ok(file)
}
