// What the HTTP edge promises beyond the plain request: openai_api.md's clauses that need a whole router.
#include <map>

#include "scheduler/cluster/cluster_scheduler.h"
#include "tests/router/router_fixture.h"

namespace penstock::router {
namespace {

class HttpEdgeTest : public RouterTest {
 protected:
  // The error object of an answer that must be one, complete and with a string for its code.
  static Json error_in(const ClientResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.header("content-type"), "application/json");
    const Json json = Json::parse(response.body, nullptr, false);
    if (!json.is_object() || !json.contains("error")) {
      ADD_FAILURE() << response.body;
      return {{"message", ""}, {"type", ""}, {"param", ""}, {"code", ""}};
    }
    const Json error = json["error"];
    for (const char* member : {"message", "type", "param", "code"})
      EXPECT_TRUE(error.contains(member)) << error;
    EXPECT_TRUE(error["message"].is_string() && error["code"].is_string()) << error;
    return error;
  }
  double aborted() { return metric(R"(penstock_request_success_total{finished_reason="abort"})"); }
};

TEST_F(HttpEdgeTest, EveryErrorHasItsStatusAndCode) {
  config_.router.body_max_mb = 1;
  start();
  EXPECT_EQ(error_in(get("/v1/nothing"), 404)["code"], "not_found");
  EXPECT_EQ(error_in(get("/v1/completions"), 405)["code"], "method_not_allowed");
  EXPECT_EQ(error_in(post("/v1/models", "{}"), 405)["code"], "method_not_allowed");
  EXPECT_EQ(error_in(post("/v1/completions", std::string((1u << 20) + 1, ' ')), 413)["code"],
            "request_too_large");
  const Json unavailable = error_in(post("/v1/completions", R"({"prompt":"x"})"), 503);
  EXPECT_EQ(unavailable["code"], "service_unavailable") << "no node yet";
  HttpClient untyped(port_);
  untyped.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(error_in(untyped.response(), 415)["code"], "unsupported_media_type");
  HttpClient typed(port_);
  typed.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: Application/JSON; charset=utf-8\r\n"
      "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(error_in(typed.response(), 400)["param"], "prompt");
}

TEST_F(HttpEdgeTest, BrokenJsonIsToldWithItsPlace) {
  start();
  const Json error = error_in(post("/v1/chat/completions", "{\"messages\":\n [{\"role\":}]}"), 400);
  EXPECT_EQ(error["code"], "invalid_body");
  EXPECT_NE(error["message"].get<std::string>().find("line 2, column 11, in messages[0].role"),
            std::string::npos)
      << error;
  // Large bodies are read by the worker and get the same answer.
  const Json large =
      error_in(post("/v1/completions", "{\"prompt\":\"" + std::string(100000, 'x') + "\",}"), 400);
  EXPECT_NE(large["message"].get<std::string>().find("column 100014"), std::string::npos) << large;
}

TEST_F(HttpEdgeTest, ModelsAndVersionHaveTheirFields) {
  start();
  const Json list = Json::parse(get("/v1/models").body);
  EXPECT_EQ(list["object"], "list");
  const Json model = list["data"][0];
  for (const char* member : {"id", "object", "created", "owned_by", "root", "max_model_len"})
    EXPECT_TRUE(model.contains(member)) << member;
  EXPECT_EQ(model["object"], "model");
  EXPECT_TRUE(model["created"].is_number_integer());
  EXPECT_TRUE(Json::parse(get("/version").body)["version"].is_string());
}

TEST_F(HttpEdgeTest, HeadersOfKnownClientsAreWelcome) {
  start_pair();
  const ClientResponse response =
      post("/v1/chat/completions", chat(R"("stream":false,"max_tokens":3)"),
           "Authorization: Bearer anything\r\nx-stainless-lang: python\r\nx-stainless-retry-count: 0\r\n"
           "x-correlation-id: c1\r\nUser-Agent: OpenAI/Python 1.0\r\nAccept: application/json\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-type"), "application/json");
  EXPECT_EQ(Json::parse(response.body)["object"], "chat.completion");
}

TEST_F(HttpEdgeTest, TokenizeAndBack) {
  start();
  const Json text = Json::parse(post("/tokenize", R"({"prompt":"The fox","return_token_strs":true})").body);
  EXPECT_EQ(text["tokens"][0], TinyModel::kBegin);
  EXPECT_EQ(text["count"], text["tokens"].size());
  EXPECT_EQ(text["max_model_len"], 512);
  EXPECT_EQ(text["token_strs"].size(), text["tokens"].size());
  const Json bare = Json::parse(post("/tokenize", R"({"prompt":"The fox","add_special_tokens":false})").body);
  EXPECT_EQ(bare["count"], text["count"].get<int>() - 1);
  EXPECT_TRUE(bare["token_strs"].is_null());
  EXPECT_EQ(Json::parse(post("/detokenize", Json{{"tokens", bare["tokens"]}}.dump()).body)["prompt"],
            "The fox");
  const Json messages =
      Json::parse(post("/tokenize", R"({"model":"tiny","messages":[{"role":"user","content":"hi"}]})").body);
  EXPECT_EQ(messages["tokens"][1], TinyModel::kTurnStart) << "through the chat template";
  EXPECT_EQ(Json::parse(post("/tokenize", R"({"prompt":"","add_special_tokens":false})").body)["count"], 0);

  EXPECT_EQ(error_in(post("/tokenize", "{}"), 400)["param"], "prompt");
  EXPECT_EQ(error_in(post("/tokenize", R"({"prompt":5})"), 400)["param"], "prompt");
  EXPECT_EQ(error_in(post("/tokenize", R"({"prompt":"x","messages":[]})"), 400)["param"], "prompt");
  EXPECT_EQ(error_in(post("/tokenize", R"({"prompt":"x","model":"gpt"})"), 404)["code"], "model_not_found");
  EXPECT_EQ(error_in(post("/detokenize", R"({"tokens":[1015]})"), 400)["param"], "tokens");
  EXPECT_EQ(error_in(post("/detokenize", R"({"tokens":[-1]})"), 400)["param"], "tokens");
  EXPECT_EQ(error_in(post("/detokenize", R"({"tokens":"x"})"), 400)["param"], "tokens");
  EXPECT_EQ(error_in(get("/tokenize"), 405)["code"], "method_not_allowed");
}

TEST_F(HttpEdgeTest, Case46TokenizeIsKeyed) {
  model_.write("keys", "secret-1\n");
  config_.router.api_keys_file = model_.dir() + "/keys";
  start();
  for (const char* path : {"/tokenize", "/detokenize", "/v1/completions"}) {
    const ClientResponse refused = post(path, "{}");
    EXPECT_EQ(error_in(refused, 401)["code"], "invalid_api_key");
    EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  }
  EXPECT_EQ(post("/tokenize", R"({"prompt":"x"})", "Authorization: Bearer secret-1\r\n").status, 200);
  EXPECT_EQ(get("/ready").status, 503) << "open: it says that no node is there";
}

// ---- Keep-alive comments ----------------------------------------------------------------------------------

TEST_F(HttpEdgeTest, Case8CommentsWhileAPrefillTakesLong) {
  start_pair();
  nodes_[0]->hold(true);
  HttpClient asked(port_), silent(port_);
  asked.post("/v1/chat/completions", chat(R"("stream":true,"stream_options":{"keep_alive_s":1})"));
  silent.post("/v1/chat/completions", chat(R"("stream":true)"));
  ASSERT_TRUE(asked.read_until(": keep-alive\n\n")) << asked.buffered();
  nodes_[0]->hold(false);
  const ClientResponse commented = asked.response();
  EXPECT_EQ(commented.status, 200);
  EXPECT_EQ(commented.body.rfind(": keep-alive\n\n", 0), 0u) << commented.body;
  EXPECT_NE(commented.body.find(R"({"role":"assistant","content":""})"), std::string::npos);
  EXPECT_TRUE(commented.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(streamed_text(silent.response().body), kText) << "and not a byte more for who did not ask";
}

TEST_F(HttpEdgeTest, AKeyCanOptInAndAFailureAfterACommentIsAnEvent) {
  model_.write("keys", "plain\nproxied keep_alive_s=1\n");
  config_.router.api_keys_file = model_.dir() + "/keys";
  start_pair();
  nodes_[0]->hold(true);
  HttpClient client(port_);
  client.post("/v1/chat/completions", chat(R"("stream":true)"), "Authorization: Bearer proxied\r\n");
  ASSERT_TRUE(client.read_until(": keep-alive\n\n")) << client.buffered();
  nodes_[0]->kill();
  nodes_[1]->kill();
  const ClientResponse response = client.response();
  EXPECT_NE(response.body.find("data: {\"error\":"), std::string::npos) << response.body;
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

// ---- Clients that leave -----------------------------------------------------------------------------------

TEST_F(HttpEdgeTest, Case41LeavingBeforeTheFirstTokenAbortsThePrefill) {
  start_pair();
  nodes_[0]->hold(true);
  for (const char* fields : {R"("stream":true)", R"("stream":false)", R"("n":3)"}) {
    const size_t before = nodes_[0]->starts().size();
    HttpClient client(port_);
    client.post("/v1/chat/completions", chat(fields));
    ASSERT_TRUE(nodes_[0]->wait([&] { return nodes_[0]->starts().size() > before; })) << fields;
    client.close();
    EXPECT_TRUE(nodes_[0]->wait([&] { return nodes_[0]->active() == 0; })) << fields;
    EXPECT_TRUE(eventually([&] { return metric("penstock_num_requests_running") == 0; })) << fields;
  }
  EXPECT_EQ(aborted(), 5);
}

TEST_F(HttpEdgeTest, Case41LeavingWhileQueuedReachesNoNode) {
  start();
  FakeNodeOptions p = node("p0", wire::Role::Prefill), d = node("d0", wire::Role::Decode);
  p.sequences_max = d.sequences_max = 1;
  add(p).hold(true);
  add(d).hold(true);
  ASSERT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  HttpClient first(port_);
  first.post("/v1/chat/completions", chat(R"("stream":true)"));
  ASSERT_TRUE(nodes_[0]->wait([&] { return nodes_[0]->starts().size() == 1; }));
  {
    HttpClient queued(port_);
    queued.post("/v1/chat/completions", chat(R"("stream":true)"));
    ASSERT_TRUE(eventually([&] { return metric("penstock_num_requests_waiting") == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return metric("penstock_num_requests_waiting") == 0; }));
  EXPECT_EQ(aborted(), 1);
  nodes_[0]->hold(false);
  nodes_[1]->hold(false);
  EXPECT_EQ(streamed_text(first.response().body), kText);
  EXPECT_EQ(nodes_[0]->starts().size(), 1u);
}

// ---- Nodes that die ---------------------------------------------------------------------------------------

// What the defaults add up to; the cluster tests see it happen.
TEST_F(HttpEdgeTest, Case7WithTheDefaultsAnErrorComesWithinFiveSeconds) {
  const ClusterConfig defaults;
  const Duration silence = Duration::from_ms(defaults.heartbeat.dead_after_ms);
  const Duration tick = Duration::from_ms(defaults.heartbeat.period_ms);
  EXPECT_LT(silence + tick + scheduler::ClusterPolicy{}.replay_wait_max + tick, Duration::from_ms(5000));
}

TEST_F(HttpEdgeTest, Case7WholeAnswersFailWithAStatus) {
  start();
  add(node("p0", wire::Role::Prefill));
  FakeNodeOptions mortal = node("d0", wire::Role::Decode);
  mortal.step_tokens_max = 3;
  add(mortal);
  ASSERT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  const ClientResponse response = post("/v1/chat/completions", chat());
  EXPECT_EQ(error_in(response, 503)["code"], "service_unavailable");
  EXPECT_GE(std::atoi(response.header("retry-after").c_str()), 1);
}

// ---- Draining ---------------------------------------------------------------------------------------------

TEST_F(HttpEdgeTest, WhileDrainingNewRequestsGet503AndRetryAfter) {
  start_pair();
  HttpClient running(port_);
  running.post("/v1/chat/completions", chat(R"("stream":true,"ignore_eos":true)"));
  ASSERT_TRUE(running.read_until(kFirstText));
  nodes_[1]->hold(true);
  router_->stop();
  ASSERT_TRUE(eventually([&] { return get("/ready").status == 503; }));
  EXPECT_EQ(get("/health").status, 200);
  const ClientResponse refused = post("/v1/chat/completions", chat());
  EXPECT_EQ(error_in(refused, 503)["code"], "service_unavailable");
  EXPECT_GE(std::atoi(refused.header("retry-after").c_str()), 1);
  EXPECT_EQ(refused.header("connection"), "close");
  nodes_[1]->hold(false);
  EXPECT_EQ(streamed_text(running.response().body).rfind(kText, 0), 0u);
  thread_.join();
  EXPECT_EQ(exit_code_, 0);
}

}  // namespace
}  // namespace penstock::router
