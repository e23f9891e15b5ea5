//! The scheduler extender: places pods on linked Neuron devices.
