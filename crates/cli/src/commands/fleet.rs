//! `nightwatt fleet`: pools of servers, simulated.

use std::fs;
use std::path::{Path, PathBuf};

use nightwatt_clock::Clock;
use nightwatt_lab::fleet::plan::{
    ArrivalKind, ArrivalsFile, Copies, Plan, PlanFile, PlanResult, ServerFile, Time, of_logs,
};
use nightwatt_lab::fleet::{Error, fit, published, size};
use nightwatt_model::scenario::Scenario;

use crate::ExitStatus;
use crate::args::{
    FleetArgs, FleetCopiesArgs, FleetFitArgs, FleetPlanArgs, FleetPublishedArgs, FleetServerArgs,
    FleetSizeArgs, FleetStep,
};
use crate::errors::Failure;
use crate::output;
use crate::progress::Progress;
use crate::scenario::ScenarioArgs;

/// What is tried where nobody names a policy.
const USUAL: [&str; 4] =
    ["predictive", "baseline", "always-on 1..10", "delayed-off 100ms 1s 10s 100s 1000s"];

/// The published small server.
const SERVICE_RATE: f64 = 261.8;

/// Does one step.
pub(crate) fn run(args: &FleetArgs) -> Result<ExitStatus, Failure> {
    match &args.step {
        None => simulate(&args.plan),
        Some(FleetStep::Size(args)) => size_up(args),
        Some(FleetStep::Fit(args)) => fit_points(args),
        Some(FleetStep::Published(args)) => compare(args),
    }
}

/// What is wrong with what was given, or else with the work.
fn failure(error: &Error) -> Failure {
    match error {
        Error::TooFew(_) => Failure::failed(error),
        _ => Failure::usage(error),
    }
}

/// Progress with the time left by what is done so far; the result.
fn told<T>(
    json: bool,
    work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, Error>,
) -> Result<T, Failure> {
    let clock = Clock::real();
    let started = clock.now().mono;
    let mut progress = Progress::by_time(json);
    let result = work(&mut |done, all| {
        let elapsed = clock.now().mono.since(started);
        let left = elapsed.mul_f64(all.saturating_sub(done) as f64 / done.max(1) as f64);
        progress.tell((done, all), elapsed, Some(left), || format!("{done} of {all} simulations"));
    });
    progress.end();
    result.map_err(|error| failure(&error))
}

fn simulate(args: &FleetPlanArgs) -> Result<ExitStatus, Failure> {
    let mut plan = match &args.file {
        Some(path) => read(path)?,
        None => of_flags(args)?,
    };
    let sampling = &mut plan.sampling;
    if let Some(requests) = args.requests {
        (sampling.requests, sampling.warm_up) = (requests.max(1), requests / 20);
    }
    sampling.replications = args.replications.unwrap_or(sampling.replications).max(1);
    sampling.seed = args.seed.unwrap_or(sampling.seed);
    let result = told(args.json, |tell| plan.run(tell))?;
    output::say_result(&result, args.json, || result.text(), &[])?;
    write(args, &result)?;
    Ok(ExitStatus::Success)
}

/// After the result was said: a path that cannot be written loses nothing.
fn write(args: &FleetPlanArgs, result: &PlanResult) -> Result<(), Failure> {
    let cannot = |path: &Path, error: &std::io::Error| {
        Failure::because(format!("cannot write {}", path.display()), error)
            .hint("name a place that you may write to")
    };
    if let Some(folder) = &args.csv {
        fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
        for (name, table) in result.tables() {
            let path = folder.join(format!("{name}.csv"));
            fs::write(&path, table.to_csv()).map_err(|error| cannot(&path, &error))?;
        }
    }
    if let Some(path) = &args.html {
        let when = nightwatt_report::civil(Clock::real().now().wall.secs());
        let generated = format!("nightwatt {}, {when} UTC", env!("CARGO_PKG_VERSION"));
        let page = result.document(generated).to_html();
        fs::write(path, page).map_err(|error| cannot(path, &error))?;
    }
    Ok(())
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
        return Err(Failure::saying("nothing arrives: there is no plan, no rate and no log")
            .into_usage()
            .hint("`nightwatt fleet plan.toml`, `--rate 300,600` or `--log access.log`; `--help` has examples"));
    }
    let mut file = file_of(&args.server, args.servers);
    if !args.policies.is_empty() {
        file.policies.clone_from(&args.policies);
    }
    file.arrivals = vec![arrivals(&args.rates, &args.log, &args.copies)];
    file.plan().map_err(|error| failure(&error))
}

/// A plan without arrivals.
fn file_of(args: &FleetServerArgs, servers: u32) -> PlanFile {
    let points: Vec<(f64, Time)> =
        args.points.iter().map(|it| (it.arrivals.get(), Time(it.mean_response))).collect();
    let rate = points.is_empty().then_some(args.service_rate.unwrap_or(SERVICE_RATE));
    let server = ServerFile {
        name: "server".to_owned(),
        servers,
        service_rate: rate,
        points: rate.is_none().then_some(points),
        service: args.service.clone(),
        off_w: args.off,
        idle_w: args.idle,
        busy_w: args.busy,
        switch_j: args.switch_j,
        switch_on: args.switch_on,
    };
    PlanFile {
        refused: args.refused,
        transition_price_j: args.transition_price,
        line: args.line,
        policies: USUAL.map(str::to_owned).to_vec(),
        server: vec![server],
        ..PlanFile::keeping(args.sla)
    }
}

fn arrivals(rates: &[f64], log: &[PathBuf], copies: &FleetCopiesArgs) -> ArrivalsFile {
    let kind = if log.is_empty() { ArrivalKind::Poisson } else { ArrivalKind::Log };
    ArrivalsFile {
        rates: rates.to_vec(),
        files: log.to_vec(),
        copies: copies.copies,
        days: copies.days,
        ..ArrivalsFile::of(kind)
    }
}

fn size_up(args: &FleetSizeArgs) -> Result<ExitStatus, Failure> {
    let scenario = match &args.scenario {
        None => Scenario::default(),
        Some(path) => {
            ScenarioArgs { policy: None, no_sla: false, scenario: Some(path.clone()) }.resolve()?
        }
    };
    let plan = match &args.plan {
        None => {
            let mut file = file_of(&args.server, 1);
            file.arrivals = vec![arrivals(&[], &args.logs, &args.copies)];
            file.plan().map_err(|error| failure(&error))?
        }
        Some(path) => {
            let mut plan = read(path)?;
            if plan.pools.iter().any(|pool| pool.settings.kinds.len() > 1) {
                return Err(Failure::saying(
                    "kinds that are `together` in one pool cannot be sized",
                )
                .into_usage()
                .hint("take `together` out of the plan: each kind is then a pool of its own"));
            }
            let copies = Copies { copies: args.copies.copies, days: args.copies.days };
            plan.traffic = vec![of_logs(&args.logs, copies).map_err(|error| failure(&error))?];
            plan
        }
    };
    let result = told(args.json, |tell| size::run(&plan, &scenario.electricity, tell))?;
    output::say_result(&result, args.json, || result.text(), &result.warnings())?;
    Ok(ExitStatus::Success)
}

fn fit_points(args: &FleetFitArgs) -> Result<ExitStatus, Failure> {
    let mut points = args.points.clone();
    if let Some(path) = &args.file {
        let name = path.display();
        let more = fit::points(&text_of(path)?);
        points.extend(more.map_err(|why| failure(&Error::Points(format!("{name}: {why}"))))?);
    }
    let result = fit::run(&points, args.sla).map_err(|error| failure(&error))?;
    output::say_result(&result, args.json, || result.text(), &result.warnings)?;
    Ok(ExitStatus::Success)
}

fn compare(args: &FleetPublishedArgs) -> Result<ExitStatus, Failure> {
    let comparison = told(args.json, |tell| published::run(args.arrivals, tell))?;
    output::say_result(&comparison, args.json, || comparison.text(), &[])?;
    Ok(ExitStatus::Success)
}
