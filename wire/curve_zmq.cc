#include "wire/curve_zmq.h"

#include <sys/stat.h>
#include <zmq.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace penstock::wire {
namespace {

constexpr size_t kZ85Chars = 40;

}  // namespace

Result<CurveKeys> load_curve_pair(const std::string& role, const std::string& public_key,
                                  const std::string& secret_key_file) {
  const std::string where = "[curve] " + role + "_secret_key_file: " + secret_key_file;
  if (zmq_has("curve") == 0)
    return fail(Error::kUnsupported, "[curve] keys are set, but this libzmq was built without CURVE");
  struct stat found;
  if (::stat(secret_key_file.c_str(), &found) != 0)
    return fail(Error::kNotFound, where + ": " + std::strerror(errno));
  if ((found.st_mode & S_IRWXO) != 0)
    return fail(Error::kInvalidArgument,
                where + " is open to every user of this machine: chmod o= it, and make " +
                    "new keys if others can have read it");
  std::ifstream file(secret_key_file);
  std::string secret_key;
  if (!file) return fail(Error::kNotFound, where + ": cannot be read by this user");
  file >> secret_key;
  if (secret_key.size() != kZ85Chars)
    return fail(Error::kInvalidArgument, where + ": holds no secret key, which is 40 characters of Z85");
  char derived[kZ85Chars + 1];
  if (zmq_curve_public(derived, secret_key.c_str()) != 0)
    return fail(Error::kInvalidArgument, where + ": the key in it is no Z85");
  if (public_key != derived)
    return fail(Error::kInvalidArgument, where + ": the key in it does not belong to " + role +
                                             "_public_key; put both halves of one pair there");
  return CurveKeys{public_key, secret_key};
}

}  // namespace penstock::wire
