"""One cluster of real processes: what a client gets, split and colocated, alone and in company."""

import http.client
import json
import signal
import socket
import tempfile
import threading
import time
import unittest

import tiny_model
from cluster import Cluster


def prompt_of(seed, length):
    return [4 + (seed * 7919 + i * 104729) % 256 for i in range(length)]


REQUESTS = [  # (prompt length, tokens, sampling)
    (1, 20, {}), (5, 40, {}), (63, 30, {}), (64, 30, {}), (65, 30, {}), (200, 50, {}), (500, 20, {}),
    (30, 40, {"temperature": 1.0, "seed": 7}), (100, 40, {"temperature": 0.8, "top_p": 0.9, "seed": 8}),
    (150, 40, {"temperature": 1.2, "top_k": 20, "min_p": 0.02, "seed": 9}),
]


def run_all(cluster, together):
    """Token ids of all REQUESTS, one after the other or all at once."""
    results = [None] * len(REQUESTS)

    def run(i):
        length, tokens, sampling = REQUESTS[i]
        results[i] = cluster.complete(prompt_of(i, length), tokens, **sampling)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(REQUESTS))]
    for thread in threads:
        thread.start()
        if not together:
            thread.join()
    for thread in threads:
        thread.join()
    return results


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="penstock-model-")
        cls.model = tiny_model.make(cls.directory.name)
        cls.cluster = Cluster(cls.model, prefill=2, decode=2)
        cls.cluster.__enter__()
        cls.alone = run_all(cls.cluster, together=False)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)
        cls.directory.cleanup()

    def test_every_answer_has_its_length(self):
        for (_, tokens, _), ids in zip(REQUESTS, self.alone):
            self.assertEqual(len(ids), tokens)

    def test_company_changes_nothing(self):
        self.assertEqual(run_all(self.cluster, together=True), self.alone)

    def test_colocated_equals_split(self):
        with Cluster(self.model, prefill=1, decode=1, disaggregate="never") as colocated:
            self.assertEqual(run_all(colocated, together=False), self.alone)
            self.assertEqual(run_all(colocated, together=True), self.alone)
            self.assertEqual(colocated.status()["handoffs"], [])

    def test_streaming_equals_whole(self):
        for i, (length, tokens, sampling) in enumerate(REQUESTS):
            ids, error = self.cluster.stream_ids(prompt_of(i, length), tokens, **sampling)
            self.assertIsNone(error)
            self.assertEqual(ids, self.alone[i])

    # Pools of 20 blocks for eight requests of up to 10: some must be preempted, refused and tried again.
    def test_small_pools_change_nothing(self):
        block_bytes = 4 * 2 * 2 * 64 * 16 * 2
        mb = max(1, 20 * block_bytes // 2**20)
        with Cluster(self.model, prefill=1, decode=1, settings={"engine": {"kv_pool_mb": mb}}) as small:
            self.assertEqual(run_all(small, together=True), self.alone)
            small.wait_pools_at_rest()

    def test_handoffs_are_reported(self):
        self.cluster.complete(prompt_of(99, 300), 2)
        done = [h for h in self.cluster.status()["handoffs"] if h["done"]]
        self.assertTrue(done)
        # 4 layers, K and V, 2 heads of 16, bf16, whole blocks of 64 tokens.
        self.assertEqual(done[0]["bytes"], 4 * 2 * 2 * 16 * 2 * 64 * 5)

    def test_pools_are_at_rest_when_idle(self):
        run_all(self.cluster, together=True)
        self.cluster.wait_pools_at_rest()

    def test_disconnect_frees_both_sides(self):
        body = json.dumps({"model": "tiny", "prompt": prompt_of(3, 200), "max_tokens": 1500, "stream": True,
                           "temperature": 0, "ignore_eos": True})
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.public, timeout=30)
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read(200)
        # shutdown reaches the server at once; close alone waits for the response object.
        connection.sock.shutdown(socket.SHUT_RDWR) if connection.sock else None
        response.close()
        connection.close()
        self.cluster.wait_pools_at_rest(seconds=10)

    def test_router_drains_on_sigterm(self):
        with Cluster(self.model) as cluster:
            events = cluster.stream({"model": "tiny", "prompt": prompt_of(1, 20), "max_tokens": 400,
                                     "temperature": 0, "ignore_eos": True, "return_token_ids": True})
            first = next(events)
            cluster.processes["router"].signal(signal.SIGTERM)
            count = sum(len(c.get("token_ids") or []) for e in [first, *events] if e != "[DONE]" and "choices" in e
                        for c in e["choices"])
            self.assertEqual(count, 400)
            self.assertEqual(cluster.processes["router"].popen.wait(timeout=30), 0)

    def test_node_drains_on_sigterm(self):
        with Cluster(self.model, prefill=1, decode=2) as cluster:
            cluster.processes["decode-0"].signal(signal.SIGTERM)
            self.assertEqual(cluster.processes["decode-0"].popen.wait(timeout=30), 0)
            self.assertEqual(len(cluster.complete(prompt_of(1, 30), 10)), 10)

    def test_incompatible_node_is_refused_with_the_reason(self):
        strangers = [({"num_hidden_layers": 3}, [], "layers"),
                     ({"seed": 2}, [], "weight_version"),
                     ({"rope_theta": 5000.0}, [], "weight_version"),
                     ({}, ["--set", "model.dtype=f32"], "weight_version")]
        with Cluster(self.model, prefill=1, decode=1) as cluster:
            stranger = cluster.processes["decode-0"]
            stranger.end()
            cluster.wait("the loss", lambda: len(cluster.status()["nodes"]) == 1)
            arguments = stranger.arguments
            for shape, flags, reason in strangers:
                with tempfile.TemporaryDirectory() as folder:
                    other = tiny_model.make(folder, **shape)
                    stranger.arguments = [*arguments, "--set", f"model.path={other}", *flags]
                    stranger.start()
                    self.assertEqual(stranger.popen.wait(timeout=30), 1)
                    log = stranger.tail(1)
                    self.assertIn("refused", log)
                    self.assertIn(reason, log)

    # Nodes that outlive a router remember its transfers; the next router's must not be taken for them.
    def test_a_new_router_is_served_at_once(self):
        with Cluster(self.model) as cluster:
            expected = [cluster.complete(prompt_of(i, 100), 4) for i in range(20)]
            router = cluster.processes["router"]
            router.end()
            router.start()
            cluster.wait_ready()
            self.assertEqual([cluster.complete(prompt_of(i, 100), 4) for i in range(20)], expected)
            log = cluster.processes["router"].log.read_text()
            self.assertNotIn("sequence failed", log)
            self.assertNotIn("replay", log)

    def test_two_nodes_of_one_name_do_not_fight(self):
        with Cluster(self.model) as cluster:
            first = cluster.processes["decode-0"]
            second = cluster.process("decode-0", first.arguments, {})
            second.log = cluster.root / "second.log"
            second.start()
            try:
                self.assertEqual(first.popen.wait(timeout=30), 1)
                self.assertIn("give every node a name of its own", first.tail())
                cluster.wait("the second node's pair", lambda: cluster.pairs() == 1)
                for i in range(5):
                    self.assertEqual(len(cluster.complete(prompt_of(i, 100), 4)), 4)
                self.assertEqual(second.log.read_text().count("registered node="), 1)
            finally:
                second.end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
