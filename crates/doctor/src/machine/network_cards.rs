//! Whether network cards wake the machine for magic packets, and for nothing else.

use crate::ethtool::Wake;
use crate::{Finding, HostView};

/// Network cards with a device behind them.
pub(super) fn all(place: &HostView) -> Vec<Finding> {
    let names = place.names("sys/class/net");
    let mut cards: Vec<Finding> = names
        .iter()
        .filter(|name| place.exists(&format!("sys/class/net/{name}/device")))
        .map(|name| card(place, name))
        .collect();
    if cards.is_empty() {
        cards.push(
            Finding::bad(
                "network cards",
                "none with a device behind it: no magic packet can be heard",
            )
            .cure("wake it in another way: IPMI, Redfish, its host, a line to its power button"),
        );
    }
    cards
}

fn card(place: &HostView, name: &str) -> Finding {
    let about = format!("network card {name}");
    let address = place.read(&format!("sys/class/net/{name}/address")).unwrap_or_default();
    if place.exists(&format!("sys/class/net/{name}/wireless")) {
        return Finding::note(&about, format!("{address}, wireless"))
            .cure("few of these wake a machine (`iw phy | grep -A9 WoWLAN`): use a cable");
    }
    let Some(wake) = place.ask("ethtool", &[name]).as_deref().and_then(Wake::read) else {
        return Finding::unknown(&about, format!("{address}: for what it wakes is not known"))
            .cure("run this as root with `ethtool` there (`apt install ethtool`)");
    };
    let persist = format!(
        "`ethtool -s {name} wol g`, and for good a file /etc/systemd/network/50-wol.link with \
         `[Match]`, `MACAddress={address}`, `[Link]`, `WakeOnLan=magic` and, lest it change its name, \
         `NamePolicy=keep kernel database onboard slot path`"
    );
    if !wake.can.contains('g') {
        return Finding::bad(
            &about,
            format!("{address}: it cannot wake for magic packets ({})", wake.can),
        )
        .cure("look for Wake-on-LAN in the firmware's settings; else use another card, or IPMI");
    }
    if !wake.does.contains('g') {
        let found = format!(
            "{address}: it could wake for magic packets, but is not set to ({})",
            wake.does
        );
        return Finding::bad(&about, found).cure(persist);
    }
    let by_chance = wake.by_chance();
    if by_chance.is_empty() {
        let sealed = place.read(&format!("sys/class/net/{name}/device/power/wakeup"));
        if sealed.as_deref() == Some("disabled") {
            let found = format!(
                "{address}: it wakes for magic packets, but its device may not wake the machine"
            );
            return Finding::bad(&about, found)
                .cure(format!("`echo enabled > /sys/class/net/{name}/device/power/wakeup`"));
        }
        return Finding::good(
            &about,
            format!("{address} wakes for magic packets, and for nothing else"),
        );
    }
    let found = format!("{address} wakes for magic packets, but also for {}", by_chance.join(", "));
    Finding::bad(&about, found).cure(format!("any machine that looks for it wakes it. {persist}"))
}
