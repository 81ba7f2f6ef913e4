#include "router/event_recorder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "sim/replay.h"
#include "tests/router/router_fixture.h"

namespace penstock::router {
namespace {

std::vector<uint8_t> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What a record says after its scheduler is replayed.
sim::ReplayReport replay(const std::string& path) {
  const std::vector<uint8_t> bytes = bytes_of(path);
  const auto report = sim::replay_record(bytes);
  EXPECT_TRUE(report.ok()) << report.message();
  return report.ok() ? *report : sim::ReplayReport{};
}

// Stands for a full disk: the write that hits it is cut in the middle of an event.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    CHECK_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit small{bytes, before_.rlim_max};
    CHECK_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

// A scheduler that is driven and recorded, without a router around it.
class RecordedScheduler {
 public:
  explicit RecordedScheduler(EventRecorder& recorder) : recorder_(recorder), scheduler_(policy()) {}
  static scheduler::ClusterPolicy policy() { return {}; }
  void arrive() {
    now_ = now_ + Duration{10};
    const scheduler::Arrival arrival{SequenceId(++last_), 5, 5, TimePoint::max()};
    recorder_.add_event(now_, arrival);
    recorder_.add_actions(now_, scheduler_.step(now_, arrival));
  }

 private:
  EventRecorder& recorder_;
  scheduler::ClusterScheduler scheduler_;
  TimePoint now_;
  uint64_t last_ = 0;
};

class EventRecorderTest : public ::testing::Test {
 protected:
  std::unique_ptr<EventRecorder> open(const std::string& path) {
    auto opened = EventRecorder::open(path, RecordedScheduler::policy(), Logger());
    EXPECT_TRUE(opened.ok()) << opened.message();
    return std::move(opened).value();
  }
  template <typename Done>
  static bool eventually(Done done) {
    for (int i = 0; i < 2000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return done();
  }

  TinyModel folder_;  // for its temporary folder
  const std::string path_ = folder_.dir() + "/record";
};

TEST_F(EventRecorderTest, WhatIsWrittenSoFarIsReadableAtAnyTime) {
  const auto recorder = open(path_);
  RecordedScheduler scheduler(*recorder);
  uint64_t seen = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 200; ++i) scheduler.arrive();
    // As after a SIGKILL: only what the file holds counts.
    EXPECT_TRUE(eventually([&] { return std::filesystem::file_size(path_) > seen; }));
    seen = std::filesystem::file_size(path_);
    EXPECT_EQ(replay(path_).difference, "");
  }
  EXPECT_TRUE(eventually([&] { return replay(path_).events == 1000; }));
}

TEST_F(EventRecorderTest, TheEndIsWrittenAndCovered) {
  auto recorder = open(path_);
  RecordedScheduler scheduler(*recorder);
  for (int i = 0; i < 10; ++i) scheduler.arrive();
  recorder->add_event(TimePoint{1000}, scheduler::Tick{});
  recorder.reset();
  const sim::ReplayReport report = replay(path_);
  EXPECT_EQ(report.events, 11u);
  EXPECT_EQ(report.checked, 11u) << "the tick too, which causes nothing";
}

TEST_F(EventRecorderTest, OnlyTheOwnerMayRead) {
  open(path_);
  struct stat found;
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(EventRecorderTest, AnEarlierRecordIsKept) {
  open(path_);
  const auto first = bytes_of(path_);
  auto second = open(path_);
  RecordedScheduler(*second).arrive();
  second.reset();
  EXPECT_EQ(bytes_of(path_ + ".previous"), first);
  EXPECT_GT(bytes_of(path_).size(), first.size());
}

TEST_F(EventRecorderTest, AFileThatCannotBeMadeIsAnError) {
  EXPECT_FALSE(EventRecorder::open("/dev/full", {}, Logger()).ok()) << "no room for the header";
  const auto opened = EventRecorder::open("/no/such/folder/record", {}, Logger());
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.message().find("/no/such/folder/record: No such file"), std::string::npos)
      << opened.message();
}

TEST_F(EventRecorderTest, AFullDiskEndsTheRecordAfterAWholeEvent) {
  const FileSizeLimit limit(20001);
  auto recorder = open(path_);
  RecordedScheduler scheduler(*recorder);
  while (recorder->recording()) scheduler.arrive();
  for (int i = 0; i < 100; ++i) scheduler.arrive();  // of no effect, and no harm
  recorder.reset();
  EXPECT_LE(std::filesystem::file_size(path_), 20001u);
  const sim::ReplayReport report = replay(path_);
  EXPECT_EQ(report.difference, "");
  EXPECT_GT(report.events, 50u);
}

// ---- The whole router -------------------------------------------------------------------------------------

class RecordTest : public RouterTest {
 protected:
  RecordTest() { record_path_ = model_.dir() + "/record"; }

  // Streams, whole answers, stop strings and clients that leave at different moments, all at once.
  void storm(int clients) {
    std::vector<std::unique_ptr<HttpClient>> open;
    for (int i = 0; i < clients; ++i) {
      open.push_back(std::make_unique<HttpClient>(port_));
      const char* fields[] = {R"("stream":true)", R"("n":2)", R"("stream":true,"ignore_eos":true)",
                              R"("stop":["jumps"],"ignore_eos":true)"};
      open.back()->post("/v1/chat/completions", chat(fields[i % 4]));
      if (i % 16 == 6) open.back()->close();  // before anything came
    }
    for (int i = 0; i < clients; ++i) {
      HttpClient& client = *open[static_cast<size_t>(i)];
      if (i % 16 == 6) continue;
      if (i % 4 == 2) {
        client.read_until(kFirstText);
        client.close();
      } else {
        client.response();
      }
    }
    EXPECT_TRUE(eventually([&] { return metric("penstock_num_requests_running") == 0; }));
  }
};

TEST_F(RecordTest, ConcurrentRequestsDisconnectsAndADeadNodeReplayToTheSameActions) {
  start();
  add(node("p0", wire::Role::Prefill));
  add(node("p1", wire::Role::Prefill));
  FakeNodeOptions mortal = node("d0", wire::Role::Decode);
  mortal.step_tokens_max = 100;
  add(mortal);
  add(node("d1", wire::Role::Decode));
  ASSERT_TRUE(eventually([&] { return status()["pairs"].size() == 4; }));
  storm(64);
  EXPECT_TRUE(eventually([&] { return metric("penstock_nodes_lost_total") >= 1; }));
  storm(32);
  const Json state = status();
  EXPECT_GE(state["requests"]["replays"], 1) << state;
  EXPECT_GE(metric(R"(penstock_request_success_total{finished_reason="abort"})"), 1);
  router_->stop();
  thread_.join();
  router_.reset();  // the record is complete

  const sim::ReplayReport report = replay(record_path_);
  EXPECT_EQ(report.difference, "");
  EXPECT_GT(report.events, 1000u);
  EXPECT_EQ(report.checked, report.events);

  // The test can fail.
  std::vector<uint8_t> damaged = bytes_of(record_path_);
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_EQ(sim::replay_record(damaged).code(), Error::kCorrupt);
}

TEST_F(RecordTest, AFullDiskEndsTheRecordAndServingGoesOn) {
  const FileSizeLimit limit(5000);
  start_pair();
  storm(32);
  EXPECT_EQ(post("/v1/chat/completions", chat()).status, 200);
  EXPECT_LE(std::filesystem::file_size(record_path_), 5000u);
  EXPECT_EQ(replay(record_path_).difference, "");
}

TEST_F(RecordTest, ARecordThatCannotBeMadeStopsTheStart) {
  const auto started = Router::start(config_, Logger(), "/no/such/folder/record");
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.message().find("--record /no/such/folder/record"), std::string::npos)
      << started.message();
}

}  // namespace
}  // namespace penstock::router
