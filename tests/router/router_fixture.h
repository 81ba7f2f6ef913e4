// A whole router on its own thread for tests: HTTP in front, fake nodes behind, everything between them real.
//
// One per test; stops the router and the nodes when it goes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "router/router.h"
#include "tests/router/fake_node.h"
#include "tests/router/http_client.h"
#include "tests/router/tiny_model.h"

namespace penstock::router {

using Json = nlohmann::json;

inline const std::string kText = "The quick brown fox jumps over the lazy dog, again and again.";

// Text has come, after the role.
inline const std::string kFirstText = R"("delta":{"content":)";

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() : tokenizer_(model_.tokenizer()) {
    script_ = tokenizer_.encode(kText, ParseSpecial::kNo).value();
    config_.model.path = model_.dir();
    config_.model.name = "tiny";
    config_.router.listen = config_.router.control = config_.router.admin = "127.0.0.1:0";
    config_.heartbeat.period_ms = 50;
    config_.heartbeat.dead_after_ms = 500;
    config_.cluster.disaggregate = Disaggregate::kAlways;
  }
  ~RouterTest() override {
    nodes_.clear();
    stop_at_once();
  }

  void stop_at_once() {
    if (!thread_.joinable()) return;
    router_->stop();
    router_->stop();
    thread_.join();
  }

  void start() {
    auto started = Router::start(config_, log_, record_path_);
    ASSERT_TRUE(started.ok()) << started.message();
    router_ = std::move(started).value();
    port_ = router_->public_port();
    thread_ = std::thread([this] { exit_code_ = router_->run(); });
  }
  FakeNodeOptions node(const std::string& name, wire::Role role) {
    FakeNodeOptions options;
    options.name = name;
    options.role = role;
    options.script = script_;
    options.script.push_back(TinyModel::kTurnEnd);
    options.end_id = TinyModel::kTurnEnd;
    return options;
  }
  FakeNode& add(FakeNodeOptions options) {
    nodes_.push_back(std::make_unique<FakeNode>(cluster_, router_->control_endpoint(), std::move(options)));
    return *nodes_.back();
  }
  // A router with one prefill and one decode node, ready.
  void start_pair() {
    start();
    add(node("p0", wire::Role::Prefill));
    add(node("d0", wire::Role::Decode));
    ASSERT_TRUE(eventually([&] { return get("/ready").status == 200; }));
  }
  // Patience is bounded; nothing here measures time.
  template <typename Done>
  bool eventually(Done done) {
    for (int i = 0; i < 2000; ++i) {
      if (done()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return done();
  }

  ClientResponse get(const std::string& path, const std::string& headers = "") {
    HttpClient client(port_);
    client.get(path, headers);
    return client.response();
  }
  ClientResponse post(const std::string& path, const std::string& body, const std::string& headers = "") {
    HttpClient client(port_);
    client.post(path, body, headers);
    return client.response();
  }
  Json status() {
    HttpClient client(router_->admin_port());
    client.get("/admin/status");
    return Json::parse(client.response().body);
  }
  double metric(const std::string& line) {
    HttpClient client(router_->admin_port());
    client.get("/metrics");
    const std::string text = client.response().body;
    const size_t at = text.find("\n" + line + " ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + line.size() + 2);
  }
  static std::string chat(const std::string& fields = "") {
    return R"({"model":"tiny","messages":[{"role":"user","content":"hi"}])" +
           (fields.empty() ? "" : "," + fields) + "}";
  }
  // The text of all content deltas of one choice; checks the shape of the stream on the way.
  static std::string streamed_text(const std::string& body, int index = 0) {
    std::string text;
    EXPECT_TRUE(body.ends_with("data: [DONE]\n\n")) << body;
    for (size_t at = 0; at < body.size();) {
      const size_t end = body.find("\n\n", at);
      EXPECT_EQ(body.compare(at, 6, "data: "), 0) << body.substr(at, 80);
      const std::string data = body.substr(at + 6, end - at - 6);
      at = end + 2;
      if (data == "[DONE]") break;
      const Json json = Json::parse(data);
      if (!json.contains("choices")) continue;
      for (const Json& choice : json["choices"]) {
        if (choice["index"] == index) text += choice["delta"].value("content", "");
      }
    }
    return text;
  }

  TinyModel model_;
  Tokenizer tokenizer_;
  std::vector<TokenId> script_;
  ClusterConfig config_;
  Logger log_;
  std::string record_path_;
  std::unique_ptr<Router> router_;
  std::thread thread_;
  uint16_t port_ = 0;
  int exit_code_ = -1;
  FakeCluster cluster_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
};

}  // namespace penstock::router
