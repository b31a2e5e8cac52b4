use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::*;

fn spectrum(rate: f64, segment: usize, samples: &[f64]) -> Spectrum {
    let mut welch = Welch::new(rate, segment).unwrap();
    welch.push(samples);
    welch.finish().unwrap()
}

fn sines(rate: f64, count: usize, parts: &[(f64, f64)]) -> Vec<f64> {
    let at = |time: f64| {
        let sum: f64 = parts
            .iter()
            .map(|&(frequency, amplitude)| {
                amplitude * (std::f64::consts::TAU * frequency * time + 0.4).sin()
            })
            .sum();
        50.0 + sum
    };
    (0..count).map(|index| at(index as f64 / rate)).collect()
}

#[test]
fn a_sine_has_half_its_amplitude_squared_at_its_frequency() {
    // 125 Hz is bin 128 of 1024 at 1 kHz; Hann's window spreads it over three bins as 1 : 4 : 1.
    let found = spectrum(1000.0, 1024, &sines(1000.0, 10_240, &[(125.0, 3.0)]));
    assert!((found.power() - 4.5).abs() < 1e-9, "{}", found.power());
    assert!((found.mean - 50.0).abs() < 1e-9);
    let power = |bin: usize| found.density[bin] * found.resolution;
    for (bin, expected) in [(126, 0.0), (127, 0.75), (128, 3.0), (129, 0.75), (130, 0.0)] {
        assert!((power(bin) - expected).abs() < 1e-9, "{bin}: {}", power(bin));
    }
}

#[test]
fn the_rate_that_keeps_is_twice_the_highest_frequency_that_matters() {
    // Powers 48 and 2 of 50 in the first, 45 and 5 in the second: 96 % and 90 % lie at 20 Hz.
    let low = [(20.0, 96.0_f64.sqrt()), (200.0, 2.0)];
    let high = [(20.0, 90.0_f64.sqrt()), (200.0, 10.0_f64.sqrt())];
    for (parts, expected) in [(low, 40.0), (high, 400.0)] {
        let found = spectrum(1000.0, 4096, &sines(1000.0, 100_000, &parts));
        let rate = found.rate_that_keeps(0.95).unwrap();
        // Two bins of 0.24 Hz each for the window, twice for the rate.
        assert!((rate - expected).abs() < 1.0, "{rate} for {expected}");
    }
    assert_eq!(spectrum(1000.0, 64, &[5.0; 500]).rate_that_keeps(0.95), None);
}

#[test]
fn white_noise_is_flat_and_keeps_its_variance() {
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let samples: Vec<f64> =
        (0..200_000).map(|_| 7.0 + 2.0 * rng.sample::<f64, _>(StandardNormal)).collect();
    let found = spectrum(500.0, 256, &samples);
    // Variance 4, spread over 250 Hz. 200,000 samples know it within 0.32 % (one sd).
    assert!((found.power() / 4.0 - 1.0).abs() < 0.016, "{}", found.power());
    // 1561 segments: 2.5 % per bin, 3.5 % at worst for overlap; five of them.
    for density in &found.density[1..128] {
        assert!((density / 0.016 - 1.0).abs() < 0.18, "{density}");
    }
    let rate = found.rate_that_keeps(0.95).unwrap();
    assert!((rate / 475.0 - 1.0).abs() < 0.01, "{rate}");
}

/// Parseval's theorem for Welch's method: the spectrum sums to the mean of the windowed squares over
/// that of the squared window, here computed in the time domain.
#[test]
fn the_whole_power_is_that_of_the_windowed_samples() {
    let rng = &mut ChaCha8Rng::seed_from_u64(2);
    let samples: Vec<f64> = (0..640).map(|_| 1e3 + rng.random_range(-1.0..3.0_f64)).collect();
    let window: Vec<f64> =
        (0..64).map(|n| (std::f64::consts::PI * f64::from(n) / 64.0).sin().powi(2)).collect();
    // The mean over segments, overlaps counted twice.
    let segments = || samples.windows(64).step_by(32);
    let mean = segments().flatten().sum::<f64>() / (64.0 * segments().count() as f64);
    let energy = |segment: &[f64]| -> f64 {
        segment.iter().zip(&window).map(|(x, w)| ((x - mean) * w).powi(2)).sum()
    };
    let weight: f64 = window.iter().map(|w| w * w).sum();
    let expected = segments().map(energy).sum::<f64>() / weight / segments().count() as f64;
    let found = spectrum(10.0, 64, &samples);
    assert_eq!(found.segments, 19);
    assert!((found.power() / expected - 1.0).abs() < 1e-9, "{} {expected}", found.power());
}

// What the lines of numpy below print.
const NUMPY: [f64; 5] = [
    0.643_455_689_433_4,
    1.356_439_398_770_6,
    5.534_475_708_248_7,
    9.778_241_336_608_0,
    2.225_499_337_696_4,
];

/// From numpy 2.4, without our shortcuts (two segments per transform, the mean taken out afterwards):
///
/// ```python
/// import numpy as np
/// x = (np.arange(24)*7 % 11).astype(float)
/// w = .5-.5*np.cos(2*np.pi*np.arange(8)/8)
/// s = np.array([x[i:i+8] for i in range(0, 17, 4)]); s = s - s.mean()
/// p = (abs(np.fft.rfft(s*w))**2).mean(0)/(4*(w*w).sum()); p[1:-1] *= 2
/// print(p)   # at 4 Hz
/// ```
#[test]
fn a_short_series_has_numpys_spectrum() {
    let samples: Vec<f64> = (0..24).map(|n| f64::from(n * 7 % 11)).collect();
    let found = spectrum(4.0, 8, &samples);
    for (found, expected) in found.density.iter().zip(NUMPY) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    // In blocks of any size it is the same.
    let mut welch = Welch::new(4.0, 8).unwrap();
    for block in samples.chunks(5) {
        welch.push(block);
    }
    assert_eq!(welch.finish().unwrap(), found);
}

#[test]
fn gaps_cost_the_segment_they_fall_into() {
    let mut samples = sines(1000.0, 1024, &[(125.0, 3.0)]);
    samples[600] = f64::NAN;
    let found = spectrum(1000.0, 256, &samples);
    // 600 samples hold three segments of 256 by halves, 423 hold two.
    assert_eq!(found.segments, 5);
    assert!((found.power() - 4.5).abs() < 1e-3, "{}", found.power());
    let few = Welch::new(1000.0, 4096).unwrap().finish();
    assert_eq!(few, Err(SpectrumError::TooFewSamples { samples: 0, segment: 4096 }));
    assert!(matches!(Welch::new(f64::NAN, 64), Err(SpectrumError::BadRate { .. })));
}
