//! The kubelet device plugin for AWS Neuron devices.
