// CURVE keys: what each socket needs, and the key files of `[curve]`.
//
// A server lets in exactly one client key: who holds it is a node of this cluster. Plain values; loading
// reads one small file.
#pragma once

#include <string>

#include "base/result.h"

namespace penstock::wire {

// Z85 texts of 40 characters. All empty: no CURVE.
struct CurveKeys {
  std::string public_key, secret_key;  // our own pair
  std::string server_key = {};         // a client's: the public key of the server that it dials
  std::string client_key = {};         // a server's: the public key of the clients that it lets in
  bool enabled() const { return !public_key.empty() || !secret_key.empty() || !server_key.empty(); }
};

// The pair of `role` ("router" or "node"): its public key as configured and the secret key from its file.
// Errors name the setting and what to do: no file, a file that others can read, no key in it, a key that does
// not belong to the public one, a libzmq without CURVE.
[[nodiscard]] Result<CurveKeys> load_curve_pair(const std::string& role, const std::string& public_key,
                                                const std::string& secret_key_file);

}  // namespace penstock::wire
