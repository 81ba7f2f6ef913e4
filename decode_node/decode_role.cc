#include "decode_node/decode_role.h"

#include "decode_node/decode_engine.h"
#include "decode_node/decode_transfer.h"

namespace penstock {

RoleParts decode_role() {
  return {NodeRole::kDecode, [](NodePorts& ports) { return std::make_unique<DecodeEngine>(ports); },
          [](const TransferContext& context) { return std::make_unique<DecodeTransfer>(context); }};
}

}  // namespace penstock
