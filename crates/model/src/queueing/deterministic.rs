//! Waiting where all service times are the same. The unit of time here is the service time.
//!
//! After one service time whoever was in service is gone and whoever arrived meanwhile is not: the
//! number in a station with c servers obeys N' = max(N - c, 0) + A with A Poisson (C. D. Crommelin,
//! "Delay probability formulae when the holding times are constant", 1932). Its generating function
//! is fixed by the c - 1 zeros z of z^c = exp(a (z - 1)) inside the unit circle, and with them
//!
//! - P(nobody waits) = (c - a) / prod (1 - z),
//! - E(queue) = a / (2 (c - a)) - (c - 1 + a) / 2 + sum 1 / (1 - z)
//!
//! (A. J. E. M. Janssen and J. S. H. van Leeuwaarden, "Back to the roots of the M/D/s queue and the
//! works of Erlang, Crommelin and Pollaczek", Statistica Neerlandica 62, 2008). The work grows with
//! c and not with the load; digits lost by cancellation leave the queue good to about c x 1e-16.

/// Probability of having to wait, and the mean wait, for `1 < servers` and `offered < servers`.
pub(super) fn waiting(servers: u32, offered: f64) -> (f64, f64) {
    let c = f64::from(servers);
    if offered == 0.0 {
        return (0.0, 0.0);
    }
    let (mut logs, mut inverses) = (0.0, 0.0);
    // Zeros come in conjugate pairs, but for the one on the real line where c is even.
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
    // What cancellation leaves may be a negative nothing.
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
/// With q(n) the probability of at most n in the system and time = k - u, 0 < u <= 1:
/// P(wait <= time) = sum over j < k of exp(-a u) (a u)^j / j! x q(k - j) (G. J. Franx, "A simple
/// solution for the M/D/c waiting time distribution", Operations Research Letters 29, 2001).
pub(super) fn wait_exceeds(offered: f64, time: f64) -> f64 {
    if offered == 0.0 {
        return 0.0;
    }
    let k = time.floor() as usize + 1;
    let rest = k as f64 - time;
    let at_most = at_most_in_system(offered, k);
    let mut poisson = (-offered * rest).exp();
    let mut within = 0.0;
    for j in 0..k {
        within += poisson * at_most[k - j];
        poisson *= offered * rest / (j + 1) as f64;
    }
    (1.0 - within).clamp(0.0, 1.0)
}

/// Probabilities of at most 0, 1, ..., `most` requests in an M/D/1 station.
///
/// As many departures leave n behind as arrivals find n (level crossing), so
/// p(n+1) exp(-a) = p(0) t(n) + sum over j = 1 ..= n of p(j) t(n - j + 1), where t(i) is the
/// probability that more than i arrive in a service time: only positive terms.
fn at_most_in_system(offered: f64, most: usize) -> Vec<f64> {
    let mut exceeded = Vec::with_capacity(most + 1);
    let mut poisson = (-offered).exp();
    let none = poisson;
    // By the upper sum, since 1 minus the lower one would lose the small ones.
    let tail = |from: usize, first: f64| {
        let (mut term, mut sum, mut n) = (first, 0.0, from);
        while term > 1e-18 * sum || n <= from + 1 {
            sum += term;
            n += 1;
            term *= offered / n as f64;
        }
        sum
    };
    for i in 0..=most {
        poisson *= offered / (i + 1) as f64;
        exceeded.push(tail(i + 1, poisson));
    }
    let mut p = vec![1.0 - offered];
    for n in 0..most {
        let crossing = (1..=n).map(|j| p[j] * exceeded[n - j + 1]).sum::<f64>();
        p.push((p[0] * exceeded[n] + crossing) / none);
    }
    p.iter()
        .scan(0.0, |sum, p| {
            *sum += p;
            Some(*sum)
        })
        .collect()
}
