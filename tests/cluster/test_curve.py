"""CURVE between real processes: the cluster's keys serve, others are refused with words that say what to do."""

import tempfile
import unittest
from pathlib import Path

import tiny_model
from cluster import Cluster

# Pairs from ZeroMQ's manual (zmq_curve).
ROUTER = ("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6")
NODE = ("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs")


class Curve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="penstock-curve-")
        cls.root = Path(cls.directory.name)
        cls.model = tiny_model.make(cls.root / "model")
        cls.router_file, cls.node_file = cls.key_file("router", ROUTER), cls.key_file("node", NODE)
        cls.settings = {"curve": {"router_public_key": ROUTER[0], "router_secret_key_file": str(cls.router_file),
                                  "node_public_key": NODE[0], "node_secret_key_file": str(cls.node_file)}}

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def key_file(cls, name, pair, mode=0o600):
        path = cls.root / name
        path.write_text(pair[1] + "\n")
        path.chmod(mode)
        return path

    def restarted(self, cluster, name, sets, words, logs):
        """Process `name` again with other settings; all of `words` must come up in the logs of `logs`."""
        process = cluster.processes[name]
        process.end()
        for setting in sets:
            process.arguments += ["--set", setting]
        process.start()
        cluster.wait(f"{words} in the log of {logs}",
                     lambda: all(any(word in cluster.processes[log].tail(60) for log in logs) for word in words))
        return process

    def test_the_clusters_keys_serve_and_others_are_refused(self):
        with Cluster(self.model, settings=self.settings) as cluster:
            self.assertEqual(len(cluster.complete([5, 6, 7], 20)), 20)
            self.assertTrue(cluster.status()["handoffs"], "the peers' sockets have worked too")
            stranger = self.restarted(cluster, "decode-0", [
                f"curve.node_public_key={ROUTER[0]}", f"curve.node_secret_key_file={self.router_file}"],
                ["our CURVE key is refused there", "is not [curve] node_public_key"], ["decode-0", "router"])
            self.assertTrue(stranger.alive(), "it dials on, in case the router is set right")
            self.assertEqual(len(cluster.status()["nodes"]), 1)

    def test_a_node_without_keys_is_refused(self):
        with Cluster(self.model, settings=self.settings) as cluster:
            none = [f"curve.{key}=" for key in self.settings["curve"]]
            self.restarted(cluster, "prefill-0", none,
                           ["CURVE is on there and off here", "node connection refused"],
                           ["prefill-0", "router"])

    def test_a_secret_key_that_others_can_read_stops_the_start(self):
        with Cluster(self.model, settings=self.settings) as cluster:
            open_file = self.key_file("open", NODE, 0o644)
            for name, key in (("decode-0", "node"), ("router", "router")):
                process = cluster.processes[name]
                process.end()
                process.arguments += ["--set", f"curve.{key}_secret_key_file={open_file}"]
                process.start()
                self.assertEqual(process.popen.wait(timeout=30), 1)
                self.assertIn(f"{open_file} is open to every user", process.tail())


if __name__ == "__main__":
    unittest.main(verbosity=2)
