//! Arguments of `replay` and `origin`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use nightwatt_load::CacheRule;

use super::ReadingArgs;
use crate::written::{self, WaitingChoice};

/// `replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// Log to replay, plain or packed; `-` for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) log: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Server to replay against: `http://HOST[:PORT]/`
    #[arg(value_hint = ValueHint::Url)]
    pub(crate) url: String,
    /// So many times faster than the log [default: 1]
    #[arg(long, value_name = "K", value_parser = written::factor)]
    pub(crate) speed: Option<f64>,
    /// Choose the speed at which it takes so many minutes
    #[arg(long, value_name = "M", value_parser = written::factor, conflicts_with = "speed")]
    pub(crate) minutes: Option<f64>,
    /// Only the first so many days of the log
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
    /// Ask for this host instead of the URL's
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Leave out the headers that only `nightwatt origin` understands: for real servers
    #[arg(long)]
    pub(crate) plain: bool,
    /// What browsers do with a waiting page: poll, ignore, or open it again after a TIME
    #[arg(long, value_name = "HOW", default_value = "poll")]
    pub(crate) waiting: WaitingChoice,
    /// Crawlers told to come back do so within this time [default: the length of the replay]
    #[arg(long, value_name = "TIME", value_parser = written::duration)]
    pub(crate) returns_within: Option<Duration>,
    /// Timeout of a request
    #[arg(long, value_name = "TIME", default_value = "2m30s", value_parser = written::some_time)]
    pub(crate) timeout: Duration,
    /// At most so many connections [default: as many as the system allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_open: Option<u64>,
    /// Ask `nightwatt origin` for no more than so many bytes an answer
    #[arg(long, value_name = "BYTES")]
    pub(crate) body_limit: Option<u64>,
    /// Name of the column in the table
    #[arg(long, value_name = "NAME", default_value = "replay")]
    pub(crate) name: String,
    /// Write one row per request
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) csv: Option<PathBuf>,
    /// Write the table as CSV too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const REPLAY_EXAMPLES: &str = "Examples:
  nightwatt replay access.log.gz http://127.0.0.1:8080/ --minutes 10
  nightwatt replay access.log http://127.0.0.1:8080/ --speed 60 --csv requests.csv
  zstdcat access.log.zst | nightwatt replay - http://test.example.org/ --plain --days 1

Requests leave at the log's times whatever became of those before (open loop). Only replay against
a server of your own.";

/// `origin`.
#[derive(Debug, clap::Args)]
pub(crate) struct OriginArgs {
    /// Address to listen on; port 0 for any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub(crate) listen: SocketAddr,
    /// Append one line per request: id, method, target, status, bytes of the request's body
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// How long answers may be cached
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = written::duration)]
    pub(crate) ttl: Duration,
    /// The same for some paths; may be given more than once, the first that matches holds
    #[arg(long, value_name = "PATTERN=TIME", value_parser = written::cache_rule)]
    pub(crate) cache: Vec<CacheRule>,
    /// Paths that begin so are never cached; may be given more than once
    #[arg(long, value_name = "PREFIX")]
    pub(crate) no_store: Vec<String>,
    /// Answer 502 for this long after the start
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = written::duration)]
    pub(crate) bad_gateway_for: Duration,
    /// What each answer takes
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = written::duration)]
    pub(crate) delay: Duration,
    /// Stop when the program with this process id, which started this one, ends
    #[arg(long, value_name = "PID")]
    pub(crate) die_with_parent: Option<u32>,
    /// Print what is printed as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const ORIGIN_EXAMPLES: &str = "Examples:
  nightwatt origin --listen 127.0.0.1:8081
  nightwatt origin --listen 127.0.0.1:0 --record served.tsv --ttl 10m --cache '*.css=1d'
  nightwatt origin --bad-gateway-for 3s --delay 5ms        # a server that is slow to start

Requests of `nightwatt replay` are answered with the status and size that the log says; others
with a small page. SIGTERM or SIGINT stops it.";
