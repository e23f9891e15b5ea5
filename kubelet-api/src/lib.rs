//! The kubelet's gRPC contracts: device plugin v1beta1 and podresources v1.
