#include "router/worker.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace penstock::router {

struct Worker::Pool {
  boost::asio::thread_pool threads{1};
};

Worker::Worker(boost::asio::io_context& io, size_t queue_len_max)
    : io_(io), queue_len_max_(queue_len_max), pool_(std::make_unique<Pool>()) {}

Worker::~Worker() {
  pool_->threads.stop();
  pool_->threads.join();
}

bool Worker::submit(Job job) {
  if (queued_ == queue_len_max_) return false;
  ++queued_;
  // What a job captured (a connection, say) belongs to the io thread: it goes back there to be destroyed.
  boost::asio::post(pool_->threads, [this, shared = std::make_shared<Job>(std::move(job))]() mutable {
    Completion completion = (*shared)();
    boost::asio::post(io_, [this, shared = std::move(shared), completion = std::move(completion)] {
      --queued_;
      completion();
    });
  });
  return true;
}

}  // namespace penstock::router
