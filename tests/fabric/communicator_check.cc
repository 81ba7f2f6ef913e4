#include "tests/fabric/communicator_check.h"

#include <cstring>
#include <functional>
#include <vector>

#include "kernels/dtype.h"

namespace penstock {
namespace {

using Bytes = std::vector<std::byte>;

// Values whose f32 sum depends on the order, so that another order shows.
double value_at(int rank, int64_t i) {
  const uint64_t hash =
      (static_cast<uint64_t>(i) * 31 + static_cast<uint64_t>(rank) + 1) * 0x9E3779B97F4A7C15;
  const double unit = static_cast<double>(hash >> 40) / (1 << 24) - 0.5;
  return (hash >> 33) % 3 == 0 ? unit * 1e6 : unit;
}

template <typename T>
T element_at(int rank, int64_t i) {
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(static_cast<float>(value_at(rank, i)));
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(i) * 7 + rank * 13);
  else
    return static_cast<T>(value_at(rank, i));
}

template <typename T>
std::vector<T> data_of(int rank, int64_t count) {
  std::vector<T> data(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) data[static_cast<size_t>(i)] = element_at<T>(rank, i);
  return data;
}

template <typename T>
T reduced_at(int size, int64_t i, Reduction reduction) {
  const auto combine = [reduction](auto a, auto b) {
    return reduction == Reduction::kSum ? static_cast<decltype(a)>(a + b) : b > a ? b : a;
  };
  if constexpr (std::is_same_v<T, Bf16>) {
    float sum = to_float(element_at<T>(0, i));
    for (int rank = 1; rank < size; ++rank) sum = combine(sum, to_float(element_at<T>(rank, i)));
    return to_bf16(sum);
  } else {
    T sum = element_at<T>(0, i);
    for (int rank = 1; rank < size; ++rank) sum = combine(sum, element_at<T>(rank, i));
    return sum;
  }
}

template <typename T>
std::string differs(const std::string& what, const std::vector<T>& got, const std::vector<T>& wanted) {
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], &wanted[i], sizeof(T)) != 0)
      return what + " differs at element " + std::to_string(i) + " of " + std::to_string(got.size());
  return "";
}

template <typename T>
std::string check_reductions(Communicator& group, int64_t count, ElementType type) {
  const int me = group.rank(), n = group.size();
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
    std::vector<T> data = data_of<T>(me, count), wanted(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) wanted[static_cast<size_t>(i)] = reduced_at<T>(n, i, reduction);
    if (const Status s = group.all_reduce(data.data(), count, type, reduction); !s.ok()) return s.message();
    if (auto bad = differs("all_reduce", data, wanted); !bad.empty()) return bad;
  }
  // Even shards, and wider ones that leave the last members short or empty.
  for (const int64_t shard : {even_shard_count(count, n), even_shard_count(count, n) + 3}) {
    std::vector<T> data = data_of<T>(me, count), wanted = data;
    const Shard mine = shard_of(count, shard, me);
    for (int64_t i = mine.begin; i < mine.begin + mine.count; ++i)
      wanted[static_cast<size_t>(i)] = reduced_at<T>(n, i, Reduction::kSum);
    if (const Status s = group.reduce_scatter(data.data(), count, shard, type); !s.ok()) return s.message();
    if (auto bad = differs("reduce_scatter", data, wanted); !bad.empty()) return bad;
  }
  return "";
}

template <typename T>
std::string check_copies(Communicator& group, int64_t count, ElementType type) {
  const int me = group.rank(), n = group.size();
  for (const int64_t shard : {even_shard_count(count, n), even_shard_count(count, n) + 3}) {
    std::vector<T> wanted(static_cast<size_t>(count)), data = data_of<T>(me, count);
    for (int rank = 0; rank < n; ++rank) {
      const Shard part = shard_of(count, shard, rank);
      for (int64_t i = part.begin; i < part.begin + part.count; ++i)
        wanted[static_cast<size_t>(i)] = element_at<T>(rank, i);
    }
    if (const Status s = group.all_gather(data.data(), count, shard, type); !s.ok()) return s.message();
    if (auto bad = differs("all_gather", data, wanted); !bad.empty()) return bad;
  }
  const int root = n - 1;
  std::vector<T> data = data_of<T>(me, count);
  if (const Status s = group.broadcast(data.data(), count, type, root); !s.ok()) return s.message();
  if (auto bad = differs("broadcast", data, data_of<T>(root, count)); !bad.empty()) return bad;

  // Round the ring: two sends under way to the same member must not overtake each other.
  const std::vector<T> first = data_of<T>(me, count), second = data_of<T>(me + 100, count);
  std::vector<T> got_first(first.size()), got_second(first.size());
  const int next = (me + 1) % n, previous = (me + n - 1) % n;
  const OperationId operations[] = {group.start_send(first.data(), count, type, next),
                                    group.start_send(second.data(), count, type, next),
                                    group.start_recv(got_first.data(), count, type, previous),
                                    group.start_recv(got_second.data(), count, type, previous)};
  for (const OperationId operation : operations)
    if (const Status s = group.wait(operation); !s.ok()) return s.message();
  if (auto bad = differs("first recv", got_first, data_of<T>(previous, count)); !bad.empty()) return bad;
  return differs("second recv", got_second, data_of<T>(previous + 100, count));
}

template <typename T>
std::string check_type(Communicator& group, int64_t count, ElementType type) {
  std::string bad = check_reductions<T>(group, count, type);
  if (bad.empty()) bad = check_copies<T>(group, count, type);
  if (bad.empty())
    if (const Status s = group.barrier(); !s.ok()) bad = s.message();
  if (bad.empty()) return bad;
  return "rank " + std::to_string(group.rank()) + " of " + std::to_string(group.size()) + ", " +
         std::to_string(count) + " " + std::string(element_name(type)) + ": " + bad;
}

}  // namespace

std::string check_operations(Communicator& group, int64_t count, ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return check_type<float>(group, count, type);
    case ElementType::kBf16:
      return check_type<Bf16>(group, count, type);
    case ElementType::kF64:
      return check_type<double>(group, count, type);
    case ElementType::kI32:
      return check_type<int32_t>(group, count, type);
    case ElementType::kU8:
      return check_type<uint8_t>(group, count, type);
  }
  return "unknown type";
}

}  // namespace penstock
