//! Where the CPUs' time went during a run, if that was asked for.

#[cfg(feature = "bpf")]
pub use nightwatt_profile::kernel_time::KernelTimeReport;
#[cfg(feature = "bpf")]
pub(super) use nightwatt_profile::kernel_time::Prepared;

use super::Error;
#[cfg(feature = "bpf")]
use super::breakdown::CategoryShare;
use super::breakdown::Shares;
use nightwatt_measure::counters::Machine;

/// All CPUs are asked, with these processes under test, if a rate is given.
#[cfg(feature = "bpf")]
pub(super) fn prepared(hz: Option<u32>, processes: &[u32]) -> Result<Option<Prepared>, Error> {
    hz.map(|hz| Prepared::watching(hz, processes).map_err(|it| cannot_sample(&it))).transpose()
}

/// Watches while `work` goes on, with these processes under test, too.
#[cfg(feature = "bpf")]
pub(super) fn during<T>(
    prepared: Option<Prepared>,
    processes: &[u32],
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<(T, Option<KernelTimeReport>), Error> {
    let Some(prepared) = prepared else { return Ok((work()?, None)) };
    let (done, report) = prepared.during(processes, work).map_err(|it| cannot_sample(&it))?;
    Ok((done?, Some(report)))
}

#[cfg(feature = "bpf")]
fn cannot_sample(error: &nightwatt_probes::ProbeError) -> Error {
    Error::Options(format!("cannot say where the time goes: {error}"))
}

/// By category: the shares of what is under test and the kernel itself did, and the samples of all
/// processes beyond `idle`, since the energy of connections is that of the whole machine beyond idle.
#[cfg(feature = "bpf")]
pub(super) fn shares(
    report: &KernelTimeReport,
    idle: Option<&KernelTimeReport>,
    energy: Option<f64>,
) -> Shares {
    use nightwatt_profile::kernel_time::CategoryReport;
    let per_second = |samples: u64, of: &KernelTimeReport| samples as f64 / of.elapsed_s;
    let beyond = |of: &dyn Fn(&KernelTimeReport) -> u64| {
        per_second(of(report), report) - idle.map_or(0.0, |idle| per_second(of(idle), idle))
    };
    let seen =
        |it: &CategoryReport, same: &dyn Fn(&KernelTimeReport) -> &CategoryReport| CategoryShare {
            name: it.name,
            share: it.own_share.map(|share| share.share),
            beyond: beyond(&|it| same(it).samples),
        };
    // All reports have the same categories in the same order.
    let each = |list: fn(&KernelTimeReport) -> &[CategoryReport]| {
        let one = |(place, it)| seen(it, &|other| &list(other)[place]);
        list(report).iter().enumerate().map(one).collect()
    };
    Shares {
        idle: report.idle.map(|share| share.share),
        changing: seen(&report.changing, &|it| &it.changing),
        os: each(|it| &it.os),
        tcp: each(|it| &it.tcp),
        beyond: beyond(&|it| it.samples.busy),
        energy,
    }
}

/// What the machine did in `seconds` of a report, without the interrupts that took the report's samples.
#[cfg(feature = "bpf")]
pub(super) fn not_its_own(
    machine: Option<Machine>,
    report: Option<&KernelTimeReport>,
    seconds: f64,
) -> Option<Machine> {
    let Some(report) = report else { return machine };
    let during = |samples: u64| (samples as f64 * seconds / report.elapsed_s).round() as u64;
    let taken = report.samples.busy + report.samples.idle + report.samples.lost;
    machine.map(|it| it.without_sampler(during(taken), during(report.samples.idle)))
}

/// All stacks of a run, and how long they were seen.
#[cfg(feature = "bpf")]
pub(super) fn folded(report: &KernelTimeReport) -> &str {
    report.folded()
}

/// What the reader of a run has to know.
#[cfg(feature = "bpf")]
pub(super) fn warnings(report: &KernelTimeReport) -> &[String] {
    &report.warnings
}

/// There are no such reports.
#[cfg(not(feature = "bpf"))]
pub(super) fn shares(
    report: &KernelTimeReport,
    _idle: Option<&KernelTimeReport>,
    _energy: Option<f64>,
) -> Shares {
    match *report {}
}

/// There are no such reports.
#[cfg(not(feature = "bpf"))]
pub(super) fn not_its_own(
    machine: Option<Machine>,
    report: Option<&KernelTimeReport>,
    _seconds: f64,
) -> Option<Machine> {
    report.map_or(machine, |report| match *report {})
}

/// There are no such reports.
#[cfg(not(feature = "bpf"))]
pub(super) fn folded(report: &KernelTimeReport) -> &str {
    match *report {}
}

/// There are no such reports.
#[cfg(not(feature = "bpf"))]
pub(super) fn warnings(report: &KernelTimeReport) -> &[String] {
    match *report {}
}

/// What a binary without eBPF's half cannot tell: it has no reader of samples.
#[cfg(not(feature = "bpf"))]
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub enum KernelTimeReport {}

/// Kernel time cannot be sampled.
#[cfg(not(feature = "bpf"))]
pub(super) enum Prepared {}

/// Prepares nothing; an error if the user asked for samples.
#[cfg(not(feature = "bpf"))]
pub(super) fn prepared(hz: Option<u32>, _processes: &[u32]) -> Result<Option<Prepared>, Error> {
    let why = "cannot say where the time goes: this binary was built without the feature `bpf`";
    if hz.is_some() { Err(Error::Options(why.to_owned())) } else { Ok(None) }
}

/// Does the work.
#[cfg(not(feature = "bpf"))]
pub(super) fn during<T>(
    _prepared: Option<Prepared>,
    _processes: &[u32],
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<(T, Option<KernelTimeReport>), Error> {
    Ok((work()?, None))
}
