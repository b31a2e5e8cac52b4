//! `nightwatt export`: exports readings of meters to Prometheus and OpenTelemetry.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_measure::export::otlp::{Endpoint, Exporter};
use nightwatt_measure::export::{self, Source};
use nightwatt_meters::Host;
use nightwatt_meters::sampler::Sampler;
use serde_json::json;
use tokio::net::TcpListener;

use crate::ExitStatus;
use crate::args::{LogArgs, MeterArgs};
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::logging;
use crate::output;
use crate::signals::Signals;
use crate::values;

/// Serve the readings of meters to Prometheus and OpenTelemetry
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Where Prometheus finds the figures, under `/metrics`
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:9836")]
    pub(crate) listen: SocketAddr,
    /// Time between two readings [default: what suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Tell the energy of so many processes too, by name: the machine's by share of CPU time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) processes: usize,
    /// Send the figures to a collector of OpenTelemetry as well
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<Endpoint>,
    /// How often
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = values::measuring_time, requires = "otlp")]
    pub(crate) otlp_every: Duration,
    /// Print the address as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Measure);

const EXAMPLES: &str = "Examples:
  nightwatt export
  nightwatt export -l 0.0.0.0:9836 -m rapl -m shelly=http://10.0.0.9
  nightwatt export --processes 20                      # who uses how much of it
  nightwatt export --otlp http://127.0.0.1:4318 --otlp-every 15s
  curl -s http://127.0.0.1:9836/metrics

docs/examples/grafana-power.json is a dashboard for it. SIGTERM or SIGINT stops it.";

/// Reads meters and serves requests until stopped.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    logging::start(&args.log)?;
    let clock = Clock::real();
    let runtime =
        clock.runtime().map_err(|error| Failure::because("cannot start the runtime", &error))?;
    runtime.block_on(async {
        let mut signals = Signals::catch()?;
        let listener = TcpListener::bind(args.listen).await.map_err(|error| {
            Failure::because(format!("cannot listen on {}", args.listen), &error)
                .hint("is another one running? `--listen` chooses another address")
        })?;
        let source = Arc::new(Source::new(start(args)?, args.processes));
        let stop = begin_threads(args, &source)?;
        let address = listener.local_addr().unwrap_or(args.listen);
        if args.json {
            output::print_json(&json!({"schema": 1, "listen": address}))?;
        } else {
            output::print(&format!("http://{address}/metrics"))?;
        }
        tokio::select! {
            () = export::serve(listener, source, clock.clone()) => {}
            _ = signals.end() => {}
        }
        stop.stop();
        Ok(ExitStatus::Success)
    })
}

fn start(args: &Args) -> Result<Sampler, Failure> {
    let host = Host::default();
    let opened = args.meters.opened(&host, args.interval)?;
    Sampler::start_without_sinks(opened, args.interval)
        .map_err(|error| Failure::because("cannot start the meters' threads", &error))
}

/// Starts the threads that watch processes and send to the collector, until stopped.
fn begin_threads(args: &Args, source: &Arc<Source>) -> Result<Stop, Failure> {
    let cannot = |error| Failure::because("cannot start a thread", &error);
    let stop = Stop::new().map_err(cannot)?;
    if args.processes > 0 {
        let (source, stop) = (Arc::clone(source), stop.clone());
        let thread = std::thread::Builder::new().name("processes".to_owned());
        thread.spawn(move || source.look(&stop)).map_err(cannot)?;
    }
    if let Some(endpoint) = args.otlp.clone() {
        let (source, stop, every) = (Arc::clone(source), stop.clone(), args.otlp_every);
        let thread = std::thread::Builder::new().name("otlp".to_owned());
        thread.spawn(move || send(&source, endpoint, every, &stop)).map_err(cannot)?;
    }
    Ok(stop)
}

/// Sends to the collector. Reports once when the collector goes away, and once when it is back.
fn send(source: &Source, endpoint: Endpoint, every: Duration, stop: &Stop) {
    let exporter = Exporter::new(endpoint);
    let mut failing = false;
    while stop.wait_until(monotonic() + every) != Woken::Stopped {
        let sent = exporter.send(&source.figures());
        match &sent {
            Ok(()) if failing => tracing::info!("the collector takes figures again"),
            Err(error) if !failing => {
                tracing::warn!(%error, "trying again; nothing is lost: sums are since the start");
            }
            _ => {}
        }
        failing = sent.is_err();
    }
}
