//! `nightwatt origin`: a server that answers from a log.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use nightwatt_load::{
    BadGateway, CacheRule, CacheRules, OriginOptions, SiteFiles, read_statuses, serve_origin,
};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::json;
use tokio::net::TcpListener;

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::signals::Signals;
use crate::values;

/// Answer replayed requests as the server of the log did
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address to listen on; port 0 for any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081", value_parser = values::address)]
    pub(crate) listen: SocketAddr,
    /// Append one line per request: id, method, target, status, bytes of the request's body
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// How long answers may be cached
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = values::duration)]
    pub(crate) ttl: Duration,
    /// The same for some paths; may be given more than once, the first that matches holds
    #[arg(long, value_name = "PATTERN=TIME", value_parser = cache_rule)]
    pub(crate) cache: Vec<CacheRule>,
    /// Paths that begin so are never cached; may be given more than once
    #[arg(long, value_name = "PREFIX")]
    pub(crate) no_store: Vec<String>,
    /// The files of the site, for requests that no log describes: one line each, PATH, BYTES and
    /// the paths it links to, separated by tabs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Option<PathBuf>,
    /// The status of requests that no log describes: one line each, TARGET and STATUS, separated by a
    /// tab; others are answered 200
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) statuses: Option<PathBuf>,
    /// Answer 502 for this long after the start
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration)]
    pub(crate) bad_gateway_for: Duration,
    /// What each answer takes
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration)]
    pub(crate) delay: Duration,
    /// Stop when the program with this process id, which started this one, ends
    #[arg(long, value_name = "PID")]
    pub(crate) die_with_parent: Option<u32>,
    /// Print what is printed as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Compare);

const EXAMPLES: &str = "Examples:
  nightwatt origin --listen 127.0.0.1:8081
  nightwatt origin --listen 127.0.0.1:0 --ttl 10m --cache '*.css=1d'
  nightwatt origin --bad-gateway-for 3s --delay 5ms  # a slow start

Requests of `nightwatt replay` are answered with the status and size that the log says; others
with a small page, or with a file of the site. SIGTERM or SIGINT stops it.";

/// `/static/*=1h`.
fn cache_rule(text: &str) -> Result<CacheRule, String> {
    let (pattern, ttl) = text
        .rsplit_once('=')
        .ok_or("write a path pattern and a time to live, as in `/static/*=1h`")?;
    Ok(CacheRule { pattern: pattern.to_owned(), ttl: duration_text::parse(ttl)? })
}

/// Serves until a signal.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    if let Some(parent) = args.die_with_parent {
        // An interrupted demo must not leave its server behind.
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(|error| Failure::because("cannot watch the parent process", &error))?;
        // The parent may have ended before the signal was set up.
        if std::os::unix::process::parent_id() != parent {
            return Ok(ExitStatus::Success);
        }
    }
    let clock = Clock::real();
    let runtime = clock.runtime().map_err(|error| Failure::because("cannot start", &error))?;
    runtime.block_on(serve(args, clock))
}

async fn serve(args: &Args, clock: Clock) -> Result<ExitStatus, Failure> {
    let mut signals = Signals::catch()?;
    let wrong = |error| {
        Failure::because(format!("cannot listen on {}", args.listen), &error)
            .hint("`ss -ltnp` shows who does; port 0 takes any free one")
    };
    let listener = TcpListener::bind(args.listen).await.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    let site = args.files.as_deref().map(SiteFiles::read).transpose();
    let options = OriginOptions {
        site: site.map_err(|error| {
            Failure::failed(&error)
                .hint("`--files` names a text of lines such as `/<TAB>512<TAB>/about`")
        })?,
        statuses: args
            .statuses
            .as_deref()
            .map(read_statuses)
            .transpose()
            .map_err(|error| {
                Failure::failed(&error)
                    .hint("`--statuses` names a text of lines such as `/old<TAB>301`")
            })?
            .unwrap_or_default(),
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
        output::print_json(&json!({ "listening": address }))?;
    } else {
        output::print(&format!("listening on {address}"))?;
    }
    let stop = async {
        signals.end().await;
    };
    serve_origin(listener, options, stop).await.map_err(|error| {
        Failure::failed(&error).hint("check the path of `--record`, and that its disk is not full")
    })?;
    Ok(ExitStatus::Success)
}
