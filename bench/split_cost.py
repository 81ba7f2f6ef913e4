#!/usr/bin/env python3
"""What the split costs a client, and what a node costs in memory.

  split_cost.py --penstock BINARY --model FOLDER [--rounds N]

Two clusters of real processes on this machine, one always split (a prefill and a decode node), one never (a decode
node alone), both up and idle but for the one request being timed; requests alternate between them. Prints the median
time to the first token of each and the difference, then, under a load of eight streams, each split node's
proportional set size beside what it may be: weights, KV pool, 150 MB. Standard library only.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "cluster"))
SETTINGS = {"engine": {"threads": 1, "kv_pool_mb": 256, "batch_tokens_max": 512},
            "heartbeat": {"period_ms": 200, "dead_after_ms": 4000}}


def prompt(seed, tokens):
    return [100 + (seed * 7919 + i * 37) % 2000 for i in range(tokens)]


def ttft_ms(cluster, ids):
    start = time.perf_counter()
    events = cluster.stream({"model": "tiny", "prompt": ids, "max_tokens": 2, "temperature": 0, "ignore_eos": True})
    first = None
    for event in events:
        if first is None and event != "[DONE]" and event.get("choices") and event["choices"][0].get("text"):
            first = time.perf_counter()
    return ((first or time.perf_counter()) - start) * 1e3


def pss_mb(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no Pss")


def memory(split, weights_mb):
    threads = [threading.Thread(target=split.complete, args=(prompt(i, 400), 150)) for i in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    for name in split.node_names:
        pss = pss_mb(split.processes[name].popen.pid)
        allowed = weights_mb + SETTINGS["engine"]["kv_pool_mb"] + 150
        print(json.dumps({"node": name, "pss_mb": round(pss), "allowed_mb": round(allowed)}))
    for thread in threads:
        thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 256, 512])
    args = parser.parse_args()
    os.environ["PENSTOCK_BINARY"] = args.penstock
    from cluster import Cluster

    with Cluster(args.model, settings=SETTINGS) as split, \
            Cluster(args.model, disaggregate="never", settings=SETTINGS) as colocated:
        for length in args.lengths:
            times = {"split": [], "colocated": []}
            for i in range(args.rounds + 1):
                for name, cluster in (("split", split), ("colocated", colocated)):
                    value = ttft_ms(cluster, prompt(i, length))
                    if i > 0:
                        times[name].append(value)
            medians = {name: statistics.median(values) for name, values in times.items()}
            print(json.dumps({"prompt_tokens": length, "split_ttft_ms": round(medians["split"], 2),
                              "colocated_ttft_ms": round(medians["colocated"], 2),
                              "cost_ms": round(medians["split"] - medians["colocated"], 2),
                              "split_min_ms": round(min(times["split"]), 2),
                              "colocated_min_ms": round(min(times["colocated"]), 2)}), flush=True)
        size = sum(f.stat().st_size for f in Path(args.model).glob("*.safetensors")) / 2**20
        embedding = 49152 * 576 * 2 / 2**20  # its row-major copy beside the packed output matrix
        memory(split, size + embedding)


if __name__ == "__main__":
    main()
