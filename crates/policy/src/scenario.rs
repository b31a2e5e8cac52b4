//! What a server, its proxy and its operator's wishes are: the one description that `analyze`,
//! `demo`, `serve` and `fleet` share, so that they speak of the same thing.

mod sla;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::sla::SlaRule;
pub use crate::bad_value::BadValue;
use crate::electricity::Electricity;
use crate::hours::{DaysOff, Hours};
use crate::sla::Sla;
use crate::sleep::{Constraints, PolicyChoice, Terms};
use nightwatt_energy::duration_text;
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::{JOULES_PER_KWH, Joules, Watts};

/// A scenario, as its TOML file says it. Everything left out is the default: the published server
/// (MSI board with an i7-2700K) behind a proxy of 5 W.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// The server that sleeps.
    pub server: Server,
    /// The machine that stays awake.
    pub proxy: Proxy,
    /// Whom a sleep may delay.
    pub sla: SlaRule,
    /// What the cache may answer.
    pub cache: CacheRule,
    /// When to sleep.
    pub policy: PolicyChoice,
    /// What sparing one visit its delay is worth, J: the `learned` policy minimises energy + this x
    /// delayed visits, within the SLA if there is one.
    pub delay_price_j: f64,
    /// The same in hundredths of `electricity.currency`: as many joules as these buy at the mean price.
    pub delay_price_ct: f64,
    /// When crawlers are invited.
    pub crawl_window: CrawlWindow,
    /// Local hours in which a server that is awake is not put to sleep.
    pub never_sleep: Vec<Hours>,
    /// Local hours for which the server is woken, and in which it stays awake.
    pub awake: Vec<Hours>,
    /// An iCalendar file whose whole days are days without these hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holidays: Option<PathBuf>,
    /// The days in that file, which the program reads.
    #[serde(skip)]
    pub days_off: DaysOff,
    /// What the energy costs and emits.
    pub electricity: Electricity,
}

/// The server that sleeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Power awake, W.
    pub on_w: f64,
    /// Power asleep, W.
    pub off_w: f64,
    /// Energy of one sleep cycle beyond `off_w` x its length, J.
    pub switch_j: f64,
    /// From the wake command to the first answer.
    #[serde(with = "duration_text")]
    pub wake_time: Duration,
    /// From the sleep command until it can be woken again.
    #[serde(with = "duration_text")]
    pub sleep_time: Duration,
    /// It stays awake at least this long after waking.
    #[serde(with = "duration_text")]
    pub min_on: Duration,
    /// It stays awake at least this long after its last request.
    #[serde(with = "duration_text")]
    pub quiet: Duration,
    /// The time to answer one request, where that is modelled.
    #[serde(with = "duration_text")]
    pub service_time: Duration,
    /// How far the watts and joules above may be off, as a share of them (expanded, 95 %).
    pub uncertainty: f64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            on_w: 43.3,
            off_w: 1.6,
            switch_j: 170.7,
            wake_time: Duration::from_secs(5),
            sleep_time: Duration::from_secs(5),
            min_on: Duration::from_mins(1),
            quiet: Duration::from_secs(5),
            service_time: Duration::from_millis(5),
            uncertainty: 0.05,
        }
    }
}

const DAY: Duration = Duration::from_hours(24);

/// What figures and lengths must be.
const WATTS: &str = "watts must be a number from 0 to 100,000";
const JOULES: &str = "joules must be a number from 0 to 100,000,000";
const SHARE: &str = "a share must lie between 0 and 1";
const WITHIN_A_DAY: &str = "it must last from 0 to 24h";

/// Checks figures, each with its key, its most and its rule.
fn check_figures(figures: &[(&'static str, f64, f64, &'static str)]) -> Result<(), BadValue> {
    for &(key, value, most, rule) in figures {
        if !(0.0..=most).contains(&value) {
            return Err(BadValue { key, value: value.to_string(), rule });
        }
    }
    Ok(())
}

impl Server {
    /// Checks that every figure can be true; keys begin with `server.`.
    ///
    /// # Errors
    ///
    /// If one cannot.
    pub fn check(&self) -> Result<(), BadValue> {
        check_figures(&[
            ("server.on_w", self.on_w, 1e5, WATTS),
            ("server.off_w", self.off_w, 1e5, WATTS),
            ("server.switch_j", self.switch_j, 1e8, JOULES),
            ("server.uncertainty", self.uncertainty, 1.0, SHARE),
        ])?;
        if self.off_w > self.on_w {
            let rule = "a server asleep cannot draw more than awake (`server.on_w`)";
            return Err(BadValue { key: "server.off_w", value: self.off_w.to_string(), rule });
        }
        for (key, value) in [
            ("server.wake_time", self.wake_time),
            ("server.sleep_time", self.sleep_time),
            ("server.min_on", self.min_on),
            ("server.quiet", self.quiet),
        ] {
            if value > DAY {
                let value = duration_text::format(value);
                return Err(BadValue { key, value, rule: WITHIN_A_DAY });
            }
        }
        Ok(())
    }
}

/// The machine that stays awake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Proxy {
    /// Its power, W.
    pub power_w: f64,
    /// The time to answer from its cache, where that is modelled.
    #[serde(with = "duration_text")]
    pub service_time: Duration,
}

impl Default for Proxy {
    fn default() -> Self {
        Self { power_w: 5.0, service_time: Duration::from_millis(1) }
    }
}

/// What the cache may answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheRule {
    /// How long answers without explicit freshness are fresh; 0 leaves that to the heuristics of
    /// RFC 9111. Also what the log-backed origin says of its answers.
    #[serde(with = "duration_text")]
    pub ttl: Duration,
    /// How long past its freshness an answer may be served while the server sleeps.
    #[serde(with = "duration_text")]
    pub grace_asleep: Duration,
    /// Bytes of memory.
    pub size_mb: u64,
    /// Stored answers renewed, and pages fetched for crawlers, each time that the server is awake, at
    /// most; 0: none.
    pub warm_up: u32,
    /// Fetch then what crawlers asked for in vain.
    pub warm_up_crawlers: bool,
}

impl Default for CacheRule {
    fn default() -> Self {
        Self {
            ttl: Duration::from_mins(2),
            grace_asleep: Duration::from_hours(24),
            size_mb: 128,
            warm_up: 300,
            warm_up_crawlers: true,
        }
    }
}

/// Once a day crawlers that were sent away are answered: the server is woken for them if it must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CrawlWindow {
    /// Local time of day at which it opens, after midnight: `3h` is 03:00.
    #[serde(with = "duration_text")]
    pub opens: Duration,
    /// How long it stays open.
    #[serde(with = "duration_text")]
    pub length: Duration,
}

impl Default for CrawlWindow {
    fn default() -> Self {
        Self { opens: Duration::from_hours(3), length: Duration::from_mins(10) }
    }
}

impl Server {
    /// Its power states.
    pub const fn power_states(&self) -> PowerStates {
        PowerStates {
            on: Watts(self.on_w),
            off: Watts(self.off_w),
            switch: Joules(self.switch_j),
            wake_time: self.wake_time,
            sleep_time: self.sleep_time,
        }
    }
}

impl Scenario {
    /// Power states of the server.
    pub const fn power_states(&self) -> PowerStates {
        self.server.power_states()
    }

    /// What the policy weighs.
    pub fn terms(&self) -> Terms {
        Terms {
            states: self.power_states(),
            delay_price: self.delay_price(),
            min_on: self.server.min_on,
        }
    }

    /// What sparing one visit its delay is worth, in whatever it is told.
    pub fn delay_price(&self) -> Joules {
        if self.delay_price_ct == 0.0 {
            return Joules(self.delay_price_j);
        }
        let kilowatt_hours = self.delay_price_ct / 100.0 / self.electricity.price_per_kwh.mean();
        Joules(kilowatt_hours * JOULES_PER_KWH)
    }

    fn check_delay_price(&self) -> Result<(), BadValue> {
        let wrong =
            |rule| BadValue { key: "delay_price_ct", value: self.delay_price_ct.to_string(), rule };
        if !(0.0..=1e5).contains(&self.delay_price_ct) {
            return Err(wrong("it must be a number from 0 to 100,000"));
        }
        if self.delay_price_ct > 0.0 && self.delay_price_j > 0.0 {
            return Err(wrong("it says the same as `delay_price_j`: give one of them"));
        }
        if self.delay_price_ct > 0.0 && self.electricity.price_per_kwh.mean() <= 0.0 {
            return Err(wrong("energy must cost something (`electricity.price_per_kwh`)"));
        }
        if self.delay_price().0 > 1e8 {
            return Err(wrong(
                "it buys more than 100,000,000 J, which is the most a delay can be worth",
            ));
        }
        Ok(())
    }

    /// What binds every plan of sleeps.
    pub const fn constraints(&self) -> Constraints {
        let Server { min_on, quiet, .. } = self.server;
        Constraints { states: self.power_states(), min_on, quiet }
    }

    /// Power of the proxy.
    pub const fn proxy_power(&self) -> Watts {
        Watts(self.proxy.power_w)
    }

    /// The SLA, if there is one.
    pub fn sla(&self) -> Option<Sla> {
        self.sla.forms()
    }

    /// Whether there are hours of the local day that decide about sleep.
    pub fn has_hours(&self) -> bool {
        !(self.awake.is_empty() && self.never_sleep.is_empty())
    }

    fn check_hours(&self) -> Result<(), BadValue> {
        let unused = self.holidays.as_ref().filter(|_| self.awake.is_empty());
        unused.map_or(Ok(()), |path| {
            let rule = "it has no effect without `awake`: write the hours that apply on other days";
            Err(BadValue { key: "holidays", value: path.display().to_string(), rule })
        })
    }

    /// Checks that no length of time keeps the server awake for ever, or is no time at all.
    fn check_lengths(&self) -> Result<(), BadValue> {
        let Self { sla, crawl_window, .. } = self;
        let minute = Duration::from_mins(1);
        let lengths = [
            ("sla.window", sla.window, minute..=366 * DAY, "it must last from 1m to 366d"),
            (
                "crawl_window.opens",
                crawl_window.opens,
                Duration::ZERO..=DAY,
                "it is a time of day: 0 to 24h",
            ),
            ("crawl_window.length", crawl_window.length, Duration::ZERO..=DAY, WITHIN_A_DAY),
        ];
        for (key, value, range, rule) in lengths {
            if !range.contains(&value) {
                return Err(BadValue { key, value: duration_text::format(value), rule });
            }
        }
        Ok(())
    }

    /// Checks that every figure can be true.
    pub fn check(&self) -> Result<(), BadValue> {
        self.server.check()?;
        check_figures(&[
            ("proxy.power_w", self.proxy.power_w, 1e5, WATTS),
            ("delay_price_j", self.delay_price_j, 1e8, JOULES),
            ("sla.share", self.sla.share.unwrap_or_default(), 1.0, SHARE),
        ])?;
        self.sla.check()?;
        self.check_hours()?;
        self.check_delay_price()?;
        self.check_lengths()?;
        self.electricity.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_published_server() {
        let scenario = Scenario::default();
        assert_eq!(scenario.check(), Ok(()));
        let read: Scenario = toml::from_str("").unwrap();
        assert_eq!(read, scenario);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let scenario: Scenario =
            toml::from_str("policy = \"timeout 30s\"\n[server]\non_w = 80\nwake_time = \"1m30s\"")
                .unwrap();
        let again: Scenario = toml::from_str(&toml::to_string(&scenario).unwrap()).unwrap();
        assert_eq!(again, scenario);
        assert_eq!(scenario.server.wake_time, Duration::from_secs(90));
        assert_eq!(scenario.policy, PolicyChoice::Timeout { idle: Duration::from_secs(30) });
    }

    #[test]
    fn a_delay_may_be_priced_in_money() {
        let priced = |text: &str| toml::from_str::<Scenario>(text).unwrap().delay_price().0;
        assert!((priced("delay_price_j = 5000") - 5000.0).abs() < 1e-9);
        // A tenth of a kilowatt-hour.
        assert!((priced("delay_price_ct = 2.9") - 360_000.0).abs() < 1e-6);
        let day = "delay_price_ct = 3\n[electricity]\nprice_per_kwh = [0.2,0.4,0.2,0.4,0.2,0.4,0.2,0.4,\
                   0.2,0.4,0.2,0.4,0.2,0.4,0.2,0.4,0.2,0.4,0.2,0.4,0.2,0.4,0.2,0.4]";
        assert!((priced(day) - 360_000.0).abs() < 1e-6, "at the mean of 0.3");
        for text in [
            "delay_price_ct = 1\ndelay_price_j = 1",
            "delay_price_ct = -1",
            "delay_price_ct = 1\nelectricity.price_per_kwh = 0",
            "delay_price_ct = 50000",
        ] {
            let scenario: Scenario = toml::from_str(text).unwrap();
            assert_eq!(scenario.check().unwrap_err().key, "delay_price_ct", "{text}");
        }
    }

    #[test]
    fn impossible_figures_are_named() {
        for (text, key) in [
            ("[server]\non_w = -1", "server.on_w"),
            ("[server]\non_w = nan", "server.on_w"),
            ("[server]\noff_w = 50", "server.off_w"),
            ("[sla]\nshare = 10", "sla.share"),
            ("[sla]\nwindow = \"1s\"", "sla.window"),
            ("[server]\nmin_on = \"500d\"", "server.min_on"),
            ("[server]\nquiet = \"25h\"", "server.quiet"),
            ("[electricity]\ncurrency = \"euro\"", "electricity.currency"),
        ] {
            let scenario: Scenario = toml::from_str(text).unwrap();
            assert_eq!(scenario.check().unwrap_err().key, key);
        }
        assert!(toml::from_str::<Scenario>("[server]\nwatts = 5").is_err(), "unknown key");
    }
}
