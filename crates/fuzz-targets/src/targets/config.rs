//! Configuration files: any text is taken, or refused with a reason.

use nightwatt_gateway::Config;

use crate::typed;

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let Some(text) = typed::<&str>(bytes) else { return };
    match Config::parse(text, "fuzz.toml") {
        Ok(config) => {
            for site in &config.site {
                assert_eq!(config.scenario_of(site).check(), Ok(()));
            }
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("fuzz.toml"), "{said}");
            assert!(said.len() > "fuzz.toml: ".len(), "no reason given");
        }
    }
}
