// Writes every event of the cluster scheduler to a file, for `penstock simulate --replay`.
//
// add_event() and add_actions() belong to the router's thread and only append to memory; a thread of the
// recorder's own writes whole events to the file a few times a second, so that what a SIGKILL leaves can be
// read and a slow disk holds nothing up. When the file cannot be written, or the disk falls behind by
// kWaitingBytesMax, recording ends with one warning and everything else goes on. What is recorded includes
// the token ids of answers: the file is readable by its owner alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "base/result.h"
#include "scheduler/cluster/cluster_record.h"

namespace penstock::router {

class EventRecorder {
 public:
  static constexpr size_t kWaitingBytesMax = 32u << 20;

  // A record that is there already is kept as PATH.previous: a router that is started again after a crash
  // must not destroy the record of it. Errors name the path and the reason.
  static Result<std::unique_ptr<EventRecorder>> open(const std::string& path,
                                                     const scheduler::ClusterPolicy& policy, Logger log);
  // Writes what is left.
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  void add_event(TimePoint now, const scheduler::ClusterEvent& event);        // before the step
  void add_actions(TimePoint now, const scheduler::ClusterActions& actions);  // after it
  bool recording() const { return !ended_; }

 private:
  EventRecorder(std::string path, UniqueFd file, Logger log);
  void queue();
  void run();
  bool write(const std::vector<uint8_t>& bytes);
  void end(const std::string& reason);

  const std::string path_;
  const UniqueFd file_;
  const Logger log_;
  std::atomic<bool> ended_{false};

  // The router's thread.
  scheduler::RecordWriter writer_;
  std::vector<uint8_t> item_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<uint8_t> waiting_;
  bool closing_ = false;

  // The recorder's thread.
  off_t written_ = 0;
  std::thread thread_;
};

}  // namespace penstock::router
