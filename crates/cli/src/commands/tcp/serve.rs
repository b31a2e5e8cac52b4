//! `nightwatt tcp serve`: the other end of `tcp fetch`.

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_tcp::{ServeReport, Server, ServerPlan};
use serde_json::json;

use crate::ExitStatus;
use crate::errors::Failure;
use crate::figures::{bytes, count, counted};
use crate::{output, signals, values};

/// `tcp serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; `[::]:5210` for every address of this machine, port 0 for any free port
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:5210", value_parser = values::address)]
    pub(crate) listen: SocketAddr,
    /// Most connections at once; more are refused
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: u32,
    /// Longest time for a client's request
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::some_time)]
    pub(crate) request_timeout: Duration,
    /// Longest time without progress on a connection
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::some_time)]
    pub(crate) idle_timeout: Duration,
    /// Keep N records of connections, the first of each session, for clients that request them
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub(crate) records: u32,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serves until a signal.
pub(super) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let plan = ServerPlan {
        listen: args.listen,
        max_connections: args.max_connections,
        request_timeout: args.request_timeout,
        idle_timeout: args.idle_timeout,
        records: args.records as usize,
    };
    let server = Server::bind(plan).map_err(|error| Failure::failed(&error))?;
    let address = server.address().map_err(|error| Failure::failed(&error))?;
    let stop = signals::stop_on_signals()?;
    if server.most() < args.max_connections {
        output::complain(&format!(
            "warning: this system allows {} at once; raise `ulimit -Hn` for more",
            counted(u64::from(server.most()), "connection")
        ));
    }
    if args.json {
        let most = server.most();
        output::print_json(&json!({ "listening": address.to_string(), "max_connections": most }))?;
    } else {
        output::complain(&format!("listening on {address}; Ctrl-C ends it"));
    }
    let report = server.run(&stop).map_err(|error| Failure::failed(&error))?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&served(&report))?;
    }
    Ok(ExitStatus::Success)
}

/// What a server has done, as text.
fn served(report: &ServeReport) -> String {
    let faults: Vec<String> =
        report.faults.iter().map(|(fault, n)| format!("{} {fault}", count(*n))).collect();
    let faults =
        if faults.is_empty() { String::new() } else { format!(" ({})", faults.join(", ")) };
    format!(
        "{} accepted, {} at once at most: {} completed, {} failed{faults}, {} refused; {} of payload; \
         CPU {:.3} s user + {:.3} s system",
        counted(report.accepted, "connection"),
        count(report.most),
        count(report.completed),
        count(report.failed),
        count(report.refused),
        bytes(report.bytes),
        report.cpu.user.as_secs_f64(),
        report.cpu.system.as_secs_f64()
    )
}
