//! Whether processes of gone pods are looked at. A setting of [`crate::Config`].

use std::fmt;
use std::str::FromStr;

/// Most seconds for which one Allocate may wait for processes: with all else that it waits for it is answered within the twenty that a
/// plugin which ends leaves to open calls.
pub const LONGEST_WAIT: u64 = 13;

/// What is done about a process of a gone pod that has a device open which kubelet offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandoverMode {
    /// The device is given out once it is closed, and refused where that takes too long.
    Wait,
    /// The device is given out, and an event and the log say who has it open.
    Mark,
    /// Nobody looks.
    #[default]
    Off,
}

impl fmt::Display for HandoverMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandoverMode::Wait => "wait",
            HandoverMode::Mark => "mark",
            HandoverMode::Off => "off",
        })
    }
}

/// A text that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a handover; use wait, mark or off")]
pub struct HandoverModeError(String);

impl FromStr for HandoverMode {
    type Err = HandoverModeError;

    fn from_str(text: &str) -> Result<Self, HandoverModeError> {
        let mut all = [HandoverMode::Wait, HandoverMode::Mark, HandoverMode::Off].into_iter();
        all.find(|mode| mode.to_string() == text).ok_or_else(|| HandoverModeError(text.to_owned()))
    }
}
