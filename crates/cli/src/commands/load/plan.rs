//! Turns the command line into a plan.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use nightwatt_load::generate::sources::{self, Patterns, Traced};
use nightwatt_load::generate::{LoadReport, Mix, MixEntry, Plan, RequestDefaults, Until};
use nightwatt_policy::arrivals::{Arrivals, ArrivalsError, Bursts, Profile, Rate, Trace};
use nightwatt_traffic::{LogReader, arrivals};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Args, ArrivalKind};
use crate::errors::Failure;

/// Length of a run when neither a time nor a number of requests is given.
const USUAL_TIME: Duration = Duration::from_secs(30);

/// Random stream, derived from the seed, for the fractions of seconds that a log lacks.
const STREAM: u64 = 17;

/// Everything that `load` needs to know.
pub(super) fn of(args: &Args) -> Result<Plan, Failure> {
    let (when, how) = (&args.when, &args.how);
    let (arrivals, mix) = match &args.when.trace {
        Some(path) => traced(args, path)?,
        None => (process(args).map_err(|error| Failure::usage(&error))?, mix(args)?),
    };
    let has_end = when.requests.is_some() || when.trace.is_some();
    let connections = how.connections.map_or_else(LoadReport::usual_connections, |most| {
        usize::try_from(most).unwrap_or(usize::MAX)
    });
    Ok(Plan {
        arrivals,
        mix,
        seed: when.seed,
        until: Until {
            time: when.time.or_else(|| (!has_end).then_some(USUAL_TIME)),
            requests: when.requests,
        },
        warm_up: when.warm_up,
        cool_down: when.cool_down,
        timeout: how.timeout,
        connections,
        keep_alive: !how.no_keep_alive,
        threads: how.threads.map(|threads| threads as usize),
        lag_limit: how.max_lag,
    })
}

fn process(args: &Args) -> Result<Arrivals, ArrivalsError> {
    let when = &args.when;
    let rate = Rate::new(when.rate)?;
    Ok(match when.arrivals {
        ArrivalKind::Poisson => Arrivals::Poisson(rate),
        ArrivalKind::Constant => Arrivals::Constant(rate),
        ArrivalKind::Bursts => {
            let length = when.burst_length.as_secs_f64();
            Arrivals::Bursts(Bursts::new(rate, when.burst_factor, when.burst_share, length)?)
        }
        ArrivalKind::Day => {
            Arrivals::Profile(Profile::day(rate, when.peak, when.day.as_secs_f64())?)
        }
    })
}

fn defaults(args: &Args) -> Result<RequestDefaults, Failure> {
    let what = &args.what;
    let body = match (&what.body, &what.body_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => std::fs::read(path).map_err(|error| unread(path, &error))?,
        (None, None) => Vec::new(),
    };
    Ok(RequestDefaults { fields: what.fields.clone(), body, close: args.how.no_keep_alive })
}

fn mix(args: &Args) -> Result<Mix, Failure> {
    let what = &args.what;
    let mut wanted: Vec<MixEntry> = args.urls.iter().map(MixEntry::page).collect();
    for one in &mut wanted {
        one.method.clone_from(&what.method);
    }
    if let Some(path) = &what.list {
        let text = read(path)?;
        wanted = sources::list(&text).map_err(|why| wrong_file(path, &why))?;
    }
    let patterns = Patterns {
        pages: what.pages,
        sizes: what.sizes.as_ref().map(|sizes| sizes.0.clone()).unwrap_or_default(),
        zipf: what.zipf,
    };
    let wanted = sources::expand(&wanted, &patterns)
        .map_err(|why| Failure::new(format!("cannot make the URLs: {why}")).into_usage())?;
    Mix::weighted(&wanted, &defaults(args)?).map_err(|error| Failure::usage(&error))
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| unread(path, &error))
}

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot read {}", path.display()), error)
        .hint("check that it is there and may be read")
        .into_usage()
}

fn wrong_file(path: &Path, why: &str) -> Failure {
    Failure::new(format!("{}: {why}", path.display())).into_usage()
}

/// Arrival times from a file, or times and targets from a log.
fn traced(args: &Args, path: &Path) -> Result<(Arrivals, Mix), Failure> {
    let usage = |error: &dyn std::error::Error| Failure::usage(error);
    // A file that is not text is a compressed log.
    let text = std::fs::read(path).map_err(|error| unread(path, &error))?;
    let text = String::from_utf8(text).unwrap_or_default();
    let faster = |times: Vec<f64>| Trace::new(times)?.faster(args.when.speed).map(Arrivals::Trace);
    if sources::is_times(&text) {
        let times = sources::times(&text).map_err(|why| wrong_file(path, &why))?;
        return Ok((faster(times).map_err(|error| usage(&error))?, mix(args)?));
    }
    let mut traced = logged(path, args.when.seed)?;
    traced.sort();
    let [base] = &args.urls[..] else {
        return Err(Failure::new("a log is sent to one server: give its URL").into_usage());
    };
    let base = base.trim_end_matches('/');
    let url = |(method, target): &(String, String)| MixEntry {
        weight: 1.0,
        method: method.clone(),
        url: format!("{base}{target}"),
    };
    let wanted: Vec<MixEntry> = traced.targets.iter().map(url).collect();
    let mix =
        Mix::in_order(&wanted, traced.order, &defaults(args)?).map_err(|error| usage(&error))?;
    Ok((faster(traced.times).map_err(|error| usage(&error))?, mix))
}

/// Most logs have whole seconds only. Requests of one second are spread over it at random: all at its beginning, they
/// would be a burst that did not happen.
fn logged(path: &Path, seed: u64) -> Result<Traced, Failure> {
    let mut reader = LogReader::open(path).map_err(|error| Failure::of_input(&error))?;
    let requests = arrivals(&mut reader, None).map_err(|error| Failure::failed(&error))?;
    let is_coarse = requests.iter().all(|request| request.at.0 % 1000 == 0);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(STREAM);
    let mut traced = Traced::default();
    let mut known: HashMap<(&str, &str), u32> = HashMap::new();
    for request in &requests {
        // A log has no bodies, and what is not a path cannot be requested.
        if !matches!(request.method.as_str(), "GET" | "HEAD") || !is_target(&request.target) {
            continue;
        }
        let within = if is_coarse { random.random::<f64>() } else { 0.0 };
        let key = (request.method.as_str(), request.target.as_str());
        let at = request.at.0 as f64 / 1000.0 + within;
        let index = traced.push(at, known.get(&key).copied(), key.0, key.1);
        known.insert(key, index);
    }
    if traced.times.is_empty() {
        let why = "there is no GET or HEAD in it that could be sent";
        return Err(wrong_file(path, why)
            .hint("a trace is a file of seconds, one a line, or an access log"));
    }
    Ok(traced)
}

fn is_target(target: &str) -> bool {
    target.starts_with('/') && format!("http://host{target}").parse::<http::Uri>().is_ok()
}
