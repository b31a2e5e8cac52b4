//! Orders to forget stored answers.

use std::sync::Arc;

use nightwatt_httpcache::Purge;
use nightwatt_httpcache::purge::Place;

use super::{Reply, named};
use crate::authority::{Authority, host_name};
use crate::disk_cache::Forgotten;
use crate::gateway::Gateway;
use crate::mirror::Mirror;
use crate::site::Site;

/// What was purged, from memory at once.
#[derive(Default)]
pub(super) struct Purged {
    resources: usize,
    from_disk: Vec<Forgotten>,
    /// What to remove from mirrors.
    from_mirrors: Vec<(Arc<Mirror>, Purge)>,
}

impl Purged {
    fn add(&mut self, resources: usize, forgotten: Forgotten) {
        self.resources += resources;
        self.from_disk.push(forgotten);
    }

    fn of_mirror(&mut self, site: &Site, purge: Purge) {
        self.from_mirrors.extend(site.mirror.clone().map(|mirror| (mirror, purge)));
    }

    /// When the disk knows too: what is said to be purged never comes back.
    pub(super) async fn reply(self) -> Reply {
        for forgotten in self.from_disk {
            if let Err(why) = forgotten.settled().await {
                return Reply::Error(format!(
                    "it is purged, but the disk cache has not recorded that yet ({why}): after a power \
                     cut it might come back; see the log"
                ));
            }
        }
        let mut pages = 0;
        for (mirror, purge) in self.from_mirrors {
            match mirror.purge(move |key| purge.covers(key)).await {
                Ok(purged) => pages += purged,
                Err(why) => return Reply::Error(format!("the mirror is not purged: {why}")),
            }
        }
        // The mirror has most of what a cache has: counting both would count most pages twice.
        Reply::Purged(self.resources.max(pages))
    }
}

pub(super) fn purge_all(gateway: &Gateway, name: Option<&str>) -> Result<Purged, String> {
    let mut purged = Purged::default();
    if name.is_some() {
        let site = named(gateway, name)?;
        let (resources, forgotten) = site.store.purge(&Purge::All);
        purged.add(resources, forgotten);
        purged.of_mirror(site, Purge::All);
        return Ok(purged);
    }
    for site in &gateway.serving.sites {
        purged.resources += site.store.purge_untold();
        purged.of_mirror(site, Purge::All);
    }
    // The disk may know sites that the configuration does not.
    purged.from_disk.extend(gateway.disk.as_ref().map(|disk| disk.purge_all()));
    Ok(purged)
}

/// Nothing is purged if one of the places cannot be understood.
pub(super) fn purge(
    gateway: &Gateway,
    name: Option<&str>,
    places: &[String],
    prefix: bool,
) -> Result<Purged, String> {
    if places.is_empty() {
        return Err("say what is to be forgotten: URLs, paths, or all".to_owned());
    }
    let mut purges = Vec::new();
    for text in places {
        let place = Place::parse(text).map_err(|error| error.to_string())?;
        let site = match place.host().and_then(Authority::parse).filter(|_| name.is_none()) {
            Some(authority) => {
                let index = gateway.serving.site_of(&host_name(authority.host));
                let index = index.ok_or_else(|| format!("no site serves the host of `{text}`"))?;
                &gateway.serving.sites[index]
            }
            None => named(gateway, name)?,
        };
        let purge = if prefix { Purge::Prefix(place) } else { Purge::Exact(place) };
        purges.push((site, purge.under(&site.rules.key)));
    }
    let mut done = Purged::default();
    for (site, purge) in purges {
        let (resources, forgotten) = site.store.purge(&purge);
        done.add(resources, forgotten);
        done.of_mirror(site, purge);
    }
    Ok(done)
}
