"""Kills and stops each process at each step of the KV handoff, and finds answers whole and pools at rest.

Needs the test flavour of the binary (fault points). Usage: test_faults.py prefill|decode|router [kill|stop]
"""

import signal
import sys
import tempfile
import threading
import time
import unittest

import tiny_model
from cluster import Cluster

PREFILL_STEPS = ["kv.reserve_sent", "kv.offer_received", "kv.first_put", "kv.mid_write", "kv.flushed",
                 "kv.commit_sent", "kv.ack_received"]
DECODE_STEPS = ["kv.reserve_received", "kv.offer_sent", "kv.commit_received", "kv.ack_sent"]
PROMPTS = [[4 + (i * 31 + j * 17) % 256 for j in range(90 + 40 * i)] for i in range(6)]
TOKENS = 60


def run_all(cluster, results):
    def run(i):
        results[i] = cluster.stream_ids(PROMPTS[i], TOKENS)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    return threads


class Faults(unittest.TestCase):
    model = None
    expected = None

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="penstock-model-")
        cls.model = tiny_model.make(cls.directory.name)
        with Cluster(cls.model) as cluster:
            cls.expected = [cluster.complete(p, TOKENS) for p in PROMPTS]

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def struck(self, process, action):
        return process.stopped() if action == "stop" else not process.alive()

    def check_answers(self, cluster, threads, results):
        for thread in threads:
            thread.join(timeout=60)
            self.assertFalse(thread.is_alive(), "a request never ended\n" + cluster.logs())
        for i, result in enumerate(results):
            self.assertIsNotNone(result, f"request {i} raised\n" + cluster.logs())
            ids, error = result
            self.assertIsNone(error, cluster.logs())
            self.assertEqual(ids, self.expected[i], f"request {i}")

    def node_fault(self, victim, step, action):
        others = [n for n in ("prefill-0", "prefill-1", "decode-0", "decode-1") if n != victim]
        env = {victim: {"PENSTOCK_FAULT": f"{step}:{action}"}}
        with Cluster(self.model, prefill=2, decode=2, node_env=env) as cluster:
            process = cluster.processes[victim]
            for _ in range(20):  # until the placement has given the victim something to do
                results = [None] * len(PROMPTS)
                threads = run_all(cluster, results)
                self.check_answers(cluster, threads, results)
                if self.struck(process, action):
                    break
            else:
                self.fail(f"{action} at {step} never struck\n" + cluster.logs())
            if action == "stop":
                process.signal(signal.SIGCONT)
            else:
                process.env = {}
                process.start()
            cluster.wait_pools_at_rest(others + [victim], seconds=30)
            cluster.wait("all pairs again", lambda: cluster.pairs() == 4)
            self.assertEqual(cluster.complete(PROMPTS[0], TOKENS), self.expected[0])

    def router_fault(self, step, action):
        """The router goes while P is held at `step`; a new one finds every node with a whole pool."""
        env = {"prefill-0": {"PENSTOCK_FAULT": f"{step}:700"}}
        with Cluster(self.model, prefill=1, decode=1, node_env=env) as cluster:
            router = cluster.processes["router"]
            results = [None] * len(PROMPTS)
            threads = run_all(cluster, results)
            time.sleep(0.35)  # inside the 700 ms
            router.signal(signal.SIGKILL if action == "kill" else signal.SIGSTOP)
            if action == "kill":
                router.popen.wait()
                router.start()
            else:
                time.sleep(2.5)  # longer than dead_after: the nodes give it up
                router.signal(signal.SIGCONT)
            cluster.wait_pools_at_rest(seconds=30)
            cluster.wait("the pair again", lambda: cluster.pairs() == 1)
            self.assertEqual(cluster.complete(PROMPTS[1], TOKENS), self.expected[1])
            for thread in threads:
                thread.join(timeout=60)
                self.assertFalse(thread.is_alive(), "a request never ended\n" + cluster.logs())
            if action == "stop":  # its clients are still connected: whole answers, or an error that says so
                for i, result in enumerate(results):
                    self.assertIsNotNone(result, cluster.logs())
                    ids, error = result
                    self.assertEqual(ids, self.expected[i][:len(ids)])
                    self.assertTrue(error or len(ids) == TOKENS)

    def test_last_pair_gone_gives_an_error_event_in_time(self):
        with Cluster(self.model) as cluster:
            events = cluster.stream({"model": "tiny", "prompt": PROMPTS[0], "max_tokens": 1500, "temperature": 0,
                                     "ignore_eos": True})
            next(events)
            cluster.processes["decode-0"].signal(signal.SIGKILL)
            start = time.monotonic()
            rest = list(events)
            self.assertEqual(rest[-1], "[DONE]")
            self.assertIn("error", rest[-2])
            self.assertLess(time.monotonic() - start, 8)  # 5 s promised, and a busy machine
            self.assertEqual(cluster.request("GET", "/health")[0], 200)

    def test_flipped_byte_is_caught_and_replayed(self):
        env = {"prefill-0": {"PENSTOCK_FAULT": "kv.flip_byte:flip"}}
        with Cluster(self.model, prefill=1, decode=1, node_env=env) as cluster:
            ids, error = cluster.stream_ids(PROMPTS[2], TOKENS)
            self.assertIsNone(error, cluster.logs())
            self.assertEqual(ids, self.expected[2])
            self.assertIn("digest", cluster.processes["decode-0"].tail(60))
            cluster.wait_pools_at_rest()


def add_cases(who, actions):
    for action in actions:
        for step in PREFILL_STEPS if who in ("prefill", "router") else DECODE_STEPS:
            if who == "router":
                def case(self, step=step, action=action):
                    self.router_fault(step, action)
            else:
                def case(self, step=step, action=action):
                    self.node_fault(f"{who}-0", step, action)
            setattr(Faults, f"test_{who}_{action}_at_{step.replace('.', '_')}", case)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    who = arguments[0] if arguments else "prefill"
    add_cases(who, arguments[1:2] or ["kill", "stop"])
    if who != "prefill":  # these two run once, with the first group
        del Faults.test_last_pair_gone_gives_an_error_event_in_time
        del Faults.test_flipped_byte_is_caught_and_replayed
    unittest.main(argv=[sys.argv[0]], verbosity=2)
