//! Asks the probes of a site when they are due.

use std::sync::Arc;

use nightwatt_policy::in_use::Standing;
use tokio::task::JoinSet;

use super::InUse;
use crate::live::Live;
use crate::serving::Serving;

/// Asks the probes of a site while its server is awake and serves no client, as long as there is such a site.
pub(crate) async fn run(mut live: Live<Serving>, name: Arc<str>) {
    let clock = live.now().clock.clone();
    loop {
        let serving = live.now();
        let Some((_, site)) = serving.site_named(&name) else { return };
        let Some(probes) = site.in_use.clone() else {
            drop(serving);
            live.changed().await;
            continue;
        };
        let server = Arc::clone(&site.supervisor);
        let shadow = site.shadow.as_ref().map(|shadow| Arc::clone(&shadow.supervisor));
        drop(serving);
        // From before it is looked up what is due, so that no change is missed.
        let (mut phase, mut busy) = (server.phase(), server.busy());
        tokio::select! {
            () = clock.sleep_until(server.probes_due_at()) => {}
            () = live.changed() => continue,
            _ = phase.changed() => continue,
            _ = busy.changed() => continue,
        }
        // At the same time: a slow one holds up no other.
        let mut asked = JoinSet::new();
        for probe in server.probes_due() {
            let is_first = server.standings().get(probe) == Some(&Standing::NotAsked);
            let (probes, clock) = (Arc::clone(&probes), clock.clone());
            asked.spawn(async move { (probe, probes.ask(probe, is_first, &clock).await) });
        }
        while let Some(answer) = asked.join_next().await {
            let Ok((probe, found)) = answer else { continue };
            if !still_has(&live.now(), &name, &probes) {
                // A reload: the others are asked for themselves.
                break;
            }
            if let Some(shadow) = &shadow {
                shadow.found_in_use(probe, found);
            }
            if let Some(standing) = server.found_in_use(probe, found) {
                probes.log(probe, standing);
            }
        }
    }
}

fn still_has(serving: &Serving, name: &str, probes: &Arc<InUse>) -> bool {
    let site = serving.site_named(name).map(|(_, site)| site);
    site.and_then(|site| site.in_use.as_ref()).is_some_and(|it| Arc::ptr_eq(it, probes))
}
