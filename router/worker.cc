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
  boost::asio::post(pool_->threads, [this, job = std::move(job)] {
    boost::asio::post(io_, [this, completion = job()] {
      --queued_;
      completion();
    });
  });
  return true;
}

}  // namespace penstock::router
