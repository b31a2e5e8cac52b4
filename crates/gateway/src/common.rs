//! What sites, servers and machines need to open: the configuration, and the files with their records.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use nightwatt_clock::Clock;
use nightwatt_policy::history::Rates;
use nightwatt_policy::lifecycle::Handed;
use nightwatt_policy::manager::Memory;

use crate::config::Config;
use crate::dashboard_history::HistoryLog;
use crate::disk_cache::DiskCache;
use crate::error::StartError;
use crate::ledger_file::{self, Journal};
use crate::metering::{Feed, Meters};
use crate::supervisor::Records;

/// What sites, servers and machines need to open.
pub(crate) struct Common<'a> {
    pub(crate) config: &'a Config,
    pub(crate) clock: &'a Clock,
    /// Shadow mode: no server is touched.
    pub(crate) observe: bool,
    /// Wait for the disk at each ledger record.
    pub(crate) durable: bool,
    pub(crate) disk: Option<&'a Arc<DiskCache>>,
    /// The state of servers and machines that another process handed over, by name.
    pub(crate) handed: &'a HashMap<String, Handed>,
}

impl Common<'_> {
    /// Opens the ledger of the site, server or machine of this name, and continues where it ended. With a meter of the
    /// server or of the proxy, also restores the metered hours from it.
    pub(crate) fn records(
        &self,
        name: &str,
        [server, proxy]: [Option<Feed>; 2],
        rates: Rates,
    ) -> Result<Records, StartError> {
        let path = self.config.state_dir.join(format!("{name}.ledger.jsonl"));
        let (journal, memory) = self.journal(&path)?;
        let mut hours = Vec::new();
        if server.is_some() || proxy.is_some() {
            let records = ledger_file::read(&path).unwrap_or_default();
            hours.extend(records.into_iter().filter_map(|record| record.hour));
        }
        let meters = Meters::new(server, proxy, hours);
        let chronicle = self.chronicle(name, rates)?;
        let handed = self.handed.get(name).copied();
        Ok(Records { journal: Some(journal), memory, shelf: None, meters, chronicle, handed })
    }

    /// The past of the server of this name, if there is a dashboard to show it.
    fn chronicle(&self, name: &str, rates: Rates) -> Result<Option<HistoryLog>, StartError> {
        if self.config.admin.is_none() {
            return Ok(None);
        }
        let state_dir = &self.config.state_dir;
        let (now, durable) = (self.clock.now(), self.durable);
        let opened = HistoryLog::open(state_dir, name, rates, now, durable);
        opened.map(Some).map_err(StartError::file(state_dir))
    }

    /// Opens a ledger, with the totals that it ended with.
    pub(crate) fn journal(&self, path: &Path) -> Result<(Journal, Memory), StartError> {
        Journal::open(path, self.clock.now().wall, self.durable).map_err(StartError::file(path))
    }
}
