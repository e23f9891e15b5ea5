//! How device nodes come into a container. A setting of [`crate::Config`]; carried out by `cdi`.

use std::fmt;
use std::str::FromStr;

/// How device nodes come into a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceInjection {
    /// Their paths stand in the answer to Allocate.
    #[default]
    DeviceSpecs,
    /// Their names stand there, such as `aws.amazon.com/neuron=neuron3`. Needs a container runtime that knows the Container Device
    /// Interface: containerd from 1.7 on, with `enable_cdi` (2.0 has it on).
    Cdi,
}

impl fmt::Display for DeviceInjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceInjection::DeviceSpecs => "device-specs",
            DeviceInjection::Cdi => "cdi",
        })
    }
}

/// A text that is neither `device-specs` nor `cdi`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not how device nodes can come into a container; use device-specs or cdi")]
pub struct DeviceInjectionError(String);

impl FromStr for DeviceInjection {
    type Err = DeviceInjectionError;

    fn from_str(text: &str) -> Result<Self, DeviceInjectionError> {
        match text {
            "device-specs" => Ok(DeviceInjection::DeviceSpecs),
            "cdi" => Ok(DeviceInjection::Cdi),
            _ => Err(DeviceInjectionError(text.to_owned())),
        }
    }
}
