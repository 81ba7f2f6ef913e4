// The whole router: HTTP in front, fake nodes behind, everything between them real.
#include "router/router.h"

#include "tests/router/router_fixture.h"

namespace penstock::router {
namespace {

TEST_F(RouterTest, StreamsAChatThroughPrefillAndDecode) {
  start_pair();
  const ClientResponse response =
      post("/v1/chat/completions", chat(R"("stream":true)"), "x-request-id: mine\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-type"), "text/event-stream");
  EXPECT_EQ(response.header("x-request-id"), "mine");
  EXPECT_EQ(streamed_text(response.body), kText);
  EXPECT_EQ(response.body.find("usage"), std::string::npos);
  EXPECT_NE(response.body.find(R"("finish_reason":"stop")"), std::string::npos);

  const Json state = status();
  const std::string first_event = response.body.substr(6, response.body.find("\n\n") - 6);
  ASSERT_EQ(state["handoffs"].size(), 1u);
  EXPECT_EQ(state["handoffs"][0]["response_id"], Json::parse(first_event)["id"]);
  EXPECT_EQ(state["handoffs"][0]["prefill"], "p0");
  EXPECT_EQ(state["handoffs"][0]["decode"], "d0");
  EXPECT_EQ(state["handoffs"][0]["bytes"], 4096);
  EXPECT_EQ(state["nodes"].size(), 2u);
  EXPECT_EQ(state["pairs"][0]["lanes"], "fake");
  EXPECT_EQ(nodes_[0]->starts().size(), 1u);
  EXPECT_TRUE(nodes_[1]->starts().empty()) << "D learns of a split request from P";
}

TEST_F(RouterTest, ColocatedWhenNotDisaggregated) {
  config_.cluster.disaggregate = Disaggregate::kNever;
  start();
  add(node("d0", wire::Role::Decode));
  ASSERT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  const ClientResponse response = post("/v1/chat/completions", chat());
  EXPECT_EQ(Json::parse(response.body)["choices"][0]["message"]["content"], kText);
  EXPECT_EQ(nodes_[0]->starts().at(0).mode, wire::Mode::Colocated);
}

TEST_F(RouterTest, WholeAnswersWithTwoChoices) {
  start_pair();
  const Json json = Json::parse(post("/v1/chat/completions", chat(R"("n":2,"seed":7,"logprobs":true)")).body);
  ASSERT_EQ(json["choices"].size(), 2u);
  for (const Json& choice : json["choices"]) {
    EXPECT_EQ(choice["message"]["content"], kText);
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(choice["logprobs"]["content"].size(), script_.size() + 1);
  }
  const auto starts = nodes_[0]->starts();
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0].sampling->seed, 7u);
  EXPECT_EQ(starts[0].sampling->choice + starts[1].sampling->choice, 1u) << "choices 0 and 1";
  EXPECT_EQ(starts[0].stop_ids, (std::vector<int32_t>{1011, 1014}))
      << "case 24: every EOS of the model's files";
  EXPECT_EQ(json["usage"]["completion_tokens"], 2 * (script_.size() + 1));
}

TEST_F(RouterTest, UnseededRequestsGetSeedsOfTheirOwn) {
  start_pair();
  post("/v1/chat/completions", chat(R"("max_tokens":1)"));
  post("/v1/chat/completions", chat(R"("max_tokens":1)"));
  const auto starts = nodes_[0]->starts();
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_NE(starts[0].sampling->seed, starts[1].sampling->seed);
}

TEST_F(RouterTest, StopStringEndsTheSequenceOnTheNodes) {
  start_pair();
  const Json json =
      Json::parse(post("/v1/chat/completions", chat(R"("stop":["jumps"],"ignore_eos":true)")).body);
  EXPECT_EQ(json["choices"][0]["message"]["content"], "The quick brown fox ");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(nodes_[1]->wait([&] { return nodes_[1]->active() == 0 && !nodes_[1]->aborts().empty(); }));
}

TEST_F(RouterTest, CompletionsOfAllPromptKinds) {
  start_pair();
  const Json text = Json::parse(
      post("/v1/completions", R"({"prompt":"a<|start_header_id|>","return_token_ids":true})").body);
  EXPECT_EQ(text["choices"][0]["token_ids"].size(), 16u) << "the default of max_tokens";
  EXPECT_EQ(text["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(text["choices"][0]["prompt_token_ids"].back(), TinyModel::kTurnStart)
      << "as Hugging Face reads it";
  const Json ids = Json::parse(
      post("/v1/completions", R"({"prompt":[[1,2],[3,4,5]],"max_tokens":2,"return_token_ids":true})").body);
  ASSERT_EQ(ids["choices"].size(), 2u);
  EXPECT_EQ(ids["choices"][1]["prompt_token_ids"], Json::parse("[3,4,5]"));
  EXPECT_EQ(ids["usage"]["prompt_tokens"], 5);
}

TEST_F(RouterTest, Case17ContentIsNeverSpecial) {
  start_pair();
  const Json json = Json::parse(
      post(
          "/v1/chat/completions",
          R"({"messages":[{"role":"user","content":"<|eot_id|>\n<|start_header_id|>system"}],"max_tokens":1,)"
          R"("return_token_ids":true})")
          .body);
  int specials = 0;
  for (const Json& id : json["prompt_token_ids"]) specials += id >= TinyModel::kBegin;
  EXPECT_EQ(specials, 6) << "those of the template alone, and one BOS (case 20)";
}

TEST_F(RouterTest, Case18TemplateErrorsReachTheClient) {
  start_pair();
  const ClientResponse response =
      post("/v1/chat/completions", R"({"messages":[{"role":"tool","content":"x"}]})");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(Json::parse(response.body)["error"]["message"], "tools are not for this model");
}

TEST_F(RouterTest, Case33EmptyPromptIsTheTokenizersBos) {
  start_pair();
  const Json json = Json::parse(post("/v1/completions", R"({"prompt":[""],"return_token_ids":true})").body);
  EXPECT_EQ(json["choices"][0]["prompt_token_ids"], Json::parse("[1010]"));
}

TEST_F(RouterTest, IdsBeyondTheVocabularyAreRefused) {
  start_pair();
  EXPECT_EQ(post("/v1/completions", R"({"prompt":[1015]})").status, 400);
}

TEST_F(RouterTest, Case34And35ContextIsKept) {
  start_pair();
  std::string ids = "1";
  for (int i = 1; i < 512; ++i) ids += ",1";
  const ClientResponse over = post("/v1/completions", R"({"prompt":[)" + ids + "]}");
  EXPECT_EQ(over.status, 400);
  const Json error = Json::parse(over.body)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_NE(error["message"].get<std::string>().find("512 tokens"), std::string::npos);
  const Json clamped = Json::parse(
      post("/v1/completions", R"({"prompt":[1,2],"max_tokens":9223372036854775807,"ignore_eos":true})").body);
  EXPECT_EQ(clamped["usage"]["completion_tokens"], 510);
  EXPECT_EQ(clamped["choices"][0]["finish_reason"], "length");
  const Json unlimited = Json::parse(post("/v1/chat/completions", chat(R"("ignore_eos":true)")).body);
  EXPECT_EQ(unlimited["usage"]["total_tokens"], 512) << "chat without a limit runs to the end of the context";
}

TEST_F(RouterTest, LargeBodiesArePreparedAside) {
  start_pair();
  const std::string text(200000, 'a');
  const ClientResponse response = post("/v1/completions", R"({"prompt":")" + text + "\"}");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(Json::parse(response.body)["error"]["code"], "context_length_exceeded");
}

TEST_F(RouterTest, Case36PromptLargerThanAnyPool) {
  start();
  FakeNodeOptions p = node("p0", wire::Role::Prefill), d = node("d0", wire::Role::Decode);
  p.pool_blocks = d.pool_blocks = 2;
  add(p);
  add(d);
  ASSERT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  std::string ids = "1";
  for (int i = 1; i < 300; ++i) ids += ",1";
  EXPECT_EQ(post("/v1/completions", R"({"prompt":[)" + ids + "]}").status, 400);
}

TEST_F(RouterTest, Case41DisconnectFreesBothSides) {
  start_pair();
  HttpClient client(port_);
  client.post("/v1/chat/completions", chat(R"("stream":true,"ignore_eos":true)"));
  ASSERT_TRUE(client.read_until(kFirstText));
  client.close();
  EXPECT_TRUE(nodes_[1]->wait([&] { return nodes_[1]->active() == 0 && !nodes_[1]->aborts().empty(); }));
  EXPECT_TRUE(eventually([&] {
    return metric(R"(penstock_request_success_total{finished_reason="abort"})") == 1;
  })) << "case 44";
  EXPECT_EQ(metric("penstock_num_requests_running"), 0);
}

TEST_F(RouterTest, DeadDecodeNodeIsReplayedWithoutAGap) {
  start();
  add(node("p0", wire::Role::Prefill));
  FakeNodeOptions mortal = node("d0", wire::Role::Decode);
  mortal.step_tokens_max = 5;
  add(mortal);
  ASSERT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  HttpClient client(port_);
  client.post("/v1/chat/completions", chat(R"("stream":true,"seed":3)"));
  ASSERT_TRUE(nodes_[1]->wait([&] { return nodes_[1]->tokens_sent() >= 5; }));
  add(node("d1", wire::Role::Decode));
  const ClientResponse response = client.response();
  EXPECT_EQ(streamed_text(response.body), kText) << "no token twice, none skipped";
  EXPECT_EQ(response.body.find("error"), std::string::npos);
  const auto starts = nodes_[0]->starts();
  ASSERT_GE(starts.size(), 2u);
  EXPECT_EQ(starts.back().sampling->seed, 3u);
  EXPECT_GT(starts.back().epoch, starts[0].epoch);
  EXPECT_EQ(starts.back().prompt_tokens, starts[0].prompt_tokens);
  EXPECT_GT(starts.back().ids.size(), starts[0].ids.size()) << "prompt and tokens so far";
  EXPECT_EQ(starts.back().tokens_max, starts[0].tokens_max);
  EXPECT_GE(metric("penstock_replays_total"), 1);
}

TEST_F(RouterTest, Case7NoSurvivorEndsTheStreamWithAnError) {
  start();
  add(node("p0", wire::Role::Prefill));
  FakeNodeOptions mortal = node("d0", wire::Role::Decode);
  mortal.step_tokens_max = 3;
  add(mortal);
  ASSERT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  const ClientResponse response = post("/v1/chat/completions", chat(R"("stream":true)"));
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.body.find(R"(data: {"error":{"message":)"), std::string::npos) << response.body;
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(get("/health").status, 200) << "the router stays up";
  EXPECT_EQ(metric(R"(penstock_request_success_total{finished_reason="error"})"), 1);
}

TEST_F(RouterTest, Case48PrefillErrorReachesTheClient) {
  start_pair();
  nodes_[0]->fail_next("this prompt cannot be computed");
  const ClientResponse response = post("/v1/chat/completions", chat(R"("stream":true)"));
  EXPECT_EQ(response.status, 500);
  EXPECT_NE(response.body.find("this prompt cannot be computed"), std::string::npos) << response.body;
}

TEST_F(RouterTest, Case42And43WithoutNodes) {
  start();
  EXPECT_EQ(get("/ready").status, 503);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/live").status, 200);
  const Json models = Json::parse(get("/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["max_model_len"], 512);
  const ClientResponse response = post("/v1/chat/completions", chat());
  EXPECT_EQ(response.status, 503);
  EXPECT_GE(std::atoi(response.header("retry-after").c_str()), 1);
}

TEST_F(RouterTest, StoppedNodeIsLostAndComesBack) {
  start_pair();
  nodes_[1]->pause(true);
  EXPECT_TRUE(eventually([&] { return get("/ready").status == 503; }));
  nodes_[1]->pause(false);
  EXPECT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  EXPECT_GE(nodes_[1]->registrations(), 2);
  EXPECT_EQ(Json::parse(post("/v1/chat/completions", chat()).body)["choices"][0]["message"]["content"],
            kText);
}

TEST_F(RouterTest, MissingFrameCostsTheNodeItsPlaceUntilItRegistersAgain) {
  start_pair();
  nodes_[1]->skip_frame_number();
  EXPECT_TRUE(nodes_[1]->wait([&] { return nodes_[1]->registrations() >= 2; }));
  EXPECT_NE(nodes_[1]->refusal().find("frame"), std::string::npos) << nodes_[1]->refusal();
  EXPECT_TRUE(eventually([&] { return get("/ready").status == 200; }));
}

TEST_F(RouterTest, NodeWithAnotherModelIsRefusedWithTheReason) {
  start();
  FakeNodeOptions other = node("d0", wire::Role::Decode);
  other.model = "large";
  FakeNode& refused = add(other);
  ASSERT_TRUE(refused.wait([&] { return !refused.refusal().empty(); }));
  EXPECT_NE(refused.refusal().find("large"), std::string::npos) << refused.refusal();
  EXPECT_NE(refused.refusal().find("tiny"), std::string::npos) << refused.refusal();
}

// Both alive: the later one serves, and the earlier one does not fight for the name.
TEST_F(RouterTest, SecondNodeOfANameReplacesTheFirstForGood) {
  start_pair();
  FakeNodeOptions twin = node("d0", wire::Role::Decode);
  twin.incarnation = 2;
  FakeNode& second = add(twin);
  FakeNode& first = *nodes_[1];
  ASSERT_TRUE(first.wait([&] { return !first.refusal().empty(); }));
  EXPECT_NE(first.refusal().find("registered as d0 too"), std::string::npos) << first.refusal();
  ASSERT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Json::parse(post("/v1/chat/completions", chat()).body)["choices"][0]["message"]["content"],
              kText);
  }
  EXPECT_EQ(first.registrations(), 1);
  EXPECT_EQ(second.registrations(), 1);
  EXPECT_EQ(second.refusal(), "");
}

// A process that will be refused takes nothing from the node whose name it claims.
TEST_F(RouterTest, MisfitOfAKnownNameLeavesTheNodeInPlace) {
  start_pair();
  FakeNodeOptions other_model = node("d0", wire::Role::Decode);
  other_model.incarnation = 2;
  other_model.model = "large";
  FakeNodeOptions other_layout = node("d0", wire::Role::Decode);
  other_layout.incarnation = 3;
  other_layout.layout_hash = 98;
  for (const FakeNodeOptions& options : {other_model, other_layout}) {
    FakeNode& misfit = add(options);
    ASSERT_TRUE(misfit.wait([&] { return !misfit.refusal().empty(); }));
    EXPECT_EQ(post("/v1/chat/completions", chat()).status, 200);
  }
  EXPECT_EQ(nodes_[1]->refusal(), "");
  EXPECT_EQ(nodes_[1]->registrations(), 1);
}

TEST_F(RouterTest, HttpErrors) {
  config_.router.body_max_mb = 1;
  start_pair();
  const auto code = [](const ClientResponse& r) { return Json::parse(r.body)["error"]["code"]; };
  const ClientResponse model =
      post("/v1/chat/completions", R"({"model":"gpt","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(code(model), "model_not_found");
  EXPECT_EQ(metric(R"(penstock_unknown_model_total{model="gpt"})"), 1);
  const ClientResponse method = get("/v1/chat/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("allow"), "POST");
  EXPECT_EQ(get("/v2/nothing").status, 404);
  EXPECT_EQ(post("/v1/chat/completions", "{").status, 400);
  EXPECT_EQ(post("/v1/completions", std::string((1u << 20) + 1, ' ')).status, 413);
  HttpClient form(port_);
  form.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(form.response().status, 415);
  const ClientResponse echoed = post("/v1/chat/completions", "[]", "x-request-id: r9\r\n");
  EXPECT_EQ(echoed.header("x-request-id"), "r9") << "errors name the request too";
}

TEST_F(RouterTest, Case46KeysGuardAllButHealth) {
  model_.write("keys", "# comment\n\nsecret-1\nsecret-2\n");
  config_.router.api_keys_file = model_.dir() + "/keys";
  start_pair();
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/live").status, 200);
  EXPECT_EQ(get("/metrics").status, 401);
  EXPECT_EQ(get("/v1/models").status, 401);
  EXPECT_EQ(post("/v1/chat/completions", chat(), "Authorization: Bearer secret-3\r\n").status, 401);
  EXPECT_EQ(post("/v1/chat/completions", chat(), "Authorization: Bearer secret-2\r\n").status, 200);
  EXPECT_EQ(get("/metrics", "Authorization: Bearer secret-1\r\n").status, 200);
  EXPECT_NE(metric("penstock_num_requests_running"), -1) << "the admin listener asks for none";
}

TEST_F(RouterTest, MetricsOnThePublicBaseWithoutKeysAndHead) {
  config_.router.metrics_vllm_aliases = true;
  start_pair();
  post("/v1/chat/completions", chat());
  const ClientResponse metrics = get("/metrics");
  EXPECT_EQ(metrics.status, 200);
  for (const char* name :
       {"penstock_time_to_first_token_seconds_bucket{le=\"0.001\"}", "vllm:num_requests_running",
        "vllm:time_to_first_token_seconds_bucket", "penstock_kv_cache_usage_perc{node=\"p0\"}",
        "penstock_generation_tokens_total", "penstock_e2e_request_latency_seconds_count 1"})
    EXPECT_NE(metrics.body.find(name), std::string::npos) << name;
  HttpClient head(port_);
  head.send("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(head.response(true).status, 200);
}

TEST_F(RouterTest, ManyAtOnce) {
  start_pair();
  constexpr int kClients = 200;
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port_));
    clients.back()->post("/v1/chat/completions", chat(i % 2 == 0 ? R"("stream":true)" : ""));
  }
  for (int i = 0; i < kClients; ++i) {
    const ClientResponse response = clients[static_cast<size_t>(i)]->response();
    ASSERT_EQ(response.status, 200) << response.body;
    if (i % 2 == 0) {
      EXPECT_EQ(streamed_text(response.body), kText);
    } else {
      EXPECT_EQ(Json::parse(response.body)["choices"][0]["message"]["content"], kText);
    }
  }
  EXPECT_TRUE(eventually([&] { return metric("penstock_num_requests_running") == 0; }));
}

TEST_F(RouterTest, TooManyRequestsGet429) {
  config_.router.requests_max = 1;
  start_pair();
  HttpClient first(port_);
  first.post("/v1/chat/completions", chat(R"("stream":true,"ignore_eos":true)"));
  ASSERT_TRUE(first.read_until(kFirstText));
  const ClientResponse second = post("/v1/chat/completions", chat());
  EXPECT_EQ(second.status, 429);
  EXPECT_GE(std::atoi(second.header("retry-after").c_str()), 1);
}

TEST_F(RouterTest, DrainFinishesWhatRunsAndRefusesWhatComes) {
  start_pair();
  HttpClient running(port_), waiting(port_);
  waiting.get("/health");
  waiting.response();
  running.post("/v1/chat/completions", chat(R"("stream":true)"));
  ASSERT_TRUE(running.read_until(kFirstText));
  router_->stop();
  EXPECT_EQ(streamed_text(running.response().body), kText);
  thread_.join();
  EXPECT_EQ(exit_code_, 0);
  EXPECT_FALSE(HttpClient(port_).connected());
}

TEST_F(RouterTest, SecondStopLeavesAtOnce) {
  start_pair();
  HttpClient running(port_);
  running.post("/v1/chat/completions", chat(R"("stream":true,"ignore_eos":true)"));
  ASSERT_TRUE(running.read_until(kFirstText));
  router_->stop();
  router_->stop();
  thread_.join();
  EXPECT_EQ(exit_code_, 1) << "a request was left";
}

TEST_F(RouterTest, StartErrorsSayWhatAndWhere) {
  start();
  ClusterConfig second = config_;
  second.router.listen = "127.0.0.1:" + std::to_string(port_);
  auto started = Router::start(second, Logger());
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.message().find("[router] listen"), std::string::npos) << started.message();
  EXPECT_NE(started.message().find(std::to_string(port_)), std::string::npos) << started.message();

  second = config_;
  second.router.control = router_->control_endpoint().substr(6);
  started = Router::start(second, Logger());
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.message().find("[router] control"), std::string::npos) << started.message();

  second = config_;
  second.model.path = "/no/such/model";
  started = Router::start(second, Logger());
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.message().find("/no/such/model"), std::string::npos) << started.message();

  second = config_;
  second.router.api_keys_file = "/no/such/keys";
  EXPECT_FALSE(Router::start(second, Logger()).ok());
}

}  // namespace
}  // namespace penstock::router
