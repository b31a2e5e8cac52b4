//! The machine that is to sleep, looked at from within.

mod network_cards;

use super::{Finding, HostView};

/// Clocks further apart than this are not set to the same time, seconds.
const CLOCK_SLACK: i64 = 3;

/// Looks at everything; best as root, since `ethtool` tells others little.
pub fn examine(place: &HostView) -> Vec<Finding> {
    let mut findings = vec![kind(place), sleep_states(place)];
    findings.extend(mem_sleep(place));
    findings.extend(history(place));
    findings.extend(network_cards::all(place));
    findings.extend(wakers(place));
    findings.push(alarm(place));
    findings.extend(rtc_time(place));
    findings.push(clock(place));
    findings.extend(agent(place));
    findings.extend(firmware(place));
    findings
}

/// Names by which hypervisors introduce themselves in DMI.
const HYPERVISORS: [&str; 7] =
    ["QEMU", "KVM", "VMware", "innotek", "Xen", "Microsoft Corporation Virtual", "Bochs"];

/// The guest's hypervisor, by its name.
fn hypervisor(place: &HostView) -> Option<&'static str> {
    let dmi = ["sys_vendor", "product_name"];
    let dmi: Vec<_> =
        dmi.iter().filter_map(|it| place.read(&format!("sys/class/dmi/id/{it}"))).collect();
    let dmi = dmi.join(" ");
    HYPERVISORS.into_iter().find(|name| dmi.contains(name))
}

fn kind(place: &HostView) -> Finding {
    const ABOUT: &str = "machine";
    if place.exists(".dockerenv") || place.exists("run/.containerenv") {
        return Finding::bad(ABOUT, "this is a container: it cannot sleep by itself").cure(
            "run this on the container's host; or let the host stop and start the container \
             (`[site.power.docker]`, `[site.power.podman]`)",
        );
    }
    if let Some(name) = hypervisor(place) {
        return Finding::note(ABOUT, format!("this is a guest ({name})")).cure(
            "most hypervisors do not wake a guest for a magic packet: let its host start and stop it \
             (`[site.power.libvirt]`, `[site.power.qemu]`, or `[site.power.ssh]` to the host)",
        );
    }
    let name = ["sys_vendor", "product_name", "bios_version"]
        .iter()
        .filter_map(|it| place.read(&format!("sys/class/dmi/id/{it}")))
        .collect::<Vec<_>>()
        .join(", ");
    Finding::good(
        ABOUT,
        if name.is_empty() { "no container, no known guest".to_owned() } else { name },
    )
}

fn sleep_states(place: &HostView) -> Finding {
    const ABOUT: &str = "sleep states";
    let Some(states) = place.read("sys/power/state") else {
        return Finding::bad(ABOUT, "this kernel cannot sleep (no /sys/power/state)").cure(
            "let the machine be powered off instead, and turned on by a magic packet, IPMI, Redfish \
             or a line to its power button",
        );
    };
    let has = |state: &str| states.split_whitespace().any(|it| it == state);
    if has("mem") {
        let hibernates =
            if has("disk") && swap_is_there(place) { "; it can hibernate too" } else { "" };
        return Finding::good(ABOUT, format!("suspend is there ({states}){hibernates}"));
    }
    let found = format!("no `mem` among the sleep states ({states})");
    Finding::bad(ABOUT, found).cure(
        "look for suspend (S3) in the firmware's settings; or let the machine be powered off, and \
         turned on by a magic packet",
    )
}

fn swap_is_there(place: &HostView) -> bool {
    place.read("proc/swaps").is_some_and(|text| text.lines().count() > 1)
}

fn mem_sleep(place: &HostView) -> Option<Finding> {
    const ABOUT: &str = "depth of sleep";
    let kinds = place.read("sys/power/mem_sleep")?;
    let chosen = kinds.split_whitespace().find(|it| it.starts_with('['))?;
    if chosen != "[s2idle]" {
        return Some(Finding::good(ABOUT, format!("suspend to RAM ({kinds})")));
    }
    let finding = Finding::note(ABOUT, format!("suspend to idle ({kinds}): the CPU stays powered"));
    Some(if kinds.contains("deep") {
        finding.cure(
            "`echo deep > /sys/power/mem_sleep` draws less; for good: `mem_sleep_default=deep` on the \
             kernel's command line",
        )
    } else {
        finding.cure(
            "the firmware offers nothing deeper: look there for `Sleep State: Linux` or `S3`; measure \
             what it draws asleep, and write it into `[scenario.server] off_w`",
        )
    })
}

/// How past attempts went.
fn history(place: &HostView) -> Option<Finding> {
    const ABOUT: &str = "past suspends";
    let number =
        |name: &str| place.read(&format!("sys/power/suspend_stats/{name}"))?.parse::<u64>().ok();
    let (done, failed) = (number("success")?, number("fail")?);
    if done + failed == 0 {
        return Some(Finding::note(ABOUT, "none since it started").cure(
            "try one by hand, and wake it by its power button: `systemctl suspend`; or from the proxy, \
             `nightwatt doctor -c FILE --cycle`",
        ));
    }
    let found = format!("{done} succeeded, {failed} failed since it started");
    if failed == 0 {
        return Some(Finding::good(ABOUT, found));
    }
    let culprit = ["last_failed_dev", "last_failed_step"]
        .iter()
        .filter_map(|it| place.read(&format!("sys/power/suspend_stats/{it}")))
        .filter(|it| !it.is_empty())
        .collect::<Vec<_>>()
        .join(" at ");
    let cure = format!("`journalctl -k | grep -i suspend` says why; last: {culprit}");
    Some(Finding::bad(ABOUT, found).cure(cure))
}

/// Devices that may wake it.
fn wakers(place: &HostView) -> Option<Finding> {
    let text = place.read("proc/acpi/wakeup")?;
    let enabled: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("*enabled"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if enabled.is_empty() {
        return None;
    }
    Some(Finding::note("what may wake it", enabled.join(", ")).cure(
        "if it wakes by itself, turn them off one by one: `echo NAME > /proc/acpi/wakeup` (XHC and EHC \
         are USB, which mice and keyboards use)",
    ))
}

fn alarm(place: &HostView) -> Finding {
    const ABOUT: &str = "alarm clock";
    let clocks = place.names("sys/class/rtc");
    let with_alarm =
        clocks.iter().find(|name| place.exists(&format!("sys/class/rtc/{name}/wakealarm")));
    match with_alarm {
        Some(name) => {
            Finding::good(ABOUT, format!("{name} can wake it (`nightwatt agent` sets it)"))
        }
        None => Finding::bad(ABOUT, "no real-time clock that can wake it").cure(
            "nothing wakes it if the proxy dies while it sleeps: set `dead_man = \"0\"` for its agent, \
             knowing that, and keep its power button in reach",
        ),
    }
}

/// Does the hardware's clock show the system's time, in UTC?
fn rtc_time(place: &HostView) -> Option<Finding> {
    const ABOUT: &str = "hardware clock";
    let shown: i64 = place.read("sys/class/rtc/rtc0/since_epoch")?.parse().ok()?;
    let now: i64 = place.ask("date", &["+%s"])?.trim().parse().ok()?;
    let apart = shown - now;
    if apart.abs() <= CLOCK_SLACK {
        return Some(Finding::good(ABOUT, "it shows the same time as the system's"));
    }
    let in_quarters = (apart.abs() + CLOCK_SLACK) % 900 <= 2 * CLOCK_SLACK;
    Some(if in_quarters && apart.abs() <= 14 * 3600 {
        Finding::note(ABOUT, format!("{apart} s off: it seems to run in local time"))
            .cure("`timedatectl set-local-rtc 0`: alarms are an hour off when summer time changes")
    } else {
        Finding::bad(ABOUT, format!("{apart} s off: alarms come so much too early or late"))
            .cure("`hwclock --systohc`; an old battery on the board loses the time")
    })
}

fn clock(place: &HostView) -> Finding {
    const ABOUT: &str = "system clock";
    let says = place.ask("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]);
    match says.as_deref().map(str::trim) {
        Some("yes") => Finding::good(ABOUT, "set by the network"),
        _ if place.exists("run/systemd/timesync/synchronized") => {
            Finding::good(ABOUT, "set by the network")
        }
        Some("no") => Finding::note(ABOUT, "not set by the network").cure(
            "`timedatectl set-ntp true`, or chrony: logs of the two machines can then be compared",
        ),
        _ => Finding::unknown(
            ABOUT,
            "whether it is set by the network is not known (no timedatectl)",
        ),
    }
}

fn agent(place: &HostView) -> Option<Finding> {
    const ABOUT: &str = "agent";
    let says =
        place.ask("systemctl", &["show", "-p", "ActiveState", "--value", "nightwatt-agent"])?;
    Some(match says.trim() {
        "active" => Finding::good(ABOUT, "nightwatt-agent runs"),
        state => Finding::note(ABOUT, format!("nightwatt-agent does not run ({state})")).cure(
            "without it the proxy knows nothing of users, jobs and backups here, and nothing wakes the \
             machine if the proxy dies: `nightwatt agent --help`; or put it to sleep by SSH, knowing that",
        ),
    })
}

/// What no program can look at.
fn firmware(place: &HostView) -> Option<Finding> {
    if hypervisor(place).is_some() || !place.exists("sys/class/dmi/id") {
        return None;
    }
    Some(Finding::note("firmware", "its settings cannot be seen from here").cure(
        "to turn it on when it is powered off: Wake-on-LAN (or `Power on by PCI-E`) on, ErP/EuP and deep \
         sleep (S4/S5) off; after a power cut: `Restore AC power loss: last state`",
    ))
}

#[cfg(test)]
mod tests;
