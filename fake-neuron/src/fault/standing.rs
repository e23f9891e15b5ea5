//! `<root>/.fake-neuron/faults.json`: the faults that are in force or still to come. Written by [`crate::Machine`], read by
//! what answers ioctls and by `fake-neuron fault list`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use neuron_core::catalog::Generation;
use serde::{Deserialize, Serialize};

use super::{Fault, FaultError, FaultSpec, Put};
use crate::machine::disk;

/// Below the root.
const FILE: &str = ".fake-neuron/faults.json";

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Faults {
    /// The id of the last fault, so that ids are never used again.
    pub last_id: u32,
    /// Number of lines that were written to the fake kernel log.
    pub kernel_lines: u64,
    /// Of those that have struck, the later one stands after the earlier one.
    pub faults: Vec<Standing>,
    /// What stands at other places than it should, or not at all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changed: Vec<Changed>,
    /// Whether a change of it was begun and not ended: then any of it need not be so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) unfinished: bool,
}

/// A fault that is in force or still to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// By which it is cleared, from 1.
    pub id: u32,
    /// Whether it has struck.
    pub state: State,
    /// When it struck or will strike, in milliseconds since 1970.
    pub at: u64,
    /// When it is lifted, in milliseconds since 1970; `None`: when it is cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// What was asked for.
    #[serde(flatten)]
    pub spec: FaultSpec,
}

/// How far a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It will strike.
    Pending,
    /// It has struck.
    InForce,
}

/// A path that faults have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Changed {
    /// Below the root.
    pub(super) path: String,
    /// What stands there.
    pub(super) put: Put,
    /// Whether something was there, which then stands in the folder of what was taken away.
    pub(super) was_there: bool,
}

impl Standing {
    /// A fault that strikes at this time, in milliseconds since 1970.
    pub(super) fn new(id: u32, spec: &FaultSpec, state: State, at: u64) -> Standing {
        let until = spec.lasts.map(|lasts| at.saturating_add(milliseconds(lasts)));
        Standing { id, state, at, until, spec: spec.clone() }
    }

    /// Whether its end has passed. Who should have lifted it may have been killed.
    fn has_ended(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl Faults {
    /// The faults of the machine under `root`; none where the file is missing.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn read(root: &Path) -> Result<Faults, FaultError> {
        let path = root.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|reason| FaultError::State { path, reason }),
            Err(missing)
                if matches!(missing.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                Ok(Faults::default())
            }
            Err(reason) => Err(FaultError::Io { action: "read", path, reason }),
        }
    }

    /// Replaces the file in one step.
    pub(crate) fn write(&self, root: &Path) -> Result<(), FaultError> {
        let path = root.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|reason| FaultError::State { path, reason })?;
        disk::replace(root, FILE, &format!("{text}\n"), 0o644)?;
        Ok(())
    }

    /// The faults that have struck and have not ended, in the order in which they struck.
    pub fn in_force(&self) -> impl Iterator<Item = &Fault> {
        let now = now();
        self.struck().filter(move |standing| !standing.has_ended(now)).map(|standing| &standing.spec.fault)
    }

    /// The faults that have struck and are not lifted, in that order.
    pub(super) fn struck(&self) -> impl Iterator<Item = &Standing> {
        self.faults.iter().filter(|standing| standing.state == State::InForce)
    }

    /// Forgets the faults whose end has passed. Whether there were any.
    pub(super) fn forget_ended(&mut self) -> bool {
        let (now, before) = (now(), self.faults.len());
        self.faults.retain(|standing| !standing.has_ended(now));
        self.faults.len() < before
    }

    /// Whether the driver is unloaded.
    pub fn driver_is_unloaded(&self) -> bool {
        self.in_force().any(|fault| *fault == Fault::DriverUnloaded {})
    }

    /// Whether this device (0 to 63) is lost, on a host with devices of this generation.
    pub fn is_lost(&self, device: u8, generation: Generation) -> bool {
        self.in_force().any(|fault| fault.takes_away(device, generation))
    }

    /// Whether the link between these two devices (0 to 63) is down.
    pub fn link_is_down(&self, device: u8, other: u8) -> bool {
        self.in_force().any(|fault| fault.breaks_link(device, other))
    }

    /// Whether this device (0 to 63) is being reset.
    pub fn is_in_reset(&self, device: u8) -> bool {
        self.in_force().any(|fault| *fault == Fault::Reset { device })
    }

    /// The process that holds this physical core, counted over the host from 0.
    pub fn holder_of(&self, core: u16) -> Option<u32> {
        self.in_force().find_map(|fault| fault.holds(core))
    }
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
