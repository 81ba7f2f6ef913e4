#!/usr/bin/env python3
"""Engine speed beside llama.cpp's, back to back on the same cores, as ratios of medians.

  compare_engine.py --penstock BINARY --model FOLDER --llama-bin DIR --gguf FILE [--gguf FILE ...] [--rounds N]

DIR holds llama-bench and llama-batched-bench; each FILE is the same model in one of llama.cpp's types (bf16, f32).
Each round runs ours, then every peer; the best type of the peer counts for each figure. Standard library only.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def ours(args, threads):
    out = run([args.penstock, "bench", "engine", args.model, "--json", "--threads", str(threads), "--repetitions", "3"])
    row = json.loads(out)[0]
    return {"prefill512": row["prefill512_toks"], "decode_b1": row["decode_b1_toks"],
            "decode_b16": row["decode_b16_toks"], "read_share": row["decode_b1_share_of_read"],
            "isa": row["isa"], "amx": row["amx"], "cpu": row["cpu"]}


def llama(args, gguf, threads):
    single = json.loads(run([f"{args.llama_bin}/llama-bench", "-m", gguf, "-t", str(threads), "-p", "512", "-n", "64",
                             "-r", "3", "-o", "json"]))
    result = {("prefill512" if row["n_prompt"] else "decode_b1"): row["avg_ts"] for row in single}
    batched = run([f"{args.llama_bin}/llama-batched-bench", "-m", gguf, "-t", str(threads), "-c", "4096", "-b", "512",
                   "-ub", "512", "-npp", "16", "-ntg", "64", "-npl", "16", "--output-format", "jsonl"])
    rows = [json.loads(line) for line in batched.splitlines() if line.startswith("{")]
    result["decode_b16"] = rows[-1]["speed_tg"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-bin", required=True)
    parser.add_argument("--gguf", action="append", required=True)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for threads in args.threads:
        mine, peers = [], {gguf: [] for gguf in args.gguf}
        for _ in range(args.rounds):
            mine.append(ours(args, threads))
            for gguf in args.gguf:
                peers[gguf].append(llama(args, gguf, threads))
        row = {"threads": threads, "isa": mine[0]["isa"], "amx": mine[0]["amx"], "cpu": mine[0]["cpu"],
               "decode_b1_share_of_read": round(statistics.median(m["read_share"] for m in mine), 3)}
        for figure in ("prefill512", "decode_b1", "decode_b16"):
            we = statistics.median(m[figure] for m in mine)
            best = {Path(g).stem: statistics.median(p[figure] for p in rounds) for g, rounds in peers.items()}
            name = max(best, key=best.get)
            row[figure] = {"penstock": round(we, 1), "llama.cpp": round(best[name], 1), "llama.cpp type": name,
                           "ratio": round(we / best[name], 2)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
