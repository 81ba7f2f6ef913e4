"""`penstock import` and `penstock logits` as a user runs them, on a tiny model with known logits.

    cli_test.py PENSTOCK GOLDEN_DIR
"""

import ast
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

PENSTOCK, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2])


def run(*arguments, stdin=""):
    return subprocess.run([PENSTOCK, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60)


def npy(archive, name):
    """(shape, values) of a stored array of 4-byte elements; zipfile checks the CRC."""
    with zipfile.ZipFile(archive) as z:
        raw = z.read(name + ".npy")
    length = struct.unpack_from("<H", raw, 8)[0]
    header = ast.literal_eval(raw[10:10 + length].decode())  # a dict literal, written by numpy or by us
    kind = {"<f4": "f", "<i4": "i"}[header["descr"]]
    data = raw[10 + length:]
    return header["shape"], struct.unpack(f"<{len(data) // 4}{kind}", data)


class LogitsTest(unittest.TestCase):
    model = GOLDEN / "llama_rope3"

    def setUp(self):
        self.ids = [list(npy(self.model / "golden.npz", f"prompt{i}_ids")[1]) for i in range(3)]
        self.lines = "".join(json.dumps({"ids": ids}) + "\n" for ids in self.ids)

    def test_top(self):
        done = run("logits", self.model, "--dtype", "f32", "--top", 3, "--chunk", 5, stdin=self.lines)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(answers), 3)
        for i, answer in enumerate(answers):
            shape, expected = npy(self.model / "golden.npz", f"prompt{i}_logits")
            self.assertEqual(len(answer["top"]), len(self.ids[i]))
            for position, top in enumerate(answer["top"]):
                row = expected[position * shape[1]:(position + 1) * shape[1]]
                best = sorted(range(len(row)), key=lambda t: -row[t])[:3]
                log_sum = math.log(sum(math.exp(x - max(row)) for x in row)) + max(row)
                self.assertEqual((top["position"], top["ids"]), (position, best))
                for token, logit, logprob in zip(best, top["logits"], top["logprobs"]):
                    self.assertAlmostEqual(logit, row[token], delta=2e-4)
                    self.assertAlmostEqual(logprob, row[token] - log_sum, delta=4e-4)

    def test_full(self):
        with tempfile.TemporaryDirectory() as folder:
            archive = pathlib.Path(folder) / "full.npz"
            done = run("logits", self.model, "--dtype", "f32", "--full", archive, stdin=self.lines)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for i, line in enumerate(done.stdout.splitlines()):
                self.assertEqual(json.loads(line), {"array": f"logits_{i}", "shape": [len(self.ids[i]), 512]})
                shape, values = npy(archive, f"logits_{i}")
                expected = npy(self.model / "golden.npz", f"prompt{i}_logits")
                self.assertEqual(shape, expected[0])
                self.assertLess(max(abs(a - b) for a, b in zip(values, expected[1])), 2e-4)

    def test_bad_input(self):
        for stdin, part in [("{\"ids\": [1, 512]}\n", "line 1: token id 512"), ("\n{\"ids\": []}\n", "line 2"),
                            ("nonsense\n", "line 1: expected"), ("{\"ids\": [-1]}\n", "line 1"),
                            (json.dumps({"ids": [1] * 257}) + "\n", "257 tokens exceed the context of 256")]:
            done = run("logits", self.model, stdin=stdin)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(part, done.stderr)
        self.assertEqual(run("logits", self.model, "--dtype", "f16").returncode, 2)
        done = run("logits", GOLDEN / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("config.json is missing", done.stderr)


class ImportTest(unittest.TestCase):
    def test_folder_and_refusal(self):
        with tempfile.TemporaryDirectory() as folder:
            source, out = pathlib.Path(folder) / "source", pathlib.Path(folder) / "out"
            source.mkdir()
            for name in ("config.json", "model.safetensors"):
                (source / name).write_bytes((GOLDEN / "llama_tied" / name).read_bytes())
            (source / "tokenizer.json").write_text("{}")
            done = run("import", source, out, "--dtype", "f32")
            self.assertEqual((done.returncode, done.stdout), (0, ""))
            self.assertIn("LlamaForCausalLM, 38 tensors", done.stderr)
            self.assertEqual(sorted(p.name for p in out.iterdir()),
                             ["config.json", "model.safetensors", "tokenizer.json"])
            again = run("import", source, out)
            self.assertEqual(again.returncode, 1)
            self.assertIn("exists already", again.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
