#include "router/event_recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace penstock::router {
namespace {

// Events gather for so long before they are written together: what a SIGKILL may cost.
constexpr std::chrono::milliseconds kGather{20};

Failure open_failure(const std::string& path) {
  return fail(Error::kIo,
              "--record " + path + ": " + std::strerror(errno) + "; name a file that can be written");
}

// Where the last item ends that lies within the first `limit` bytes.
size_t whole_items(const std::vector<uint8_t>& items, size_t limit) {
  size_t end = 0;
  for (uint32_t length = 0; end + sizeof(length) <= limit; end += sizeof(length) + length) {
    std::memcpy(&length, items.data() + end, sizeof(length));
    if (length > limit - end - sizeof(length)) break;
  }
  return end;
}

}  // namespace

Result<std::unique_ptr<EventRecorder>> EventRecorder::open(const std::string& path,
                                                           const scheduler::ClusterPolicy& policy,
                                                           Logger log) {
  struct stat found;
  if (::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0) {
    const std::string kept = path + ".previous";
    if (::rename(path.c_str(), kept.c_str()) != 0) return open_failure(path);
    log.info("earlier record kept", "file", kept);
  }
  constexpr mode_t kOwnerOnly = 0600;
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOwnerOnly));
  if (!file.valid()) return open_failure(path);
  std::unique_ptr<EventRecorder> recorder(new EventRecorder(path, std::move(file), std::move(log)));
  std::vector<uint8_t> header;
  recorder->writer_.begin(policy, header);
  if (!recorder->write(header)) return open_failure(path);
  recorder->thread_ = std::thread([r = recorder.get()] { r->run(); });
  return recorder;
}

EventRecorder::EventRecorder(std::string path, UniqueFd file, Logger log)
    : path_(std::move(path)), file_(std::move(file)), log_(std::move(log)) {}

EventRecorder::~EventRecorder() {
  if (!thread_.joinable()) return;  // open() failed
  if (!ended_) {
    writer_.end(item_);
    queue();
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
  if (ended_) return;
  char hash[20];
  std::snprintf(hash, sizeof(hash), "%016llx", static_cast<unsigned long long>(writer_.action_hash()));
  log_.info("record complete", "file", path_, "events", writer_.events(), "action_hash", hash);
}

void EventRecorder::add_event(TimePoint now, const scheduler::ClusterEvent& event) {
  if (ended_) return;
  writer_.add_event(now, event, item_);
  queue();
}

void EventRecorder::add_actions(TimePoint now, const scheduler::ClusterActions& actions) {
  if (ended_ || actions.empty()) return;
  writer_.add_actions(now, actions, item_);
  queue();
}

void EventRecorder::queue() {
  bool was_empty = false, is_full = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = waiting_.empty();
    is_full = waiting_.size() + item_.size() > kWaitingBytesMax;
    if (!is_full) waiting_.insert(waiting_.end(), item_.begin(), item_.end());
  }
  item_.clear();
  if (was_empty) wake_.notify_one();
  if (is_full) end("the disk is slower than the events come");
}

void EventRecorder::run() {
  std::vector<uint8_t> batch;
  std::unique_lock lock(mutex_);
  while (!ended_) {
    wake_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    wake_.wait_for(lock, kGather, [this] { return closing_; });
    batch.clear();
    batch.swap(waiting_);
    const bool is_last = closing_;
    lock.unlock();
    if (!write(batch)) end(std::strerror(errno));
    lock.lock();
    if (is_last) break;
  }
  waiting_ = {};
}

// All of it; or, when the disk is full, as many whole items as it took.
bool EventRecorder::write(const std::vector<uint8_t>& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(file_.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      const auto whole = static_cast<off_t>(whole_items(bytes, done));
      static_cast<void>(!::ftruncate(file_.get(), written_ + whole));  // of no use on a device
      errno = error;
      return false;
    }
    done += static_cast<size_t>(n);
  }
  written_ += static_cast<off_t>(bytes.size());
  return true;
}

void EventRecorder::end(const std::string& reason) {
  if (ended_.exchange(true)) return;
  log_.warn("recording ended, serving goes on; the record is whole up to here", "file", path_, "reason",
            reason);
}

}  // namespace penstock::router
