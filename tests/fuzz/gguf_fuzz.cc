// libFuzzer target: any bytes are an error or a GGUF file whose views lie inside them.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "model/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = penstock::GgufFile::parse(bytes, "fuzz");
  if (!file.ok()) return 0;
  for (const penstock::GgufTensor& tensor : file->tensors()) {
    if (tensor.data.data() < bytes.data() || tensor.data.data() + tensor.data.size() > bytes.data() + size) {
      std::abort();
    }
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    penstock::dequantize(tensor.type, tensor.data, values);
  }
  for (const char* key : {"words", "types", "name", "count"}) {
    static_cast<void>(file->strings(key));
    static_cast<void>(file->integers(key));
    static_cast<void>(file->number(key));
  }
  return 0;
}
