//! One machine of any Neuron instance type, as files: /dev, /sys and DMI.
