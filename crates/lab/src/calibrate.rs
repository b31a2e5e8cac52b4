//! `nightwatt calibrate`: figures of this machine, from measurements. The mathematics is in
//! `model::calibrate`; here are the experiments and the files.

pub mod states;
pub mod sync;
pub mod utilisation;
