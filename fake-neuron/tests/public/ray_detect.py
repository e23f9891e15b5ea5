"""What Ray's accelerator manager makes of this host: the cores that it detects, and those that its own table has for the type."""

import json
import sys

from ray._private.accelerators.neuron import NeuronAcceleratorManager as Neuron

print(json.dumps({
    "detected": Neuron.get_current_node_num_accelerators(),
    "in its table": Neuron.get_ec2_instance_num_accelerators(sys.argv[1], {}),
}))
