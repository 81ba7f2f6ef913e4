// One helper thread for work that would hold up the router's thread.
//
// Jobs run in order on the helper; what a job returns runs on the io_context afterwards. Owned by the router;
// destroying it waits for the job under way and forgets the rest.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace penstock::router {

class Worker {
 public:
  using Completion = std::function<void()>;
  using Job = std::function<Completion()>;

  Worker(boost::asio::io_context& io, size_t queue_len_max);
  ~Worker();
  // False when the queue is full.
  bool submit(Job job);

 private:
  struct Pool;
  boost::asio::io_context& io_;
  size_t queue_len_max_;
  size_t queued_ = 0;  // submitted, not completed; the io thread's
  std::unique_ptr<Pool> pool_;
};

}  // namespace penstock::router
