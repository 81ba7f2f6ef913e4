// The demo model against Transformers, in f32 and in bf16: layer by layer, 30 prompts with 64 forced steps
// each, perplexity.
//
// PENSTOCK_TEST_MODEL and PENSTOCK_TEST_MODEL_F32 name the folders that `penstock import` made of the GGUF.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "model/llama.h"
#include "tests/model/golden.h"
#include "tests/model/loaded_model.h"

namespace penstock {
namespace {

constexpr int64_t kChunk = 128;

std::string folder(const char* variable) {
  const char* dir = std::getenv(variable);
  CHECK(dir != nullptr);  // ./penstock.sh test sets both
  return dir;
}

int threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 4U)); }

LoadedModel load(DType dtype) {
  const char* variable = dtype == DType::kF32 ? "PENSTOCK_TEST_MODEL_F32" : "PENSTOCK_TEST_MODEL";
  return LoadedModel(folder(variable), {.dtype = dtype, .threads = threads(), .rows_max = kChunk});
}

struct Case {
  std::string id;
  std::vector<TokenId> prompt, greedy;
  std::vector<double> margin, logprob;
  golden::Json top5_ids, top5_logits;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const golden::Json& row : golden::lines("smollm2_serving.jsonl")) {
    result.push_back({row["id"], row["ids"], row["greedy"], row["margin"], row["logprob"], row["top5_ids"],
                      row["top5_logits"]});
  }
  return result;
}

// Logits of the 64 steps, each fed with the reference's ids: [64][vocab].
std::vector<std::vector<float>> forced_steps(SequenceRunner& runner, const Case& test) {
  std::vector<std::vector<float>> rows;
  const auto keep = [&](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
  runner.reset();
  CHECK(runner.feed(test.prompt, SequenceRunner::Logits::kLast, keep).ok());
  const auto forced = std::span(test.greedy).first(test.greedy.size() - 1);
  CHECK(runner.feed(forced, SequenceRunner::Logits::kAll, keep).ok());
  return rows;
}

std::vector<double> log_softmax(std::span<const float> row) {
  const double highest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float logit : row) sum += std::exp(logit - highest);
  std::vector<double> result(row.size());
  for (size_t i = 0; i < row.size(); ++i) result[i] = row[i] - highest - std::log(sum);
  return result;
}

TEST(SmolLm2, LayersEqualTheReference) {
  LoadedModel loaded = load(DType::kF32);
  SequenceRunner runner = loaded.runner(KvDtype::kF32, kChunk, 512);
  const golden::Npz reference(golden::path("smollm2_layers.npz"));
  const auto ids = reference.array<TokenId>("ids");
  const std::map<int, std::string> names = {{-1, "hidden_embed"},   {0, "hidden_layer00"},
                                            {1, "hidden_layer01"},  {14, "hidden_layer14"},
                                            {29, "hidden_layer29"}, {30, "hidden_final_norm"}};
  int seen = 0;
  const auto observe = [&](int stage, Matrix<const float> hidden) {
    const auto name = names.find(stage);
    if (name == names.end()) return;
    ++seen;
    const auto expected = reference.array<float>(name->second);
    ASSERT_EQ(static_cast<int64_t>(expected.size()), hidden.rows * hidden.cols) << name->second;
    for (int64_t row = 0; row < hidden.rows; ++row) {  // within 1e-4 of the row's largest magnitude
      double worst = 0, largest = 0;
      for (int64_t c = 0; c < hidden.cols; ++c) {
        const double value = expected[static_cast<size_t>(row * hidden.cols + c)];
        worst = std::max(worst, std::abs(hidden.row(row)[c] - value));
        largest = std::max(largest, std::abs(value));
      }
      EXPECT_LE(worst, 1e-4 * largest) << name->second << " row " << row;
    }
  };
  std::vector<float> last;
  ASSERT_TRUE(runner
                  .feed(
                      ids, SequenceRunner::Logits::kAll,
                      [&](int64_t, std::span<const float> row) { last.assign(row.begin(), row.end()); },
                      observe)
                  .ok());
  EXPECT_EQ(seen, 6);
  const auto logits = reference.array<float>("logits_last");
  for (size_t i = 0; i < last.size(); ++i) ASSERT_NEAR(last[i], logits[i], 1e-3) << i;

  // The runner fills its pool from the last block backwards: 27 tokens are in block blocks - 1.
  const KvPoolView pool = runner.pool();
  const auto tokens = static_cast<int32_t>(ids.size());
  for (const int layer : {0, 15, 29}) {
    for (const bool is_value : {false, true}) {
      const std::string name = std::string(is_value ? "v" : "k") + (layer == 0    ? "_layer00"
                                                                    : layer == 15 ? "_layer15"
                                                                                  : "_layer29");
      const auto expected = reference.array<float>(name);
      const auto* block = reinterpret_cast<const float*>(
          static_cast<const std::byte*>(pool.base) +
          pool.layout.block_offset(layer, is_value, pool.blocks - 1, pool.blocks));
      for (int32_t head = 0; head < 3; ++head) {
        for (int32_t token = 0; token < tokens; ++token) {
          double worst = 0, largest = 0;
          for (int32_t d = 0; d < 64; ++d) {
            const int64_t at = is_value ? pool.layout.value_element(head, token, d)
                                        : pool.layout.key_element(head, token, d);
            const double value = expected[static_cast<size_t>((head * tokens + token) * 64 + d)];
            worst = std::max(worst, std::abs(block[at] - value));
            largest = std::max(largest, std::abs(value));
          }
          EXPECT_LE(worst, 1e-4 * largest) << name << " head " << head << " token " << token;
        }
      }
    }
  }
}

// f32: every step whose margin is above the error bound picks the reference's id; logits and
// log-probabilities within 1e-3. bf16 (weights and KV; residual stream, accumulation and logits f32): within
// the distance from f32 that rounding explains.
TEST(SmolLm2, ForcedStepsStayWithinTheirBounds) {
  LoadedModel f32 = load(DType::kF32), bf16 = load(DType::kBf16);
  SequenceRunner f32_runner = f32.runner(KvDtype::kF32, kChunk, 2048);
  SequenceRunner bf16_runner = bf16.runner(KvDtype::kBf16, kChunk, 2048);
  int steps = 0, agreed = 0;
  double kl_sum = 0, rms_sum = 0, rms_worst = 0, logit_error = 0, margin_lost = 0;
  for (const Case& test : cases()) {
    const auto exact = forced_steps(f32_runner, test), rounded = forced_steps(bf16_runner, test);
    ASSERT_EQ(exact.size(), test.greedy.size());
    double squares = 0;
    for (size_t step = 0; step < exact.size(); ++step) {
      const auto p = log_softmax(exact[step]), q = log_softmax(rounded[step]);
      const TokenId id = test.greedy[step];
      if (test.margin[step] > 1e-3) {
        EXPECT_EQ(argmax(exact[step]), id) << test.id << " step " << step;
      }
      EXPECT_NEAR(p[static_cast<size_t>(id)], test.logprob[step], 1e-3) << test.id << " step " << step;
      for (size_t i = 0; step < test.top5_ids.size() && i < 5; ++i) {
        const double expected = test.top5_logits[step][i];
        logit_error =
            std::max(logit_error, std::abs(exact[step][test.top5_ids[step][i].get<size_t>()] - expected));
      }
      ++steps;
      if (argmax(rounded[step]) == id) {
        ++agreed;
      } else {
        margin_lost = std::max(margin_lost, test.margin[step]);
      }
      for (size_t i = 0; i < p.size(); ++i) {
        const double difference = double{rounded[step][i]} - exact[step][i];
        kl_sum += std::exp(p[i]) * (p[i] - q[i]);
        squares += difference * difference;
      }
    }
    const double rms = std::sqrt(squares / static_cast<double>(exact.size() * exact[0].size()));
    rms_sum += rms;
    rms_worst = std::max(rms_worst, rms);
  }
  EXPECT_EQ(steps, 1920);
  EXPECT_LE(logit_error, 1e-3);
  EXPECT_LE(margin_lost, 0.2);
  EXPECT_GE(agreed, 0.99 * steps);
  EXPECT_LE(kl_sum / steps, 5e-4);
  EXPECT_LE(rms_worst, 0.2);
  RecordProperty("logit_error_f32", std::to_string(logit_error));
  std::printf(
      "f32 logit error %.1e; bf16: agreement %d of %d, margin lost %.3f, KL %.1e, rms %.3f (worst %.3f)\n",
      logit_error, agreed, steps, margin_lost, kl_sum / steps, rms_sum / 30, rms_worst);
}

double nll_of_windows(SequenceRunner& runner, std::span<const TokenId> ids, size_t window) {
  double nll = 0;
  while (!ids.empty()) {
    const auto part = ids.first(std::min(window, ids.size()));
    ids = ids.subspan(part.size());
    runner.reset();
    CHECK(runner
              .feed(part, SequenceRunner::Logits::kAll,
                    [&](int64_t position, std::span<const float> row) {
                      const auto next = static_cast<size_t>(position) + 1;
                      if (next < part.size()) nll -= log_softmax(row)[static_cast<size_t>(part[next])];
                    })
              .ok());
  }
  return nll;
}

TEST(SmolLm2, PerplexityEqualsTheReference) {
  const auto golden = golden::Json::parse(golden::read(golden::path("smollm2_perplexity.json")));
  const auto ids = golden["ids"].get<std::vector<TokenId>>();
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    LoadedModel loaded = load(dtype);
    SequenceRunner runner =
        loaded.runner(dtype == DType::kF32 ? KvDtype::kF32 : KvDtype::kBf16, kChunk, 2048);
    for (const auto& [window, expected] : golden["contexts"].items()) {
      const double scored = expected["scored"], reference = expected["nll_sum"];
      const double nll = nll_of_windows(runner, ids, std::stoul(window));
      const double ratio = std::exp((nll - reference) / scored);  // of the perplexities
      EXPECT_NEAR(ratio, 1.0, dtype == DType::kF32 ? 1e-5 : 3e-3) << dtype_name(dtype) << " " << window;
      std::printf("%s, windows of %s: perplexity %.6f, %.2e off\n", std::string(dtype_name(dtype)).c_str(),
                  window.c_str(), std::exp(nll / scored), ratio - 1);
    }
  }
}

// One prompt of 107 tokens whole, in chunks and token by token, and its last token beside nothing or a crowd.
TEST(SmolLm2, ChunksDoNotChangeABit) {
  LoadedModel loaded = load(DType::kBf16);
  const auto tests = cases();
  const auto& tokens = tests.at(6).prompt;
  SequenceRunner whole = loaded.runner(KvDtype::kBf16, kChunk, 512);
  const auto expected = all_logits(whole, tokens);
  for (const int64_t chunk : {1, 13, 64}) {
    SequenceRunner runner = loaded.runner(KvDtype::kBf16, chunk, 512);
    EXPECT_EQ(all_logits(runner, tokens), expected) << "chunks of " << chunk;
  }
}

}  // namespace
}  // namespace penstock
