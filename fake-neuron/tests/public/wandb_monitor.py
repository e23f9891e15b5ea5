"""Runs Weights & Biases offline until its system monitor has recorded the host's last NeuronCore, and prints what it wrote down:
the hardware, and how busy each core was at most. Reserves so many physical cores first, as the Neuron runtime would."""

import fcntl
import glob
import json
import os
import struct
import sys
import time

import wandb
from wandb.proto import wandb_internal_pb2

folder, last_core, reserved = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
MARK_CORES = 0x40084E55


def records(data):
    """Those of a run's file: blocks of 32 KiB, in which pieces of records have a sum, a length and a kind."""
    block, record, at = 32768, b"", 7
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        _, length, kind = struct.unpack("<IHB", data[at:at + 7])
        if at + 7 + length > len(data):
            # Being written at this moment.
            return
        record += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


def written():
    hardware, metrics = None, {}
    for name in glob.glob(f"{folder}/wandb/offline-run-*/run-*.wandb"):
        with open(name, "rb") as file:
            for record in records(file.read()):
                if record.environment.HasField("trainium"):
                    trainium = record.environment.trainium
                    hardware = [trainium.name, trainium.neuron_device_count, trainium.neuroncore_per_device_count]
                for item in record.stats.item:
                    if item.key.endswith("neuroncore_utilization"):
                        metrics[item.key] = max(metrics.get(item.key, 0), json.loads(item.value_json))
    return hardware, metrics


if reserved:
    device = os.open("/dev/neuron0", os.O_RDWR)
    # How many, the first and the last that may be taken; the driver adds what it found.
    fcntl.ioctl(device, MARK_CORES, bytearray(struct.pack("IIIIQ", reserved, 0, reserved - 1, 0, 0)))
run = wandb.init(mode="offline", dir=folder, settings=wandb.Settings(x_stats_sampling_interval=0.5, silent=True))
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    if written()[1].get(f"trn.{last_core}.neuroncore_utilization", 0) > 0:
        break
    time.sleep(0.2)
run.finish()
hardware, metrics = written()
print(json.dumps({"hardware": hardware, "metrics": metrics}))
