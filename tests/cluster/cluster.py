"""Starts a real cluster of processes on loopback for one test, talks to it, and takes it down again.

Standard library only. Every process started here is ended here, by pid, whatever the test does.
"""

import contextlib
import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

BINARY = os.environ.get("PENSTOCK_BINARY", "penstock")
PR_SET_PDEATHSIG = 1


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """One penstock process with its log."""

    def __init__(self, name, arguments, log, env):
        self.name, self.arguments, self.log, self.env = name, arguments, log, env
        self.popen = None

    def start(self):
        with open(self.log, "ab") as out:
            self.popen = subprocess.Popen([BINARY, *self.arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                          env={**os.environ, **self.env}, preexec_fn=die_with_parent)

    def alive(self):
        return self.popen is not None and self.popen.poll() is None

    def signal(self, number):
        if self.alive():
            self.popen.send_signal(number)

    def stopped(self):
        try:
            return Path(f"/proc/{self.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
        except OSError:
            return False

    def end(self):
        if self.alive():
            self.popen.send_signal(signal.SIGCONT)
            self.popen.kill()
        if self.popen is not None:
            self.popen.wait()

    def tail(self, lines=15):
        text = Path(self.log).read_text(errors="replace").splitlines()[-lines:]
        return f"--- {self.name}\n" + "\n".join(text)


class Cluster:
    """`prefill` and `decode` nodes behind one router. Use as a context manager."""

    def __init__(self, model, prefill=1, decode=1, disaggregate="always", node_env=None, settings=None):
        self.directory = tempfile.TemporaryDirectory(prefix="penstock-test-")
        self.root = Path(self.directory.name)
        self.public, self.control, self.admin = free_port(), free_port(), free_port()
        self.node_names = [f"prefill-{i}" for i in range(prefill)] + [f"decode-{i}" for i in range(decode)]
        self.config = self.root / "cluster.toml"
        self.config.write_text(self.toml(model, disaggregate, settings or {}))
        node_env = node_env or {}
        self.processes = {"router": self.process("router", ["router", "-c", str(self.config)], node_env)}
        for name in self.node_names:
            role = name.split("-")[0]
            arguments = ["node", "-c", str(self.config), "--name", name, "--role", role]
            self.processes[name] = self.process(name, arguments, node_env)

    def process(self, name, arguments, env):
        return Process(name, arguments, self.root / f"{name}.log", env.get(name, {}))

    def toml(self, model, disaggregate, settings):
        sections = {
            "cluster": {"name": "test", "disaggregate": disaggregate},
            "model": {"path": str(model), "name": "tiny"},
            "router": {"listen": f"127.0.0.1:{self.public}", "control": f"127.0.0.1:{self.control}",
                       "admin": f"127.0.0.1:{self.admin}"},
            "engine": {"threads": 1, "kv_pool_mb": 8, "batch_tokens_max": 128, "sequences_max": 32},
            "heartbeat": {"period_ms": 100, "dead_after_ms": 1500},
            "log": {"level": "info"},
        }
        for section, values in settings.items():
            sections.setdefault(section, {}).update(values)
        text = ""
        for section, values in sections.items():
            text += f"[{section}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items())
        for name in self.node_names:
            text += f'[[node]]\nname = "{name}"\nrole = "{name.split("-")[0]}"\n'
        return text

    def __enter__(self):
        try:
            for process in self.processes.values():
                process.start()
            self.wait_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            print(self.logs())
        for process in self.processes.values():
            process.end()
        self.directory.cleanup()

    def logs(self):
        return "\n".join(p.tail(40) for p in self.processes.values())

    # ---- Talking to it ----

    def request(self, method, path, body=None, port=None, headers=None, timeout=60):
        """(status, headers, bytes) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.public, timeout=timeout)
        with contextlib.closing(connection):
            data = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()

    def complete(self, prompt, tokens, **fields):
        """Token ids of a completion that must succeed."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                "return_token_ids": True, **fields}
        status, _, data = self.request("POST", "/v1/completions", body)
        assert status == 200, (status, data)
        return json.loads(data)["choices"][0]["token_ids"]

    def stream(self, body, path="/v1/completions"):
        """Yields the parsed events of a streamed answer; '[DONE]' comes as that string."""
        connection = http.client.HTTPConnection("127.0.0.1", self.public, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps({**body, "stream": True}),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            for line in response:
                line = line.strip()
                if line.startswith(b"data: "):
                    data = line[6:].decode()
                    yield data if data == "[DONE]" else json.loads(data)

    def stream_ids(self, prompt, tokens, **fields):
        """(token ids, error event or None) of a streamed completion that must end with [DONE]."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                "return_token_ids": True, **fields}
        ids, error, done = [], None, False
        for event in self.stream(body):
            if event == "[DONE]":
                done = True
            elif "error" in event:
                error = event["error"]
            else:
                for choice in event["choices"]:
                    ids += choice.get("token_ids") or []
        assert done, "the stream ended without [DONE]"
        return ids, error

    def status(self):
        code, _, data = self.request("GET", "/admin/status", port=self.admin, timeout=5)
        assert code == 200, (code, data)
        return json.loads(data)

    # ---- Waiting ----

    def wait(self, what, condition, seconds=30):
        """Until condition() is true; a failure says what was waited for and shows the logs."""
        deadline = time.monotonic() + seconds
        last = None
        while time.monotonic() < deadline:
            try:
                last = condition()
                if last:
                    return last
            except (OSError, AssertionError, http.client.HTTPException) as error:
                last = error
            time.sleep(0.05)
        raise AssertionError(f"{what} did not come within {seconds} s (last: {last!r})\n{self.logs()}")

    def wait_ready(self):
        def ready():
            for process in self.processes.values():
                if not process.alive():
                    raise RuntimeError(f"{process.name} exited with {process.popen.returncode}\n{process.tail()}")
            return self.request("GET", "/ready", timeout=5)[0] == 200 and self.pairs() == self.pairs_wanted()
        self.wait("a ready cluster", ready, 60)

    def pairs_wanted(self):
        return (sum(n.startswith("prefill") for n in self.node_names)
                * sum(n.startswith("decode") for n in self.node_names))

    def pairs(self):
        return len(self.status()["pairs"])

    def wait_pools_at_rest(self, names=None, seconds=30):
        """Until every (named) node's pool is whole again: nothing held, leased or quarantined."""
        def at_rest():
            nodes = {n["name"]: n for n in self.status()["nodes"]}
            wanted = [nodes.get(name) for name in names or self.node_names]
            return all(n and n["state"] == "ready" and n["kv_blocks_total"] > 0 and n["kv_blocks_used"] == 0
                       for n in wanted)
        self.wait("pools at the baseline", at_rest, seconds)
