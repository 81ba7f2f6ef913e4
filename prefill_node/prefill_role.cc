#include "prefill_node/prefill_role.h"

#include "prefill_node/prefill_engine.h"
#include "prefill_node/prefill_transfer.h"

namespace penstock {

RoleParts prefill_role() {
  return {NodeRole::kPrefill, [](NodePorts& ports) { return std::make_unique<PrefillEngine>(ports); },
          [](const TransferContext& context) { return std::make_unique<PrefillTransfer>(context); }};
}

}  // namespace penstock
