"""The rules of the house as data: who may include whom, and which files may name a vendor's headers."""

import re

# DESIGN section 1. A room's room() line may name no more than this; its #includes no more than its room() line.
LEVELS_0_TO_2 = {"base", "topology", "kernels", "fabric", "wire", "text", "scheduler", "kv_transfer", "model"}
LEVELS_0_TO_3 = LEVELS_0_TO_2 | {"engine", "weights"}
MAY_DEPEND_ON = {
    "base": set(),
    "topology": {"base"},
    "kernels": {"base"},
    "wire": {"base"},
    "text": {"base"},
    "fabric": {"base", "kernels"},
    "scheduler": {"base", "topology"},
    "kv_transfer": {"base", "topology", "kernels", "fabric", "wire"},
    "model": {"base", "topology", "kernels", "fabric"},
    "engine": {"base", "topology", "kernels", "fabric", "scheduler", "model"},
    "weights": LEVELS_0_TO_2,
    "node": LEVELS_0_TO_3,
    "router": {"base", "topology", "wire", "scheduler", "text"},
    "trainer": LEVELS_0_TO_2 | {"weights"},
    "sim": {"base", "topology", "scheduler"},
    "prefill_node": LEVELS_0_TO_3 | {"node"},
    "decode_node": LEVELS_0_TO_3 | {"node"},
}
ROOMS = set(MAY_DEPEND_ON) | {"cli", "bench"}
MAY_DEPEND_ON["bench"] = ROOMS - {"cli", "bench"}  # what `penstock bench` runs
MAY_DEPEND_ON["cli"] = ROOMS - {"cli"}
# Folders of C++ that are no rooms: their files may include any room.
OTHER_FOLDERS = {"tests"}

# Where a vendor's headers may appear: (header, file). Files of tests/ may include what they test against.
VENDORS = [
    (r"cuda|cublas|nvtx", r"_cuda(_\w+)?\.(cc|cu|h|cuh)$|^kernels/emulator/"),
    (r"nccl", r"_nccl\.(cc|cu|h)$"),
    (r"uc[pst]/", r"_ucx\.(cc|h)$"),
    (r"zmq", r"_zmq\.(cc|h)$"),
    (r"immintrin|x86intrin|cpuid", r"^kernels/|^bench/"),
    (r"spdlog/", r"^base/log\.cc$"),
    (r"flatbuffers/", r"^(wire|kv_transfer)/"),
    (r"toml\+\+/", r"^topology/"),
    (r"CLI/", r"^(cli|bench)/"),
    (r"boost/|openssl/", r"^router/"),
    (r"pcre2", r"^text/\w+_pcre2\.(cc|h)$"),
    (r"simdjson", r"^(text|router|model)/"),
    (r"nlohmann/", r"^(text|router|model|cli|bench|sim)/"),
    (r"xxhash", r"^(base|kv_transfer|weights|model|sim|bench|cli)/"),
    (r"prometheus/", r"^(router|node|trainer)/"),
    (r"benchmark/", r"^bench/"),
    (r"gtest/|gmock/", r"^tests/"),
]
VENDORS = [(re.compile(header), re.compile(file)) for header, file in VENDORS]

# scheduler/ is pure (DESIGN section 2).
IMPURE_HEADER = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|atomic|future|chrono|fstream|iostream|random|ctime|"
    r"time\.h|unistd\.h|sys/.*|netinet/.*|base/(log|fd|counters)\.h)$")
IMPURE_WORD = re.compile(r"\b(SystemClock|steady_clock|system_clock|std::rand|getenv)\b")

# Logging belongs to drivers and mains (DESIGN section 10.7).
ROOMS_WITHOUT_LOG = {"topology", "kernels", "wire", "text", "scheduler", "model", "sim"}

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
KERNEL_FILE_LINES_MAX = 800
GOLDEN_BYTES_MAX = 12 << 20

SOURCE_NAME = re.compile(r"^[a-z0-9]+(_[a-z0-9]+)*\.(cc|h|cu|cuh|py|sh|inc|fbs)$")
SCRIPT_NAMES = {"penstock.sh"}
TYPE_NAME = re.compile(r"^[A-Z][A-Za-z0-9]*$")
GENERATED_NAME = re.compile(r"_generated\.h$|\.pb\.(h|cc)$|\.(o|a|so|pyc|orig|rej)$")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|GTEST_SKIP|\bDISABLED_")
MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_.])/(work|root)/|\.\./shared")
