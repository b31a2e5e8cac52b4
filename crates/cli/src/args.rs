//! Arguments that several commands share, one file each.

mod client;
mod config;
mod gateway;
mod log;
mod meters;
mod reading;
mod scenario;
mod site;
mod site_scenario;
pub(crate) mod ticket;
mod wait;
#[cfg(feature = "bpf")]
mod watch;

pub(crate) use client::ClientArgs;
pub(crate) use config::ConfigArgs;
pub(crate) use gateway::GatewayArgs;
pub(crate) use log::{LogArgs, LogFormat};
pub(crate) use meters::MeterArgs;
pub(crate) use reading::ReadingArgs;
pub(crate) use scenario::ScenarioArgs;
pub(crate) use site::SiteArgs;
pub(crate) use site_scenario::{ChosenSiteArgs, SiteScenario, SiteScenarioArgs, electricity};
pub(crate) use wait::WaitArgs;
#[cfg(feature = "bpf")]
pub(crate) use watch::WatchArgs;
