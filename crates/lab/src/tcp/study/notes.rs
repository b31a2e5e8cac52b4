//! What is to be said beside figures, so that nobody takes them for more than they are.

use std::collections::BTreeMap;

/// What is to be said of the energy of wake-ups, where the rest is a model's; are they counted?
pub(in crate::tcp) fn about_waking(joules: Option<f64>, counts: bool) -> Option<String> {
    let said = match (joules, counts) {
        (Some(_), true) => return None,
        (Some(_), false) => {
            "nothing is added for wake-ups in spite of `--wake-energy`: this kernel counts no entries into idle \
             states (/sys/devices/system/cpu/cpu*/cpuidle), as in many virtual machines, and the tracepoint \
             power:cpu_idle cannot be counted"
        }
        (None, _) => {
            "energy is modelled from what the CPUs do; what a wake-up takes is not in it: `--wake-energy` gives \
             that, and `nightwatt calibrate wakeups` finds it out"
        }
    };
    Some(said.to_owned())
}

/// Why the tracepoint of rest is not counted on this machine.
pub(in crate::tcp) fn about_tracing(why: &str) -> String {
    format!("wake-ups of this machine are not counted by the tracepoint power:cpu_idle: {why}")
}

/// CPUs that choose their frequency take another time and another energy for the same work, by what else
/// there is to do. `settings` are those of the machine.
pub(in crate::tcp) fn about_frequency(settings: &BTreeMap<String, String>) -> Option<String> {
    let of = |name: &str| settings.get(name).map(String::as_str);
    let governor = of("governor")?;
    if of("lowest frequency kHz") == of("highest frequency kHz") {
        return None;
    }
    let turbo = if of("turbo") == Some("on") { ", and turbo is on" } else { "" };
    Some(format!(
        "the frequency of CPUs is not fixed (governor `{governor}`{turbo}): CPU time and energy are by what it \
         happened to be; fix it, as by `cpupower frequency-set --min 2GHz --max 2GHz`, or set it in a plan of \
         `nightwatt compare`"
    ))
}

/// What is above idle cannot be below it.
pub(in crate::tcp) fn below_idle(energy: f64) -> Option<&'static str> {
    (energy < 0.0).then_some(
        "energy below zero: this machine drew more while nothing was on the link than while connections ran, \
         so something else was at work; the figure says nothing",
    )
}
