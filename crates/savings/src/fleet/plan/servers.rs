//! Servers of a plan, and pools of them.

use nightwatt_policy::fleet::{FleetSettings, ServerKind};
use nightwatt_policy::queueing::ServiceFit;
use nightwatt_sim::fleet::Service;

/// A kind of server.
#[derive(Debug, Clone)]
pub struct ServerPlan {
    /// As tables call it.
    pub name: String,
    /// What it can do, and draws.
    pub kind: ServerKind,
    /// How its service times are distributed.
    pub service: Service,
    /// Where its service rate was fitted.
    pub fit: Option<ServiceFit>,
}

/// A pool.
#[derive(Debug, Clone)]
pub struct PoolPlan {
    /// As tables call it.
    pub name: String,
    /// Its servers and what binds them.
    pub settings: FleetSettings,
    /// How service times are distributed.
    pub service: Service,
}
