// Loads what a Hugging Face style model folder says about text: tokenizer.json, tokenizer_config.json, chat
// template.
//
// Functions of a path; nothing is kept.
#pragma once

#include <ctime>
#include <string>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/jinja/value.h"
#include "text/tokenizer.h"

namespace penstock {

struct ModelChat {
  ChatTemplate chat_template;
  // bos_token, eos_token, ... as strings, for the template's variables: special tokens may come from them.
  jinja::Dict special_tokens;
};

// MODEL/tokenizer.json.
Result<Tokenizer> load_tokenizer(const std::string& model_dir);

// MODEL/chat_template.jinja, else `chat_template` of MODEL/tokenizer_config.json (the one named "default"
// where it is a list). kNotFound when the model has none.
Result<ModelChat> load_chat_template(const std::string& model_dir);

// Renders with the model's special tokens as variables where `variables` (a dict) has none of that name.
Result<RenderedText> render_chat(const ModelChat& chat, const jinja::Dict& variables,
                                 const RenderOptions& options = {});

// For RenderOptions::local_time: the time now, in the machine's time zone.
std::tm system_local_time();

}  // namespace penstock
