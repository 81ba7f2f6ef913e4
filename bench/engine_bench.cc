#include "bench/engine_bench.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "bench/read_bandwidth.h"
#include "engine/engine.h"
#include "engine/model_runner.h"

namespace penstock::bench {
namespace {

using scheduler::SequenceKind;

struct Silent final : EngineListener {
  void on_token(const EmittedToken&) override { ++tokens; }
  void on_reserve_due(const scheduler::Slice&, std::span<const BlockId>) override {}
  void on_layer(int32_t, std::span<const scheduler::Slice>) override {}
  void on_handoff_ready(SequenceKey, int32_t, TokenId) override {}
  void on_reserve_granted(SequenceKey, std::span<const BlockId>) override {}
  void on_refused(SequenceKey, scheduler::RefuseReason, const std::string& message) override {
    error = message;
  }
  void on_ended(SequenceKey, EndReason, bool, const std::string& message) override { error += message; }
  void on_freed(SequenceKey) override {}
  void on_step_end() override {}
  int64_t tokens = 0;
  std::string error;
};

// A child that does nothing but use a core, until destroyed.
class BusyProcess {
 public:
  BusyProcess() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    volatile uint64_t n = 0;
    while (true) n = n + 1;
  }
  ~BusyProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  pid_t pid_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// One engine over one loaded model, for one number of threads.
class Subject {
 public:
  static Result<std::unique_ptr<Subject>> make(Device& device, Model& model,
                                               const EngineBenchOptions& options, int threads) {
    auto subject = std::unique_ptr<Subject>(new Subject);
    const KvLayout layout = kv_layout_of(model.config(), 64, options.kv_dtype);
    const int64_t tokens =
        std::max<int64_t>(options.prompt_tokens + 64, options.batch * (options.decode_tokens + 80));
    const int64_t blocks = layout.blocks_for(tokens) + options.batch + 2;
    ASSIGN_OR_RETURN(subject->pool_, device.allocate(layout.pool_bytes(blocks)));
    StreamOptions stream_options;
    stream_options.threads = threads;
    ASSIGN_OR_RETURN(auto stream, device.make_stream(stream_options));
    subject->stream_ = stream.get();
    ASSIGN_OR_RETURN(subject->runner_,
                     ModelRunner::create(device, std::move(stream), model,
                                         {subject->pool_.data(), layout, blocks}, options.batch));
    scheduler::BatchConfig config;
    config.pool_blocks = static_cast<int32_t>(blocks);
    config.batch_tokens_max = std::max(options.prompt_tokens, options.batch);
    config.sequences_max = options.batch;
    subject->engine_ =
        std::make_unique<Engine>(config, *subject->runner_, subject->clock_, subject->listener_);
    return subject;
  }

  ThreadPool& threads() { return stream_->threads(); }
  Isa isa() const { return stream_->isa(); }

  // Tokens a second of one prompt, its first token included.
  double prefill(int tokens) {
    submit(tokens, 1);
    const TimePoint start = clock_.now();
    while (engine_->run_step()) {
    }
    return tokens / (clock_.now() - start).seconds();
  }

  // Tokens a second of `batch` sequences together, once all have their first token.
  double decode(int batch, int tokens) {
    for (int i = 0; i < batch; ++i) submit(16, tokens + 1);
    listener_.tokens = 0;
    while (listener_.tokens < batch) engine_->run_step();
    const int64_t before = listener_.tokens;
    const TimePoint start = clock_.now();
    while (engine_->run_step()) {
    }
    return static_cast<double>(listener_.tokens - before) / (clock_.now() - start).seconds();
  }

  const std::string& error() const { return listener_.error; }

 private:
  void submit(int prompt_tokens, int tokens_max) {
    SubmitSequence submit;
    submit.kind = SequenceKind::kLocal;
    submit.spec.key = {SequenceId(++sequences_), Epoch(1)};
    for (int i = 0; i < prompt_tokens; ++i) submit.spec.tokens.push_back(100 + (i * 37) % 1000);
    submit.spec.prompt_tokens = prompt_tokens;
    submit.spec.tokens_max = tokens_max;
    submit.params.sampling.temperature = 0;
    engine_->handle(submit);
  }

  SystemClock clock_;
  DeviceBuffer pool_;
  Stream* stream_ = nullptr;
  std::unique_ptr<ModelRunner> runner_;
  Silent listener_;
  std::unique_ptr<Engine> engine_;
  uint64_t sequences_ = 0;
};

// What one repetition measures, close together in time: on a shared machine every speed wanders.
struct Samples {
  std::vector<double> prefill, decode_b1, decode_batch, read, read_share, busy_prefill, busy_decode_b1;
};

void measure_once(Subject& subject, const EngineBenchOptions& options, const DeviceBuffer& buffer,
                  Samples& samples) {
  const auto read = [&] {
    return read_bandwidth_gbps(subject.threads(), subject.isa(), buffer.data(), buffer.bytes(), 4);
  };
  const double before = read();
  const double decode_b1 = subject.decode(1, options.decode_tokens);
  const double gbps = (before + read()) / 2;
  samples.decode_b1.push_back(decode_b1);
  samples.read.push_back(gbps);
  samples.read_share.push_back(decode_b1 * static_cast<double>(buffer.bytes()) * 1e-9 / gbps);
  samples.decode_batch.push_back(subject.decode(options.batch, options.decode_tokens));
  samples.prefill.push_back(subject.prefill(options.prompt_tokens));
  if (!options.busy) return;
  const BusyProcess busy;
  samples.busy_decode_b1.push_back(subject.decode(1, options.decode_tokens));
  samples.busy_prefill.push_back(subject.prefill(options.prompt_tokens));
}

EngineBenchRow measure(Subject& subject, const EngineBenchOptions& options, const DeviceBuffer& buffer) {
  Samples warm_up, samples;  // the first touches pages and wakes threads
  measure_once(subject, options, buffer, warm_up);
  for (int i = 0; i < options.repetitions; ++i) measure_once(subject, options, buffer, samples);
  EngineBenchRow row;
  row.prefill_toks = median(samples.prefill);
  row.decode_b1_toks = median(samples.decode_b1);
  row.decode_batch_toks = median(samples.decode_batch);
  row.read_gbps = median(samples.read);
  row.decode_b1_share_of_read = median(samples.read_share);
  if (options.busy) {
    row.decode_b1_busy_toks = median(samples.busy_decode_b1);
    row.prefill_busy_toks = median(samples.busy_prefill);
  }
  return row;
}

}  // namespace

Result<EngineBenchResult> run_engine_bench(const EngineBenchOptions& options) {
  const auto device = make_cpu_device();
  ModelOptions model_options;
  model_options.dtype = options.dtype;
  model_options.rows_max = std::max(options.prompt_tokens, options.batch);
  model_options.logit_rows_max = options.batch;
  model_options.threads = 2;
  ASSIGN_OR_RETURN(const auto model, load_model(options.model, model_options, *device));
  const int64_t element_bytes = options.dtype == DType::kBf16 ? 2 : 4;

  EngineBenchResult result;
  result.cpu = cpu_name();
  const auto& isas = available_isas();
  result.amx = std::find(isas.begin(), isas.end(), Isa::kAmxBf16) != isas.end();
  result.weights_bytes =
      model->weights_bytes() - model->config().vocab_size * model->config().hidden_size * element_bytes;
  ASSIGN_OR_RETURN(const DeviceBuffer buffer, device->allocate(result.weights_bytes));
  for (const int threads : options.threads) {
    ASSIGN_OR_RETURN(const auto subject, Subject::make(*device, *model, options, threads));
    result.isa = isa_name(subject->isa());
    EngineBenchRow row = measure(*subject, options, buffer);
    row.threads = threads;
    if (!subject->error().empty()) return fail(Error::kInternal, "bench engine: " + subject->error());
    result.rows.push_back(row);
  }
  return result;
}

}  // namespace penstock::bench
