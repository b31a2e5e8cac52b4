//! Magic packets that were heard, on the page.

use nightwatt_report::exposition::Exposition;

use super::counter;
use crate::gateway::Gateway;

/// Nothing for a configuration that hears none.
pub(super) fn write(page: &mut Exposition, gateway: &Gateway) {
    if gateway.serving.config.magic_packets.is_none() {
        return;
    }
    let heard = counter(
        "nightwatt_magic_packets_total",
        &["outcome"],
        "Datagrams at the ports of magic packets, by what became of them: `woke` (a server), `awake` (it is \
         already), `unknown` (card), `password`, `network`, `own`, `rate`, `malformed`.",
    );
    page.family(heard, |samples| {
        for (outcome, count) in gateway.magic_packets.counts() {
            samples.add(&[outcome], count);
        }
    });
}
