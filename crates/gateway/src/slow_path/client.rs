//! The client of a request that is being answered.

use std::sync::Arc;

use http::Response;
use nightwatt_policy::admission::ClientClass;

use crate::access_log::Answered;
use crate::accounting::{CLIENT_LEFT, How, close};
use crate::body::Answer;
use crate::facts::Facts;
use crate::serving::Serving;

/// The client that waits for an answer. One that leaves before is still counted and logged: it may have woken the
/// server.
pub(crate) struct Client<'a> {
    pub(crate) serving: &'a Serving,
    pub(crate) index: usize,
    pub(crate) facts: &'a Arc<Facts>,
    pub(crate) class: ClientClass,
    pub(crate) stays: bool,
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if !self.stays {
            let mut nothing = Response::new(Answer::empty());
            *nothing.status_mut() = CLIENT_LEFT;
            let how = How::by_itself(self.class, Answered::Gone);
            close(self.serving, Some(self.index), self.facts, nothing, how);
        }
    }
}
