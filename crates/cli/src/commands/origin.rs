//! `nightwatt origin`: the log-backed server.

use nightwatt_clock::Clock;
use nightwatt_load::{BadGateway, CacheRules, OriginOptions, serve_origin};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::json;
use tokio::net::TcpListener;

use crate::ExitStatus;
use crate::args::OriginArgs;
use crate::errors::Failure;
use crate::output;
use crate::signals::Signals;

/// Serves until a signal.
pub(crate) fn run(args: &OriginArgs) -> Result<ExitStatus, Failure> {
    if let Some(parent) = args.die_with_parent {
        // An interrupted demo must not leave its server behind.
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(|error| Failure::because("cannot watch the parent process", &error))?;
        // It may have ended before it could be watched.
        if std::os::unix::process::parent_id() != parent {
            return Ok(ExitStatus::Success);
        }
    }
    let clock = Clock::real();
    let runtime = clock.runtime().map_err(|error| Failure::because("cannot start", &error))?;
    runtime.block_on(serve(args, clock))
}

async fn serve(args: &OriginArgs, clock: Clock) -> Result<ExitStatus, Failure> {
    let mut signals = Signals::catch()?;
    let wrong = |error| {
        Failure::because(format!("cannot listen on {}", args.listen), &error)
            .hint("`ss -ltnp` shows who does; port 0 takes any free one")
    };
    let listener = TcpListener::bind(args.listen).await.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    let options = OriginOptions {
        cache: CacheRules {
            ttl: args.ttl,
            rules: args.cache.clone(),
            no_store: args.no_store.clone(),
        },
        record: args.record.clone(),
        bad_gateway_for: if args.bad_gateway_for.is_zero() {
            BadGateway::Never
        } else {
            BadGateway::Time(args.bad_gateway_for)
        },
        delay: args.delay,
        clock,
    };
    if args.json {
        output::say_json(&json!({ "listening": address }))?;
    } else {
        output::say(&format!("listening on {address}"))?;
    }
    let stop = async {
        signals.end().await;
    };
    serve_origin(listener, options, stop).await.map_err(|error| {
        Failure::failed(&error).hint("check the path of `--record`, and that its disk is not full")
    })?;
    Ok(ExitStatus::Success)
}
