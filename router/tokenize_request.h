// POST /tokenize and /detokenize: text or messages to ids and back, by the tokenizer that requests go
// through.
//
// Functions of the thread that owns the parser and the model.
#pragma once

#include <string>

#include "router/json_text.h"
#include "router/parse_request.h"
#include "router/served_model.h"

namespace penstock::router {

// {"prompt"} or {"messages"} -> {"count", "max_model_len", "tokens", "token_strs"}.
Parsed<Json> tokenize_request(const std::string& body, RequestParser& parser, ServedModel& model);
// {"tokens"} -> {"prompt"}.
Parsed<Json> detokenize_request(const std::string& body, RequestParser& parser, ServedModel& model);

}  // namespace penstock::router
