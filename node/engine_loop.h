// The engine thread's loop: messages, one step, again; asleep when there is neither.
#pragma once

#include <atomic>
#include <vector>

#include "engine/engine.h"
#include "node/engine_side.h"

namespace penstock {

// Runs until `stop` is set and the inbox was nudged. Called on the engine thread.
void run_engine_loop(Engine& engine, EngineSide& side, NodePorts& ports, const std::atomic<bool>& stop);

// One turn of it, which never sleeps; `messages` is scratch. False: nothing runs until a message comes.
bool run_engine_turn(Engine& engine, EngineSide& side, NodePorts& ports,
                     std::vector<EngineMessage>& messages);

}  // namespace penstock
