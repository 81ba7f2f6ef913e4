#include "topology/device_specs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "topology/nearest_name.h"

namespace penstock {
namespace {

// PCIe x16, one direction, GB/s: generation 3, 4, 5.
constexpr double kGen3 = 16, kGen4 = 32, kGen5 = 64;

// name, dense bf16 and fp8 TFLOP/s, memory GB and GB/s, NVLink and PCIe GB/s, W, USD/h low and high,
// efficiency.
constexpr std::array<DeviceSpec, 12> kSpecs = {{
    {"V100-SXM2-32", 125, 0, 32, 900, 300, kGen3, 300, 0.99, 3.06, 0.86},
    {"T4", 65, 0, 16, 320, 0, kGen3, 70, 0.35, 0.53, 0.40},
    {"A10G", 70, 0, 24, 600, 0, kGen4, 300, 0.75, 1.01, 0.59},
    {"L4", 121, 242, 24, 300, 0, kGen4, 72, 0.44, 0.8, 0.40},
    {"RTX4090", 165, 330, 24, 1008, 0, kGen4, 450, 0.34, 0.6, 0.59},
    {"L40", 181, 362, 48, 864, 0, kGen4, 300, 0.69, 1.25, 0.59},
    {"L40S", 362, 733, 48, 864, 0, kGen4, 350, 0.79, 1.86, 0.59},
    {"A100-SXM-40", 312, 0, 40, 1555, 600, kGen4, 400, 0.8, 1.67, 0.86},
    {"A100-SXM-80", 312, 0, 80, 2039, 600, kGen4, 400, 1.09, 3.67, 0.86},
    {"H100-SXM", 989, 1979, 80, 3350, 900, kGen5, 700, 1.99, 4.76, 0.86},
    {"H200-SXM", 989, 1979, 141, 4800, 900, kGen5, 700, 2.5, 6.35, 0.86},
    {"B200", 2250, 4500, 180, 7700, 1800, kGen5, 1000, 3.99, 10.57, 0.86},
}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::span<const DeviceSpec> device_specs() { return kSpecs; }

Result<const DeviceSpec*> find_device_spec(std::string_view name) {
  const std::string wanted = lower(name);
  std::vector<const DeviceSpec*> prefixed;
  std::vector<std::string> names;
  for (const DeviceSpec& spec : kSpecs) {
    const std::string known = lower(spec.name);
    if (known == wanted) return &spec;
    if (!wanted.empty() && known.rfind(wanted + "-", 0) == 0) prefixed.push_back(&spec);
    names.emplace_back(spec.name);
  }
  if (prefixed.size() == 1) return prefixed.front();
  if (prefixed.size() > 1) {
    std::string choices;
    for (const DeviceSpec* spec : prefixed)
      choices += (choices.empty() ? "" : " or ") + std::string(spec->name);
    return fail(Error::kInvalidArgument,
                "device \"" + std::string(name) + "\" fits several: write " + choices);
  }
  // Compared in lower case, named as the table spells it.
  std::vector<std::string> lowered;
  for (const std::string& known : names) lowered.push_back(lower(known));
  const std::string nearest(nearest_name(wanted, lowered));
  const auto at = std::find(lowered.begin(), lowered.end(), nearest) - lowered.begin();
  return fail(Error::kNotFound, "device \"" + std::string(name) + "\" is not known: did you mean " +
                                    names[static_cast<size_t>(at)] + "?");
}

}  // namespace penstock
