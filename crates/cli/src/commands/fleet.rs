//! `nightwatt fleet`: simulates pools of servers.

mod args;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_claims::pools;
use nightwatt_clock::Clock;
use nightwatt_savings::fleet::plan::{
    ArrivalKind, ArrivalsFile, Copies, Plan, PlanFile, PlanResult, ServerFile, ServiceText, Time,
    of_logs,
};
use nightwatt_savings::fleet::{Error, fit, size};

pub(crate) use self::args::Args;
use self::args::{
    FleetCopiesArgs, FleetFitArgs, FleetPlanArgs, FleetPublishedArgs, FleetServerArgs,
    FleetSizeArgs, FleetStep,
};
use crate::ExitStatus;
use crate::args::{ScenarioArgs, electricity};
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::progress::Progress;
use crate::report_pages;

pub(crate) const LISTED: Listed = Listed::In(Group::Model);

/// Policies to simulate when the user names none.
const USUAL: [&str; 4] =
    ["predictive", "baseline", "always-on 1..10", "delayed-off 100ms 1s 10s 100s 1000s"];

/// The service rate of the published small server.
const SERVICE_RATE: f64 = 261.8;

/// Number of servers when the user gives none.
const SERVERS: u32 = 20;

/// Options, and their names in a plan.
const KEYS: [(&str, &str); 21] = [
    ("--rate", "rates"),
    ("--log", "files"),
    ("--copies", "copies"),
    ("--days", "days"),
    ("--format", "format"),
    ("--log-format", "log_format"),
    ("--client-from", "client_from"),
    ("--policy", "policies"),
    ("--servers", "servers"),
    ("--service-rate", "service_rate"),
    ("--point", "points"),
    ("--service", "service"),
    ("--off", "off_w"),
    ("--idle", "idle_w"),
    ("--busy", "busy_w"),
    ("--switch-j", "switch_j"),
    ("--switch-on", "switch_on"),
    ("--answer-within", "sla"),
    ("--refused", "refused"),
    ("--transition-price", "transition_price_j"),
    ("--line", "line"),
];

/// Runs the chosen subcommand.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    match &args.step {
        None => simulate(&args.plan),
        Some(FleetStep::Size(args)) => size_up(args),
        Some(FleetStep::Fit(args)) => fit_points(args),
        Some(FleetStep::Published(args)) => compare(args),
    }
}

/// Turns an error in the arguments into a usage error, and any other into a failure.
fn failure(error: &Error) -> Failure {
    match error {
        Error::TooFew(_) => Failure::failed(error),
        Error::Logs(logs) => Failure::usage(logs).maybe_hint(logs.hint()),
        // Only plans made from options have such keys: `server.0.idle_w` was `--idle`.
        Error::Value { key, message } => {
            let of_key = |part| KEYS.iter().find(|(_, key)| *key == part);
            let option =
                key.rsplit('.').find_map(of_key).map_or(key.as_str(), |(option, _)| option);
            // Any rate above 0 is valid; it can only be too low for the response time.
            let also = if option == "--service-rate" { "`--answer-within`, " } else { "" };
            Failure::usage(&Error::Flags(format!("{also}`{option}`: {message}")))
        }
        _ => Failure::usage(error),
    }
}

/// Runs the work with a progress display that estimates the time left from the work done; returns the result.
fn with_progress<T>(
    json: bool,
    work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, Error>,
) -> Result<T, Failure> {
    let clock = Clock::real();
    let started = clock.now().mono;
    let mut progress = Progress::by_time(json);
    let result = work(&mut |done, all| {
        let elapsed = clock.now().mono.since(started);
        let left = elapsed.mul_f64(all.saturating_sub(done) as f64 / done.max(1) as f64);
        progress.update(done, all, elapsed, Some(left), || format!("{done} of {all} simulations"));
    });
    progress.end();
    result.map_err(|error| failure(&error))
}

/// The progress display of work that only ends when it is done.
fn to_the_end(on_progress: &mut dyn FnMut(u64, u64)) -> impl FnMut(u64, u64) -> ControlFlow<()> {
    move |done, all| {
        on_progress(done, all);
        ControlFlow::Continue(())
    }
}

fn simulate(args: &FleetPlanArgs) -> Result<ExitStatus, Failure> {
    let mut plan = match &args.file {
        Some(path) => {
            alone(path, &args.given())?;
            read(path)?
        }
        None => of_flags(args)?,
    };
    let is_log = plan.traffic.iter().all(|traffic| traffic.ends);
    let sampling = &mut plan.sampling;
    if let Some(requests) = args.requests {
        if is_log {
            return Err(Failure::new("`--requests` does not apply: a log is played whole")
                .into_usage()
                .hint(
                    "leave it out; `--days N` (`days` in a plan) plays the first days of a log",
                ));
        }
        (sampling.requests, sampling.warm_up) = (requests, requests / 20);
    } else if args.file.is_none() {
        plan.lengthen();
    }
    let sampling = &mut plan.sampling;
    sampling.replications = args.replications.unwrap_or(sampling.replications);
    sampling.seed = args.seed.unwrap_or(sampling.seed);
    let result = with_progress(args.json, |on_progress| plan.run(to_the_end(on_progress)))?;
    let warnings = [skipped(&plan), result.warnings.clone()].concat();
    output::print_result(&result, args.json, || result.text(), &warnings)?;
    write(args, &result)?;
    Ok(ExitStatus::Success)
}

/// Refuses options that the plan sets too: it would be unclear which counts.
fn alone(plan: &Path, given: &[&str]) -> Result<(), Failure> {
    if given.is_empty() {
        return Ok(());
    }
    let keys = KEYS.iter().filter(|(option, _)| given.contains(option)).map(|(_, key)| *key);
    let keys: Vec<String> = keys.map(|key| format!("`{key}`")).collect();
    let options: Vec<String> = given.iter().map(|option| format!("`{option}`")).collect();
    let what = format!(
        "{} beside a plan would be ignored: options are for pools without one",
        options.join(", ")
    );
    let hint = format!("write {} into {}, or leave the plan out", keys.join(", "), plan.display());
    Err(Failure::new(what).into_usage().hint(hint))
}

/// Writes the files after the result is printed: a path that cannot be written loses nothing.
fn write(args: &FleetPlanArgs, result: &PlanResult) -> Result<(), Failure> {
    if let Some(folder) = &args.csv {
        report_pages::tables(folder, &result.tables())?;
    }
    args.html.as_deref().map_or(Ok(()), |path| report_pages::page(path, |by| result.document(by)))
}

fn text_of(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error)
            .hint("check that it is there and may be read")
            .into_usage()
    })
}

fn read(path: &Path) -> Result<Plan, Failure> {
    let text = text_of(path)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    PlanFile::read(&path.display().to_string(), &text, folder).map_err(|error| failure(&error))
}

fn of_flags(args: &FleetPlanArgs) -> Result<Plan, Failure> {
    if args.rates.is_empty() && args.log.is_empty() {
        return Err(Failure::new("nothing arrives: there is no plan, no rate and no log")
            .into_usage()
            .hint("`nightwatt fleet plan.toml`, `--rate 300,600` or `--log access.log`; `--help` has examples"));
    }
    if let (true, [option, ..]) = (args.log.is_empty(), &args.copies.given()[..]) {
        return Err(Failure::new(format!("`{option}` needs a log, and none is given"))
            .into_usage()
            .hint(format!("name one with `--log FILE`, or leave `{option}` out")));
    }
    let mut file = file_of(&args.server, args.servers.unwrap_or(SERVERS));
    if !args.policies.is_empty() {
        file.policies.clone_from(&args.policies);
    }
    file.arrivals = vec![arrivals(&args.rates, &args.log, &args.copies)];
    file.plan().map_err(|error| failure(&error))
}

/// A plan without arrivals, made from the options.
fn file_of(args: &FleetServerArgs, servers: u32) -> PlanFile {
    let points: Vec<(f64, Time)> =
        args.points.iter().map(|it| (it.arrivals.get(), Time(it.mean_response))).collect();
    // Measured service times imply their own rate.
    let is_measured = matches!(args.service, Some(ServiceText::Empirical(_)));
    let usual = (points.is_empty() && !is_measured).then_some(SERVICE_RATE);
    let rate = args.service_rate.or(usual);
    let server = ServerFile {
        name: "server".to_owned(),
        servers,
        service_rate: rate,
        points: (!points.is_empty()).then_some(points),
        service: args.service.clone().unwrap_or_default(),
        off_w: args.off.unwrap_or(0.0),
        idle_w: args.idle.unwrap_or(1.8),
        busy_w: args.busy.unwrap_or(2.2),
        switch_j: args.switch_j.unwrap_or(10.0),
        switch_on: args.switch_on.unwrap_or(Duration::from_secs(5)),
    };
    let usual = PlanFile::keeping(args.sla.unwrap_or(Duration::from_millis(10)));
    PlanFile {
        refused: args.refused.unwrap_or(usual.refused),
        transition_price_j: args.transition_price.unwrap_or(usual.transition_price_j),
        line: args.line.unwrap_or(usual.line),
        policies: USUAL.map(str::to_owned).to_vec(),
        server: vec![server],
        ..usual
    }
}

fn arrivals(rates: &[f64], log: &[PathBuf], copies: &FleetCopiesArgs) -> ArrivalsFile {
    let kind = if log.is_empty() { ArrivalKind::Poisson } else { ArrivalKind::Log };
    ArrivalsFile {
        rates: rates.to_vec(),
        files: log.to_vec(),
        copies: copies.copies.unwrap_or(1),
        days: copies.days,
        reading: copies.reading.reading(),
        ..ArrivalsFile::of(kind)
    }
}

fn size_up(args: &FleetSizeArgs) -> Result<ExitStatus, Failure> {
    let electricity = match &args.scenario {
        None => electricity(args.config.clone())?.unwrap_or_default(),
        Some(path) => {
            let scenario = Some(path.clone());
            let scenario = ScenarioArgs { policy: None, no_sla: false, sla: None, scenario };
            scenario.resolve()?.electricity
        }
    };
    let plan = match &args.plan {
        None => {
            let mut file = file_of(&args.server, 1);
            file.arrivals = vec![arrivals(&[], &args.logs, &args.copies)];
            file.plan().map_err(|error| failure(&error))?
        }
        Some(path) => {
            alone(path, &args.server.given())?;
            let mut plan = read(path)?;
            if plan.pools.iter().any(|pool| pool.settings.kinds.len() > 1) {
                return Err(Failure::new("kinds that are `together` in one pool cannot be sized")
                    .into_usage()
                    .hint("take `together` out of the plan: each kind is then a pool of its own"));
            }
            let copies = Copies { copies: args.copies.copies.unwrap_or(1), days: args.copies.days };
            let traffic = of_logs(&args.logs, &args.copies.reading.reading(), copies);
            plan.traffic = vec![traffic.map_err(|error| failure(&error))?];
            plan
        }
    };
    let mut result = with_progress(args.json, |on_progress| {
        size::run(&plan, &electricity, to_the_end(on_progress))
    })?;
    if args.plan.is_none() {
        result.assumed = assumed(&args.server);
    }
    let mut warnings = result.warnings();
    warnings.extend(skipped(&plan));
    output::print_result(&result, args.json, || result.text(), &warnings)?;
    Ok(ExitStatus::Success)
}

/// Watts and joules that were not given, and the options that set them.
fn assumed(args: &FleetServerArgs) -> Vec<String> {
    let given = args.given();
    let server = file_of(args, 1).server.swap_remove(0);
    let figures = [
        ("--off", format!("{} W off", server.off_w)),
        ("--idle", format!("{} W idle", server.idle_w)),
        ("--busy", format!("{} W busy", server.busy_w)),
        ("--switch-j", format!("{} J for each start", server.switch_j)),
    ];
    let missing = figures.into_iter().filter(|(option, _)| !given.contains(option));
    missing.map(|(option, figure)| format!("{figure} (`{option}`)")).collect()
}

/// Lines of logs that were skipped, for each log of a plan.
fn skipped(plan: &Plan) -> Vec<String> {
    plan.traffic.iter().filter_map(|traffic| traffic.skipped.clone()).collect()
}

fn fit_points(args: &FleetFitArgs) -> Result<ExitStatus, Failure> {
    let mut points = args.points.clone();
    if let Some(path) = &args.file {
        let name = path.display();
        let more = fit::points(&text_of(path)?);
        points.extend(more.map_err(|why| failure(&Error::Points(format!("{name}: {why}"))))?);
    }
    let result = fit::run(&points, args.sla).map_err(|error| failure(&error))?;
    output::print_result(&result, args.json, || result.text(), &result.warnings)?;
    Ok(ExitStatus::Success)
}

fn compare(args: &FleetPublishedArgs) -> Result<ExitStatus, Failure> {
    let comparison =
        with_progress(args.json, |on_progress| pools::run(args.arrivals, on_progress))?;
    output::print_result(&comparison, args.json, || comparison.text(), &[])?;
    Ok(ExitStatus::Success)
}
