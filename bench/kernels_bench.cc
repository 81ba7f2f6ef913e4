// Speed of the CPU kernels on the shapes of SmolLM2-135M, beside the machine's limits.
//
//   kernels_bench [--isa NAME] [--threads N] [--rows M] [--dtype bf16|f32] [--shapes] [--attention] [--busy]
//   [--seconds S]
//
// Without a choice: the whole model's matrix products in sequence, at 1 and 2 threads. Times are medians.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "bench/read_bandwidth.h"
#include "kernels/device.h"
#include "kernels/kv_append.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"

namespace penstock::bench {
namespace {

struct Options {
  std::vector<int> threads = {1, 2};
  std::optional<Isa> isa;
  DType dtype = DType::kBf16;
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 32, 64, 512};
  bool shapes = false, attention = false, busy = false;
  double seconds = 1.0;  // per figure
};

struct Shape {
  const char* name;
  int64_t n, k;
  bool from_ffn;  // its input is the [rows, ffn] matrix
};
constexpr int kLayers = 30;
constexpr int64_t kHidden = 576, kFfn = 1536, kVocab = 49152, kHeads = 9, kKvHeads = 3, kHeadDim = 64;
constexpr Shape kLayerShapes[] = {{"qkv", 960, kHidden, false},
                                  {"o", kHidden, kHidden, false},
                                  {"gate_up", 2 * kFfn, kHidden, false},
                                  {"down", kHidden, kFfn, true}};
constexpr Shape kLmHead = {"lm_head", kVocab, kHidden, false};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one call: the median over as many as fit in `budget`, three at least.
double median_seconds(double budget, const std::function<void()>& call) {
  call();
  std::vector<double> times;
  const double end = now() + budget;
  while (times.size() < 3 || now() < end) {
    const double start = now();
    call();
    times.push_back(now() - start);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

// All weights of the model, random and distinct, as they lie in memory when it serves.
class Weights {
 public:
  Weights(Device& device, DType dtype, Isa isa) {
    int64_t bytes = 0;
    const auto size = [&](const Shape& s) {
      return (PackedMatrix::packed_bytes(s.n, s.k, dtype, isa) + 63) / 64 * 64;
    };
    for (const Shape& s : kLayerShapes) bytes += kLayers * size(s);
    buffer_ = device.allocate(bytes + size(kLmHead)).value();
    char* at = buffer_.as<char>();
    const auto place = [&](const Shape& s) {
      PackedMatrix packed(at, s.n, s.k, dtype, isa);
      fill(packed);
      at += size(s);
      flops_per_row += 2.0 * static_cast<double>(s.n * s.k);
      return packed;
    };
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Shape& s : kLayerShapes) layers.push_back(place(s));
    }
    head = place(kLmHead);
  }
  const void* data() const { return buffer_.data(); }
  int64_t bytes() const { return buffer_.bytes(); }

  std::vector<PackedMatrix> layers;
  PackedMatrix head;
  double flops_per_row = 0;

 private:
  void fill(PackedMatrix& packed) {
    std::vector<float> row(static_cast<size_t>(packed.k()));
    for (float& value : row) value = static_cast<float>(rng_.uniform() - 0.5);
    for (int64_t r = 0; r < packed.n(); ++r)
      packed.pack_rows(r, {row.data(), DType::kF32, 1, packed.k(), packed.k()});
  }
  DeviceBuffer buffer_;
  Rng rng_{1};
};

struct Activations {
  explicit Activations(int64_t rows_max)
      : x(rows_max * kFfn, 0.01F),
        y(rows_max * 2 * kFfn),
        residual(rows_max * kHidden),
        logits(16 * kVocab) {}
  std::vector<float> x, y, residual, logits;
};

// Every matrix product of one forward pass; the head only on the rows that want logits, as in serving.
void forward_products(Stream& stream, const Weights& weights, Activations& a, int64_t rows) {
  size_t i = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const Shape& s : kLayerShapes) {
      const bool to_residual = s.n == kHidden;
      matmul(stream, {a.x.data(), rows, s.k}, weights.layers[i++],
             {to_residual ? a.residual.data() : a.y.data(), rows, s.n},
             to_residual ? Accumulate::kAdd : Accumulate::kOverwrite);
    }
  }
  const int64_t logit_rows = rows <= 16 ? rows : 1;
  matmul(stream, {a.x.data(), logit_rows, kHidden}, weights.head, {a.logits.data(), logit_rows, kVocab});
}

void bench_model(const Options& options, Device& device, Isa isa) {
  const Weights weights(device, options.dtype, isa);
  Activations activations(512);
  std::printf("matrix products of the whole model, %s weights, %.1f MB, isa %s\n",
              std::string(dtype_name(options.dtype)).c_str(), static_cast<double>(weights.bytes()) * 1e-6,
              std::string(isa_name(isa)).c_str());
  for (const int threads : options.threads) {
    auto stream = device.make_stream({.threads = threads, .isa = isa}).value();
    const double read = read_bandwidth_gbps(stream->threads(), isa, weights.data(), weights.bytes(), 8);
    std::printf("threads %d: read %.1f GB/s\n", threads, read);
    int64_t solo = 0;
    for (const int64_t rows : options.rows) {
      const double seconds =
          median_seconds(options.seconds, [&] { forward_products(*stream, weights, activations, rows); });
      const double logit_rows = static_cast<double>(rows <= 16 ? rows : 1);
      const double flops = (weights.flops_per_row - 2.0 * kVocab * kHidden) * static_cast<double>(rows) +
                           2.0 * kVocab * kHidden * logit_rows;
      std::printf(
          "  M %3ld  %8.1f tokens/s  %7.1f GFLOP/s  %5.1f GB/s of weights (%3.0f %% of read), solo %ld\n",
          rows, static_cast<double>(rows) / seconds, flops / seconds * 1e-9,
          static_cast<double>(weights.bytes()) / seconds * 1e-9,
          static_cast<double>(weights.bytes()) / seconds * 1e-7 / read,
          stream->threads().solo_regions() - solo);
      solo = stream->threads().solo_regions();
    }
  }
}

void bench_shapes(const Options& options, Device& device, Isa isa) {
  const Weights weights(device, options.dtype, isa);
  Activations a(512);
  std::printf("single products (weights of all layers in turn), isa %s\n",
              std::string(isa_name(isa)).c_str());
  for (const int threads : options.threads) {
    auto stream = device.make_stream({.threads = threads, .isa = isa}).value();
    for (size_t s = 0; s < 4; ++s) {
      for (const int64_t rows : {1, 4, 16, 64, 512}) {
        const Shape& shape = kLayerShapes[s];
        const double seconds = median_seconds(options.seconds / 4, [&] {
          for (size_t layer = 0; layer < kLayers; ++layer) {
            matmul(*stream, {a.x.data(), rows, shape.k}, weights.layers[layer * 4 + s],
                   {a.y.data(), rows, shape.n});
          }
        });
        const double work = static_cast<double>(shape.n * shape.k) * kLayers;
        std::printf("  threads %d  %-8s M %3ld  %7.1f GFLOP/s  %5.1f GB/s\n", threads, shape.name, rows,
                    2 * work * static_cast<double>(rows) / seconds * 1e-9,
                    work * static_cast<double>(dtype_bytes(options.dtype)) / seconds * 1e-9);
      }
    }
  }
}

void bench_attention(const Options& options, Device& device, Isa isa) {
  const KvLayerView shape{nullptr, nullptr, DType::kBf16, 2048, 64, kKvHeads, kHeadDim};
  const int64_t bytes = shape.blocks * shape.block_elements() * 2;
  DeviceBuffer k = device.allocate(bytes).value(), v = device.allocate(bytes).value();
  KvLayerView cache = shape;
  cache.k = k.data();
  cache.v = v.data();
  std::vector<uint32_t> table(static_cast<size_t>(shape.blocks));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint32_t>((i * 37) % table.size());
  std::vector<float> q(512 * kHeads * kHeadDim, 0.1F), out(q.size());
  std::printf("attention, %ld heads, %ld KV heads, head_dim %ld, bf16 cache, isa %s\n", kHeads, kKvHeads,
              kHeadDim, std::string(isa_name(isa)).c_str());
  for (const int threads : options.threads) {
    auto stream = device.make_stream({.threads = threads, .isa = isa}).value();
    const auto run = [&](const char* name, const std::vector<SequenceSlice>& slices) {
      int64_t rows = 0, pairs = 0, keys = 0;
      for (const SequenceSlice& s : slices) {
        rows = std::max(rows, s.first_row + s.rows);
        for (int64_t i = 0; i < s.rows; ++i) pairs += s.first_position + i + 1;
        keys += s.first_position + s.rows;
      }
      const double seconds = median_seconds(options.seconds / 2, [&] {
        paged_attention(*stream, {q.data(), rows, kHeads * kHeadDim}, cache, slices, 0.125F,
                        {out.data(), rows, kHeads * kHeadDim});
      });
      std::printf("  threads %d  %-26s %9.1f us  %6.1f GFLOP/s  %5.1f GB/s of KV\n", threads, name,
                  seconds * 1e6, 4.0 * static_cast<double>(pairs * kHeads * kHeadDim) / seconds * 1e-9,
                  4.0 * static_cast<double>(keys * kKvHeads * kHeadDim) / seconds * 1e-9);
    };
    run("prefill 512", {{0, 512, 0, table}});
    run("prefill 512 after 1536", {{0, 512, 1536, table}});
    run("decode, context 512", {{0, 1, 511, table}});
    run("decode, context 4096", {{0, 1, 4095, table}});
    run("decode, context 65536", {{0, 1, 65535, table}});
    std::vector<SequenceSlice> batch;
    for (int64_t s = 0; s < 16; ++s)
      batch.push_back({s, 1, 511, std::span(table).subspan(static_cast<size_t>(s) * 8)});
    run("decode, 16 x context 512", batch);
  }
}

// A process that computes and never sleeps.
class BusyProcess {
 public:
  BusyProcess() : pid_(fork()) {
    if (pid_ == 0) {
      while (true) now();
    }
  }
  ~BusyProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  pid_t pid_;
};

void bench_busy(const Options& options, Device& device, Isa isa) {
  const Weights weights(device, options.dtype, isa);
  Activations a(512);
  std::printf("beside one busy process, isa %s\n", std::string(isa_name(isa)).c_str());
  for (const int64_t rows : {1, 16, 512}) {
    const auto speed = [&](int threads) {
      auto stream = device.make_stream({.threads = threads, .isa = isa}).value();
      return static_cast<double>(rows) /
             median_seconds(2 * options.seconds, [&] { forward_products(*stream, weights, a, rows); });
    };
    const double one = speed(1), two = speed(2);
    const BusyProcess busy;
    const double one_busy = speed(1), two_busy = speed(2);
    std::printf(
        "  M %3ld  quiet: 1 thread %.1f, 2 threads %.1f tokens/s; busy: 1 thread %.1f, 2 threads %.1f "
        "(%.0f %% of 1 thread quiet)\n",
        rows, one, two, one_busy, two_busy, 100 * two_busy / one);
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (flag == "--isa") {
      options.isa = parse_isa(value());
    } else if (flag == "--threads") {
      options.threads = {std::atoi(value().c_str())};
    } else if (flag == "--dtype") {
      options.dtype = parse_dtype(value()).value_or(DType::kBf16);
    } else if (flag == "--rows") {
      options.rows = {std::atoi(value().c_str())};
    } else if (flag == "--seconds") {
      options.seconds = std::atof(value().c_str());
    } else if (flag == "--shapes") {
      options.shapes = true;
    } else if (flag == "--attention") {
      options.attention = true;
    } else if (flag == "--busy") {
      options.busy = true;
    } else {
      std::fprintf(stderr, "kernels_bench: unknown flag %s; see the head of bench/kernels_bench.cc\n",
                   flag.c_str());
      std::exit(2);
    }
  }
  return options;
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const Result<Isa> isa = choose_isa(options.isa);
  if (!isa.ok()) {
    std::fprintf(stderr, "kernels_bench: %s\n", isa.message().c_str());
    return 2;
  }
  const auto device = make_cpu_device();
  if (options.shapes) bench_shapes(options, *device, *isa);
  if (options.attention) bench_attention(options, *device, *isa);
  if (options.busy) bench_busy(options, *device, *isa);
  if (!options.shapes && !options.attention && !options.busy) bench_model(options, *device, *isa);
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) { return penstock::bench::run(argc, argv); }
