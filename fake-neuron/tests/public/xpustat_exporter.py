"""Runs xpustat's exporter and prints what it answers, in JSON and as metrics."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

shown = subprocess.run([sys.executable, "-m", "xpustat.cli", "--json"], check=True, capture_output=True, text=True)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
exporter = subprocess.Popen([sys.executable, "-m", "xpustat.cli", "--serve-prometheus", str(port)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                metrics = answer.read().decode()
            break
        except urllib.error.URLError:
            if time.monotonic() > deadline or exporter.poll() is not None:
                raise
            time.sleep(0.05)
finally:
    exporter.kill()
    exporter.wait()
print(json.dumps({"devices": json.loads(shown.stdout)["neuron"], "metrics": metrics}))
