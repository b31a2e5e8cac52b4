//! Experiments: the demo
