//! Management controllers of servers: [`redfish`] over HTTPS, and [`ipmitool`] by the program `ipmitool`.
//!
//! `meters` reads power with them, and `power` switches it. What their users are told about errors is up to
//! those two.

pub mod ipmitool;
pub mod redfish;
