//! Events that are not sent yet: those that may turn out not to be needed, and those that could not be sent. Kept by
//! `events`.

mod unsent;
mod unsettled;

pub(crate) use self::unsent::{About, Unsent};
pub(crate) use self::unsettled::Passing;
