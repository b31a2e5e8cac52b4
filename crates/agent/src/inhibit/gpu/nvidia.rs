//! NVIDIA's, by its management library (NVML, `nvmlDeviceGetUtilizationRates`).

use nightwatt_host::Host;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// The driver's own name for it comes first: the other is of packages for developers.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// The driver lists its boards there, if it is loaded.
const BOARDS: &str = "/proc/driver/nvidia/gpus";

/// The share of each board over the driver's last sample period, which is at most a second.
pub(super) fn shares(host: &Host) -> Result<Vec<(String, f64)>, String> {
    if host.names(BOARDS).unwrap_or_default().is_empty() {
        return Ok(Vec::new());
    }
    read().map_err(|error| format!("cannot read the use of NVIDIA's boards: NVML says: {error}"))
}

fn read() -> Result<Vec<(String, f64)>, NvmlError> {
    let [first, second] =
        LIBRARIES.map(|library| Nvml::builder().lib_path(library.as_ref()).init());
    let nvml = first.or(second)?;
    let share = |number: u32| {
        let rates = nvml.device_by_index(number)?.utilization_rates()?;
        Ok((format!("nvidia {number}"), f64::from(rates.gpu) / 100.0))
    };
    (0..nvml.device_count()?).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_read_where_there_are_some() {
        let shares = shares(&Host::default()).unwrap();
        if shares.is_empty() {
            println!("skipped: there is no NVIDIA board");
        }
        assert!(shares.iter().all(|(_, share)| (0.0..=1.0).contains(share)), "{shares:?}");
    }
}
