//! One file per subcommand; each has a `run` from its arguments to the exit status.

pub(crate) mod agent;
pub(crate) mod analyze;
pub(crate) mod calibrate;
#[cfg(feature = "bpf")]
pub(crate) mod caliper;
pub(crate) mod check;
pub(crate) mod demo;
#[cfg(feature = "bpf")]
pub(crate) mod disk;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fleet;
pub(crate) mod load;
pub(crate) mod meters;
pub(crate) mod origin;
pub(crate) mod published;
pub(crate) mod purge;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sleep;
pub(crate) mod status;
pub(crate) mod stay_awake;
pub(crate) mod wake;
