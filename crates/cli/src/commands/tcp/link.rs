//! `nightwatt tcp link`: what the laboratory runs at the ends of a link, and between them. Each prints `ready` when it
//! is, and a JSON object at its end.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use nightwatt_netlab::ends::agent;
use nightwatt_netlab::probe::{self, ProbeRequest};
use nightwatt_netlab::relay::{LinkEmulation, Relay};

use crate::ExitStatus;
use crate::errors::Failure;
use crate::{output, signals};

/// `tcp link`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[command(subcommand)]
    pub(crate) step: LinkStep,
}

/// Commands at the ends of a link, and between them.
#[derive(Debug, Subcommand)]
pub(crate) enum LinkStep {
    /// Act as the wire between two cards
    Relay {
        /// Network namespace of the first card, as a file
        #[arg(long, value_hint = ValueHint::FilePath)]
        first: PathBuf,
        /// Network namespace of the second card, as a file
        #[arg(long, value_hint = ValueHint::FilePath)]
        second: PathBuf,
        /// Name of both cards
        #[arg(long)]
        card: String,
        /// Delay in each direction, in microseconds
        #[arg(long)]
        delay_us: u64,
        /// Bits per second in each direction
        #[arg(long)]
        rate: Option<f64>,
        /// Bytes that may wait at that rate
        #[arg(long, default_value_t = 0)]
        queue: u64,
        /// Share of frames that are lost
        #[arg(long, default_value_t = 0.0)]
        loss: f64,
        /// Seed of the losses
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Answer questions about counters
    Count {
        /// The card of the link
        #[arg(long)]
        card: String,
    },
    /// Answer probes
    Answer {
        /// Address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Probe the link, as a JSON object describes
    Ask {
        /// What to send
        asking: String,
    },
}

/// Runs one of the steps.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let stop = signals::stop_on_signals()?;
    match &args.step {
        LinkStep::Relay { first, second, card, delay_us, rate, queue, loss, seed } => {
            let way = |seed| LinkEmulation {
                delay: Duration::from_micros(*delay_us),
                bits_per_second: *rate,
                queue: *queue,
                loss: *loss,
                seed,
            };
            let relay = Relay {
                namespaces: [first.clone(), second.clone()],
                card: card.clone(),
                ways: [way(*seed), way(!*seed)],
            };
            let relayed =
                relay.run(&stop, || print_line("ready")).map_err(|it| super::lab::failure(&it))?;
            output::print_json(&relayed)?;
        }
        LinkStep::Count { card } => {
            agent::answer(card, io::stdin().lock(), io::stdout().lock(), &stop)
                .map_err(|it| super::lab::failure(&it))?;
        }
        LinkStep::Answer { listen } => {
            probe::answer(*listen, &stop, |at| print_line(&format!("ready {at}")))
                .map_err(|it| super::lab::failure(&it))?;
        }
        LinkStep::Ask { asking } => {
            let request: ProbeRequest = serde_json::from_str(asking).map_err(|error| {
                Failure::because("what is to be asked is no JSON object of that form", &error)
                    .into_usage()
            })?;
            print_line("ready")
                .map_err(|error| Failure::because("cannot say that it begins", &error))?;
            let probed = probe::run(&request, &stop).map_err(|it| super::lab::failure(&it))?;
            output::print_json(&probed)?;
        }
    }
    Ok(ExitStatus::Success)
}

/// Prints a line and flushes it, so that the waiting process reads it at once.
fn print_line(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
