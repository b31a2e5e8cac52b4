//! Where the CPUs' time went during a run, if that was asked for.

#[cfg(feature = "bpf")]
pub use crate::kernel_time::KernelTimeReport;

use super::Error;
use super::breakdown::Shares;

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

/// What is under test and the kernel itself did, by category.
#[cfg(feature = "bpf")]
pub(super) fn shares(report: &KernelTimeReport) -> Shares {
    use crate::kernel_time::CategoryReport;
    let own = |it: &CategoryReport| it.own_share.map(|share| share.share);
    let all = |list: &[CategoryReport]| list.iter().map(|it| (it.name, own(it))).collect();
    Shares {
        idle: report.idle.map(|share| share.share),
        changing: own(&report.changing),
        os: all(&report.os),
        tcp: all(&report.tcp),
    }
}

/// There are no such reports.
#[cfg(not(feature = "bpf"))]
pub(super) fn shares(report: &KernelTimeReport) -> Shares {
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
