//! Environments as they are: started, used, ended in every way, and looked for afterwards.

mod containers;
mod folder;
mod guests;
mod host;
mod killed;
mod network;
mod rig;
