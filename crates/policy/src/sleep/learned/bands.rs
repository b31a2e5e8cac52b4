//! Bands of half an octave: below 1 s, then to 1.4 s, 2 s, 2.8 s, and so on.

use std::f64::consts::SQRT_2;

/// Seconds at which each of `N - 1` bands begins, and the last one ends.
pub(super) const fn edges<const N: usize>(last: f64) -> [f64; N] {
    let mut edges = [0.0; N];
    let mut octave = 1.0;
    let mut band = 1;
    while band + 1 < N {
        edges[band] = octave;
        if band + 2 < N {
            edges[band + 1] = octave * SQRT_2;
        }
        octave *= 2.0;
        band += 2;
    }
    edges[N - 1] = last;
    edges
}

/// The band of this many seconds, among those between `edges`; what is longer is in the last.
pub(super) fn band_of<const N: usize>(edges: &[f64; N], seconds: f64) -> usize {
    if seconds < 1.0 {
        return 0;
    }
    // The octave is the number's exponent; this is asked too often for a logarithm.
    let octave = ((seconds.to_bits() >> 52) as usize).saturating_sub(1023);
    let lower_half = 1 + 2 * octave;
    if lower_half + 2 >= N {
        return N - 2;
    }
    lower_half + usize::from(seconds >= edges[lower_half + 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_HOUR: [f64; 24] = edges(1800.0);

    #[test]
    fn the_bands_are_half_octaves_without_holes() {
        assert_eq!((HALF_HOUR[0], HALF_HOUR[1], HALF_HOUR[23]), (0.0, 1.0, 1800.0));
        for (half_octave, seconds) in HALF_HOUR[1..23].iter().enumerate() {
            let edge = 2_f64.powf(half_octave as f64 / 2.0);
            assert!((seconds - edge).abs() < 1e-9 * edge, "{seconds} s, not {edge} s");
        }
        for millis in (0..1_800_000).step_by(977) {
            let age = f64::from(millis) / 1000.0;
            let band = band_of(&HALF_HOUR, age);
            assert!(HALF_HOUR[band] <= age && age < HALF_HOUR[band + 1], "{age} s in {band}");
        }
        assert_eq!(band_of(&HALF_HOUR, 1e12), 22);
        let even: [f64; 23] = edges(1e9);
        assert_eq!((band_of(&even, 1500.0), band_of(&even, 1e8)), (21, 21));
    }
}
