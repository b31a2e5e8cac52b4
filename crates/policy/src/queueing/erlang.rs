//! Erlang's two formulas.
//!
//! A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in
//! automatic telephone exchanges", 1917; the recursion as in H. C. Tijms, *A First Course in
//! Stochastic Models*, 2003, chapter 5.

use super::{QueueingError, number};

/// More are not computed: steps grow with the number of servers.
pub const MOST_SERVERS: u32 = 1_000_000;

pub(super) fn check_servers(servers: u32) -> Result<f64, QueueingError> {
    match servers {
        1..=MOST_SERVERS => Ok(f64::from(servers)),
        _ => Err(QueueingError::Servers { servers }),
    }
}

/// 1/B for n servers from 1/B for n - 1: all terms are positive, so no digits are lost. It may
/// overflow to infinity, where B is 0 to double precision.
fn next_inverse(before: f64, servers: u32, offered: f64) -> f64 {
    1.0 + before * f64::from(servers) / offered
}

/// Share of arrivals that is lost where arrivals can't wait (M/G/c/c, whatever the service times).
///
/// `offered` in erlangs; it may be more than there are servers.
///
/// ```
/// use nightwatt_policy::queueing::erlang_b;
/// // By hand: (2^2 / 2) / (1 + 2 + 2^2 / 2).
/// assert!((erlang_b(2, 2.0)? - 0.4).abs() < 1e-12);
/// # Ok::<(), nightwatt_policy::queueing::QueueingError>(())
/// ```
pub fn erlang_b(servers: u32, offered: f64) -> Result<f64, QueueingError> {
    check_servers(servers)?;
    if number("offered load", offered, false)? == 0.0 {
        return Ok(0.0);
    }
    let inverse = (1..=servers).fold(1.0, |before, n| next_inverse(before, n, offered));
    Ok(1.0 / inverse)
}

/// Probability that an arrival has to wait, where all can wait (M/M/c); 1 from `servers` erlangs on.
pub fn erlang_c(servers: u32, offered: f64) -> Result<f64, QueueingError> {
    let lost = erlang_b(servers, offered)?;
    let spare = 1.0 - offered / f64::from(servers);
    if spare <= 0.0 {
        return Ok(1.0);
    }
    Ok(lost / (spare + (1.0 - spare) * lost))
}

/// The fewest servers that lose at most this share of `offered` erlangs.
pub fn servers_for_blocking(offered: f64, share: f64) -> Result<u32, QueueingError> {
    let offered = number("offered load", offered, false)?;
    let share = number("share of requests lost", share, true)?;
    if offered == 0.0 {
        return Ok(1);
    }
    let mut inverse = 1.0;
    for servers in 1..=MOST_SERVERS {
        inverse = next_inverse(inverse, servers, offered);
        if inverse * share >= 1.0 {
            return Ok(servers);
        }
    }
    Err(QueueingError::Servers { servers: MOST_SERVERS.saturating_add(1) })
}
