// A model folder with the text side only: the small tokenizer of tests/golden/text, limits and a ChatML
// template.
//
// Made in a temporary folder for the test that owns it, removed with it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "text/tokenizer.h"

namespace penstock::router {

class TinyModel {
 public:
  static constexpr int kContext = 512;
  static constexpr int kVocab = 1015;
  static constexpr TokenId kBegin = 1010, kEndOfText = 1011, kTurnStart = 1012, kTurnEnd = 1014;

  TinyModel() {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock_router_XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    std::filesystem::copy_file(golden("llama3_tokenizer.json"), dir_ + "/tokenizer.json");
    write("config.json", R"({"max_position_embeddings":512,"vocab_size":1015,"eos_token_id":1014})");
    write("generation_config.json", R"({"eos_token_id":[1014,1011]})");
    write("tokenizer_config.json", R"({"eos_token":"<|eot_id|>"})");
    write(
        "chat_template.jinja",
        "{{ '<|begin_of_text|>' }}{% for message in messages %}"
        "{% if message.role == 'tool' %}{{ raise_exception('tools are not for this model') }}{% endif %}"
        "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content + '<|eot_id|>' "
        "}}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}");
  }
  ~TinyModel() { std::filesystem::remove_all(dir_); }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;

  const std::string& dir() const { return dir_; }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(dir_ + "/" + file) << text;
  }
  Tokenizer tokenizer() const { return Tokenizer::from_file(dir_ + "/tokenizer.json").value(); }
  static std::string golden(const std::string& file) {
    return std::string(PENSTOCK_SOURCE_DIR) + "/tests/golden/text/" + file;
  }

 private:
  std::string dir_;
};

}  // namespace penstock::router
