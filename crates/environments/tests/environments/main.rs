//! Environments as they are: started, used, ended in every way, and looked for afterwards.

mod containers;
mod guests;
mod host;
mod network;
mod rig;
