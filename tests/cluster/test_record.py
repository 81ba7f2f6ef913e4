"""The bridge of DESIGN 2: a real router's record, replayed by `penstock simulate --replay`, gives the same actions."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import tiny_model
from cluster import BINARY, Cluster


def prompt_of(seed, length):
    return [4 + (seed * 7919 + i * 104729) % 256 for i in range(length)]


def replay(record):
    """(exit code, what it said) of a replay."""
    done = subprocess.run([BINARY, "simulate", "--replay", str(record)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


class Record(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="penstock-record-")
        cls.model = tiny_model.make(Path(cls.directory.name) / "model")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def recorded(self, name, **shape):
        """A cluster whose router records, and the record's path."""
        record = Path(self.directory.name) / name
        cluster = Cluster(self.model, **shape)
        cluster.processes["router"].arguments += ["--record", str(record)]
        return cluster, record

    def leave_in_the_middle(self, cluster, seed):
        """A client that reads some of a long stream, if anything, and goes."""
        body = json.dumps({"model": "tiny", "prompt": prompt_of(seed, 100 + 10 * seed), "max_tokens": 1000,
                           "stream": True, "ignore_eos": True})
        connection = http.client.HTTPConnection("127.0.0.1", cluster.public, timeout=30)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            if seed % 2:
                connection.getresponse().read(300)
            connection.sock.shutdown(socket.SHUT_RDWR)

    def storm(self, cluster, requests):
        def run(i):
            if i % 3 == 0:
                self.leave_in_the_middle(cluster, i)
            elif i % 3 == 1:
                with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
                    cluster.stream_ids(prompt_of(i, 20 * i + 1), 60)
            else:
                body = {"model": "tiny", "prompt": prompt_of(i, 30), "max_tokens": 30, "n": 2}
                with contextlib.suppress(OSError, http.client.HTTPException):
                    cluster.request("POST", "/v1/completions", body)
        threads = [threading.Thread(target=run, args=(i,)) for i in range(requests)]
        for thread in threads:
            thread.start()
        return threads

    def test_a_stopped_routers_record_replays(self):
        cluster, record = self.recorded("stopped", prefill=2, decode=2)
        with cluster:
            threads = self.storm(cluster, 18)
            cluster.wait("tokens", lambda: record.stat().st_size > 10000)
            cluster.processes["decode-0"].signal(signal.SIGKILL)  # its sequences start again elsewhere
            for thread in threads:
                thread.join()
            for thread in self.storm(cluster, 9):
                thread.join()
            cluster.processes["router"].signal(signal.SIGTERM)
            self.assertEqual(cluster.processes["router"].popen.wait(timeout=60), 0)
            log = cluster.processes["router"].tail(5)
        code, said = replay(record)
        self.assertEqual(code, 0, said)
        self.assertIn("with the recorded actions", said)
        self.assertIn(said.split("action hash ")[1].strip(), log, "the hash that the router itself had")
        data = bytearray(record.read_bytes())
        data[len(data) // 2] ^= 1
        record.write_bytes(data)
        code, said = replay(record)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"at byte \d+")

    def test_a_killed_routers_record_replays_up_to_the_kill(self):
        cluster, record = self.recorded("killed")
        with cluster:
            threads = self.storm(cluster, 9)
            cluster.wait("tokens", lambda: record.stat().st_size > 10000)
            cluster.processes["router"].signal(signal.SIGKILL)
            cluster.processes["router"].popen.wait()
            first = record.read_bytes()
            cluster.processes["router"].start()  # must not destroy what the last one left
            cluster.wait_ready()
            for thread in threads:
                thread.join()
            self.assertEqual(Path(str(record) + ".previous").read_bytes(), first)
        code, said = replay(str(record) + ".previous")
        if code != 0:  # the kill cut a write in two
            self.assertRegex(said, r"truncated event at byte \d+; the first \d+ events cause the recorded actions")


if __name__ == "__main__":
    unittest.main(verbosity=2)
