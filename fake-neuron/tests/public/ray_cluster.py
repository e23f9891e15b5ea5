"""A whole Ray cluster on this host: what resources its node has, and which cores two tasks are given."""

import json
import os

import ray


@ray.remote(resources={"neuron_cores": 2}, num_cpus=0)
def visible_cores():
    return os.environ["NEURON_RT_VISIBLE_CORES"]


ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80_000_000, logging_level="ERROR", log_to_driver=False)
resources = ray.cluster_resources()
print(json.dumps({
    "neuron_cores": resources["neuron_cores"],
    "accelerator": [name for name in resources if name.startswith("accelerator_type:")],
    "visible": ray.get(visible_cores.remote()),
}))
ray.shutdown()
