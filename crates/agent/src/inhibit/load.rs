//! The load average of the last minute.

use nightwatt_host::Host;

use super::Inhibitions;

pub(super) fn check(host: &Host, limit: f64) -> Inhibitions {
    let text =
        host.read("/proc/loadavg").map_err(|error| format!("cannot read the load: {error}"))?;
    let load =
        parse(&text).ok_or_else(|| format!("cannot understand the load `{}`", text.trim()))?;
    Ok(if load > limit { vec![format!("the load is {load} (limit {limit})")] } else { Vec::new() })
}

fn parse(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_last_minute() {
        assert_eq!(parse("4.07 3.86 3.50 5/412 123456\n"), Some(4.07));
        assert_eq!(parse(""), None);
    }
}
