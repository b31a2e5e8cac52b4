//! The containers whose labels describe sites, on the page.

use std::fmt::Write;

use nightwatt_gateway::status::{ContainerOutcome, ContainersStatus};

use super::row;
use crate::figures::{counted, seconds};

/// Whether their daemon answers, which became sites, and what is refused and why.
pub(super) fn rows(text: &mut String, it: &ContainersStatus) {
    let seen = counted(it.containers.len() as u64, "container");
    let _ = writeln!(text, "containers of {}: {seen} with labels", it.daemon);
    if let Some(row_of_daemon) = daemon(it) {
        row(text, "careful", &row_of_daemon);
    }
    let sites = it.containers.iter().filter(|it| it.outcome == ContainerOutcome::Site);
    let sites: Vec<&str> = sites.map(|it| it.name.as_str()).collect();
    if !sites.is_empty() {
        row(text, "sites", &sites.join(", "));
    }
    for (name, why) in refused(it) {
        row(text, "no site", &format!("{name}: {why}"));
    }
    for (name, why) in lacking(it) {
        row(text, "careful", &format!("{name}: {why}"));
    }
}

/// What is wrong with the daemon.
pub(crate) fn daemon(it: &ContainersStatus) -> Option<String> {
    match (it.lost_for_s, &it.problem) {
        (Some(time), Some(why)) => {
            Some(format!("lost for {}: {why}; sites stay as they are", seconds(time)))
        }
        _ if !it.up => Some("the daemon was not asked yet".to_owned()),
        _ => None,
    }
}

/// The containers that have no site although their labels ask for one: name, and why.
pub(crate) fn refused(it: &ContainersStatus) -> impl Iterator<Item = (&str, &str)> {
    let those = it.containers.iter().filter(|it| it.outcome != ContainerOutcome::Site);
    those.filter_map(|it| Some((it.name.as_str(), it.why.as_deref()?)))
}

/// The containers whose site lacks something: name, and what.
pub(crate) fn lacking(it: &ContainersStatus) -> impl Iterator<Item = (&str, &str)> {
    let those = it.containers.iter().filter(|it| it.outcome == ContainerOutcome::Site);
    those.filter_map(|it| Some((it.name.as_str(), it.why.as_deref()?)))
}

#[cfg(test)]
mod tests {
    use nightwatt_gateway::status::ContainerStatus;

    use super::*;

    #[test]
    fn sites_conflicts_and_a_lost_daemon_are_on_the_page() {
        let of = |name: &str, outcome, why: Option<&str>| ContainerStatus {
            name: name.to_owned(),
            outcome,
            hosts: Vec::new(),
            why: why.map(str::to_owned),
        };
        let mut it = ContainersStatus {
            daemon: "podman at /p".to_owned(),
            up: true,
            lost_ms: None,
            lost_for_s: None,
            problem: None,
            containers: vec![
                of("wiki", ContainerOutcome::Site, None),
                of("db", ContainerOutcome::NoSite, None),
                of("aaa", ContainerOutcome::Conflict, Some("the host `wiki` belongs to `wiki`")),
            ],
        };
        let page = |it: &ContainersStatus| {
            let mut text = String::new();
            rows(&mut text, it);
            text
        };
        assert_eq!(
            page(&it),
            "containers of podman at /p: 3 containers with labels\n\
             \x20 sites         wiki\n\
             \x20 no site       aaa: the host `wiki` belongs to `wiki`\n"
        );
        (it.up, it.lost_for_s, it.problem) =
            (false, Some(60.0), Some("cannot reach it".to_owned()));
        assert!(page(&it).contains(&format!(
            "careful       lost for {}: cannot reach it; sites stay",
            seconds(60.0)
        )));
    }
}
