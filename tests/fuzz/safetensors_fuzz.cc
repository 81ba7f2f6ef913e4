// libFuzzer target: any bytes are an error or a safetensors file whose views tile its data.
#include <cstdint>
#include <cstdlib>

#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto tensors = penstock::SafetensorsFile::parse(bytes, "fuzz");
  if (!tensors.ok()) return 0;
  size_t next = size;
  for (auto tensor = tensors->rbegin(); tensor != tensors->rend(); ++tensor) {
    next -= tensor->data.size();
    if (tensor->data.data() != bytes.data() + next || tensor->elements() < 0) std::abort();
  }
  return 0;
}
