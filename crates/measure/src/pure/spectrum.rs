//! Power spectrum of an evenly sampled channel, and the sample rate that is worth having.
//!
//! Welch's method: overlapping segments are windowed, transformed, and their squared magnitudes
//! averaged (P. D. Welch, *The use of fast Fourier transform for the estimation of power spectra*,
//! IEEE Trans. Audio and Electroacoustics, 1967). Half overlap, Hann's window. "Power" here is the
//! square of what the channel measures, watts squared for a channel of watts.
//!
//! Samples come in blocks of any size; memory is that of a few segments.

mod fft;

use serde::Serialize;

pub(crate) use self::fft::{Complex, Fft};

/// Why a spectrum could not be computed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SpectrumError {
    /// Not one segment is full.
    #[error(
        "{samples} samples without a gap do not fill a segment of {segment}; record for longer, or \
         choose a shorter segment"
    )]
    TooFewSamples {
        /// Samples since the last gap.
        samples: usize,
        /// Samples of a segment.
        segment: usize,
    },
    /// A sample rate that is invalid.
    #[error(
        "a sample rate of {rate} Hz is invalid; give the rate at which the channel was sampled"
    )]
    BadRate {
        /// As given.
        rate: f64,
    },
}

/// Takes samples, yields a [`Spectrum`].
#[derive(Debug, Clone)]
pub struct Welch {
    rate: f64,
    fft: Fft,
    window: Vec<f64>,
    /// Samples of the segment under way.
    pending: Vec<f64>,
    /// A windowed segment that waits for another: two real segments share one complex transform.
    waiting: Option<Vec<f64>>,
    sums: Sums,
    /// Subtracted from every sample: close to the mean, so that the rest has no large sum.
    offset: Option<f64>,
}

/// Over all segments.
#[derive(Debug, Clone)]
struct Sums {
    /// Per bin from 0 to half the rate, squared magnitudes.
    powers: Vec<f64>,
    /// Real parts of the lowest two bins: all that a constant puts into Hann's window.
    lowest: [f64; 2],
    segments: usize,
    /// Of samples less the offset.
    samples: f64,
    count: usize,
}

impl Welch {
    /// `rate` in Hz; `segment` in samples, rounded up to a power of two from 8 to 2^22. The resolution
    /// of the spectrum is `rate / segment`.
    pub fn new(rate: f64, segment: usize) -> Result<Self, SpectrumError> {
        if !(rate.is_finite() && rate > 0.0) {
            return Err(SpectrumError::BadRate { rate });
        }
        let length = segment.clamp(8, 1 << 22).next_power_of_two();
        let turn = std::f64::consts::TAU / length as f64;
        let window = (0..length).map(|n| 0.5 - 0.5 * (turn * n as f64).cos()).collect();
        let powers = vec![0.0; length / 2 + 1];
        let sums = Sums { powers, lowest: [0.0; 2], segments: 0, samples: 0.0, count: 0 };
        let pending = Vec::with_capacity(length);
        Ok(Self { rate, fft: Fft::new(length), window, pending, waiting: None, sums, offset: None })
    }

    /// Takes a block of samples that follows the one before without a gap. A sample that is not finite
    /// is a gap.
    pub fn push(&mut self, samples: &[f64]) {
        for &sample in samples {
            if !sample.is_finite() {
                self.gap();
                continue;
            }
            self.pending.push(sample);
            if self.pending.len() == self.window.len() {
                self.segment();
            }
        }
    }

    /// The next sample does not follow the last: the segment under way is given up.
    pub fn gap(&mut self) {
        self.pending.clear();
    }

    fn segment(&mut self) {
        let length = self.window.len();
        let offset =
            *self.offset.get_or_insert_with(|| self.pending.iter().sum::<f64>() / length as f64);
        let less = self.pending.iter().map(|sample| sample - offset);
        self.sums.samples += less.clone().sum::<f64>();
        self.sums.count += length;
        let windowed: Vec<f64> = less.zip(&self.window).map(|(sample, w)| sample * w).collect();
        // The next segment begins with the second half of this one.
        self.pending.drain(..length / 2);
        match self.waiting.take() {
            None => self.waiting = Some(windowed),
            Some(before) => self.transform(&before, Some(&windowed)),
        }
    }

    /// Adds one or two segments to the sums. With `Z` the transform of `a + i b`, the magnitudes of
    /// both are `|A_k|^2 + |B_k|^2 = (|Z_k|^2 + |Z_-k|^2) / 2`.
    fn transform(&mut self, a: &[f64], b: Option<&[f64]>) {
        let length = a.len();
        let imaginary = |index: usize| b.map_or(0.0, |b| b[index]);
        let mut z: Vec<Complex> =
            a.iter().enumerate().map(|(index, &re)| Complex { re, im: imaginary(index) }).collect();
        self.fft.forward(&mut z);
        for (k, power) in self.sums.powers.iter_mut().enumerate() {
            let mirror = z[(length - k) % length];
            *power += 0.5 * (z[k].norm_squared() + mirror.norm_squared());
        }
        for (k, lowest) in self.sums.lowest.iter_mut().enumerate() {
            let mirror = z[(length - k) % length];
            // Re A_k + Re B_k.
            *lowest += 0.5 * (z[k].re + mirror.re + z[k].im + mirror.im);
        }
        self.sums.segments += 1 + usize::from(b.is_some());
    }

    /// The spectrum of all that was pushed.
    pub fn finish(mut self) -> Result<Spectrum, SpectrumError> {
        if let Some(last) = self.waiting.take() {
            self.transform(&last, None);
        }
        let (segment, sums) = (self.window.len(), self.sums);
        let Some(offset) = self.offset else {
            return Err(SpectrumError::TooFewSamples { samples: self.pending.len(), segment });
        };
        // The mean is known only now. A constant m puts m N/2 into bin 0 of a Hann window, and
        // -m N/4 into bin 1.
        let mean = sums.samples / sums.count as f64;
        let mut powers = sums.powers;
        for (k, share) in [0.5, -0.25].into_iter().enumerate() {
            let constant = mean * share * segment as f64;
            powers[k] += constant * (sums.segments as f64 * constant - 2.0 * sums.lowest[k]);
            powers[k] = powers[k].max(0.0);
        }
        let weight: f64 = self.window.iter().map(|w| w * w).sum();
        let scale = 1.0 / (self.rate * weight * sums.segments as f64);
        let last = powers.len() - 1;
        // Both halves of the two-sided spectrum count, but the first and the last bin are their own mirror.
        let sides = |k: usize| if k == 0 || k == last { 1.0 } else { 2.0 };
        let density =
            powers.iter().enumerate().map(|(k, power)| sides(k) * scale * power).collect();
        Ok(Spectrum {
            rate: self.rate,
            resolution: self.rate / segment as f64,
            density,
            mean: offset + mean,
            segments: sums.segments,
        })
    }
}

/// A one-sided power spectrum, the mean of the channel taken out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spectrum {
    /// Sample rate, in Hz.
    pub rate: f64,
    /// Distance of bins, in Hz.
    pub resolution: f64,
    /// Square of the channel's unit per Hz; bin `k` is at `k x resolution`, the last at half the rate.
    pub density: Vec<f64>,
    /// Of the channel.
    pub mean: f64,
    /// How many segments were averaged: the relative error of a bin is about 1 over the root of it.
    pub segments: usize,
}

impl Spectrum {
    /// All power but that of the mean: the variance of the channel.
    pub fn power(&self) -> f64 {
        self.density.iter().sum::<f64>() * self.resolution
    }

    /// The lowest sample rate, in Hz, that keeps this share (0 ..= 1) of the power: twice the frequency
    /// below which that share lies (C. E. Shannon, *Communication in the presence of noise*, 1949).
    ///
    /// Known no better than the resolution. `None` for a channel that never changes. When it is close
    /// to the rate itself, the channel may hold yet faster changes: sample faster and look again.
    pub fn rate_that_keeps(&self, share: f64) -> Option<f64> {
        let wanted = share * self.density.iter().sum::<f64>();
        let mut sum = 0.0;
        for (k, &density) in self.density.iter().enumerate() {
            if density > 0.0 && sum + density >= wanted {
                // The bin stands for half a bin to either side.
                let within = ((wanted - sum) / density).clamp(0.0, 1.0);
                let frequency = (k as f64 - 0.5 + within) * self.resolution;
                return Some((2.0 * frequency).clamp(self.resolution, self.rate));
            }
            sum += density;
        }
        None
    }
}

#[cfg(test)]
mod tests;
