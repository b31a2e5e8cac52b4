//! Configuration files: any text is taken, or refused with a reason.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nightwatt_gateway::Config;

fuzz_target!(|text: &str| {
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
});
