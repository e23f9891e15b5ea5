//! Events that are not sent yet: those that may turn out not to be needed, and those that could not be sent. Kept by the
//! loop of [`super`].

mod retries;
mod unsettled;

pub(super) use self::retries::{Retries, Subject};
pub(super) use self::unsettled::Unsettled;
