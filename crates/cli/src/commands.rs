//! All commands, one file each. A command's file has its arguments with their help (`Args`), the place of the command in
//! `nightwatt --help` (`LISTED`), and its `run`.
//!
//! To add a command, write its file, and name it here: with the modules, and in the list below.

mod agent;
mod analyze;
mod calibrate;
#[cfg(feature = "bpf")]
mod caliper;
mod check;
mod compare;
mod completions;
mod corun;
mod demo;
#[cfg(feature = "bpf")]
mod disk;
mod doctor;
mod export;
mod fleet;
mod forgive;
pub(crate) mod init;
mod load;
mod man;
mod meters;
mod mining;
mod mirror;
mod origin;
mod published;
mod purge;
mod receive;
mod record;
mod reload;
mod replay;
mod report;
mod reproduce;
mod run;
mod schedule;
pub(crate) mod send;
mod serve;
mod sleep;
mod status;
mod stay_awake;
mod tcp;
mod wake;
mod why;

use clap::{Parser, Subcommand};

use crate::ExitStatus;
use crate::errors::Failure;

/// Measures the energy that a network service uses, models what it could do without, and saves it by
/// letting servers sleep behind a caching proxy that keeps the service up.
#[derive(Debug, Parser)]
#[command(name = "nightwatt", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

macro_rules! commands {
    ($($(#[$when:meta])* $command:ident = $module:ident,)+) => {
        /// What can be done.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$when])* $command(Box<$module::Args>),)+
        }

        impl Command {
            /// Runs it.
            pub(crate) fn run(&self) -> Result<ExitStatus, Failure> {
                match self {
                    $($(#[$when])* Self::$command(args) => $module::run(args),)+
                }
            }
        }

        /// Where the help lists each command, in their order.
        pub(crate) const LISTED: &[Listed] = &[$($(#[$when])* $module::LISTED,)+];
    };
}

// Completions and manual pages have them in this order, and so has each group of the help.
commands! {
    Meters = meters,
    Run = run,
    #[cfg(feature = "bpf")]
    Caliper = caliper,
    #[cfg(feature = "bpf")]
    Disk = disk,
    Record = record,
    Export = export,
    Calibrate = calibrate,
    Init = init,
    Serve = serve,
    Agent = agent,
    Status = status,
    Wake = wake,
    Sleep = sleep,
    StayAwake = stay_awake,
    Purge = purge,
    Mirror = mirror,
    Why = why,
    Forgive = forgive,
    Reload = reload,
    Send = send,
    Receive = receive,
    Analyze = analyze,
    Published = published,
    Fleet = fleet,
    Mining = mining,
    Compare = compare,
    Corun = corun,
    Schedule = schedule,
    Report = report,
    Reproduce = reproduce,
    Demo = demo,
    Replay = replay,
    Load = load,
    Tcp = tcp,
    Origin = origin,
    Check = check,
    Doctor = doctor,
    Completions = completions,
    Man = man,
}

/// Where `nightwatt --help` lists a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    /// In its group, before the others.
    First(Group),
    /// In its group.
    In(Group),
    /// In its group, after the others.
    Last(Group),
}

/// Commands that help with the same kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Measure,
    Model,
    Compare,
    Act,
    Check,
    Install,
}

impl Group {
    /// All groups, in the order of the work.
    pub(crate) const ALL: [Self; 6] =
        [Self::Measure, Self::Model, Self::Compare, Self::Act, Self::Check, Self::Install];

    /// Its heading in the help.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Measure => "Measure: how many joules something uses",
            Self::Model => "Model: what a service could do without",
            Self::Compare => "Compare: environments, servers, published results",
            Self::Act => "Act: let servers sleep",
            Self::Check => "Check: configurations and machines",
            Self::Install => "Install: completions and manual pages",
        }
    }
}
