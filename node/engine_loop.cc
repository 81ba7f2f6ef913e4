#include "node/engine_loop.h"

#include <poll.h>

#include <utility>

namespace penstock {

void run_engine_loop(Engine& engine, EngineSide& side, NodePorts& ports, const std::atomic<bool>& stop) {
  std::vector<EngineMessage> messages;
  bool ran = true;
  side.flush();
  while (!stop.load()) {
    if (!ran) {
      pollfd waiting{ports.engine.fd(), POLLIN, 0};
      ::poll(&waiting, 1, -1);
    }
    ran = run_engine_turn(engine, side, ports, messages);
  }
}

bool run_engine_turn(Engine& engine, EngineSide& side, NodePorts& ports,
                     std::vector<EngineMessage>& messages) {
  ports.engine.take(messages);
  for (EngineMessage& message : messages) side.handle(std::move(message));
  const bool ran = engine.run_step();
  side.flush();
  return ran;
}

}  // namespace penstock
