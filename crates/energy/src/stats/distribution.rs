//! Quantiles and tail probabilities for intervals and tests: normal, Student's t, Fisher's F.
//!
//! All rest on the regularised incomplete beta function, by the continued fraction of DLMF 8.17.22
//! (NIST Digital Library of Mathematical Functions), evaluated by Lentz's method.

/// Natural logarithm of the gamma function, for `x > 0`.
///
/// Stirling's series (DLMF 5.11.1) beyond 10; below, the recurrence `Γ(x + 1) = x Γ(x)`.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < STIRLING_FROM {
        product *= x;
        x += 1.0;
    }
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + stirling(x) - product.ln()
}

/// From here on the terms of [`stirling`] suffice for double precision.
const STIRLING_FROM: f64 = 10.0;

/// What Stirling's formula leaves: the series of DLMF 5.11.1.
fn stirling(x: f64) -> f64 {
    let inverse = 1.0 / (x * x);
    // B_2k / (2k (2k - 1)) for k = 1 ..= 6.
    let terms =
        [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0];
    terms.iter().rev().fold(0.0, |sum, term| sum * inverse + term) / x
}

/// What Stirling's formula leaves of a factorial: `ln n! - (n + 1/2) ln n + n - ln(2 pi) / 2`, for a
/// whole `n >= 1`.
pub fn stirling_rest(n: f64) -> f64 {
    if n >= STIRLING_FROM {
        return stirling(n);
    }
    let factorial: f64 = (1..=n as u32).map(f64::from).product();
    factorial.ln() - (n + 0.5) * n.ln() + n - 0.5 * (2.0 * std::f64::consts::PI).ln()
}

/// `ln Γ(a + b) - ln Γ(a)`, without the loss of digits that two large logarithms would bring.
fn ln_gamma_step(a: f64, b: f64) -> f64 {
    if a < STIRLING_FROM {
        return ln_gamma(a + b) - ln_gamma(a);
    }
    b * (a + b).ln() + (a - 0.5) * (b / a).ln_1p() - b + stirling(a + b) - stirling(a)
}

/// `ln x`, where `y = 1 - x` is known more exactly than `x` when `x` is close to 1.
fn ln_beside(x: f64, y: f64) -> f64 {
    if x > 0.5 { (-y).ln_1p() } else { x.ln() }
}

/// Regularised incomplete beta function `I_x(a, b)`, for `a, b > 0`; `y` is `1 - x`, given apart
/// because it may be too small to be computed from `x`.
fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    // The fraction converges quickly on this side only; the other one by symmetry (DLMF 8.17.4).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, y, x);
    }
    // The larger of the two steps, which keeps the digits.
    let gammas =
        if a > b { ln_gamma_step(a, b) - ln_gamma(b) } else { ln_gamma_step(b, a) - ln_gamma(a) };
    let front = a * ln_beside(x, y) + b * ln_beside(y, x) + gammas;
    front.exp() / a * beta_fraction(a, b, x)
}

/// The continued fraction of DLMF 8.17.22 without its front factor.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    const ENOUGH: usize = 10_000;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    // Ratios of successive numerators, and of successive denominators upside down.
    let (mut above, mut below) = (1.0, 1.0 / guard(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = below;
    for step in 1..ENOUGH {
        let m = step as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for numerator in [even, odd] {
            below = 1.0 / guard(1.0 + numerator * below);
            above = guard(1.0 + numerator / above);
            fraction *= above * below;
        }
        if (above * below - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// Probability that a Student t variable exceeds `t` (DLMF 8.17, Abramowitz and Stegun 26.7.1).
///
/// Infinite degrees of freedom are taken as ten million: within 3e-7 of the normal quantile.
pub fn student_t_upper_tail(t: f64, degrees_of_freedom: f64) -> f64 {
    if t < 0.0 {
        return 1.0 - student_t_upper_tail(-t, degrees_of_freedom);
    }
    if t.is_infinite() {
        return 0.0;
    }
    // The fraction needs about as many steps as the root of the degrees of freedom.
    let df = degrees_of_freedom.min(1e7);
    let square = t * t;
    0.5 * incomplete_beta(0.5 * df, 0.5, df / (df + square), square / (df + square))
}

/// The value that a Student t variable exceeds with probability `tail`, `0 < tail <= 0.5`.
///
/// Infinite degrees of freedom mean the normal distribution (within 3e-7); none at all mean that
/// nothing is known: the answer is infinite.
///
/// ```
/// use nightwatt_energy::stats::distribution::student_t;
/// assert!((student_t(0.025, 10.0) - 2.228).abs() < 5e-4); // as in any table
/// ```
pub fn student_t(tail: f64, degrees_of_freedom: f64) -> f64 {
    if degrees_of_freedom <= 0.0 || tail <= 0.0 {
        return f64::INFINITY;
    }
    let mut above = 1.0;
    while student_t_upper_tail(above, degrees_of_freedom) > tail && above < 1e300 {
        above *= 2.0;
    }
    let mut below = 0.0;
    while above - below > 1e-14 * above {
        let middle = 0.5 * (below + above);
        // Neighbours have no middle.
        if middle <= below || middle >= above {
            break;
        }
        if student_t_upper_tail(middle, degrees_of_freedom) > tail {
            below = middle;
        } else {
            above = middle;
        }
    }
    0.5 * (below + above)
}

/// Probability that a Fisher F variable exceeds `f` (Abramowitz and Stegun 26.6.2).
pub fn fisher_f_upper_tail(f: f64, numerator_df: f64, denominator_df: f64) -> f64 {
    if f <= 0.0 {
        return 1.0;
    }
    let sum = denominator_df + numerator_df * f;
    incomplete_beta(
        0.5 * denominator_df,
        0.5 * numerator_df,
        denominator_df / sum,
        numerator_df * f / sum,
    )
}

/// Probability that at least `successes` of `trials` succeed, each with `probability` (DLMF 8.17.5).
pub fn binomial_upper_tail(successes: u64, trials: u64, probability: f64) -> f64 {
    if successes == 0 {
        return 1.0;
    }
    if successes > trials {
        return 0.0;
    }
    let (above, below) = (successes as f64, (trials - successes + 1) as f64);
    incomplete_beta(above, below, probability, 1.0 - probability)
}

/// Probability that a standard normal variable lies within `z >= 0` of zero.
///
/// The series of DLMF 7.6.2, whose terms are all positive; beyond 8 nothing is left of the tails.
pub fn normal_within(z: f64) -> f64 {
    if z >= 8.0 {
        return 1.0;
    }
    let square = z * z;
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term > 1e-17 * sum {
        odd += 2.0;
        term *= square / odd;
        sum += term;
    }
    (sum * (2.0 / std::f64::consts::PI).sqrt() * (-0.5 * square).exp()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From scipy 1.x: `stats.t.ppf(0.975, df)`, `stats.t.ppf(0.6, df)`, `stats.t.isf(1e-7, df)`;
    /// the last row from `stats.norm`.
    #[test]
    fn students_quantiles_are_scipys() {
        let rows = [
            (1.0, 12.706_204_736_174_7, 0.324_919_696_232_906, 3_183_098.863),
            (2.0, 4.302_652_729_749_46, 0.288_675_134_594_813, 2_236.067_642_68),
            (3.0, 3.182_446_305_283_71, 0.276_670_662_332_690, 222.571_590_986),
            (5.0, 2.570_581_835_636_31, 0.267_180_865_704_145, 39.341_819_621_1),
            (10.0, 2.228_138_851_986_27, 0.260_184_829_492_080, 12.492_209_688_3),
            (30.0, 2.042_272_456_301_24, 0.255_605_364_951_913, 6.701_399_512_38),
            (120.0, 1.979_930_405_082_44, 0.253_909_523_214_925, 5.518_964_775_15),
            (1e6, 1.959_966_356_814_11, 0.253_347_170_537_842, 5.199_374_020_91),
            (f64::INFINITY, 1.959_963_984_540_05, 0.253_347_103_135_800, 5.199_337_582_29),
        ];
        for (df, p975, p6, far) in rows {
            for (tail, expected) in [(0.025, p975), (0.4, p6), (1e-7, far)] {
                let found = student_t(tail, df);
                // scipy's own last column, from 1 - 1e-7, is good to nine digits.
                let allowed = if df.is_finite() && tail > 1e-6 { 1e-9 } else { 1e-6 };
                assert!((found / expected - 1.0).abs() < allowed, "{df} {tail}: {found}");
            }
        }
        assert!(student_t(0.025, 0.0).is_infinite());
    }

    /// From scipy: `stats.f.sf(f, a, b)`.
    #[test]
    fn fishers_tail_is_scipys() {
        let rows = [
            (3.5, 2.0, 10.0, 0.070_429_627_772_374_27),
            (1.0, 9.0, 100.0, 0.445_198_825_991_061_86),
            (2.5, 9.0, 89.0, 0.013_446_839_443_346_73),
            (30.0, 1.0, 1.0, 0.114_964_117_951_033_16),
            (0.2, 4.0, 7.0, 0.930_514_817_475_805_8),
        ];
        for (f, a, b, expected) in rows {
            let found = fisher_f_upper_tail(f, a, b);
            assert!((found / expected - 1.0).abs() < 1e-10, "{f} {a} {b}: {found}");
        }
        assert!((fisher_f_upper_tail(0.0, 1.0, 1.0) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn one_degree_of_freedom_is_cauchys_distribution() {
        // Its quantile is tan(π (p - 1/2)).
        for tail in [0.4_f64, 0.1, 0.01, 1e-4] {
            let expected = (std::f64::consts::PI * (0.5 - tail)).tan();
            assert!((student_t(tail, 1.0) / expected - 1.0).abs() < 1e-10, "{tail}");
        }
    }
    /// From scipy: `stats.t.sf(t, df)`, `stats.binom.sf(k - 1, n, p)`,
    /// `stats.norm.cdf(z) - stats.norm.cdf(-z)`.
    #[test]
    fn tails_are_scipys() {
        for (t, df, expected) in [
            (2.5, 7.0, 0.020_496_109_292_876_444),
            (-1.3, 4.0, 0.868_274_201_764_388),
            (12.0, 30.0, 2.790_092_707_599_630_3e-13),
            (0.4, 1.5, 0.369_360_469_001_432),
        ] {
            let found = student_t_upper_tail(t, df);
            assert!((found / expected - 1.0).abs() < 1e-9, "{t} {df}: {found}");
        }
        for (k, n, p, expected) in [
            (3, 10, 0.5, 0.945_312_5),
            (90, 100, 0.8, 0.005_696_380_955_793_522),
            (1, 5, 0.01, 0.049_009_950_1),
            (500, 1000, 0.49, 0.273_901_444_269_494_4),
        ] {
            let found = binomial_upper_tail(k, n, p);
            assert!((found / expected - 1.0).abs() < 1e-9, "{k} {n} {p}: {found}");
        }
        for (z, expected) in [
            (0.1, 0.079_655_674_554_057_98),
            (1.0, 0.682_689_492_137_085_9),
            (1.96, 0.950_004_209_703_559),
            (4.0, 0.999_936_657_516_333_8),
            (7.5, 0.999_999_999_999_936_3),
        ] {
            let found = normal_within(z);
            assert!((found - expected).abs() < 1e-13, "{z}: {found}");
        }
    }
}
