// FrameBuilder: gathers what the router is to hear into numbered frames. Control thread only.
#pragma once

#include "node/messages.h"

namespace penstock {

class FrameBuilder {
 public:
  // After each registration: numbers start at 1 again, and what was gathered is of no use to the router.
  void restart();

  void add(StepReport&& report);
  void add(wire::EventUnion&& event) { frame_.events.push_back(std::move(event)); }

  bool has_news() const { return !frame_.tokens.empty() || !frame_.events.empty() || load_changed_; }
  // Moves the frame out and begins the next one.
  wire::FrameT take();
  const scheduler::BatchLoad& load() const { return load_; }

 private:
  wire::FrameT frame_;
  uint64_t frames_ = 0;
  scheduler::BatchLoad load_;
  EngineSpeeds speeds_;
  bool load_changed_ = false;
};

}  // namespace penstock
