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
    /// What to ask for: `http://host[:port]/path`, several to choose from; with `--trace LOG`, the
    /// server
    #[arg(value_name = "URL", required_unless_present = "list", value_hint = ValueHint::Url)]
    pub(crate) urls: Vec<String>,
    #[command(flatten, next_help_heading = "When")]
    pub(crate) when: WhenArgs,
    #[command(flatten, next_help_heading = "What")]
    pub(crate) what: WhatArgs,
    #[command(flatten, next_help_heading = "How")]
    pub(crate) how: HowArgs,
    #[command(flatten, next_help_heading = "What comes of it")]
    pub(crate) found: FoundArgs,
}

/// When requests are due.
#[derive(Debug, clap::Args)]
pub(crate) struct WhenArgs {
    /// Requests a second, in the mean
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = written::factor)]
    pub(crate) rate: f64,
    /// How they come: poisson (independent of each other), constant, bursts, day
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) arrivals: ArrivalKind,
    /// bursts: so many times the mean rate in a burst
    #[arg(long, value_name = "K", default_value = "5", value_parser = written::factor)]
    pub(crate) burst_factor: f64,
    /// bursts: so much of the time is in bursts
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = written::factor)]
    pub(crate) burst_share: f64,
    /// bursts: a burst lasts so long in the mean
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = written::some_time)]
    pub(crate) burst_length: Duration,
    /// day: so many times the mean rate at noon, 1 to 2
    #[arg(long, value_name = "K", default_value = "1.8", value_parser = written::factor)]
    pub(crate) peak: f64,
    /// day: it lasts so long, from midnight to midnight
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = written::some_time)]
    pub(crate) day: Duration,
    /// Send at the times of this file: seconds, one a line; or a log, with what it asks for
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["rate", "arrivals", "list", "method"])]
    pub(crate) trace: Option<PathBuf>,
    /// So many times faster than the trace
    #[arg(long, value_name = "K", default_value = "1", requires = "trace", value_parser = written::factor)]
    pub(crate) speed: f64,
    /// For how long [default: 30s, or until `--requests` or the trace are through]
    #[arg(short = 'd', long = "for", value_name = "TIME", value_parser = written::some_time)]
    pub(crate) time: Option<Duration>,
    /// So many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Do not count what is due within so long after the start
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = written::duration)]
    pub(crate) warm_up: Duration,
    /// Nor within so long before the end
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

/// What is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatArgs {
    /// URLs from a file, one a line: `[WEIGHT] [METHOD] URL`
    #[arg(long, value_name = "FILE", conflicts_with = "urls", value_hint = ValueHint::FilePath)]
    pub(crate) list: Option<PathBuf>,
    /// `{page}` in a URL stands for 1 to N
    #[arg(long, value_name = "N")]
    pub(crate) pages: Option<NonZeroU32>,
    /// `{size}` in a URL stands for a number of bytes: `1k=70,100k=25,1M=5`, each with its weight
    #[arg(long, value_name = "SIZES", value_parser = |text: &str| sources::sizes(text).map(Sizes))]
    pub(crate) sizes: Option<Sizes>,
    /// Ask for the n-th URL in proportion to n^-S, instead of for each as often
    #[arg(long, value_name = "S", value_parser = written::factor)]
    pub(crate) zipf: Option<f64>,
    /// The method of URLs that name none
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// A header field, as in `-H 'Accept: text/html'`
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = written::field)]
    pub(crate) fields: Vec<(String, String)>,
    /// Body of every request
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// The same, from a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) body_file: Option<PathBuf>,
}

/// Numbers of bytes with weights.
#[derive(Debug, Clone)]
pub(crate) struct Sizes(pub(crate) Vec<(u64, f64)>);

/// How it is sent.
#[derive(Debug, clap::Args)]
pub(crate) struct HowArgs {
    /// At most so many connections at once [default: 1024, or what the system allows]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,
    /// Open a connection for every request
    #[arg(long)]
    pub(crate) no_keep_alive: bool,
    /// Give a request up so long after it was due
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = written::some_time)]
    pub(crate) timeout: Duration,
    /// So many threads send [default: one, and one more for every 25,000 requests a second]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Say that the client was the bottleneck if more than 1 % of requests leave later than this
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = written::some_time)]
    pub(crate) max_lag: Duration,
}

/// What is written down, and what else is looked at.
#[derive(Debug, clap::Args)]
pub(crate) struct FoundArgs {
    /// Write one row per request
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) csv: Option<PathBuf>,
    /// The server is this process and what it started, on this machine: tell its CPU and memory
    #[arg(long, value_name = "PID", conflicts_with = "cgroup")]
    pub(crate) pid: Option<u32>,
    /// The server is this cgroup: `/sys/fs/cgroup/system.slice/nginx.service`
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

Requests leave when they are due, whatever became of those before (open loop), and latency counts
from when they were due. Only load servers of your own. Ctrl-C ends it early, with its figures.
docs/load.md says what each figure means.";
