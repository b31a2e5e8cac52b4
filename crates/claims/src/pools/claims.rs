//! V1 to V4: what follows from the published parameters by the M/D/1 queue.

use std::time::Duration;

use nightwatt_energy::quantity::{PerSecond, Watts};
use nightwatt_policy::queueing::Station;

use super::policies::single;
use super::{Claim, Error, Figure, PI, STANDARD, Server};
use nightwatt_savings::fleet::curves;

/// Closed forms are exact; a simulation of a million requests is good to a hundredth.
const HUNDREDTH: f64 = 0.01;

/// V1: at the published rates our simulated servers answer in the published mean time.
pub(super) fn service_rates(arrivals: u64) -> Result<Claim, Error> {
    let mut figures = Vec::new();
    for (server, published) in [(PI, 261.8), (STANDARD, 505.5)] {
        let service = server.service()?;
        let what = format!("service rate of the {}", server.words);
        figures.push(Figure::beside(what, service.get(), published..=published, 0.001, "/s"));
        let simulated = single(service, server.at_10_ms, arrivals)?;
        let what = format!("mean response of the {} at {}/s", server.words, server.at_10_ms.get());
        figures.push(Figure::beside(what, simulated, 10.0..=10.0, HUNDREDTH, "ms"));
    }
    Ok(Claim::new(
        "V1",
        "a mean response time of 10 ms at 200 requests/s (Pi) and 450 (standard), file of 16 KB",
        figures,
        "one point each, so the M/D/1 queue through it is a solution and no fit; the simulator, given \
         that service rate, comes back to the published time",
    ))
}

/// The number of servers that keep `target` at this rate, shared evenly, and their power.
fn needed(server: &Server, rate: f64, target: Duration) -> Result<(f64, Watts), Error> {
    Ok(curves::needed(&server.kind()?, rate, target)?)
}

/// V2: servers and watts for 1,000 requests/s at 5 ms.
pub(super) fn thousand_a_second() -> Result<Claim, Error> {
    let target = Duration::from_millis(5);
    let (pis, _) = needed(&PI, 1000.0, target)?;
    let (standards, watts) = needed(&STANDARD, 1000.0, target)?;
    let pi_watts = PI.reckoned * pis;
    let beside = |what: &str, ours: f64, published: f64, tolerance, unit| {
        Figure::beside(what, ours, published..=published, tolerance, unit)
    };
    let figures = vec![
        beside("tower servers", standards, 3.0, 0.0, "servers"),
        beside("their power", watts.get(), 275.0, HUNDREDTH, "W"),
        beside("Raspberry Pis", pis, 7.0, 0.0, "servers"),
        beside("their power", pi_watts.get(), 14.0, HUNDREDTH, "W"),
        beside("power of the one over the other", watts.get() / pi_watts.get(), 20.0, 0.1, "times"),
    ];
    let each = Station::md1(PI.service()?).rate_within(target)?;
    let why = format!(
        "the tower servers follow from their parameters; of the Pi the M/D/1 queue through 200/s at 10 \
         ms allows {:.0}/s at 5 ms, so {pis:.0} are needed; seven would have to answer 143/s each in \
         that time, which their measured curve may say and their parameters do not",
        each.get()
    );
    Ok(Claim::new("V2", "1000 requests/s at 5 ms: 275 W or 14 W, about 20 times", figures, why))
}

/// Rates at which V3 is looked at.
fn rates() -> impl Iterator<Item = f64> {
    (301..=1500).map(f64::from)
}

/// V3: requests per watt, over all rates above 300/s and the three published response times.
pub(super) fn requests_per_watt() -> Result<Claim, Error> {
    let mut figures = Vec::new();
    for millis in [5, 10, 50] {
        let target = Duration::from_millis(millis);
        let mut ratios = Vec::new();
        for rate in rates() {
            let (pis, _) = needed(&PI, rate, target)?;
            let (_, watts) = needed(&STANDARD, rate, target)?;
            ratios.push(watts.get() / (PI.reckoned.get() * pis));
        }
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let band = 17.0..=23.0;
        figures.push(Figure::beside(
            format!("least at {millis} ms"),
            least,
            band.clone(),
            0.0,
            "times",
        ));
        figures.push(Figure::beside(format!("most at {millis} ms"), most, band, 0.0, "times"));
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        figures.push(Figure::alone(format!("mean at {millis} ms"), mean, "times"));
    }
    Ok(Claim::new(
        "V3",
        "17 to 23 times more requests per watt above 300 requests/s",
        figures,
        "whole servers: just above a rate that fills tower servers one more of them idles at 81 W, just \
         above one that fills Pis one more draws 2 W; the published band is that of their measured \
         curves at a few rates",
    ))
}

/// V4: power of one server.
pub(super) fn power() -> Result<Claim, Error> {
    let at = |server: &Server, rate: f64| -> Result<f64, Error> {
        let service: PerSecond = server.service()?;
        Ok(server.power(rate / service.get()).get())
    };
    let figures = vec![
        Figure::beside("Raspberry Pi at 200/s", at(&PI, 200.0)?, 1.8..=2.2, 0.0, "W"),
        Figure::beside("tower server at 1/s", at(&STANDARD, 1.0)?, 80.0..=81.0, HUNDREDTH, "W"),
        Figure::beside("tower server at 300/s", at(&STANDARD, 300.0)?, 97.5..=97.5, HUNDREDTH, "W"),
    ];
    Ok(Claim::new(
        "V4",
        "power: Pi 1.8 to 2.2 W; standard 80 to 81 W idle, 97.5 W at 300 requests/s",
        figures,
        "on a straight line from idle to peak 97.5 W is the power at the service rate of 505/s; a measured \
         curve that is steeper at first would be theirs",
    ))
}
