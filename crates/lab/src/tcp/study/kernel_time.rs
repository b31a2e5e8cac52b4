//! Where the CPUs' time went during a run, if that was asked for.

#[cfg(feature = "bpf")]
pub use crate::kernel_time::KernelTimeReport;

use super::Error;
use super::breakdown::{Seen, Shares};

/// Watches all CPUs while `work` goes on, if a rate is given, with these processes under test.
#[cfg(feature = "bpf")]
pub(super) fn during<T>(
    hz: Option<u32>,
    processes: &[u32],
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<(T, Option<KernelTimeReport>), Error> {
    let Some(hz) = hz else { return Ok((work()?, None)) };
    let told = |error| Error::Options(format!("cannot say where the time goes: {error}"));
    let (done, report) = crate::kernel_time::during(hz, processes, work).map_err(told)?;
    Ok((done?, Some(report)))
}

/// By category: what is under test and the kernel itself did, and how the energy of a connection goes to what
/// was done beyond `idle`, whoever did it: energy is of the whole machine, and beyond idle.
#[cfg(feature = "bpf")]
pub(super) fn shares(
    report: &KernelTimeReport,
    idle: Option<&KernelTimeReport>,
    energy: Option<f64>,
) -> Shares {
    use crate::kernel_time::CategoryReport;
    let per_second = |samples: u64, of: &KernelTimeReport| samples as f64 / of.elapsed_s;
    let beyond = |of: &dyn Fn(&KernelTimeReport) -> u64| {
        per_second(of(report), report) - idle.map_or(0.0, |idle| per_second(of(idle), idle))
    };
    let all = beyond(&|it| it.samples.busy);
    let seen = |it: &CategoryReport, same: &dyn Fn(&KernelTimeReport) -> &CategoryReport| Seen {
        name: it.name,
        share: it.own_share.map(|share| share.share),
        energy: energy
            .filter(|_| all > 0.0)
            .map(|joules| joules * beyond(&|it| same(it).samples) / all),
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
    }
}

/// All stacks of a run, and how long they were seen.
#[cfg(feature = "bpf")]
pub(super) fn folded(report: &KernelTimeReport) -> &str {
    report.folded()
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
pub(super) fn folded(report: &KernelTimeReport) -> &str {
    match *report {}
}

/// What a binary without eBPF's half cannot tell: it has no reader of samples.
#[cfg(not(feature = "bpf"))]
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub enum KernelTimeReport {}

/// Does the work.
#[cfg(not(feature = "bpf"))]
pub(super) fn during<T>(
    hz: Option<u32>,
    _processes: &[u32],
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<(T, Option<KernelTimeReport>), Error> {
    if hz.is_some() {
        let why = "cannot say where the time goes: this binary was built without the feature `bpf`";
        return Err(Error::Options(why.to_owned()));
    }
    Ok((work()?, None))
}
