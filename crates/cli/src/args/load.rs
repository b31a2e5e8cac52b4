//! `load`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ValueEnum, ValueHint};
use nightwatt_load::generate::sources;

use crate::written;

/// `load`.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// URL to request: `http://host[:port]/path`; may be given several times. With `--trace LOG`, the
    /// server
    #[arg(value_name = "URL", required_unless_present = "list", value_hint = ValueHint::Url)]
    pub(crate) urls: Vec<String>,
    #[command(flatten, next_help_heading = "When")]
    pub(crate) when: WhenArgs,
    #[command(flatten, next_help_heading = "What")]
    pub(crate) what: WhatArgs,
    #[command(flatten, next_help_heading = "How")]
    pub(crate) how: HowArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) found: FoundArgs,
}

/// When requests are due.
#[derive(Debug, clap::Args)]
pub(crate) struct WhenArgs {
    /// Mean requests per second
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = written::factor)]
    pub(crate) rate: f64,
    /// Arrival process: poisson (independent of each other), constant, bursts, day
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) arrivals: ArrivalKind,
    /// bursts: rate in a burst, as a multiple of the mean rate
    #[arg(long, value_name = "K", default_value = "5", value_parser = written::factor)]
    pub(crate) burst_factor: f64,
    /// bursts: share of the time that is in bursts
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = written::factor)]
    pub(crate) burst_share: f64,
    /// bursts: mean length of a burst
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = written::some_time)]
    pub(crate) burst_length: Duration,
    /// day: rate at noon, as a multiple of the mean rate, 1 to 2
    #[arg(long, value_name = "K", default_value = "1.8", value_parser = written::factor)]
    pub(crate) peak: f64,
    /// day: length of a day, from midnight to midnight
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = written::some_time)]
    pub(crate) day: Duration,
    /// Send at the times in this file: seconds, one per line; or a log, with its requests
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["rate", "arrivals", "list", "method"])]
    pub(crate) trace: Option<PathBuf>,
    /// Send this many times faster than the trace
    #[arg(long, value_name = "K", default_value = "1", requires = "trace", value_parser = written::factor)]
    pub(crate) speed: f64,
    /// Send for this time [default: 30s, or until the end of `--requests` or the trace]
    #[arg(short = 'd', long = "for", value_name = "TIME", value_parser = written::some_time)]
    pub(crate) time: Option<Duration>,
    /// Send this many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Do not count requests that are due within this time after the start
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = written::duration)]
    pub(crate) warm_up: Duration,
    /// Do not count requests that are due within this time before the end
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = written::duration)]
    pub(crate) cool_down: Duration,
    /// Seed of times and URLs: same seed, same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// How requests come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArrivalKind {
    /// Independent of each other.
    #[default]
    Poisson,
    /// Evenly.
    Constant,
    /// Two rates, switched at random.
    Bursts,
    /// A sine.
    Day,
}

/// The requests.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatArgs {
    /// File of URLs, one per line: `[WEIGHT] [METHOD] URL`
    #[arg(long, value_name = "FILE", conflicts_with = "urls", value_hint = ValueHint::FilePath)]
    pub(crate) list: Option<PathBuf>,
    /// Replace `{page}` in a URL by a number from 1 to N
    #[arg(long, value_name = "N")]
    pub(crate) pages: Option<NonZeroU32>,
    /// Replace `{size}` in a URL by a number of bytes, by weight: `1k=70,100k=25,1M=5`
    #[arg(long, value_name = "SIZES", value_parser = |text: &str| sources::sizes(text).map(Sizes))]
    pub(crate) sizes: Option<Sizes>,
    /// Request the n-th URL in proportion to n^-S, instead of all equally often
    #[arg(long, value_name = "S", value_parser = written::factor)]
    pub(crate) zipf: Option<f64>,
    /// Method of URLs without one
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Header field, as in `-H 'Accept: text/html'`
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = written::field)]
    pub(crate) fields: Vec<(String, String)>,
    /// Body of every request
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// Body of every request, from a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) body_file: Option<PathBuf>,
}

/// Numbers of bytes with weights.
#[derive(Debug, Clone)]
pub(crate) struct Sizes(pub(crate) Vec<(u64, f64)>);

/// How requests are sent.
#[derive(Debug, clap::Args)]
pub(crate) struct HowArgs {
    /// Most connections at once [default: 1024, or what the system allows]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,
    /// Open a connection for every request
    #[arg(long)]
    pub(crate) no_keep_alive: bool,
    /// Abandon a request this long after it was due
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = written::some_time)]
    pub(crate) timeout: Duration,
    /// Number of threads that send [default: one, and one more for every 25,000 requests per second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Report the client as the bottleneck if more than 1 % of requests leave later than this
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = written::some_time)]
    pub(crate) max_lag: Duration,
}

/// Output, and the server whose resources are measured.
#[derive(Debug, clap::Args)]
pub(crate) struct FoundArgs {
    /// Write one row per request as CSV
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) csv: Option<PathBuf>,
    /// Report CPU and memory of the server, which is this process on this machine and its children
    #[arg(long, value_name = "PID", conflicts_with = "cgroup")]
    pub(crate) pid: Option<u32>,
    /// Report CPU and memory of this cgroup: `/sys/fs/cgroup/system.slice/nginx.service`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cgroup: Option<PathBuf>,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const EXAMPLES: &str = "Examples:
  nightwatt load http://127.0.0.1:8080/ --rate 200 --for 1m
  nightwatt load http://127.0.0.1:8080/ -r 2000 --arrivals constant --warm-up 5s --csv rows.csv
  nightwatt load 'http://127.0.0.1:8080/{page}' --pages 1000 --zipf 0.9 -r 50 --arrivals bursts
  nightwatt load --list urls.txt -r 100 --arrivals day --day 10m --for 10m
  nightwatt load http://127.0.0.1:8080/ --trace access.log.gz --speed 60
  nightwatt load http://127.0.0.1:8080/ -r 500 --pid \"$(pidof -s nginx)\" --json

Requests leave when they are due, whether or not earlier ones were answered (open loop), and latency
counts from when they were due. Use it only on servers of your own. Ctrl-C ends it early and prints
the figures.

Docs: docs/load.md";
