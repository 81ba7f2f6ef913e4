#include <utility>  // Boost 1.74's coroutines need it first

#include "router/router.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <random>

#include "router/admin_service.h"
#include "router/api_service.h"
#include "router/http_server.h"

namespace penstock::router {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr size_t kMessagesPerTurn = 1024;  // then HTTP gets its turn
constexpr size_t kLargeBodiesMax = 16;     // waiting for the worker
constexpr Duration kDrainPoll = Duration::from_ms(20);

scheduler::Disaggregate disaggregate_of(Disaggregate value) {
  switch (value) {
    case Disaggregate::kAuto:
      return scheduler::Disaggregate::kAuto;
    case Disaggregate::kAlways:
      return scheduler::Disaggregate::kAlways;
    case Disaggregate::kNever:
      return scheduler::Disaggregate::kNever;
  }
  return scheduler::Disaggregate::kAuto;
}

DriverOptions driver_options(const ClusterConfig& config) {
  DriverOptions options;
  // Anywhere: nodes outlive routers, and must not take one life's transfers for another's.
  std::random_device source;
  options.policy.first_transfer = TransferId((uint64_t{source()} << 24) + 1);
  options.policy.disaggregate = disaggregate_of(config.cluster.disaggregate);
  options.heartbeat_period = Duration::from_ms(config.heartbeat.period_ms);
  options.dead_after = Duration::from_ms(config.heartbeat.dead_after_ms);
  options.requests_max = static_cast<size_t>(config.router.requests_max);
  return options;
}

Result<wire::ChannelOptions> channel_options(const ClusterConfig& config) {
  wire::ChannelOptions options;
  if (config.curve.router_public_key.empty()) return options;
  ASSIGN_OR_RETURN(options.curve, wire::load_curve_pair("router", config.curve.router_public_key,
                                                        config.curve.router_secret_key_file));
  options.curve.client_key = config.curve.node_public_key;
  return options;
}

// ZeroMQ binds to addresses, not to names.
std::string control_endpoint_of(const HostPort& address) {
  const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
  return "tcp://" + HostPort{host, address.port}.text();
}

}  // namespace

struct Router::Impl {
  Impl(ServedModel served, const ClusterConfig& settings, const DriverOptions& options, Logger logger,
       std::unique_ptr<EventRecorder> event_recorder)
      : config(settings),
        log(std::move(logger)),
        model(std::move(served)),
        metrics(registry),
        recorder(std::move(event_recorder)),
        driver(model, options, clock, log, metrics,
               [this](const std::string& identity, const wire::ControlT& message) {
                 return send(identity, message);
               }),
        worker(io, kLargeBodiesMax),
        control_fd(io),
        timer(io),
        signals(io) {}

  Status open();
  Status send(const std::string& identity, const wire::ControlT& message);
  void receive_soon();
  void receive();
  void watch_control();
  void arm_timer();
  void stop();
  void poll_drained(TimePoint deadline);
  void wait_for_signal();

  ClusterConfig config;
  Logger log;
  SystemClock clock;
  Registry registry;
  asio::io_context io{1};
  ServedModel model;
  RouterMetrics metrics;
  wire::Context zmq;
  std::unique_ptr<wire::RouterChannel> control;
  std::unique_ptr<EventRecorder> recorder;
  ClusterDriver driver;
  Worker worker;
  std::unique_ptr<ApiService> api;
  std::unique_ptr<AdminService> admin;
  std::unique_ptr<HttpServer> public_server, admin_server;
  asio::posix::stream_descriptor control_fd;
  asio::steady_timer timer;
  asio::signal_set signals;
  TimePoint armed_for = TimePoint::max();
  bool receive_posted = false, draining = false;
  int exit_code = 0;
};

Status Router::Impl::open() {
  ApiKeys keys;
  if (!config.router.api_keys_file.empty()) {
    ASSIGN_OR_RETURN(keys, ApiKeys::load(config.router.api_keys_file));
  }
  ASSIGN_OR_RETURN(const HostPort control_at, parse_host_port(config.router.control));
  ASSIGN_OR_RETURN(const HostPort public_at, parse_host_port(config.router.listen));
  ASSIGN_OR_RETURN(const HostPort admin_at, parse_host_port(config.router.admin));
  ASSIGN_OR_RETURN(wire::ChannelOptions options, channel_options(config));
  auto bound = wire::RouterChannel::bind(zmq, control_endpoint_of(control_at), std::move(options));
  if (!bound.ok()) return std::move(bound).with_context("[router] control").failure();
  control = std::move(bound).value();

  const bool aliases = config.router.metrics_vllm_aliases;
  api = std::make_unique<ApiService>(
      ApiContext{model, driver, metrics, registry, worker, std::move(keys), aliases, log});
  admin = std::make_unique<AdminService>(driver, registry, config.cluster.name, model.name(), aliases);
  HttpLimits limits;
  limits.body_bytes_max = static_cast<size_t>(config.router.body_max_mb) << 20;
  auto listening = HttpServer::listen(io, public_at.host, public_at.port, *api, limits);
  if (!listening.ok()) return std::move(listening).with_context("[router] listen").failure();
  public_server = std::move(listening).value();
  listening = HttpServer::listen(io, admin_at.host, admin_at.port, *admin, limits);
  if (!listening.ok()) return std::move(listening).with_context("[router] admin").failure();
  admin_server = std::move(listening).value();

  control_fd.assign(control->fd());
  driver.on_step([this] { arm_timer(); });
  watch_control();
  arm_timer();
  return {};
}

Status Router::Impl::send(const std::string& identity, const wire::ControlT& message) {
  receive_soon();
  return control->send(identity, message);
}

// Sending may swallow the edge that says "there is something to read".
void Router::Impl::receive_soon() {
  if (std::exchange(receive_posted, true)) return;
  asio::post(io, [this] {
    receive_posted = false;
    receive();
  });
}

void Router::Impl::receive() {
  std::vector<wire::FromNode> messages;
  const bool more = control->receive(messages, kMessagesPerTurn);
  for (wire::FromNode& message : messages) driver.on_message(std::move(message));
  for (const wire::DroppedFrame& dropped : control->take_dropped()) {
    metrics.frames_malformed.add();
    log.warn("control frame dropped", "identity", dropped.identity, "reason", dropped.reason);
  }
  for (const std::string& reason : control->take_refused())
    log.warn("node connection refused", "reason", reason);
  if (more) receive_soon();
}

void Router::Impl::watch_control() {
  control_fd.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
    if (error) return;
    receive();
    watch_control();
  });
}

void Router::Impl::arm_timer() {
  const TimePoint due = driver.next_due();
  if (due >= armed_for) return;
  armed_for = due;
  const Duration wait = std::max(due - clock.now(), Duration{0});
  timer.expires_after(wait.chrono());
  timer.async_wait([this](error_code error) {
    if (error) return;  // armed anew for an earlier time
    armed_for = TimePoint::max();
    receive();  // what nodes have said counts before their silence does
    driver.tick();
    arm_timer();
  });
}

void Router::Impl::stop() {
  if (std::exchange(draining, true)) {
    log.warn("leaving at once", "requests", driver.requests_running());
    exit_code = driver.requests_running() > 0 ? 1 : 0;
    io.stop();
    return;
  }
  log.info("draining", "requests", driver.requests_running());
  api->start_draining();
  admin->start_draining();
  driver.shutdown();
  public_server->close_after_answers();  // what still comes is told so, with 503
  poll_drained(clock.now() + Duration::from_ms(config.router.drain_timeout_ms));
}

void Router::Impl::poll_drained(TimePoint deadline) {
  if (driver.idle()) public_server->drain();
  if (driver.idle() && public_server->connections() == 0) {
    log.info("drained");
    io.stop();
    return;
  }
  if (clock.now() > deadline) {
    log.warn("drain timed out", "requests", driver.requests_running());
    exit_code = driver.requests_running() > 0 ? 1 : 0;
    io.stop();
    return;
  }
  auto poll = std::make_shared<asio::steady_timer>(io);
  poll->expires_after(kDrainPoll.chrono());
  poll->async_wait([this, poll, deadline](error_code) { poll_drained(deadline); });
}

void Router::Impl::wait_for_signal() {
  signals.async_wait([this](error_code error, int) {
    if (error) return;
    stop();
    wait_for_signal();
  });
}

Result<std::unique_ptr<Router>> Router::start(const ClusterConfig& config, Logger log,
                                              const std::string& record_path) {
  ASSIGN_OR_RETURN(ServedModel model, ServedModel::load(config.model.path, config.served_model_name(),
                                                        config.engine.context_max));
  DriverOptions options = driver_options(config);
  std::unique_ptr<EventRecorder> recorder;
  if (!record_path.empty()) {
    ASSIGN_OR_RETURN(recorder, EventRecorder::open(record_path, options.policy, log));
  }
  options.recorder = recorder.get();
  auto impl = std::make_unique<Impl>(std::move(model), config, options, std::move(log), std::move(recorder));
  RETURN_IF_ERROR(impl->open());
  impl->log.info("router up", "listen", config.router.listen, "port", impl->public_server->port(),
                 "admin_port", impl->admin_server->port(), "control", impl->control->endpoint(), "model",
                 impl->model.name());
  return std::unique_ptr<Router>(new Router(std::move(impl)));
}

Router::Router(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Router::~Router() {
  if (impl_->control_fd.is_open()) impl_->control_fd.release();  // ZeroMQ owns the descriptor
}

uint16_t Router::public_port() const { return impl_->public_server->port(); }
uint16_t Router::admin_port() const { return impl_->admin_server->port(); }
const std::string& Router::control_endpoint() const { return impl_->control->endpoint(); }

void Router::handle_signals() {
  impl_->signals.add(SIGTERM);
  impl_->signals.add(SIGINT);
  impl_->wait_for_signal();
}

int Router::run() {
  impl_->io.run();
  return impl_->exit_code;
}

void Router::stop() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->stop(); });
}

}  // namespace penstock::router
