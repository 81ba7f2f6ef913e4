#include "fabric/transport.h"

#include "fabric/process_watch.h"

namespace penstock {
namespace {

std::string yes_no(bool value) { return value ? "y" : "n"; }

Failure differs(const std::string& what, const std::string& ours, const std::string& theirs,
                const std::string& remedy) {
  return fail(Error::kIncompatible,
              what + " differs: here \"" + ours + "\", there \"" + theirs + "\"; " + remedy);
}

}  // namespace

Status check_compatible(const TransportIdentity& ours, const TransportIdentity& theirs) {
  if (ours.library != theirs.library)
    return differs("transport library", ours.library, theirs.library,
                   "run the same UCX version on both nodes: mixed versions stall without an error");
  if (ours.transports != theirs.transports)
    return differs("UCX_TLS", ours.transports, theirs.transports,
                   "set kv_transfer.transports alike on both nodes");
  if (ours.mm_error_handling != theirs.mm_error_handling)
    return differs("UCX_MM_ERROR_HANDLING", yes_no(ours.mm_error_handling), yes_no(theirs.mm_error_handling),
                   "unset it, or set it alike, on both nodes: unlike peers crash each other");
  if (shared_memory_possible(ours, theirs) && ours.pid_namespace != theirs.pid_namespace)
    return fail(
        Error::kIncompatible,
        "both nodes run on one host in different pid namespaces, so neither sees the other's exit and "
        "memory it may still write could never be reused; set kv_transfer.transports = \"tcp,self\" on "
        "both, or share the pid namespace");
  return {};
}

}  // namespace penstock
