//! What the daemon of containers says: any bytes are a container, statistics or an event, or an error that is short and
//! safe to print; and any labels are a site, none, or a wrong label with what to do.

use nightwatt_gateway::containers::labels;
use nightwatt_power::engine::{Described, Usage, changes_containers};

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    changes_containers(bytes);
    safe(Usage::read(bytes).err().as_deref());
    let described = match Described::read(bytes) {
        Ok(described) => described,
        Err(error) => return safe(Some(&error)),
    };
    let all = [described.clone()];
    let site =
        labels::site(&described, &all, &toml::Table::new(), "podman", "/run/podman/podman.sock");
    match site {
        Ok(Some(labelled)) => {
            assert_eq!(labelled.site["name"].as_str(), Some(described.name.as_str()));
            assert!(labelled.site["hosts"].as_array().is_some_and(|it| !it.is_empty()));
        }
        Ok(None) => {}
        Err(wrong) => {
            safe(Some(&wrong.value));
            assert!(!wrong.why.is_empty());
        }
    }
}

fn safe(text: Option<&str>) {
    let text = text.unwrap_or_default();
    assert!(text.len() < 4_000 && !text.contains(|c: char| c.is_control()), "{text:?}");
}
