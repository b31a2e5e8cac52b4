//! `nightwatt export`: what meters say, for Prometheus.

use std::sync::Arc;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::monotonic;
use nightwatt_lab::export;
use nightwatt_meters::Host;
use nightwatt_meters::sampler::{Opened, Sampler, Sink};
use serde_json::json;
use tokio::net::TcpListener;

use crate::ExitStatus;
use crate::args::ExportArgs;
use crate::errors::Failure;
use crate::meters;
use crate::output;
use crate::signals::Signals;

/// Reads meters and answers until stopped.
pub(crate) fn run(args: &ExportArgs) -> Result<ExitStatus, Failure> {
    let clock = Clock::real();
    let runtime =
        clock.runtime().map_err(|error| Failure::because("cannot start the runtime", &error))?;
    runtime.block_on(async {
        let mut signals = Signals::catch()?;
        let listener = TcpListener::bind(args.listen).await.map_err(|error| {
            Failure::because(format!("cannot listen on {}", args.listen), &error)
                .hint("is another one running? `--listen` chooses another address")
        })?;
        let sampler = Arc::new(start(args)?);
        let address = listener.local_addr().unwrap_or(args.listen);
        if args.json {
            output::say_json(&json!({"schema": 1, "listen": address}))?;
        } else {
            output::say(&format!("http://{address}/metrics"))?;
        }
        tokio::select! {
            () = export::serve(listener, sampler, clock.clone()) => {}
            _ = signals.next() => {}
        }
        Ok(ExitStatus::Success)
    })
}

fn start(args: &ExportArgs) -> Result<Sampler, Failure> {
    let host = Host::default();
    let opened = meters::opened(&host, &args.meters)?;
    let nobody = |_: &Opened| -> Box<dyn Sink> { Box::new(()) };
    let sampler = Sampler::start(opened, args.interval, nobody)
        .map_err(|error| Failure::because("cannot start the meters' threads", &error))?;
    sampler.begin(monotonic());
    Ok(sampler)
}
