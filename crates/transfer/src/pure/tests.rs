//! The policy against the published law, against others, and against the oracle.

mod law;
pub(super) mod made;
mod properties;
