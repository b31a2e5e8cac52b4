//! Statistics of experiments: no clock, no files.

pub mod experiment;
