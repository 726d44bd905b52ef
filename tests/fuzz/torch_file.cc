// A whole .bin file of either format: what is accepted can be loaded.
#include "formats/torch_file.h"

#include "fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  const fuzzing::MemoryFile file(fuzzing::text_of(data, size));
  fuzzing::expect_result_or_error([&] {
    const auto header = formats::read_torch_header(formats::MappedFile::open(file.path()), "input");
    for (const auto& [name, tensor] : header.tensors) {
      // No tensor has more elements than its storage has in the file.
      if (static_cast<std::size_t>(element_count(tensor.shape())) > size) std::abort();
      tensor.load();
      tensor.first(3);
    }
  });
  return 0;
}
