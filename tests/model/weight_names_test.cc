#include "model/weight_names.h"

#include <gtest/gtest.h>

#include <set>

#include "model/checkpoint.h"
#include "tests/model/golden.h"

namespace penstock {
namespace {

TEST(WeightNames, AreExactlyTheTensorsOfTheReferenceFolders) {
  for (const char* name : {"llama_tied", "llama_rope3"}) {
    const ModelConfig config = load_model_config(golden::path(name)).value();
    const Checkpoint checkpoint = Checkpoint::open(golden::path(name)).value();
    const auto stored = checkpoint.names();
    std::set<std::string> expected(stored.begin(), stored.end()), names;
    for (const WeightName& weight : canonical_weights(config)) {
      EXPECT_TRUE(checkpoint.find(weight.name, weight.shape).ok()) << weight.name;
      EXPECT_TRUE(names.insert(weight.name).second) << weight.name;
    }
    EXPECT_EQ(names, expected);
  }
}

TEST(WeightNames, OfGguf) {
  EXPECT_EQ(hf_name_of_gguf("blk.12.attn_q.weight"), "model.layers.12.self_attn.q_proj.weight");
  EXPECT_EQ(hf_name_of_gguf("token_embd.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(hf_name_of_gguf("output.weight"), "lm_head.weight");
  for (const char* name :
       {"blk.1.attn_q.bias", "blk..attn_q.weight", "blk.1.ffn_gate_exps.weight", "attn_q.weight",
        "blk.-1.attn_q.weight", "blk.99999999999999999999.attn_q.weight", "", "weight"}) {
    EXPECT_EQ(hf_name_of_gguf(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace penstock
