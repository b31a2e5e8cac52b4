//! `nightwatt export`: what meters say, for Prometheus and for OpenTelemetry.

use std::sync::Arc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_measure::export::otlp::{Endpoint, Exporter};
use nightwatt_measure::export::{self, Source};
use nightwatt_meters::Host;
use nightwatt_meters::sampler::{Opened, Sampler, Sink};
use serde_json::json;
use tokio::net::TcpListener;

use crate::ExitStatus;
use crate::args::ExportArgs;
use crate::args::meters;
use crate::errors::Failure;
use crate::logging;
use crate::output;
use crate::signals::Signals;

/// Reads meters and answers until stopped.
pub(crate) fn run(args: &ExportArgs) -> Result<ExitStatus, Failure> {
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
            output::say_json(&json!({"schema": 1, "listen": address}))?;
        } else {
            output::say(&format!("http://{address}/metrics"))?;
        }
        tokio::select! {
            () = export::serve(listener, source, clock.clone()) => {}
            _ = signals.end() => {}
        }
        stop.stop();
        Ok(ExitStatus::Success)
    })
}

fn start(args: &ExportArgs) -> Result<Sampler, Failure> {
    let host = Host::default();
    let opened = meters::opened(&host, &args.meters, args.interval)?;
    let nobody = |_: &Opened| -> Box<dyn Sink> { Box::new(()) };
    Sampler::start(opened, args.interval, nobody)
        .map_err(|error| Failure::because("cannot start the meters' threads", &error))
}

/// Looks at processes and sends to the collector, until stopped.
fn begin_threads(args: &ExportArgs, source: &Arc<Source>) -> Result<Stop, Failure> {
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

/// Tells once when the collector goes away, and once when it is back.
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
