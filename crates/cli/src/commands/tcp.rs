//! `nightwatt tcp`: connections, and what they take.

mod check;
mod helps;
mod lab;
mod link;
#[cfg(feature = "bpf")]
mod r#where;

use std::time::Duration;

use nightwatt_tcp::{
    Direction, Ended, Error, FetchReport, Plan, Second, ServeReport, Server, ServerPlan,
    SocketOptions, Until,
};
use serde_json::{Value, json};

use crate::ExitStatus;
use crate::args::{TcpArgs, TcpFetchArgs, TcpServeArgs, TcpStep};
use crate::errors::Failure;
use crate::figures::{bytes, count, counted};
use crate::{output, signals, whole_file};

/// The one or the other.
pub(crate) fn run(args: &TcpArgs) -> Result<ExitStatus, Failure> {
    match &args.step {
        TcpStep::Check(args) => check::run(args),
        TcpStep::Fetch(args) => fetch(args),
        TcpStep::Serve(args) => serve(args),
        TcpStep::Helps(args) => helps::run(args),
        TcpStep::Lab(args) => lab::run(args),
        #[cfg(feature = "bpf")]
        TcpStep::Where(args) => r#where::run(args),
        TcpStep::Link(args) => link::run(args),
    }
}

fn plan(args: &TcpFetchArgs) -> Result<Plan, Failure> {
    let server = nightwatt_tcp::resolve(&args.server).map_err(|error| Failure::usage(&error))?;
    let (what, until, how) = (&args.what, &args.until, &args.how);
    let all = what.segments.checked_mul(u64::from(what.segment_bytes));
    let time = until.time.or(until.seconds.map(Duration::from_secs_f64));
    let repeats = until.continuous || time.is_some() || until.count.is_some();
    let once = (!repeats).then_some(u64::from(what.connections));
    Ok(Plan {
        connections: what.connections,
        bytes: all.ok_or_else(|| Failure::usage(&Error::TooLong))?,
        direction: if what.send { Direction::Send } else { Direction::Fetch },
        until: Until { count: until.count.or(once), time },
        options: SocketOptions {
            congestion: how.congestion.unwrap_or_default(),
            pacing: how.pacing.unwrap_or(0),
            send_buffer: how.send_buffer.unwrap_or(0),
            receive_buffer: how.receive_buffer.unwrap_or(0),
            busy_poll: how.busy_poll.unwrap_or(0),
            nodelay: how.nodelay,
            mss: how.mss.unwrap_or(0),
        },
        verify: how.verify,
        discard: how.discard,
        timeout: how.timeout,
        records: args.found.records as usize,
        ask_server: !args.found.client_only,
        ..Plan::new(server)
    })
}

fn fetch(args: &TcpFetchArgs) -> Result<ExitStatus, Failure> {
    let plan = plan(args)?;
    // Before the work, so that a wrong path does not cost its results.
    if let Some(path) = &args.found.csv {
        whole_file::can_write(path).map_err(|error| unwritten(path, &error))?;
    }
    let stop = signals::stop_on_signals()?;
    let mut tell = |second: &Second| output::complain(&line(second));
    let tell: Option<&mut dyn FnMut(&Second)> =
        if args.found.json { None } else { Some(&mut tell) };
    let report = nightwatt_tcp::fetch(&plan, &stop, tell).map_err(|error| failure(&error))?;
    let written = match &args.found.csv {
        Some(path) => whole_file::write(path, nightwatt_tcp::csv(&report).as_bytes())
            .map_err(|error| unwritten(path, &error)),
        None => Ok(()),
    };
    // Whatever became of its rows, a run is worth its figures.
    say(args, &report)?;
    written?;
    let all_is_well = report.failed == 0 && report.ended != Ended::GaveUp;
    Ok(if all_is_well { ExitStatus::Success } else { ExitStatus::Failed })
}

/// What failed on the way is no mistake on the command line.
fn failure(error: &Error) -> Failure {
    match error {
        Error::GaveUp { .. } | Error::Epoll(_) | Error::Random => Failure::failed(error),
        error => Failure::usage(error),
    }
}

/// One second of a run, for people.
fn line(second: &Second) -> String {
    format!(
        "{:>6} s  {:>7} running  {:>9} completed  {:>6} failed  {:>9.3} Gbit/s",
        second.second + 1,
        count(second.running),
        count(second.completed),
        count(second.failed),
        second.bytes as f64 * 8e-9
    )
}

fn say(args: &TcpFetchArgs, report: &FetchReport) -> Result<(), Failure> {
    if !args.found.json {
        output::say(&nightwatt_tcp::text(report))?;
        let kept = report.records.len() as u64;
        let ended = report.completed + report.failed + report.cut;
        if args.found.csv.is_some() && kept < ended {
            output::complain(&format!(
                "warning: the rows are the first {} of {}; `--records {ended}` keeps all",
                count(kept),
                counted(ended, "connection")
            ));
        }
        return Ok(());
    }
    let figures = serde_json::to_value(report);
    let mut value =
        figures.map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
    let (what, how) = (&args.what, &args.how);
    if let Value::Object(fields) = &mut value {
        fields.insert("segments".to_owned(), json!(what.segments));
        fields.insert("segment_bytes".to_owned(), json!(what.segment_bytes));
        let wanted = json!({
            "congestion": how.congestion.map(|name| name.as_str().to_owned()),
            "pacing_bytes_s": how.pacing,
            "send_buffer_bytes": how.send_buffer,
            "receive_buffer_bytes": how.receive_buffer,
            "busy_poll_us": how.busy_poll,
            "nodelay": how.nodelay,
            "mss": how.mss,
            "verify": how.verify,
            "discard": how.discard,
        });
        fields.insert("options".to_owned(), wanted);
    }
    output::say_json(&value)
}

fn serve(args: &TcpServeArgs) -> Result<ExitStatus, Failure> {
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
        output::say_json(&json!({ "listening": address.to_string(), "max_connections": most }))?;
    } else {
        output::complain(&format!("listening on {address}; Ctrl-C ends it"));
    }
    let report = server.run(&stop).map_err(|error| Failure::failed(&error))?;
    if args.json {
        output::say_json(&report)?;
    } else {
        output::say(&served(&report))?;
    }
    Ok(ExitStatus::Success)
}

/// What a server has done, for people.
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

fn unwritten(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("check that its directory exists, may be written, and has room")
}
