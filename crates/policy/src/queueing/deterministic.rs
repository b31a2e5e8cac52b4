//! Waiting where all service times are the same. The unit of time here is the service time.
//!
//! After one service time every request that was in service has left and those that arrived meanwhile
//! have not: the number in a station with c servers obeys N' = max(N - c, 0) + A with A Poisson
//! (C. D. Crommelin, "Delay probability formulae when the holding times are constant", 1932). Two
//! formulas follow from it, and each one loses digits or takes long where the other does not
//! (A. J. E. M. Janssen and J. S. H. van Leeuwaarden, "Back to the roots of the M/D/s queue and the
//! works of Erlang, Crommelin and Pollaczek", Statistica Neerlandica 62, 2008).
//!
//! The series of Pollaczek and Spitzer, with A(n) the arrivals in n service times:
//!
//! - -ln P(no wait) = sum P(A(n) >= n c) / n,
//! - E(queue) = sum E max(A(n) - n c, 0) / n.
//!
//! All its terms are positive, so the smallest wait keeps its digits. Each term is at most
//! exp(-[`decay`]) times the one before.
//!
//! The c - 1 zeros z of z^c = exp(a (z - 1)) inside the unit circle:
//!
//! - P(no wait) = (c - a) / prod (1 - z),
//! - E(queue) = a / (2 (c - a)) - (c - 1 + a) / 2 + sum 1 / (1 - z).
//!
//! The work grows with c and not with the load. Cancellation leaves the queue good to about c x 1e-16:
//! little beside the queue where the series decays slowly, more than the whole queue at small loads.

use nightwatt_energy::stats::distribution::stirling_rest;

/// From this decay on the series needs at most some forty terms; below it the roots keep their digits.
const SERIES_FROM: f64 = 1.0;

/// Probability of having to wait, and the mean wait, for `offered < servers`.
pub(super) fn waiting(servers: u32, offered: f64) -> (f64, f64) {
    if offered == 0.0 {
        return (0.0, 0.0);
    }
    if decay(servers, offered) < SERIES_FROM {
        by_roots(servers, offered)
    } else {
        by_series(servers, offered)
    }
}

/// The exponent at which the terms of the series fall: c (load - 1 - ln load), Chernoff's bound.
fn decay(servers: u32, offered: f64) -> f64 {
    let c = f64::from(servers);
    let (load, spare) = (offered / c, (c - offered) / c);
    // Near 1 the logarithm of the load would lose the digits that the difference needs.
    let log = if load < 0.5 { load.ln() } else { (-spare).ln_1p() };
    c * (-log - spare)
}

/// By the series of Pollaczek and Spitzer.
pub(super) fn by_series(servers: u32, offered: f64) -> (f64, f64) {
    let decay = decay(servers, offered);
    let (mut log, mut wait, mut n) = (0.0, 0.0, 0.0);
    loop {
        n += 1.0;
        let full = n * f64::from(servers);
        // P(A(n) = n c): its powers and factorials are beyond the range of a double.
        let stirling = 0.5 * (2.0 * std::f64::consts::PI * full).ln() + stirling_rest(full);
        let exactly = (-n * decay - stirling).exp();
        let (at_least, excess) = beyond(n * offered, full);
        let term = exactly * (excess / offered) / n;
        log += exactly * at_least / n;
        wait += term;
        if term <= 1e-17 * wait {
            break;
        }
    }
    (-(-log).exp_m1(), wait)
}

/// P(A >= n) and E max(A - n, 0) of a Poisson A in units of P(A = n): upper sums without a subtraction.
fn beyond(mean: f64, n: f64) -> (f64, f64) {
    let (mut term, mut at_least, mut excess, mut over) = (1.0, 1.0, 0.0, 0.0);
    loop {
        over += 1.0;
        term *= mean / (n + over);
        at_least += term;
        excess += over * term;
        if over * term <= 1e-18 * excess {
            return (at_least, excess);
        }
    }
}

/// By Crommelin's roots.
pub(super) fn by_roots(servers: u32, offered: f64) -> (f64, f64) {
    let c = f64::from(servers);
    let (mut logs, mut inverses) = (0.0, 0.0);
    // Zeros come in conjugate pairs, except the one on the real line where c is even.
    for k in 1..=servers / 2 {
        let angle = 2.0 * std::f64::consts::PI * f64::from(k) / c;
        let (re, im) = zero(angle, offered / c);
        let (re, im) = (1.0 - re, -im);
        let square = re * re + im * im;
        let times = if 2 * k == servers { 1.0 } else { 2.0 };
        logs += times * 0.5 * square.ln();
        inverses += times * re / square;
    }
    let waits = -((c - offered).ln() - logs).exp_m1();
    let queue = offered / (2.0 * (c - offered)) - 0.5 * (c - 1.0 + offered) + inverses;
    (waits.clamp(0.0, 1.0), (queue / offered).max(0.0))
}

/// The solution inside the unit circle of z = exp(i angle + load (z - 1)), by Newton's method.
///
/// The right side shrinks distances by load x |z| < 1 in there, so a few plain steps bring any start
/// close enough.
fn zero(angle: f64, load: f64) -> (f64, f64) {
    let image = |(re, im): (f64, f64)| {
        let length = (load * (re - 1.0)).exp();
        let turn = angle + load * im;
        (length * turn.cos(), length * turn.sin())
    };
    let mut z = (0.0, 0.0);
    for _ in 0..8 {
        z = image(z);
    }
    for _ in 0..50 {
        let g = image(z);
        // f = z - g, f' = 1 - load g.
        let f = (z.0 - g.0, z.1 - g.1);
        let slope = (1.0 - load * g.0, -load * g.1);
        let square = slope.0 * slope.0 + slope.1 * slope.1;
        let step =
            ((f.0 * slope.0 + f.1 * slope.1) / square, (f.1 * slope.0 - f.0 * slope.1) / square);
        z = (z.0 - step.0, z.1 - step.1);
        if step.0.abs() + step.1.abs() < 1e-16 {
            break;
        }
    }
    z
}

/// Probability that an arrival at one server waits longer than `time`.
///
/// With q(n) the probability of more than n in the system and time = k - u, 0 < u <= 1:
/// P(wait > time) = P(A >= k) + sum over j < k of P(A = j) x q(k - j), where A is Poisson with mean
/// a u (G. J. Franx, "A simple solution for the M/D/c waiting time distribution", Operations Research
/// Letters 29, 2001, in terms of the complements, which keep their digits where they are small).
pub(super) fn wait_exceeds(offered: f64, time: f64) -> f64 {
    if offered == 0.0 {
        return 0.0;
    }
    let k = time.floor() as usize + 1;
    let rest = k as f64 - time;
    let more = more_in_system(offered, k);
    let mut poisson = (-offered * rest).exp();
    let mut exceeds = 0.0;
    for j in 0..k {
        exceeds += poisson * more[k - j];
        poisson *= offered * rest / (j + 1) as f64;
    }
    let (at_least, _) = beyond(offered * rest, k as f64);
    (exceeds + poisson * at_least).min(1.0)
}

/// Probabilities of more than 0, 1, ..., `most` requests in an M/D/1 station.
///
/// As many departures leave n behind as arrivals find n (level crossing), so
/// p(n+1) exp(-a) = p(0) t(n) + sum over j = 1 ..= n of p(j) t(n - j + 1), where t(i) is the
/// probability that more than i arrive in a service time. Summed over n from m on, with
/// e(i) = t(i) + t(i+1) + ... = E max(A - i, 0):
/// q(m) (1 - a) = p(0) e(m) + sum over j = 1 ..= m of p(j) e(m - j + 1). Only positive terms.
fn more_in_system(offered: f64, most: usize) -> Vec<f64> {
    let none = (-offered).exp();
    // E max(A, 0) is the mean.
    let (mut poisson, mut exceeded, mut excess) = (none, Vec::new(), vec![offered]);
    for i in 1..=most + 1 {
        poisson *= offered / i as f64;
        let (at_least, over) = beyond(offered, i as f64);
        exceeded.push(poisson * at_least);
        excess.push(poisson * over);
    }
    // p(n) / p(0), where p(0) = 1 - a.
    let mut p = vec![1.0];
    for n in 0..most {
        let crossing = (1..=n).map(|j| p[j] * exceeded[n - j + 1]).sum::<f64>();
        p.push((exceeded[n] + crossing) / none);
    }
    let more = |m: usize| excess[m] + (1..=m).map(|j| p[j] * excess[m - j + 1]).sum::<f64>();
    (0..=most).map(more).collect()
}
