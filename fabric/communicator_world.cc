#include "fabric/communicator_world.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/check.h"
#include "fabric/communicator_operation.h"
#include "fabric/communicator_watch.h"

namespace penstock {
namespace {

constexpr Duration kPolling{50};           // before it sleeps
constexpr int64_t kDirectBytes = 8 << 10;  // all_reduce in one step up to here
constexpr int64_t kAnsweringDeadlines = 3;
constexpr int kGroupsMax = 256;

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

std::string seconds_text(Duration time) {
  std::string text = std::to_string(time.seconds());
  return text.substr(0, text.find('.') + 2) + " s";
}

class World final : public RankWorld {
 public:
  World(std::unique_ptr<PointToPoint> link, const CommunicatorOptions& options)
      : link_(std::move(link)), watch_(*link_, options.deadline) {}
  ~World() override {
    if (!broken_) link_->abandon();
  }

  int rank() const override { return link_->rank(); }
  int size() const override { return link_->size(); }
  Result<std::unique_ptr<Communicator>> make_group(int id, std::vector<int> members) override;

  PointToPoint* link() { return link_.get(); }
  OperationId start(std::unique_ptr<Operation> operation);
  bool progress();
  bool finished(OperationId operation) const {
    return operation.value == 0 || broken_ || !operations_.contains(operation.value);
  }
  Status wait(OperationId operation);

 private:
  struct Open {
    std::unique_ptr<Operation> operation;
    size_t settled = 0;
    TimePoint moved;  // when a message of it last came or went
  };
  bool advance();
  void look_for_silence();
  void end(const Failure& failure);

  SystemClock clock_;
  std::unique_ptr<PointToPoint> link_;
  RankWatch watch_;
  std::map<uint64_t, Open> operations_;
  std::set<int> group_ids_;
  uint64_t last_operation_ = 0;
  std::optional<Failure> broken_;
};

class Group final : public Communicator {
 public:
  Group(World& world, GroupView view) : world_(world), view_(std::move(view)) {
    sent_.resize(view_.members.size());
    received_.resize(view_.members.size());
  }
  int rank() const override { return view_.me; }
  int size() const override { return view_.size(); }

  OperationId start_all_reduce(void* data, int64_t count, ElementType type, Reduction reduction) override;
  OperationId start_reduce_scatter(void* data, int64_t count, int64_t shard_count, ElementType type) override;
  OperationId start_all_gather(void* data, int64_t count, int64_t shard_count, ElementType type) override;
  OperationId start_broadcast(void* data, int64_t count, ElementType type, int root) override;
  OperationId start_send(const void* data, int64_t count, ElementType type, int to) override;
  OperationId start_recv(void* data, int64_t count, ElementType type, int from) override;
  OperationId start_barrier() override;
  void progress() override { static_cast<void>(world_.progress()); }
  bool finished(OperationId operation) const override { return world_.finished(operation); }
  Status wait(OperationId operation) override { return world_.wait(operation); }

 private:
  static CallSignature sign(Call call, int64_t count, ElementType type) {
    CHECK_GE(count, 0);
    CallSignature signature;
    signature.call = static_cast<uint8_t>(call);
    signature.element = static_cast<uint8_t>(type);
    signature.count = count;
    return signature;
  }
  void check_member(int member) const {
    CHECK_GE(member, 0);
    CHECK_LT(member, size());
  }

  World& world_;
  GroupView view_;
  uint64_t collectives_ = 0;
  std::vector<uint64_t> sent_, received_;  // by member
};

size_t bytes_of(int64_t count, ElementType type) { return static_cast<size_t>(count) * element_bytes(type); }

OperationId Group::start_all_reduce(void* data, int64_t count, ElementType type, Reduction reduction) {
  CallSignature signature = sign(Call::kAllReduce, count, type);
  signature.reduction = static_cast<uint8_t>(reduction);
  ShardedData sharded{static_cast<std::byte*>(data), count, even_shard_count(count, size()), type, reduction};
  if (bytes_of(count, type) <= kDirectBytes || size() == 1)
    return world_.start(make_direct_reduce(view_, collectives_++, signature, sharded));
  return world_.start(make_sharded(view_, collectives_++, signature, sharded, true, true));
}

OperationId Group::start_reduce_scatter(void* data, int64_t count, int64_t shard_count, ElementType type) {
  CHECK_LE(count, shard_count * size());
  CallSignature signature = sign(Call::kReduceScatter, count, type);
  signature.shard_count = shard_count;
  const ShardedData sharded{static_cast<std::byte*>(data), count, shard_count, type, Reduction::kSum};
  return world_.start(make_sharded(view_, collectives_++, signature, sharded, true, false));
}

OperationId Group::start_all_gather(void* data, int64_t count, int64_t shard_count, ElementType type) {
  CHECK_LE(count, shard_count * size());
  CallSignature signature = sign(Call::kAllGather, count, type);
  signature.shard_count = shard_count;
  const ShardedData sharded{static_cast<std::byte*>(data), count, shard_count, type, Reduction::kSum};
  return world_.start(make_sharded(view_, collectives_++, signature, sharded, false, true));
}

OperationId Group::start_broadcast(void* data, int64_t count, ElementType type, int root) {
  check_member(root);
  CallSignature signature = sign(Call::kBroadcast, count, type);
  signature.root = root;
  auto* bytes = static_cast<std::byte*>(data);
  if (rank() != root)
    return world_.start(make_receive(view_, collectives_++, signature, bytes, bytes_of(count, type), root));
  std::vector<int> others;
  for (int hop = 1; hop < size(); ++hop) others.push_back((root + hop) % size());
  return world_.start(
      make_send(view_, collectives_++, signature, bytes, bytes_of(count, type), std::move(others)));
}

OperationId Group::start_send(const void* data, int64_t count, ElementType type, int to) {
  check_member(to);
  const CallSignature signature = sign(Call::kSendRecv, count, type);
  return world_.start(make_send(view_, sent_[static_cast<size_t>(to)]++, signature,
                                static_cast<const std::byte*>(data), bytes_of(count, type), {to}));
}

OperationId Group::start_recv(void* data, int64_t count, ElementType type, int from) {
  check_member(from);
  const CallSignature signature = sign(Call::kSendRecv, count, type);
  return world_.start(make_receive(view_, received_[static_cast<size_t>(from)]++, signature,
                                   static_cast<std::byte*>(data), bytes_of(count, type), from));
}

OperationId Group::start_barrier() {
  const CallSignature signature = sign(Call::kBarrier, 0, ElementType::kU8);
  return world_.start(make_direct_reduce(view_, collectives_++, signature, ShardedData()));
}

Result<std::unique_ptr<Communicator>> World::make_group(int id, std::vector<int> members) {
  const std::string where = "group " + std::to_string(id) + ": ";
  if (id < 0 || id >= kGroupsMax)
    return fail(Error::kInvalidArgument, where + "ids go from 0 to " + std::to_string(kGroupsMax - 1));
  const auto own = std::find(members.begin(), members.end(), rank());
  if (own == members.end())
    return fail(Error::kInvalidArgument, where + "rank " + std::to_string(rank()) + " is no member");
  const std::set<int> distinct(members.begin(), members.end());
  if (distinct.size() != members.size() || *distinct.begin() < 0 || *distinct.rbegin() >= size())
    return fail(Error::kInvalidArgument,
                where + "members are distinct ranks below " + std::to_string(size()));
  if (!group_ids_.insert(id).second)
    return fail(Error::kInvalidArgument, where + "this rank has a group of that id already");
  GroupView view{link_.get(), id, members, static_cast<int>(own - members.begin())};
  return std::unique_ptr<Communicator>(std::make_unique<Group>(*this, std::move(view)));
}

OperationId World::start(std::unique_ptr<Operation> operation) {
  if (broken_) return {};
  const uint64_t id = ++last_operation_;
  operation->start();
  operations_[id] = Open{std::move(operation), 0, clock_.now()};
  static_cast<void>(progress());
  return {id};
}

bool World::progress() {
  if (broken_) return false;
  bool news = link_->progress();
  // What another rank found out comes before what follows from it, such as its closing the connection.
  if (const auto last_word = watch_.take_control()) {
    end(*last_word);
    return true;
  }
  news |= advance();
  if (!broken_ && watch_.due(clock_.now())) look_for_silence();
  return news || broken_.has_value();
}

bool World::advance() {
  bool news = false;
  for (auto entry = operations_.begin(); entry != operations_.end();) {
    Open& open = entry->second;
    const bool over = open.operation->advance();
    if (const auto& failure = open.operation->failure()) {
      end(*failure);
      return true;
    }
    if (open.settled != open.operation->settled_transfers()) {
      news = true;
      open.settled = open.operation->settled_transfers();
      open.moved = clock_.now();
    }
    entry = over ? operations_.erase(entry) : std::next(entry);
    news |= over;
  }
  return news;
}

void World::look_for_silence() {
  const TimePoint now = clock_.now();
  const Duration patience = watch_.deadline() * kAnsweringDeadlines;
  const bool anew = watch_.was_inattentive(now);
  std::vector<int> missing;
  const Open* stuck = nullptr;
  for (auto& [id, open] : operations_) {
    if (const auto dead = open.operation->waits_for_the_dead()) return end(*dead);
    if (anew) open.moved = now;
    const std::vector<int> ranks = open.operation->missing();
    missing.insert(missing.end(), ranks.begin(), ranks.end());
    if (stuck == nullptr && now - open.moved > patience) stuck = &open;
  }
  std::sort(missing.begin(), missing.end());
  const std::vector<int> silent = watch_.find_silent(missing, now);
  for (auto& [id, open] : operations_) {
    if (silent.empty()) break;
    std::vector<int> guilty;
    const std::vector<int> ranks = open.operation->missing();
    std::set_intersection(ranks.begin(), ranks.end(), silent.begin(), silent.end(),
                          std::back_inserter(guilty));
    if (guilty.empty()) continue;
    return end(fail(Error::kDeadlineExceeded, rank_list(guilty) + " silent for " +
                                                  seconds_text(watch_.deadline()) + ", in " +
                                                  open.operation->describe()));
  }
  if (stuck != nullptr)
    end(fail(Error::kDeadlineExceeded, rank_list(stuck->operation->missing()) + " alive, but for " +
                                           seconds_text(patience) + " did not join " +
                                           stuck->operation->describe()));
}

// Every rank tells every other, also what it was told: whoever sees this one go has its word for the reason.
// And where one is gone, its last word, sent before it went, may have come after we last looked.
void World::end(const Failure& failure) {
  broken_ = failure;
  if (failure.code == Error::kUnavailable) {
    static_cast<void>(link_->progress());
    if (const auto last_word = watch_.take_control()) broken_ = last_word;
  }
  watch_.tell_all(*broken_);
  link_->abandon();
}

Status World::wait(OperationId operation) {
  const auto nap = std::chrono::milliseconds(std::clamp<int64_t>(watch_.deadline().us / 16000, 1, 20));
  TimePoint quiet_since = clock_.now();
  while (!finished(operation)) {
    if (progress()) {
      quiet_since = clock_.now();
    } else if (clock_.now() - quiet_since < kPolling) {
      ::sched_yield();
    } else {
      link_->sleep(nap);
    }
  }
  if (operation.value != 0 && !operations_.contains(operation.value)) return {};
  return *broken_;
}

}  // namespace

std::unique_ptr<RankWorld> make_rank_world(std::unique_ptr<PointToPoint> link,
                                           const CommunicatorOptions& options) {
  return std::make_unique<World>(std::move(link), options);
}

}  // namespace penstock
