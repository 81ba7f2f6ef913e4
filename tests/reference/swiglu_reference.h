// SwiGLU in double precision, one element.
#pragma once

#include <cmath>

namespace penstock::reference {

inline double swiglu(double gate, double up) { return gate / (1 + std::exp(-gate)) * up; }

}  // namespace penstock::reference
