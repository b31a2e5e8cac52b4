//! The laboratory: the ends, the link between them, and the meters and counters that runs read.

use std::path::PathBuf;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_compare::metering::Meters;
use nightwatt_compare::pure::experiment::Progress;
use nightwatt_energy::time::Mono;
use nightwatt_measure::counters::Network;
use nightwatt_measure::idle::IdleTrace;
use nightwatt_meters::{Host, MeterSpec};

use super::{Error, Plan};
use crate::cards::{Card, Cards, Feature, Features};
use crate::check::{Check, CheckResult};
use crate::ends::{Ends, EndsConfig, Running};
use crate::link::{Emulation, Link};
use crate::relay::Relayed;
use crate::scenario::Scenario;

/// Where the sender listens.
pub(super) const PORT: u16 = 5210;

/// No process at either end.
pub(super) const NO_PROCESSES: [&[u32]; 2] = [&[], &[]];

/// Reports what happens on a link.
pub(crate) type ReportProgress<'a> = dyn FnMut(StepProgress) + 'a;

/// What is told of a link.
#[derive(Default)]
pub(crate) struct StepProgress {
    pub(crate) what: String,
    pub(crate) progress: Option<Progress>,
    pub(crate) left: Option<Duration>,
    pub(crate) run: Option<serde_json::Value>,
}

impl From<&str> for StepProgress {
    fn from(what: &str) -> Self {
        Self { what: what.to_owned(), ..Self::default() }
    }
}

/// The ends, and what is read of them.
pub(crate) struct Lab<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) stop: &'a Stop,
    pub(crate) host: Host,
    pub(crate) idle_trace: IdleTrace,
    /// Those that say something of an end.
    pub(super) meters: Option<Meters>,
    /// Gone with the ends, however we end.
    pub(super) folder: PathBuf,
    pub(crate) ends: Ends,
}

/// What is there all the time.
pub(crate) struct ReadyLink {
    pub(crate) link: Link,
    pub(crate) cards: Cards,
    pub(super) serving: Running,
    /// Answers what comes behind all else, where runs are captured.
    pub(super) answering: Option<Running>,
}

/// A link that was made and looked at.
pub(crate) struct CheckedLink {
    link: Link,
    pub(crate) cards: Cards,
    pub(crate) found: Option<CheckResult>,
}

impl ReadyLink {
    /// May a frame have several segments?
    pub(super) fn joins(&self) -> bool {
        self.cards.now().iter().any(Card::joins)
    }
}

impl CheckedLink {
    /// How it is made.
    pub(crate) fn emulation(&self) -> &Emulation {
        &self.link.emulation
    }

    /// Is it what it should be, or wanted all the same?
    pub(crate) fn is_usable(&self) -> bool {
        self.found.as_ref().is_none_or(|it| it.complaints.is_empty() || it.is_accepted)
    }

    /// Takes it away.
    pub(crate) fn end(self, lab: &Lab<'_>) -> Result<Option<Relayed>, Error> {
        self.cards.put_back(&lab.ends)?;
        self.link.end(&lab.ends, lab.stop)
    }
}

/// The same for both cards.
pub(crate) fn all_of(features: &[Feature], on: bool) -> Features {
    features.iter().map(|it| (*it, on)).collect()
}

impl<'a> Lab<'a> {
    /// Makes the ends.
    pub(crate) fn open(plan: &'a Plan, stop: &'a Stop) -> Result<Self, Error> {
        let host = Host::default();
        let meters = match specs(plan, &host)? {
            Some(specs) => Some(Meters::open(&specs, None)?),
            None => None,
        };
        // Better told before anything is made than when the first run has been measured.
        let channels = meters.iter().flat_map(Meters::channels);
        check_energy(
            plan.energy.as_deref(),
            channels.map(|(meter, it)| (meter, it.name.as_str())),
        )?;
        let ends = Ends::start(&plan.ends, &plan.program, stop)?;
        let folder = ends.scratch();
        let idle_trace = IdleTrace::start(&host);
        Ok(Self { plan, stop, host, idle_trace, meters, folder, ends })
    }

    /// Joins the ends, and checks that the link is as specified: for the check, each packet is a frame of
    /// its own. A bare link has no specification.
    pub(crate) fn join(
        &self,
        scenario: &Scenario,
        report_progress: &mut ReportProgress<'_>,
    ) -> Result<CheckedLink, Error> {
        let Self { plan, stop, ends, host, .. } = self;
        report_progress("setting up the link".into());
        let link = Link::make(ends, scenario, &plan.program, stop)?;
        let mut cards = Cards::take(ends)?;
        cards.switch(ends, &all_of(&Feature::JOINING_ANY, false))?;
        if scenario.is_bare() {
            return Ok(CheckedLink { link, cards, found: None });
        }
        report_progress("checking the link".into());
        let mut found = Check { ends, scenario, host, stop }.run()?;
        found.is_accepted = !found.complaints.is_empty() && plan.accept_link;
        Ok(CheckedLink { link, cards, found: Some(found) })
    }

    /// Has the sender serve connections.
    pub(crate) fn serve(&self, joined: CheckedLink) -> Result<ReadyLink, Error> {
        let at = format!("{}:{PORT}", self.ends.sender.address);
        let words = ["tcp", "serve", "--listen", &at, "--json"];
        let mut serving = self.ends.sender.spawn_ours("serve connections", &words)?;
        serving.first_line(self.stop)?;
        let CheckedLink { link, cards, .. } = joined;
        let is_captured = self.plan.capture && self.uncaptured(link.emulation.loss).is_none();
        let answering = if is_captured { Some(self.answering()?) } else { None };
        Ok(ReadyLink { link, cards, serving, answering })
    }

    /// Takes all of it away.
    pub(crate) fn end(&self, ready: ReadyLink) -> Result<Option<Relayed>, Error> {
        let ReadyLink { link, cards, serving, answering } = ready;
        answering.map(|it| it.end(self.stop)).transpose()?;
        serving.end(self.stop)?;
        cards.put_back(&self.ends)?;
        link.end(&self.ends, self.stop)
    }

    pub(super) fn wait(&self, until: Mono) -> Result<(), Error> {
        self.stop.wait_until(until);
        if self.stop.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    pub(super) fn networks(&self) -> Result<[Network; 2], Error> {
        Ok(self.ends.count(&self.host, NO_PROCESSES)?.map(|it| it.network))
    }
}

/// Which meters are read: none where they would say nothing of either end. Where wake-ups are added, a model
/// is not to count them, too.
fn specs(plan: &Plan, host: &Host) -> Result<Option<Vec<MeterSpec>>, Error> {
    let mut specs = named(plan, host)?;
    if plan.wake_cost.is_some() {
        for spec in specs.iter_mut().flatten().filter(|it| it.driver == nightwatt_meters::MODEL) {
            spec.options.insert("wakeups".to_owned(), "false".to_owned());
        }
    }
    Ok(specs)
}

fn named(plan: &Plan, host: &Host) -> Result<Option<Vec<MeterSpec>>, Error> {
    let usual = || nightwatt_meters::usual(host);
    let given = || Some(plan.meters.clone()).filter(|it| !it.is_empty());
    let EndsConfig::Hosts(ends) = &plan.ends else { return Ok(given().or_else(|| Some(usual()))) };
    match ends.iter().find(|it| it.is_metered) {
        Some(end) if end.is_here() => Ok(given().or_else(|| Some(usual()))),
        Some(_) => given().map(Some).ok_or_else(|| {
            Error::Options(
                "neither end is this machine, whose meters are known: name the one that hangs at the end with \
                 `metered = true` (`-m`, `nightwatt meters list`)"
                    .to_owned(),
            )
        }),
        None if given().is_some() => Err(Error::Options(
            "neither end is this machine: say at which the meter hangs (`metered = true` in its table of \
             `--ends`)"
                .to_owned(),
        )),
        None => Ok(None),
    }
}

/// Has a meter the channel that is wanted?
fn check_energy<'a>(
    wanted: Option<&str>,
    channels: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), Error> {
    let Some(wanted) = wanted else { return Ok(()) };
    let names: Vec<String> = channels.map(|(meter, name)| format!("{meter}/{name}")).collect();
    if names.iter().any(|it| it == wanted) {
        return Ok(());
    }
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(Error::Options(format!("there is no channel `{wanted}`: the meters here have {names}")))
}
