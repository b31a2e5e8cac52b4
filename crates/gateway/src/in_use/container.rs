//! How busy a container is, by its daemon's statistics: processor time, and bytes over its network.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_power::engine::{Engine, Usage};
use nightwatt_power::{ControllerConfig, DriverConfig};

use crate::config::{InUseConfig, SiteConfig};

/// The first question after a client has left measures over this time: what the client used does not count.
pub(super) const WINDOW: Duration = Duration::from_secs(3);

/// What a container had used at a moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Mono,
    usage: Usage,
}

/// The limits of a probe.
pub(super) struct Busy {
    engine: Engine,
    container: String,
    /// Of one processor.
    cpu: Option<f64>,
    /// Bytes per second.
    network: Option<f64>,
    last: Mutex<Option<Sample>>,
    clock: Clock,
}

impl Busy {
    /// The container that the site's driver controls; nothing if it controls none.
    pub(super) fn new(config: &InUseConfig, site: &SiteConfig, clock: &Clock) -> Option<Self> {
        let Some(ControllerConfig::One(driver)) = &site.power else { return None };
        let (name, address, container) = match driver {
            DriverConfig::Docker(it) => ("Docker", &it.socket, &it.container),
            DriverConfig::Podman(it) => ("podman", &it.socket, &it.container),
            _ => return None,
        };
        Some(Self {
            engine: Engine::new(name, address.clone(), clock.clone()),
            container: container.clone(),
            cpu: config.cpu,
            network: config.network,
            last: Mutex::default(),
            clock: clock.clone(),
        })
    }

    /// What it is busy with since the last question, or within [`WINDOW`] if this is the first one since a client left.
    pub(super) async fn ask(&self, is_first: bool) -> Result<Option<String>, String> {
        let kept = self.last().take().filter(|_| !is_first);
        let earlier = if let Some(earlier) = kept {
            earlier
        } else {
            let earlier = self.usage().await?;
            self.clock.sleep(WINDOW).await;
            earlier
        };
        let now = self.usage().await?;
        *self.last() = Some(now);
        Ok(self.judge(earlier, now))
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Sample>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn usage(&self) -> Result<Sample, String> {
        let usage = self.engine.usage(&self.container).await;
        let usage = usage.map_err(|error| format!("{error}; {}", error.hint()))?;
        Ok(Sample { at: self.clock.now().mono, usage })
    }

    fn judge(&self, earlier: Sample, now: Sample) -> Option<String> {
        let seconds = now.at.since(earlier.at).as_secs_f64();
        // Counters that began again: the container was started meanwhile.
        let rate =
            |earlier: u64, now: u64| now.checked_sub(earlier).unwrap_or(now) as f64 / seconds;
        let cpu = rate(earlier.usage.cpu_ns, now.usage.cpu_ns) / 1e9;
        if let Some(limit) = self.cpu.filter(|limit| cpu > *limit) {
            let [cpu, limit] = [cpu, limit].map(|it| it * 100.0);
            return Some(format!("{cpu:.1} % of a processor, limit {limit:.1} %"));
        }
        let bytes = rate(earlier.usage.network_bytes, now.usage.network_bytes);
        let limit = self.network.filter(|limit| bytes > *limit)?;
        Some(format!("{:.1} kB/s over its network, limit {:.1} kB/s", bytes / 1e3, limit / 1e3))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use nightwatt_power::docker::Address;

    use super::*;

    fn busy_at(address: &str, cpu: Option<f64>, network: Option<f64>) -> Busy {
        Busy {
            engine: Engine::new("Docker", Address::Tcp(address.to_owned()), Clock::real()),
            container: "web".to_owned(),
            cpu,
            network,
            last: Mutex::default(),
            clock: Clock::real(),
        }
    }

    #[test]
    fn a_missing_container_is_named_with_what_to_do_about_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let daemon = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let body = r#"{"message": "No such container: web"}"#;
            let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
            let answer = format!("HTTP/1.1 404 Not Found\r\n{length}\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
            head.first().cloned().unwrap_or_default()
        });
        let asked = Clock::real().runtime().unwrap().block_on(async {
            let busy = busy_at(&address, Some(0.05), None);
            busy.ask(true).await
        });
        let path = "/containers/web/stats?stream=false&one-shot=true";
        assert_eq!(daemon.join().unwrap(), format!("GET {path} HTTP/1.1"));
        let why = "refuses to measure the container `web`: No such container: web (status 404)";
        let hint = "check its name: `docker ps -a` or `podman ps -a` lists all containers, also those that are stopped";
        assert_eq!(asked.unwrap_err(), format!("Docker at tcp://{address} {why}; {hint}"));
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let busy = |cpu, network| busy_at("127.0.0.1:1", cpu, network);
        let at = |second, cpu_ns, network_bytes| Sample {
            at: Mono::from_secs(second),
            usage: Usage { cpu_ns, network_bytes },
        };
        // In ten seconds half a second of a processor, and 20 kB.
        let (earlier, now) = (at(10, 7_000_000_000, 5000), at(20, 7_500_000_000, 25_000));
        let judge = |cpu, network| busy(cpu, network).judge(earlier, now);
        assert_eq!(judge(Some(0.06), Some(2500.0)), None);
        assert_eq!(judge(Some(0.04), None).as_deref(), Some("5.0 % of a processor, limit 4.0 %"));
        let network = judge(None, Some(1500.0)).unwrap();
        assert_eq!(network, "2.0 kB/s over its network, limit 1.5 kB/s");
        // Started again: 0.1 s in ten seconds.
        let again = busy(Some(0.02), None).judge(earlier, at(20, 100_000_000, 0));
        assert_eq!(again, None);
    }
}
