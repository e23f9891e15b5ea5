//! Events that are not sent yet: those that may turn out not to be needed, and those that could not be sent. Kept by the
//! loop of [`super`].

mod unsent;
mod unsettled;

pub(super) use self::unsent::{Subject, Unsent};
pub(super) use self::unsettled::Unsettled;
