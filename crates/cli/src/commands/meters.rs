//! `nightwatt meters`: which meters exist, what they read, what is missing and how to enable it; how good a meter is
//! (`--check`), and how fast its power changes (`--spectrum`).

mod check;
mod spectrum;

use std::fmt::Write;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::quantity::Watts;
use nightwatt_meters::sampler::{Measured, Opened, Sampler};
use nightwatt_meters::{Accuracy, DRIVERS, Driver, Host, MeterSpec, Presence, Scope};
use nightwatt_report::figures;
use serde::Serialize;

use crate::ExitStatus;
use crate::args::MeterArgs;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::output;
use crate::values;

/// List this machine's meters, their readings, and what it could have
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) meters: MeterArgs,
    /// Compare this meter with the one behind `--against`, on the same load: error, scale, offset,
    /// lag, noise. Two recordings (`file=...`) are read as fast as can be
    #[arg(long, value_name = "METER", requires = "against", conflicts_with_all = ["meters", "spectrum"])]
    pub(crate) check: Option<MeterSpec>,
    /// The meter that is believed
    #[arg(long, value_name = "METER", requires = "check")]
    pub(crate) against: Option<MeterSpec>,
    /// Show how fast this meter's power changes (its power spectrum), and how often it is worth
    /// reading
    #[arg(long, value_name = "METER", conflicts_with = "meters")]
    pub(crate) spectrum: Option<MeterSpec>,
    /// Channel of the meter [default: the only one, or the one that covers the machine]
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<String>,
    /// Channel of the meter behind `--against`
    #[arg(long, value_name = "NAME", requires = "against")]
    pub(crate) against_channel: Option<String>,
    /// Read for this long
    #[arg(long = "for", value_name = "TIME", default_value = "1m", value_parser = values::measuring_time)]
    pub(crate) time: Duration,
    /// Time between two readings [default: what suits the meter]
    #[arg(short = 'I', long, value_name = "TIME", value_parser = values::measuring_time)]
    pub(crate) interval: Option<Duration>,
    /// Look for a lag up to this, either way
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "check", value_parser = values::measuring_time)]
    pub(crate) longest_lag: Duration,
    /// Separate frequencies that differ by this many Hz [default: what the readings allow]
    #[arg(long, value_name = "HZ", requires = "spectrum", value_parser = values::factor)]
    pub(crate) resolution: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const LISTED: Listed = Listed::Last(Group::Measure);

const EXAMPLES: &str = "Examples:
  nightwatt meters                            # what is here, and what not
  nightwatt meters -m shelly=http://10.0.0.9  # does it answer?
  nightwatt meters --check rapl --against shelly=http://10.0.0.9 --for 10m
  nightwatt meters --check file=a.parquet --against file=b.csv
  nightwatt meters --spectrum iio=ina226,rate=1000 --for 30s
  nightwatt meters --spectrum file=daq.csv.gz,sense=cpu:0:0.0025:100:4

While two meters are checked, the load should change, from idle to full: a steady one says nothing of
scale, offset and lag.";

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// How long the load is looked at from which a model makes a power.
const MODEL_TIME: Duration = Duration::from_secs(1);

/// How long to wait for a meter's first reading; longer for a meter that reports rarely.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The meters that exist.
#[derive(Debug, Serialize)]
struct Found {
    schema: u32,
    meters: Vec<Kind>,
}

/// One kind of meter, or one that the user named.
#[derive(Debug, Serialize)]
struct Kind {
    name: String,
    about: &'static str,
    /// `available`, `absent`, `denied` or `needs-address`.
    state: &'static str,
    /// Why it is not available.
    why: Option<String>,
    /// What to do about it.
    hint: Option<String>,
    channels: Vec<ChannelReading>,
    /// Remarks: parts that cannot be read, figures that are not plausible.
    remarks: Vec<String>,
}

/// The reading of a channel.
#[derive(Debug, Serialize)]
struct ChannelReading {
    channel: String,
    scope: Scope,
    kind: &'static str,
    watts: Option<f64>,
    /// The channel counts energy, and its counter did not move while it was read: that is no measurement.
    stands_still: bool,
    accuracy: Accuracy,
    accuracy_source: &'static str,
    interval_s: f64,
}

/// Finds, reads and lists the meters; or checks one.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    if let (Some(meter), Some(reference)) = (&args.check, &args.against) {
        return check::run(args, meter, reference);
    }
    if let Some(meter) = &args.spectrum {
        return spectrum::run(args, meter);
    }
    let host = Host::default();
    let meters: Vec<Kind> = if args.meters.meters.is_empty() {
        DRIVERS.iter().map(|driver| of_machine(&host, driver)).collect()
    } else {
        args.meters.meters.iter().map(|spec| named(&host, spec)).collect()
    };
    let all_named = !args.meters.meters.is_empty();
    let missing = all_named && meters.iter().any(|kind| kind.state != "available");
    let found = Found { schema: SCHEMA, meters };
    if args.json {
        output::print_json(&found)?;
    } else {
        output::print(&output::folded(&text(&found)))?;
    }
    Ok(if missing { ExitStatus::Failed } else { ExitStatus::Success })
}

fn of_machine(host: &Host, driver: &Driver) -> Kind {
    match (driver.probe)(host) {
        Presence::Available => read(host, driver, &MeterSpec::of(driver.name)),
        Presence::Absent(why) => kind(driver, "absent").because(why, None),
        Presence::Denied { what, hint } => {
            kind(driver, "denied").because(format!("{what} may not be read"), Some(hint))
        }
        Presence::NeedsAddress => {
            let hint = format!("say where it is: `-m {}`", driver.example);
            kind(driver, "needs-address").because(String::new(), Some(hint))
        }
    }
}

fn named(host: &Host, spec: &MeterSpec) -> Kind {
    match nightwatt_meters::driver(&spec.driver) {
        Ok(driver) => Kind { name: spec.name().to_owned(), ..read(host, driver, spec) },
        Err(error) => {
            let hint = error.hint().map(str::to_owned);
            let unknown = Kind {
                name: spec.name().to_owned(),
                about: "",
                state: "absent",
                why: None,
                hint: None,
                channels: Vec::new(),
                remarks: Vec::new(),
            };
            unknown.because(error.to_string(), hint)
        }
    }
}

fn kind(driver: &Driver, state: &'static str) -> Kind {
    let name = driver.name.to_owned();
    Kind {
        name,
        about: driver.about,
        state,
        why: None,
        hint: None,
        channels: Vec::new(),
        remarks: Vec::new(),
    }
}

impl Kind {
    fn because(self, why: String, hint: Option<String>) -> Self {
        Self { why: Some(why).filter(|why| !why.is_empty()), hint, ..self }
    }
}

/// Opens a meter and reads until each channel has reported its power.
fn read(host: &Host, driver: &Driver, spec: &MeterSpec) -> Kind {
    match listen(host, spec) {
        Ok(measured) => {
            let silent = measured.latest.iter().all(Option::is_none);
            let nothing = || silent.then(|| "it is there, and said nothing yet".to_owned());
            let why = measured.last_error.clone().or_else(nothing).unwrap_or_default();
            Kind {
                channels: readings(&measured),
                remarks: measured.remarks,
                ..kind(driver, "available").because(why, None)
            }
        }
        Err(Absent { why, hint }) => kind(driver, "absent").because(why, hint),
    }
}

/// Why a meter is not there, and what to do.
struct Absent {
    why: String,
    hint: Option<String>,
}

fn listen(host: &Host, spec: &MeterSpec) -> Result<Measured, Absent> {
    let cannot = |error: nightwatt_meters::MeterError| Absent {
        why: error.to_string(),
        hint: error.hint().map(str::to_owned),
    };
    let failed = |why: String| Absent { why, hint: None };
    let opened = Opened::open(host, spec).map_err(cannot)?;
    let is_modelled = opened.channels().iter().any(|channel| channel.is_modelled);
    let until = monotonic() + TIMEOUT.max(opened.interval(None).mul_f64(1.5));
    let quick = Some(Duration::from_millis(100));
    let sampler = Sampler::start_without_sinks(vec![opened], quick)
        .map_err(|error| failed(error.to_string()))?;
    let stop = nightwatt_clock::meter::Stop::new().map_err(|error| failed(error.to_string()))?;
    // The power of a model follows the load: a mean says more than a moment.
    let least = if is_modelled { monotonic() + MODEL_TIME } else { monotonic() };
    let all_said =
        |measured: &Measured| monotonic() >= least && measured.latest.iter().all(Option::is_some);
    while monotonic() < until && !sampler.so_far().iter().all(all_said) {
        stop.wait_until(monotonic() + Duration::from_millis(50));
    }
    let (mut measured, _) = sampler.finish(monotonic());
    measured.pop().ok_or_else(|| failed("it is gone".to_owned()))
}

fn readings(measured: &Measured) -> Vec<ChannelReading> {
    let each = measured.channels.iter().zip(&measured.latest).zip(&measured.totals);
    let said = each.map(|((channel, latest), totals)| ChannelReading {
        channel: channel.name.clone(),
        scope: channel.scope,
        kind: if channel.is_modelled { "modelled" } else { "measured" },
        watts: if channel.is_modelled {
            totals.mean_power().map(Watts::get)
        } else {
            latest.map(|(_, watts)| watts.get())
        },
        stands_still: channel.counter.is_some() && latest.is_none() && totals.readings > 1,
        accuracy: channel.accuracy,
        accuracy_source: channel.accuracy_source,
        interval_s: measured.interval.as_secs_f64(),
    });
    said.collect()
}

fn text(found: &Found) -> String {
    let mut text = String::new();
    let (there, rest): (Vec<&Kind>, Vec<&Kind>) =
        found.meters.iter().partition(|kind| kind.state == "available");
    // Writing to a String cannot fail, here and below.
    for kind in &there {
        let _ = writeln!(text, "{:<12}{}", kind.name, kind.about);
        for said in &kind.channels {
            let watts = said.watts.map_or("-".to_owned(), |watts| power(watts, said));
            let kind = if said.stands_still { "stands still" } else { said.kind };
            let _ = writeln!(
                text,
                "    {:<28}{watts:>12} W  {kind}, {} ({})",
                said.channel,
                accuracy(&said.accuracy),
                said.accuracy_source
            );
        }
        for remark in &kind.remarks {
            let _ = writeln!(text, "    note: {remark}");
        }
        write_why(&mut text, kind);
    }
    if !rest.is_empty() {
        let _ = writeln!(text, "{}not here:", if there.is_empty() { "" } else { "\n" });
    }
    for kind in rest {
        let _ = writeln!(text, "{:<12}{}", kind.name, kind.about);
        write_why(&mut text, kind);
    }
    text
}

/// A modelled power with no more digits than its accuracy leaves sure, as `run` prints it.
fn power(watts: f64, said: &ChannelReading) -> String {
    if said.kind != "modelled" {
        return format!("{watts:.3}");
    }
    let half_width = said.accuracy.at(Watts(watts)).get();
    format!("about {}", figures::rounded(watts, Some(half_width)))
}

fn write_why(text: &mut String, kind: &Kind) {
    if let Some(why) = &kind.why {
        let _ = writeln!(text, "    {why}");
    }
    if let Some(hint) = &kind.hint {
        let _ = writeln!(text, "    hint: {hint}");
    }
}

fn accuracy(accuracy: &Accuracy) -> String {
    let relative = match accuracy.relative {
        share if share < 1.0 => format!("± {} %", (share * 1e5).round() / 1e3),
        share => figures::accuracy(share),
    };
    match accuracy.watts.get() {
        0.0 => relative,
        watts => format!("{relative} ± {watts} W"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modelled_power_has_the_digits_that_are_sure() {
        let said = |kind, relative| ChannelReading {
            channel: "machine".to_owned(),
            scope: Scope::System,
            kind,
            watts: Some(6.891),
            stands_still: false,
            accuracy: Accuracy::relative(relative),
            accuracy_source: "",
            interval_s: 0.1,
        };
        assert_eq!(power(6.891, &said("modelled", 5.89)), "about 7");
        assert_eq!(power(43.26, &said("modelled", 0.05)), "about 43.3");
        assert_eq!(power(6.891, &said("measured", 0.02)), "6.891");
    }
}
