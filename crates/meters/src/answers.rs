//! What devices on the network answer, as the drivers understand it: hostile input, so fuzzed.
//!
//! Every error is a short text that is safe to print: it says what is wrong, and quotes what is there.

use nightwatt_bmc::ipmitool;
use nightwatt_energy::quantity::Watts;
use nightwatt_host::http::Challenge;

use crate::{json, mqtt, redfish, shelly, snmp, tasmota};

/// The number at a JSON pointer (RFC 6901) in an answer.
pub fn number(answer: &[u8], pointer: &str) -> Result<f64, String> {
    json::number(&json::parse(answer)?, pointer)
}

/// Power of each channel of a Shelly, of either generation.
pub fn shelly(answer: &[u8]) -> Result<Vec<Watts>, String> {
    shelly::powers(&json::parse(answer)?)
}

/// Power of each channel of a device with Tasmota.
pub fn tasmota(answer: &[u8]) -> Result<Vec<Watts>, String> {
    tasmota::powers(&json::parse(answer)?)
}

/// What goes into all power supplies of a Redfish resource `Power`; `None` if not all tell it.
pub fn redfish(answer: &[u8]) -> Result<Option<Watts>, String> {
    json::parse(answer).map(|power| redfish::old_supplies(&power))
}

/// Power that `ipmitool dcmi power reading` prints.
pub fn ipmi(text: &str) -> Result<Watts, String> {
    ipmitool::power(text)
}

/// The number that an answer of SNMP 2c tells of an object.
pub fn snmp(answer: &[u8], oid: &[u64]) -> Result<f64, String> {
    snmp::power_in(answer, oid)
}

/// Lengths of the messages in what an MQTT broker sent. What is no whole packet yet stays in `inbox`.
pub fn mqtt(inbox: &mut Vec<u8>) -> Result<Vec<usize>, String> {
    mqtt::messages(inbox)
}

/// Is that a challenge (RFC 7616) which is answered?
pub fn is_challenge(field: &str) -> bool {
    Challenge::read(field).is_some()
}
