//! Worlds that drive the policies of the model: one server that sleeps, and pools of servers.
//!
//! Nothing here waits: a year of traffic takes as long as the decisions take.

pub mod cache;
pub mod days;
mod entries;
pub mod fleet;
mod hours;
mod mirror;
mod refresh;
mod resource;
pub mod site;
pub mod visits;
pub mod world;

pub use cache::{CacheModel, CacheSettings};
pub use days::{Day, Days};
pub use entries::{Slot, Slots};
pub use mirror::{Extent, MirrorModel};
pub use refresh::{RefreshCost, RefreshRule};
pub use resource::{Mirrorable, Resource, Shows};
pub use site::{LoggedRequest, SiteRun};
pub use visits::{Visit, VisitBook, VisitCount};
pub use world::{Answers, Demand, Outcome, Run, World};
