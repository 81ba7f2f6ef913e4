// Fault points: named places where a test may kill, stop or delay the process.
//
// They exist only in the test flavour of the build (PENSTOCK_FAULT_POINTS); in the product the macro is
// nothing. PENSTOCK_FAULT=NAME:ACTION[:COUNT] arms one: ACTION is kill, stop, or a number of milliseconds to
// sleep; COUNT is the visit, from 1, at which it strikes (default 1).
#pragma once

#ifdef PENSTOCK_FAULT_POINTS
namespace penstock {
void visit_fault_point(const char* name);
// True when NAME:ACTION is armed with this action word and its visit has come; for faults that only the
// place itself can plant (flip a byte, drop a message).
bool fault_armed(const char* name, const char* action);
}  // namespace penstock
#define FAULT_POINT(name) ::penstock::visit_fault_point(name)
#define FAULT_ARMED(name, action) ::penstock::fault_armed(name, action)
#else
#define FAULT_POINT(name) static_cast<void>(0)
#define FAULT_ARMED(name, action) false
#endif
