// A safetensors file: header and data.
#include "formats/safetensors.h"

#include "fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  const fuzzing::MemoryFile file(fuzzing::text_of(data, size));
  fuzzing::expect_result_or_error([&] { formats::SafetensorsFile::open(file.path()); });
  return 0;
}
